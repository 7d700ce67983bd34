//! Logs of one and of several sources, and where replicas begin in them.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use delphinus_wire::binlog::Checksum;

use super::*;
use crate::intake::tests::Place as Root;
use crate::intake::tests::histories::run;
use crate::intake::tests::stream::{GroupKind, Source, UUID};
use crate::intake::{Files, Start, Writer};

fn start(identity: &str) -> Start {
    Start::New(Flavor::MySql, identity.to_owned())
}

/// The ordinal of the file, and where in it the replica begins.
fn found(log: &Log, asked: &Asked) -> Result<(u32, u64), Fatal> {
    find_place(log, asked).map(|place| (place.file.ordinal, place.from))
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
