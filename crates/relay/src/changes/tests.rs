//! Groups come once and in order, while they are written, over files and over a change of source.

use std::sync::Arc;

use delphinus_wire::binlog::{Checksum, Kind};

use super::*;
use crate::intake::tests::Place;
use crate::intake::tests::recovery::{feed, first_start};
use crate::intake::tests::stream::{GroupKind, Source};
use crate::intake::{Files, Start, Writer};
use crate::log::{Flavor, Origin};

fn number(committed: &Committed) -> u64 {
    match committed.gtid {
        AnyGtid::MySql(gtid) => gtid.number,
        other => panic!("{other}"),
    }
}

fn word(change: Change<'_>) -> String {
    match change {
        Change::Rows { schema, table } => format!("rows {}/{}", schema.len(), table.len()),
        Change::Statement { schema, text } => {
            format!("{}: {}", String::from_utf8_lossy(schema), String::from_utf8_lossy(text))
        }
        Change::Anything => "anything".to_owned(),
    }
}

/// All that there is now.
fn drain(changes: &mut Changes) -> Vec<(u64, Vec<String>)> {
    let mut all = Vec::new();
    loop {
        let mut words = Vec::new();
        match changes.next(|change| words.push(word(change))).unwrap() {
            None => return all,
            Some(committed) => all.push((number(&committed), words)),
        }
    }
}

#[test]
fn each_group_comes_once_and_in_order() {
    use GroupKind::{Ddl, Payload, Transaction};
    let first: &[&[GroupKind]] = &[&[Transaction(20), Ddl], &[Payload(40), Transaction(3 << 20), Ddl]];
    let source = Source::new(first, Checksum::Crc32);
    let place = Place::new();
    let log = Arc::new(Log::new(&place.0));
    assert!(matches!(Changes::from_end(&log), Err(ChangesError::Empty)));
    let mut writer = Writer::new(log.clone(), Files);
    writer.start(first_start(), Checksum::Crc32).unwrap();
    let mut changes = None;
    let mut all = Vec::new();
    feed(
        &mut writer,
        &source.sends(0, 4, true),
        || 60_000,
        |_, _| {
            if log.end().is_some() {
                let start = || Changes::from(&log, Position { ordinal: 0, offset: 4 }).unwrap();
                all.extend(drain(changes.get_or_insert_with(start)));
            }
        },
    );
    let rows = || vec!["rows 1/1".to_owned()];
    let ddl = || vec!["app: create table t (a int)".to_owned()];
    let expected = vec![(1, rows()), (2, ddl()), (3, vec!["anything".to_owned()]), (4, rows()), (5, ddl())];
    assert_eq!(all, expected);

    // Another primary: its first file has groups that were here before.
    let next: &[&[GroupKind]] = &[&[Ddl, Ddl, Transaction(9)], &[Ddl]];
    let next = Source::after(3, next, Checksum::Off);
    writer.stop().unwrap();
    writer.start(Start::New(Origin::new(Flavor::MySql, "other".to_owned())), Checksum::Off).unwrap();
    feed(&mut writer, &next.sends(0, 4, true), || 50, |_, _| {});
    let mut late = Changes::from_end(&log).unwrap();
    let changes = changes.as_mut().unwrap();
    assert_eq!(drain(changes), vec![(6, rows()), (7, ddl())]);
    assert_eq!(drain(&mut late), vec![]);
    assert_eq!(drain(changes), vec![]);
}

#[test]
fn who_is_too_slow_is_told() {
    let files: &[&[GroupKind]] = &[&[GroupKind::Ddl], &[GroupKind::Ddl], &[GroupKind::Ddl]];
    let source = Source::new(files, Checksum::Crc32);
    let place = Place::new();
    let log = Arc::new(Log::new(&place.0));
    let mut writer = Writer::new(log.clone(), Files);
    writer.start(first_start(), Checksum::Crc32).unwrap();
    feed(&mut writer, &source.sends(0, 4, true), || 5000, |_, _| {});
    let mut slow = Changes::from(&log, Position { ordinal: 0, offset: 4 }).unwrap();
    assert_eq!(log.purge(9, false).0.len(), 0, "it is read");
    assert_eq!(log.purge(9, true).0.len(), 2);
    assert_eq!(slow.next(|_| {}).unwrap().map(|one| number(&one)), Some(1), "the kernel keeps the file");
    assert!(matches!(slow.next(|_| {}), Err(ChangesError::Purged)));
    assert!(matches!(Changes::from(&log, Position { ordinal: 0, offset: 4 }), Err(ChangesError::Purged)));
}

#[test]
fn what_holds_transactions_together_is_no_change() {
    let shown = |kind: Kind, text: &str| {
        let mut body = vec![0; 8];
        body.extend_from_slice(&[3, 0, 0, 0, 0]);
        body.extend_from_slice(b"app\0");
        body.extend_from_slice(text.as_bytes());
        let header = Header { timestamp: 0, kind, server_id: 1, size: 0, log_pos: 0, flags: 0 };
        let mut words = Vec::new();
        show(&header, &body, true, &mut |change| words.push(word(change)));
        words
    };
    for text in [
        "BEGIN",
        "COMMIT",
        "ROLLBACK",
        "ROLLBACK TO `a`",
        "SAVEPOINT `a`",
        "XA START X'78'",
        "XA END X'78'",
        "XA ROLLBACK X'78'",
    ] {
        assert!(shown(Kind::QUERY, text).is_empty(), "{text}");
    }
    assert_eq!(shown(Kind::QUERY, "XA COMMIT X'78'"), ["anything"]);
    assert_eq!(shown(Kind::QUERY, "commits"), ["app: commits"]);
    assert_eq!(shown(Kind::QUERY_COMPRESSED, "nonsense"), ["anything"]);
    assert_eq!(shown(Kind(200), ""), ["anything"]);
    assert_eq!(shown(Kind::ROWS_QUERY, "insert"), [""; 0]);
}
