//! What recovery finds where a disk has not kept what was written, and what it does with it.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::Arc;

use delphinus_wire::binlog::Checksum;
use delphinus_wire::gtid::GtidSet;

use super::Place;
use super::histories::run;
use super::recovery::first_start;
use super::stream::{GroupKind, Source, UUID};
use crate::intake::{Files, Start, Writer};
use crate::log::{Flavor, Log, Origin, recover};

const THREE: &[GroupKind] = &[GroupKind::Ddl, GroupKind::Ddl, GroupKind::Ddl];

/// A log of two folders: groups 1 to 3, and of the next primary groups 3 to 4, whose file begins after group 2.
fn two_folders(place: &Place) -> (Source, Source) {
    let (first, second) =
        (Source::new(&[THREE], Checksum::Crc32), Source::after(2, &[&THREE[..2]], Checksum::Crc32));
    let mut writer = Writer::new(Arc::new(Log::new(&place.0)), Files);
    writer.start(first_start(), Checksum::Crc32).unwrap();
    run(&mut writer, &first.sends(0, 4, true)).unwrap();
    writer.stop().unwrap();
    writer.start(Start::New(Origin::new(Flavor::MySql, "other".to_owned())), Checksum::Crc32).unwrap();
    run(&mut writer, &second.sends(0, 4, true)).unwrap();
    (first, second)
}

/// Bytes of all files whose names say that they were taken out.
fn taken_out(folder: &Path) -> Vec<Vec<u8>> {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap());
    let damaged = entries.filter(|entry| entry.file_name().to_string_lossy().starts_with("damaged-"));
    damaged.map(|entry| fs::read(entry.path()).unwrap()).collect()
}

#[test]
fn a_group_that_is_not_whole_is_cut_off_in_each_folder() {
    let place = Place::new();
    let (first, second) = two_folders(&place);
    let paths: Vec<_> =
        recover(&place.0).unwrap().log.files().iter().map(|file| (file.path(), file.len())).collect();
    for (path, len) in &paths {
        let mut bytes = fs::read(path).unwrap();
        assert_eq!(bytes.len() as u64, *len);
        // The front of an event, whose head is whole.
        let mut torn = first.files[0].bytes[4..40].to_vec();
        let size = u32::from_le_bytes(torn[9..13].try_into().unwrap());
        torn[13..17].copy_from_slice(&(*len as u32 + size).to_le_bytes());
        bytes.extend_from_slice(&torn);
        fs::write(path, bytes).unwrap();
    }
    let recovered = recover(&place.0).unwrap();
    assert_eq!(recovered.cut, 72);
    for ((path, _), source) in paths.iter().zip([&first, &second]) {
        assert_eq!(fs::read(path).unwrap(), source.files[0].bytes);
        assert!(taken_out(path.parent().unwrap()).is_empty(), "a crash leaves that; nobody misses it");
    }
    assert_eq!(recovered.log.executed().to_string(), format!("{UUID}:1-4"));
}

#[test]
fn what_follows_damage_is_kept_beside_the_log() {
    let place = Place::new();
    let (_, second) = two_folders(&place);
    let path = recover(&place.0).unwrap().log.files()[1].path();
    // Group 3, in the middle; group 4 is whole.
    let theirs = &second.files[0];
    let whole = theirs.ends[1].0;
    let mut bytes = theirs.bytes.clone();
    bytes[whole + 30] ^= 1;
    fs::write(&path, &bytes).unwrap();
    let log = recover(&place.0).unwrap().log;
    assert_eq!(log.executed().to_string(), format!("{UUID}:1-3"));
    assert_eq!(fs::read(&path).unwrap(), theirs.bytes[..whole]);
    assert_eq!(taken_out(path.parent().unwrap()), [bytes[whole..].to_vec()]);
    drop(log);
    // Its head: the file, and with it the folder that has no other.
    bytes[30] ^= 1;
    fs::write(&path, &bytes).unwrap();
    let log = recover(&place.0).unwrap().log;
    assert_eq!(log.files().len(), 1);
    let folder = path.parent().unwrap();
    assert!(!folder.exists());
    let aside = place.0.join(format!("damaged-{}.damaged", folder.file_name().unwrap().to_string_lossy()));
    assert_eq!(fs::read(aside.join(path.file_name().unwrap())).unwrap(), bytes);
}

/// Group 2 is gone, and the next folder's file begins after it: no start, and nothing is changed.
#[test]
fn damage_that_leaves_a_gap_between_folders_is_said() {
    let place = Place::new();
    let (first, _) = two_folders(&place);
    let path = recover(&place.0).unwrap().log.files()[0].path();
    let mut bytes = first.files[0].bytes.clone();
    bytes[first.files[0].ends[3].0 + 30] ^= 1;
    fs::write(&path, &bytes).unwrap();
    let error = recover(&place.0).unwrap_err().to_string();
    assert!(error.contains("cannot be read") && error.contains("binlog.000001"), "{error}");
    assert_eq!(fs::read(&path).unwrap(), bytes);
    // Group 3 is in the next folder, too.
    let mut bytes = first.files[0].bytes.clone();
    bytes[first.files[0].ends[5].0 + 30] ^= 1;
    fs::write(&path, &bytes).unwrap();
    assert_eq!(recover(&place.0).unwrap().log.executed().to_string(), format!("{UUID}:1-4"));
}

