//! Logs of one and of several sources, and where replicas begin in them.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use delphinus_wire::binlog::{AnyGtid, Checksum, Kind, MariaDbGtid};

use super::*;
use crate::intake::tests::Place as Root;
use crate::intake::tests::histories::run;
use crate::intake::tests::mariadb::{Stream, gtid};
use crate::intake::tests::stream::{GroupKind, Source, UUID};
use crate::intake::{Files, Start, Writer};
use crate::log::Origin;

fn start(identity: &str) -> Start {
    Start::New(Origin::new(Flavor::MySql, identity.to_owned()))
}

/// The ordinal of the file, and where in it the replica begins.
fn found(log: &Log, asked: &Asked) -> Result<(u32, u64), Fatal> {
    find_place(log, asked).map(|place| (place.file.ordinal, place.from))
}

/// `gtid_purged` is set on the source, which then begins a new file: no file has these transactions.
#[test]
fn who_lacks_what_the_source_has_lost_between_two_files_is_refused() {
    let one: &[GroupKind] = &[GroupKind::Ddl];
    let root = Root::new();
    let log = Arc::new(Log::new(&root.0));
    let mut writer = Writer::new(log.clone(), Files);
    writer.start(start(UUID), Checksum::Crc32).unwrap();
    run(&mut writer, &Source::new(&[one], Checksum::Crc32).sends(0, 4, true)).unwrap();
    let after = Source::killed(1000, &[&[], one, one], Checksum::Crc32);
    run(&mut writer, &after.sends(1, 4, true)).unwrap();
    drop(writer);
    let set = |numbers: &str| {
        let text = if numbers.is_empty() { String::new() } else { format!("{UUID}:{numbers}") };
        Asked::plain(From::Set(GtidIntervals::parse(&text).unwrap()))
    };
    let look = |log: &Log| {
        assert_eq!(log.purged().to_string(), format!("{UUID}:2-1000"));
        for (has, lacks) in [("", "2-1000"), ("1", "2-1000"), ("1-900", "901-1000")] {
            assert_eq!(found(log, &set(has)), Err(Fatal::Purged(format!("{UUID}:{lacks}"))), "{has}");
        }
        for (has, ordinal) in [("2-1000", 0), ("1-1000", 1), ("1-1001", 2), ("1-1002", 2)] {
            assert_eq!(found(log, &set(has)).map(|(ordinal, _)| ordinal), Ok(ordinal), "{has}");
        }
    };
    look(&log);
    // A process that starts anew knows it, too.
    let beside = crate::log::lost_path(&log.files()[1].path());
    assert!(beside.exists());
    drop(log);
    let log = crate::log::recover(&root.0).unwrap().log;
    look(&log);
    assert_eq!(log.purge(1, false).0.len(), 1);
    assert_eq!(log.purged().to_string(), format!("{UUID}:1-1000"));
    assert_eq!(log.purge(2, false).0.len(), 1);
    assert!(!beside.exists(), "it goes with its file");
}

/// The source was made from a copy (CLONE, a restore of its files): its files say nothing of its past. Who lacks some of that is sent it from
/// an older folder, and refused where no folder has it.
#[test]
fn a_past_that_only_gtid_purged_has_is_a_past() {
    let one: &[GroupKind] = &[GroupKind::Ddl];
    let purged = || GtidSet::MySql(GtidIntervals::parse(&format!("{UUID}:1-3")).unwrap());
    let copy = || Start::New(Origin { purged: purged(), ..Origin::new(Flavor::MySql, "copy") });
    let begin = |log: &Arc<Log>, start: Start, source: &Source| {
        let mut writer = Writer::new(log.clone(), Files);
        writer.start(start, Checksum::Crc32).unwrap();
        run(&mut writer, &source.sends(0, 4, true)).unwrap();
    };
    let copied = Source::copied(3, &[one, one], Checksum::Crc32);
    let look = |log: &Log, expected: &[(&str, Result<u32, &str>)]| {
        assert_eq!(log.executed().to_string(), format!("{UUID}:1-5"));
        for (has, place) in expected {
            let text = if has.is_empty() { String::new() } else { format!("{UUID}:{has}") };
            let asked = Asked::plain(From::Set(GtidIntervals::parse(&text).unwrap()));
            let place = place.map_err(|lacks| Fatal::Purged(format!("{UUID}:{lacks}")));
            assert_eq!(found(log, &asked).map(|(ordinal, _)| ordinal), place, "{has}");
        }
    };
    let root = Root::new();
    let log = Arc::new(Log::new(&root.0));
    begin(&log, start(UUID), &Source::new(&[one, one, one], Checksum::Crc32));
    begin(&log, copy(), &copied);
    let whole = [("", Ok(0)), ("1", Ok(1)), ("1-3", Ok(3)), ("1-4", Ok(4)), ("1-5", Ok(4))];
    look(&log, &whole);
    drop(log);
    let log = crate::log::recover(&root.0).unwrap().log;
    look(&log, &whole);
    assert_eq!(log.purge(3, false).0.len(), 3);
    assert_eq!(log.purged(), purged());
    let late = [("", Err("1-3")), ("1", Err("2-3")), ("1-3", Ok(3))];
    look(&log, &late);
    drop(log);
    look(&crate::log::recover(&root.0).unwrap().log, &[late[0], late[1], ("1-3", Ok(0))]);

    let root = Root::new();
    let log = Arc::new(Log::new(&root.0));
    begin(&log, copy(), &copied);
    let late = [("", Err("1-3")), ("1-2", Err("3")), ("1-3", Ok(0)), ("1-4", Ok(1))];
    look(&log, &late);
    drop(log);
    look(&crate::log::recover(&root.0).unwrap().log, &late);
}

