//! The list, the end, and purging, with files in a folder of the test's own.

use std::sync::atomic::{AtomicU32, AtomicU64};

use delphinus_wire::binlog::{Checksum, FormatDescription};

use super::*;

const A: &str = "3e11fa47-71ca-11e1-9e33-c80aa9429562";

struct Place(PathBuf);

impl Drop for Place {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn place(name: &str) -> Place {
    let path = std::env::temp_dir().join(format!("delphinus-relay-{}-{name}", std::process::id()));
    let _ = std::fs::remove_dir_all(&path);
    std::fs::create_dir_all(&path).unwrap();
    Place(path)
}

fn folder(root: &Path, number: u32) -> Arc<Folder> {
    let source = SourceId {
        flavor: Flavor::MySql,
        identity: A.to_owned(),
        first_file: "binlog.000001".to_owned(),
        created: 7,
        previous: String::new(),
        purged: String::new(),
        had: String::new(),
        had_state: String::new(),
    };
    Arc::new(Folder::create(root, number, source).unwrap())
}

fn file(log: &Log, folder: &Arc<Folder>, name: &str, previous: &str) -> Arc<LogFile> {
    std::fs::write(folder.path.join(name), name).unwrap();
    let file = Arc::new(LogFile {
        ordinal: log.next_ordinal(),
        name: name.into(),
        folder: folder.clone(),
        format: FormatDescription { server_version: "9.7.4".into(), created: 0, checksum: Checksum::Crc32 },
        previous: GtidSet::parse(previous).unwrap(),
        lost: GtidSet::default(),
        list: Box::default(),
        head_len: 4,
        began: 7,
        len: AtomicU64::new(13),
        readers: AtomicU32::new(0),
        closed: AtomicU64::new(0),
    });
    log.push(&file);
    file
}

#[test]
fn a_folder_is_read_as_it_was_made() {
    let place = place("folder");
    let made = folder(&place.0, 3);
    assert_eq!(Folder::read(&made.path).unwrap().as_ref(), Some(&*made));
    std::fs::create_dir(place.0.join("000004-x")).unwrap();
    assert_eq!(Folder::read(&place.0.join("000004-x")).unwrap(), None, "never finished");
    std::fs::create_dir(place.0.join("lost+found")).unwrap();
    assert_eq!(Folder::read(&place.0.join("lost+found")).unwrap(), None);
}

#[test]
fn the_end_says_how_far_files_may_be_read() {
    let place = place("end");
    let log = Log::new(&place.0);
    let folder = folder(&place.0, 1);
    assert_eq!(log.end(), None);
    let one = file(&log, &folder, "binlog.000001", "");
    assert_eq!(log.limit(&one), Limit::Open(0));
    log.publish(Position { ordinal: 0, offset: 9 });
    assert_eq!(log.limit(&one), Limit::Open(9));
    let two = file(&log, &folder, "binlog.000002", &format!("{A}:1-5"));
    assert_eq!(log.limit(&one), Limit::Open(9), "the next file is there, and not yet visible");
    log.publish(Position { ordinal: 1, offset: Position::MOST });
    assert_eq!(log.limit(&one), Limit::Closed(13));
    assert_eq!(log.limit(&two), Limit::Open(Position::MOST));
    assert_eq!(log.next(&one).map(|file| file.ordinal), Some(1));
    assert!(log.next(&two).is_none());
}

#[test]
fn a_replica_begins_with_the_last_file_before_which_it_needs_nothing() {
    let place = place("start");
    let log = Log::new(&place.0);
    let folder = folder(&place.0, 1);
    for (number, previous) in [(1, "1-5"), (2, "1-9"), (3, "1-12")] {
        file(&log, &folder, &format!("binlog.00000{number}"), &format!("{A}:{previous}"));
    }
    for (executed, first) in [
        (String::new(), None),
        (format!("{A}:1-4"), None),
        (format!("{A}:1-5"), Some(0)),
        (format!("{A}:1-9"), Some(1)),
        (format!("{A}:1-8:10-20"), Some(0)),
        (format!("{A}:1-20"), Some(2)),
    ] {
        let start = log.start_for(&GtidSet::parse(&executed).unwrap()).map(|file| file.ordinal);
        assert_eq!(start, first, "{executed}");
    }
    assert_eq!(log.purged().to_string(), format!("{A}:1-5"));
}

#[test]
fn a_log_is_behind_until_it_has_what_the_source_had() {
    let log = Log::new(Path::new("/nowhere"));
    assert!(log.is_behind(), "nothing is received");
    let set = |text: &str| GtidSet::parse(text).unwrap();
    log.expect(Some((set(&format!("{A}:1-5")), Vec::new())));
    assert!(log.is_behind());
    log.learn(|executed| executed.merge(&set(&format!("{A}:1-7")), &[]));
    assert!(!log.is_behind());
    log.expect(None);
    assert!(log.is_behind());
    // MariaDB: by server, since positions alone do not tell histories apart.
    let log = Log::new(Path::new("/nowhere"));
    let list = [(1, 7), (2, 9)].map(|(server_id, sequence)| MariaDbGtid { domain: 0, server_id, sequence });
    log.expect(Some((set("0-2-9"), list.to_vec())));
    log.learn(|executed| executed.merge(&set("0-2-9"), &list[1..]));
    assert!(log.is_behind());
    log.learn(|executed| executed.merge(&set("0-2-9"), &list));
    assert!(!log.is_behind());
}

#[test]
fn a_name_that_several_sources_have_names_no_file() {
    let place = place("names");
    let log = Log::new(&place.0);
    let folders = [folder(&place.0, 1), folder(&place.0, 2)];
    for (at, name) in [(0, "binlog.000001"), (0, "binlog.000002"), (1, "binlog.000002")] {
        file(&log, &folders[at], name, "");
    }
    let only = |name: &str| log.only_named(name).map(|file| file.ordinal);
    assert_eq!(only("binlog.000001"), Ok(0));
    let several = only("binlog.000002").unwrap_err();
    let both = [1, 2].map(|number| format!("00000{number}-{A}/binlog.000002"));
    assert!(both.iter().all(|one| several.contains(one)), "{several}");
    assert_eq!(both.map(|one| only(&one)), [Ok(1), Ok(2)]);
    assert!(only("binlog.000003").is_err() && only(&format!("000002-{A}/binlog.000001")).is_err());
    assert_eq!(log.named("binlog.000002").len(), 2);
}

#[test]
fn purging_stops_at_what_is_read_and_at_the_end() {
    let place = place("purge");
    let log = Log::new(&place.0);
    let folder = folder(&place.0, 1);
    let files: Vec<_> = (1..=4).map(|n| file(&log, &folder, &format!("binlog.00000{n}"), "")).collect();
    log.publish(Position { ordinal: 2, offset: 4 });
    let reader = files[1].open().unwrap();
    assert_eq!(log.purge(9, false).0.len(), 1);
    assert!(!files[0].path().exists() && files[1].path().exists());
    assert!(files[0].open().is_err());
    assert!(!files[0].is_in_use());
    assert_eq!(log.file(0).map(|file| file.ordinal), None);
    assert_eq!(log.file(2).map(|file| file.ordinal), Some(2));
    assert_eq!(log.purge(9, true).0.len(), 1, "not the file that the end is in");
    let mut bytes = [0; 13];
    assert_eq!(reader.read_at(&mut bytes, 0).unwrap(), 13);
    assert_eq!(&bytes, b"binlog.000002");
    drop(reader);
    assert!(!files[1].is_in_use());
}

#[test]
fn each_bell_rings_until_it_is_dropped() {
    let place = place("bell");
    let log = Log::new(&place.0);
    let folder = folder(&place.0, 1);
    file(&log, &folder, "binlog.000001", "");
    let (kept, dropped) = (log.register(), log.register());
    drop(dropped);
    log.publish(Position { ordinal: 0, offset: 4 });
    delphinus_net::rt::block_on(kept.rung()).unwrap();
    drop(log.register());
    assert_eq!(log.bells.load().len(), 2, "the dropped one was forgotten");
}