/// The size of the event at this place says that it ends far behind the file.
fn make_huge(bytes: &mut [u8], at: usize) {
    bytes[at + 9..at + 13].copy_from_slice(&0x7fff_fff0_u32.to_le_bytes());
}

/// Nothing else looks as if a crash had cut something off, and all behind it was acknowledged.
#[test]
fn a_size_that_points_past_the_end_is_damage_and_no_torn_end() {
    let place = Place::new();
    let (first, second) = two_folders(&place);
    let paths: Vec<_> = recover(&place.0).unwrap().log.files().iter().map(|file| file.path()).collect();
    // Group 3 of the last folder.
    let whole = second.files[0].ends[1].0;
    let mut bytes = second.files[0].bytes.clone();
    make_huge(&mut bytes, whole);
    fs::write(&paths[1], &bytes).unwrap();
    assert_eq!(recover(&place.0).unwrap().log.executed().to_string(), format!("{UUID}:1-3"));
    assert_eq!(taken_out(paths[1].parent().unwrap()), [bytes[whole..].to_vec()]);
    // Group 2 of the first folder: the other one begins behind it.
    let mut bytes = first.files[0].bytes.clone();
    make_huge(&mut bytes, first.files[0].ends[3].0);
    fs::write(&paths[0], &bytes).unwrap();
    let error = recover(&place.0).unwrap_err().to_string();
    assert!(error.contains("cannot be read") && error.contains("binlog.000001"), "{error}");
    assert_eq!(fs::read(&paths[0]).unwrap(), bytes);
}

/// The folder's last file was cut off, in an event and between two.
#[test]
fn a_file_that_is_too_short_leaves_no_gap_between_folders_without_a_word() {
    let place = Place::new();
    let (first, _) = two_folders(&place);
    let path = recover(&place.0).unwrap().log.files()[0].path();
    let theirs = &first.files[0];
    for (len, why) in [(theirs.ends[3].0 + 30, "not whole"), (theirs.ends[3].0, "ends too early")] {
        fs::write(&path, &theirs.bytes[..len]).unwrap();
        let error = recover(&place.0).unwrap_err().to_string();
        assert!(error.contains(why) && error.contains("binlog.000001"), "{error}");
        assert_eq!(fs::read(&path).unwrap().len(), len);
    }
    // Group 3 is in the next folder, too.
    fs::write(&path, &theirs.bytes[..theirs.ends[5].0]).unwrap();
    assert_eq!(recover(&place.0).unwrap().log.executed().to_string(), format!("{UUID}:1-4"));
}

/// A primary has lost group 3 with the one before, and another one has it: once the first folder is purged, no file has it.
#[test]
fn what_only_purged_files_had_is_refused_to_replicas_and_stops_no_start() {
    let place = Place::new();
    let mut writer = Writer::new(Arc::new(Log::new(&place.0)), Files);
    let one: &[GroupKind] = &[GroupKind::Ddl];
    let sources = [(0, THREE), (1, one), (3, one)].map(|(before, groups)| {
        (before, Source::after(before, &[groups], Checksum::Crc32).sends(0, 4, true))
    });
    for (before, sent) in sources {
        writer.stop().unwrap();
        let start = if before == 0 {
            first_start()
        } else {
            Start::New(Origin::new(Flavor::MySql, format!("s-{before}")))
        };
        writer.start(start, Checksum::Crc32).unwrap();
        run(&mut writer, &sent).unwrap();
    }
    let first = recover(&place.0).unwrap().log.files()[0].folder.path.clone();
    fs::remove_dir_all(first).unwrap();
    let log = recover(&place.0).unwrap().log;
    let starts = |set: &str| log.start_for(&GtidSet::parse(&format!("{UUID}:{set}")).unwrap()).is_some();
    assert!(starts("1-3") && !starts("1-2"));
    assert_eq!(log.purged().to_string(), format!("{UUID}:1:3"));
}

/// A log has what was written into tables.
#[test]
fn a_log_is_for_its_owner_alone() {
    let place = Place::new();
    let root = place.0.join("relay");
    drop(recover(&root).unwrap());
    let mut writer = Writer::new(Arc::new(Log::new(&root)), Files);
    writer.start(first_start(), Checksum::Crc32).unwrap();
    run(&mut writer, &Source::new(&[THREE], Checksum::Crc32).sends(0, 4, true)).unwrap();
    let path = recover(&root).unwrap().log.files()[0].path();
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!([&*root, path.parent().unwrap()].map(mode), [0o700, 0o700]);
    let source = path.with_file_name("source.toml");
    assert_eq!([&*path, &*source, &*root.join("lock")].map(mode), [0o600; 3]);
}