/// The new primary was made from a backup: its files do not name what it had then. Who lacks some of that is sent it from an older folder.
#[test]
fn a_past_that_no_file_of_a_copy_names_is_a_past() {
    let named = MariaDbGtid { domain: 9, server_id: 9, sequence: 1 };
    let root = Root::new();
    let log = Arc::new(Log::new(&root.0));
    let mut writer = Writer::new(log.clone(), Files);
    for (identity, groups) in [("server-1", 1..=5), ("server-2", 4..=6)] {
        let mut stream = Stream::new("m.000001", named);
        groups.for_each(|sequence| stream.group(gtid(1, sequence)));
        writer.stop().unwrap();
        writer.start(Start::New(Origin::new(Flavor::MariaDb, identity)), Checksum::Off).unwrap();
        run(&mut writer, &stream.sent).unwrap();
    }
    drop(writer);
    let look = |log: &Log, expected: [(&str, u32); 4]| {
        for (position, ordinal) in expected {
            let asked = Asked::plain(From::Position(GtidPosition::parse(position).unwrap()));
            assert_eq!(found(log, &asked).map(|(ordinal, _)| ordinal), Ok(ordinal), "{position}");
        }
    };
    let whole = [("9-9-1", 0), ("0-1-2,9-9-1", 0), ("0-1-5,9-9-1", 1), ("0-1-6,9-9-1", 1)];
    look(&log, whole);
    drop(log);
    let log = crate::log::recover(&root.0).unwrap().log;
    look(&log, whole);
    // As a server does, where nothing older is there any more.
    assert_eq!(log.purge(1, false).0.len(), 1);
    look(&log, whole.map(|(position, _)| (position, 1)));
}

