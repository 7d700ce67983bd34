//! A source that goes on with the files of another history: nothing that is here is overwritten, nothing is left out.

use std::sync::Arc;

use delphinus_wire::binlog::Checksum;

use super::Place;
use super::recovery::{feed, first_start};
use super::stream::{self, GroupKind, Source, UUID};
use crate::intake::{Files, IntakeError, Packets, Start, Writer};
use crate::log::{Flavor, Log, Origin};

/// Takes in all of it, or says what is wrong with it.
pub(crate) fn run(writer: &mut Writer<Files>, sent: &[u8]) -> Result<(), IntakeError> {
    let (mut packets, mut rest) = (Packets::default(), sent);
    loop {
        let (used, piece) = packets.next(rest)?;
        if let Some(piece) = piece {
            writer.take(piece)?;
        }
        if used == 0 {
            return writer.commit();
        }
        rest = &rest[used..];
    }
}

fn three_files() -> Source {
    let one: &[GroupKind] = &[GroupKind::Ddl];
    Source::new(&[one, one, one], Checksum::Crc32)
}

/// A relay that is followed comes to the files of the next primary, which have small numbers.
#[test]
fn a_file_that_is_there_is_not_made_again() {
    let source = three_files();
    let place = Place::new();
    let log = Arc::new(Log::new(&place.0));
    let mut writer = Writer::new(log.clone(), Files);
    writer.start(first_start(), Checksum::Crc32).unwrap();
    feed(&mut writer, &source.sends(0, 4, true), || 500, |_, _| {});
    let other = Source::after(3, &[&[GroupKind::Ddl]], Checksum::Crc32);
    // The second time by way of a file of which nothing comes.
    let end = log.end().unwrap().offset;
    for way in [None, Some("binlog.000009")] {
        writer.stop().unwrap();
        writer.start(Start::Resume(end), Checksum::Crc32).unwrap();
        let mut sent = way.map(|name| stream::rotate(name, Checksum::Crc32)).unwrap_or_default();
        sent.extend(other.sends(0, 4, false));
        let error = run(&mut writer, &sent).unwrap_err();
        assert!(matches!(error, IntakeError::NoNextFile { .. }) && error.is_other_history(), "{error}");
    }
    writer.stop().unwrap();
    let files = log.files();
    assert_eq!(files.len(), source.files.len());
    for (own, theirs) in files.iter().zip(&source.files) {
        assert_eq!(std::fs::read(own.path()).unwrap(), theirs.bytes, "{}", own.name);
    }
}

/// The source's log has begun anew while the stream stood in its first file: what the server goes on with is the second file of the new one.
#[test]
fn a_file_that_was_never_closed_is_followed_by_the_first_of_a_start_alone() {
    let ddl: &[GroupKind] = &[GroupKind::Ddl];
    let first = Source::new(&[ddl], Checksum::Crc32);
    let begun_anew = Source::new(&[ddl, ddl], Checksum::Crc32);
    let killed = Source::killed(0, &[ddl, ddl], Checksum::Crc32);
    for (next, is_right) in [(begun_anew, false), (killed, true)] {
        let place = Place::new();
        let log = Arc::new(Log::new(&place.0));
        let mut writer = Writer::new(log.clone(), Files);
        writer.start(first_start(), Checksum::Crc32).unwrap();
        run(&mut writer, &first.sends(0, 4, true)).unwrap();
        match run(&mut writer, &next.sends(1, 4, true)) {
            Ok(()) => assert!(is_right),
            Err(error) => {
                assert!(!is_right && matches!(error, IntakeError::NoNextFile { .. }), "{error}");
                assert_eq!(log.files().len(), 1);
            }
        }
    }
}

/// The source was asked by GTID, and has said the name of a file; another one of that name comes.
#[test]
fn a_new_folder_does_not_begin_behind_what_is_missing() {
    let source = three_files();
    let place = Place::new();
    let log = Arc::new(Log::new(&place.0));
    let mut writer = Writer::new(log.clone(), Files);
    writer.start(first_start(), Checksum::Crc32).unwrap();
    feed(&mut writer, &source.sends(0, 4, true), || 500, |_, _| {});
    for (before, is_right) in [(4, false), (3, true)] {
        let other = Source::after(before, &[&[GroupKind::Ddl]], Checksum::Crc32);
        writer.stop().unwrap();
        writer.start(Start::New(Origin::new(Flavor::MySql, "other".to_owned())), Checksum::Crc32).unwrap();
        match run(&mut writer, &other.sends(0, 4, true)) {
            Ok(()) => assert!(is_right),
            Err(error) => {
                assert!(!is_right && matches!(error, IntakeError::BeginsLate { .. }), "{error}");
                assert_eq!(std::fs::read_dir(&place.0).unwrap().count(), 1, "nothing is left of it");
            }
        }
    }
    assert_eq!(log.executed().to_string(), format!("{UUID}:1-4"));
}

/// The source's option `binlog_checksum` has changed since the file was begun: what comes before FORMAT_DESCRIPTION is as the option is.
#[test]
fn a_file_goes_on_after_the_sources_checksums_have_changed() {
    let changes = [(Checksum::Crc32, Checksum::Off), (Checksum::Off, Checksum::Crc32)];
    for ((of_file, of_source), is_from_begin) in
        changes.into_iter().flat_map(|change| [(change, false), (change, true)])
    {
        let before = Source::new(&[&[GroupKind::Ddl]], of_file);
        let after = Source::new(&[&[GroupKind::Ddl, GroupKind::Ddl], &[GroupKind::Ddl]], of_file);
        let place = Place::new();
        let log = Arc::new(Log::new(&place.0));
        let mut writer = Writer::new(log.clone(), Files);
        writer.start(first_start(), of_file).unwrap();
        run(&mut writer, &before.sends(0, 4, true)).unwrap();
        writer.stop().unwrap();
        let from = if is_from_begin { 4 } else { log.end().unwrap().offset };
        writer.start(Start::Resume(from), of_source).unwrap();
        run(&mut writer, &after.sends_as(0, from as usize, true, of_source)).unwrap();
        assert_eq!(log.files().len(), 2);
        for (own, theirs) in log.files().iter().zip(&after.files) {
            assert_eq!(std::fs::read(own.path()).unwrap(), theirs.bytes, "{}", own.name);
        }
    }
}