/// The same of a server that logs nothing of the past, and writes more than one file. Who is in the past is sent it from the older folder,
/// and what follows behind it; and is refused where that folder is not there any more: it would stand still, or have a hole.
#[test]
fn a_copy_that_has_logged_nothing_follows_the_folder_before() {
    let root = Root::new();
    let log = Arc::new(Log::new(&root.0));
    let mut writer = Writer::new(log.clone(), Files);
    let none = MariaDbGtid { domain: 7, server_id: 7, sequence: 1 };
    let mut old = Stream::new("m.000001", none);
    (1..=20).for_each(|sequence| old.group(gtid(1, sequence)));
    old.group(MariaDbGtid { domain: 9, server_id: 9, sequence: 1 });
    let mut new = Stream::new("m.000001", none);
    (21..=25).for_each(|sequence| new.group(gtid(2, sequence)));
    let mut next = Stream::new("m.000002", gtid(2, 25));
    (26..=27).for_each(|sequence| next.group(gtid(2, sequence)));
    for (identity, streams) in [("server-1", vec![old]), ("server-2", vec![new, next])] {
        writer.stop().unwrap();
        writer.start(Start::New(Origin::new(Flavor::MariaDb, identity)), Checksum::Off).unwrap();
        for stream in &streams {
            run(&mut writer, &stream.sent).unwrap();
        }
    }
    drop(writer);
    // Where it begins, and whether it is sent these of server 2.
    let look = |log: &Log, position: &str| {
        let asked = Asked::plain(From::Position(GtidPosition::parse(position).unwrap()));
        let mut place = find_place(log, &asked).unwrap();
        let files = log.files();
        let behind = files.iter().find(|file| file.folder.number > place.file.folder.number);
        if let Some(next) = behind {
            (15..=20).for_each(|sequence| drop(place.filter.passes(&AnyGtid::MariaDb(gtid(1, sequence)))));
            place.filter.goes_on((&next.list, &next.folder.past())).unwrap();
        }
        let name = (place.file.folder.number, place.file.name.to_string());
        (name, [21, 26].map(|sequence| place.filter.passes(&AnyGtid::MariaDb(gtid(2, sequence)))))
    };
    let all = || [Ok(true), Ok(true)];
    let whole = |log: &Log| {
        assert_eq!(look(log, "0-1-15,7-7-1,9-9-1"), ((1, "m.000001".to_owned()), all()));
        assert_eq!(look(log, "0-1-20,7-7-1,9-9-1"), ((2, "m.000001".to_owned()), all()));
        assert_eq!(look(log, "0-2-21,7-7-1,9-9-1"), ((2, "m.000001".to_owned()), [Ok(false), Ok(true)]));
        assert_eq!(look(log, "0-2-25,7-7-1,9-9-1"), ((2, "m.000002".to_owned()), all()));
    };
    whole(&log);
    drop(log);
    let log = crate::log::recover(&root.0).unwrap().log;
    whole(&log);
    let lacks = || Err(Fatal::Purged("all up to 0-1-20".to_owned()));
    assert_eq!(log.purge(1, false).0.len(), 1);
    assert_eq!(look(&log, "0-1-15,7-7-1,9-9-1").1, [lacks(), lacks()]);
    assert_eq!(look(&log, "0-1-20,7-7-1,9-9-1"), ((2, "m.000001".to_owned()), all()));
    // It has nothing of domain 9: it is sent all of domain 0 that it lacks, and no file that it does not need is read for it.
    assert_eq!(look(&log, "0-1-20,7-7-1"), ((2, "m.000001".to_owned()), all()));
    assert_eq!(look(&log, "0-2-25,7-7-1"), ((2, "m.000002".to_owned()), all()));
    assert_eq!(look(&log, "0-1-15,7-7-1").1, [lacks(), lacks()]);
    // A process that starts anew has not forgotten it.
    let (executed, state) = (log.executed(), log.state());
    assert_eq!(executed.to_string(), "0-2-27,7-7-1,9-9-1");
    drop(log);
    let log = crate::log::recover(&root.0).unwrap().log;
    assert_eq!((log.executed(), log.state()), (executed, state));
    assert_eq!(look(&log, "0-1-15,7-7-1,9-9-1").1, [lacks(), lacks()]);
    assert_eq!(log.purge(1, false).0.len(), 1);
    // It has the end of the old folder: it lacks what the first file had, and is told that.
    let lacks = || Err(Fatal::Purged("all up to 0-2-25".to_owned()));
    assert_eq!(look(&log, "0-1-20,7-7-1,9-9-1").1, [lacks(), lacks()]);
}

/// Two servers had written before the copy was made, and its files name neither. A later source that has the past names both.
#[test]
fn who_wrote_what_is_purged_is_remembered_after_a_restart() {
    let root = Root::new();
    let log = Arc::new(Log::new(&root.0));
    let mut writer = Writer::new(log.clone(), Files);
    let none = MariaDbGtid { domain: 7, server_id: 7, sequence: 1 };
    let mut old = Stream::new("m.000001", none);
    (1..=10).for_each(|sequence| old.group(gtid(1, sequence)));
    (11..=20).for_each(|sequence| old.group(gtid(3, sequence)));
    let mut copy = Stream::new("m.000001", none);
    (21..=25).for_each(|sequence| copy.group(gtid(2, sequence)));
    for (identity, stream) in [("server-1", old), ("server-2", copy)] {
        writer.stop().unwrap();
        writer.start(Start::New(Origin::new(Flavor::MariaDb, identity)), Checksum::Off).unwrap();
        run(&mut writer, &stream.sent).unwrap();
    }
    drop(writer);
    assert_eq!(log.purge(1, false).0.len(), 1);
    let state = log.state();
    assert_eq!(state.to_string(), "0-1-10,0-2-25,0-3-20,7-7-1");
    drop(log);
    let log = crate::log::recover(&root.0).unwrap().log;
    assert_eq!(log.state(), state);
    let mut writer = Writer::new(log.clone(), Files);
    writer.start(Start::New(Origin::new(Flavor::MariaDb, "server-3")), Checksum::Off).unwrap();
    let mut next = Stream::behind("m.000001", &[none, gtid(1, 10), gtid(3, 20), gtid(2, 25)]);
    next.group(gtid(3, 26));
    run(&mut writer, &next.sent).unwrap();
    assert_eq!(log.executed().to_string(), "0-3-26,7-7-1");
}

/// It would be sent events that it does not know, and stop at the first of them with an error that says nothing of the reason.
#[test]
fn a_replica_of_the_other_family_is_refused_at_a_place_too() {
    let root = Root::new();
    let log = Arc::new(Log::new(&root.0));
    let mut writer = Writer::new(log.clone(), Files);
    writer.start(start(UUID), Checksum::Crc32).unwrap();
    run(&mut writer, &Source::new(&[&[GroupKind::Ddl]], Checksum::Crc32).sends(0, 4, true)).unwrap();
    let at = |family| Asked { family, ..Asked::plain(From::Place("binlog.000001".to_owned(), 4)) };
    assert_eq!(found(&log, &at(Some(Flavor::MariaDb))), Err(Fatal::OtherFamily));
    for family in [None, Some(Flavor::MySql)] {
        assert_eq!(found(&log, &at(family)).map(|(ordinal, _)| ordinal), Ok(0), "{family:?}");
    }
}

/// `binlog_legacy_event_pos = OFF` of MariaDB: the next event that has its place tells. A replica without GTIDs whose connection broke goes
/// on inside of a group.
#[test]
fn an_event_that_leaves_its_place_out_begins_at_one() {
    let mut stream = Stream::new("m.000001", gtid(1, 4));
    stream.begin_group(gtid(1, 5), 0);
    let inside = u64::from(stream.at);
    stream.unplaced(Kind::TABLE_MAP, &[1; 30]);
    let rows = u64::from(stream.at);
    stream.unplaced(Kind::WRITE_ROWS, &[2; 40]);
    stream.event(Kind::XID, 1, &[0; 8]);
    let root = Root::new();
    let log = Arc::new(Log::new(&root.0));
    let mut writer = Writer::new(log.clone(), Files);
    writer.start(Start::New(Origin::new(Flavor::MariaDb, "server-1")), Checksum::Off).unwrap();
    run(&mut writer, &stream.sent).unwrap();
    for (position, is_one) in [(inside, true), (rows, true), (inside + 1, false), (rows + 20, false)] {
        let asked = Asked::plain(From::Place("m.000001".to_owned(), position));
        let expected =
            if is_one { Ok((0, position)) } else { Err(Fatal::BadPosition("m.000001".to_owned(), position)) };
        assert_eq!(found(&log, &asked), expected);
    }
}

#[test]
fn a_place_in_a_file_of_which_there_are_two_is_not_guessed() {
    let one: &[GroupKind] = &[GroupKind::Ddl];
    let first = Source::new(&[one, one], Checksum::Crc32);
    let second = Source::after(1, &[&[GroupKind::Ddl, GroupKind::Ddl]], Checksum::Crc32);
    let root = Root::new();
    let log = Arc::new(Log::new(&root.0));
    let mut writer = Writer::new(log.clone(), Files);
    for (identity, source) in [(UUID, &first), ("327eb417-e7d4-11f1-aece-02fc00000002", &second)] {
        writer.stop().unwrap();
        writer.start(start(identity), Checksum::Crc32).unwrap();
        run(&mut writer, &source.sends(0, 4, true)).unwrap();
    }
    let at = |name: &str, position: usize| Asked::plain(From::Place(name.to_owned(), position as u64));
    let head_of = |ordinal| log.file(ordinal).unwrap().head_len;
    assert_eq!(found(&log, &at("binlog.000002", 4)), Ok((1, head_of(1))));
    let unclear = found(&log, &at("binlog.000001", 4));
    assert!(
        matches!(&unclear, Err(Fatal::Ambiguous(_, folders)) if folders.contains("000002-")),
        "{unclear:?}"
    );
    // Where each of them has its first group ended the other one has no event.
    for (source, ordinal) in [(&first, 0), (&second, 2)] {
        let end = source.files[0].ends.iter().find(|end| end.1 && end.0 as u64 > head_of(ordinal)).unwrap().0;
        assert_eq!(found(&log, &at("binlog.000001", end)), Ok((ordinal, end as u64)));
    }
    let nowhere = found(&log, &at("binlog.000001", head_of(2) as usize + 1));
    assert!(matches!(nowhere, Err(Fatal::BadPosition(..))), "{nowhere:?}");
    // A relay sees by the file's head whether it is the right one.
    let relay = Asked { is_relay: true, ..at("binlog.000001", 4) };
    assert_eq!(found(&log, &relay), Ok((2, head_of(2))));
    let named = format!("000001-{UUID}/binlog.000001");
    assert_eq!(found(&log, &at(&named, 4)), Ok((0, head_of(0))));
}
