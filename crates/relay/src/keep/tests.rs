//! A keeper on files of its own: what goes, what is held, what is known again after a restart.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use delphinus_net::rt;
use delphinus_wire::binlog::{Checksum, FormatDescription};
use delphinus_wire::gtid::GtidSet;

use super::archive::{Archiver, Progress};
use super::memory::Memory;
use super::*;
use crate::intake::tests::Place;
use crate::log::{Anchor, Flavor, Folder, Log, LogFile, Position, SourceId};

/// Folders of these numbers of files.
fn log(root: &Path, folders: &[u32]) -> Arc<Log> {
    let log = Arc::new(Log::new(root));
    for (number, files) in (1..).zip(folders) {
        let source = SourceId {
            flavor: Flavor::MySql,
            identity: format!("source{number}"),
            first_file: "binlog.000001".to_owned(),
            created: 7,
            previous: String::new(),
            purged: String::new(),
            had: String::new(),
            had_state: String::new(),
        };
        let folder = Arc::new(Folder::create(root, number, source).unwrap());
        for file in 1..=*files {
            push(&log, &folder, &format!("binlog.{file:06}"));
        }
    }
    let last = log.next_ordinal() - 1;
    log.publish(Position { ordinal: last, offset: 4 });
    log
}

fn push(log: &Log, folder: &Arc<Folder>, name: &str) {
    std::fs::write(folder.path.join(name), name).unwrap();
    log.push(&Arc::new(LogFile {
        ordinal: log.next_ordinal(),
        name: name.into(),
        folder: folder.clone(),
        format: FormatDescription { server_version: "9.7.4".into(), created: 0, checksum: Checksum::Crc32 },
        previous: GtidSet::default(),
        lost: GtidSet::default(),
        list: Box::default(),
        head_len: 4,
        began: 7,
        len: AtomicU64::new(13),
        readers: AtomicU32::new(0),
        closed: AtomicU64::new(0),
    }));
}

fn seen(key: &str, began: u32, now_in: u32) -> Seen {
    Seen { key: key.to_owned(), name: key.to_owned(), connection: 1, began, now_in, comes_again: true }
}

#[test]
fn folders_of_old_sources_go_with_their_last_file() {
    let place = Place::new();
    let log = log(&place.0, &[2, 1, 1]);
    let folders: Vec<PathBuf> = [0, 2, 3].map(|at| log.files()[at].folder.path.clone()).into();
    std::fs::write(folders[1].join("notes.txt"), "of an operator").unwrap();
    assert_eq!(log.purge(1, false).0.len(), 1);
    assert!(folders[0].exists());
    assert_eq!(log.purge(2, false).0.len(), 1);
    assert!(!folders[0].exists() && folders[1].exists());
    assert_eq!(log.purge(9, false).0.len(), 1);
    assert!(folders[1].join("notes.txt").exists(), "what is not ours stays");
    assert!(folders[2].join("binlog.000001").exists());
    // One that a process has left which ended in between.
    let left = SourceId { identity: "left".to_owned(), ..log.files()[0].folder.source.clone() };
    let left = Folder::create(&place.0, 2, left).unwrap();
    log.remove_old_folders().unwrap();
    assert!(!left.path.exists());
}

/// A file that cannot be removed keeps its place: with those behind it gone, the next process would find a log with a hole.
#[test]
fn what_cannot_be_removed_stays_and_all_behind_it() {
    let place = Place::new();
    let log = log(&place.0, &[3]);
    let first = log.files()[0].path();
    std::fs::remove_file(&first).unwrap();
    // Something that `unlink` does not remove, whoever asks.
    std::fs::create_dir(&first).unwrap();
    for _ in 0..3 {
        let (removed, result) = log.purge(2, false);
        assert!(removed.is_empty() && result.is_err());
        assert_eq!(log.files().len(), 3);
    }
    std::fs::remove_dir(&first).unwrap();
    std::fs::write(&first, "binlog.000001").unwrap();
    assert!(log.files()[0].open().is_ok(), "readers may come again");
    let (removed, result) = log.purge(2, false);
    assert!(removed.len() == 2 && result.is_ok());
}

#[test]
fn a_reader_that_comes_while_a_file_goes_gets_it_or_is_told() {
    let place = Place::new();
    let log = log(&place.0, &[200]);
    let go = Arc::new(AtomicBool::new(false));
    let reading = {
        let (log, go) = (log.clone(), go.clone());
        std::thread::spawn(move || {
            let files = log.files();
            go.store(true, Ordering::Release);
            let (mut read, mut gone) = (0, 0);
            // Against the other's direction: somewhere they meet.
            for file in files.iter().rev() {
                match file.open() {
                    Ok(reader) => {
                        let mut bytes = [0; 13];
                        assert_eq!(reader.read_at(&mut bytes, 0).unwrap(), 13);
                        read += 1;
                    }
                    Err(error) => {
                        assert_eq!(error.kind(), std::io::ErrorKind::NotFound);
                        gone += 1;
                    }
                }
            }
            (read, gone)
        })
    };
    while !go.load(Ordering::Acquire) {
        std::hint::spin_loop();
    }
    while log.files().len() > 1 {
        log.purge(199, false).1.unwrap();
        if reading.is_finished() && log.purge(199, false).0.is_empty() {
            break;
        }
    }
    let (read, gone) = reading.join().unwrap();
    assert_eq!(read + gone, 200);
    assert_eq!(log.files().len(), 1);
}

#[test]
fn replicas_are_known_again_after_a_restart() {
    let place = Place::new();
    let rules = Rules { remember: Duration::from_hours(1), ..Rules::default() };
    let first = log(&place.0, &[3, 2]);
    let mut memory = Memory::default();
    memory.see(&[seen("behind", 1, 1), seen("new", 0, 0), seen("ahead", 4, 4)], 6000, &rules);
    state::remember(&first, &state::text_of(&first, &memory, 6000).unwrap()).unwrap();
    // The next process counts from what is there.
    std::fs::remove_file(first.files()[0].path()).unwrap();
    let again = Arc::new(Log::new(&place.0));
    for file in first.files().iter().skip(1) {
        push(&again, &file.folder, &file.name);
    }
    let mut memory = Memory::default();
    state::recall(&again, &mut memory, 6100).unwrap();
    memory.see(&[], 6100, &rules);
    let needs: Vec<_> = memory.needs().into_iter().map(|needs| (needs.name, needs.first)).collect();
    assert_eq!(
        needs,
        [("ahead", 3), ("behind", 0), ("new", 0)].map(|(name, first)| (name.to_owned(), first))
    );
    memory.see(&[], 6100 + 3600, &rules);
    assert_eq!(memory.needs().len(), 3);
    memory.see(&[], 6100 + 3601, &rules);
    assert_eq!(memory.needs(), []);
}

/// Longer than replicas are remembered: they could not come meanwhile, and need their files when the relay is back.
#[test]
fn the_time_that_the_relay_was_away_does_not_count() {
    let place = Place::new();
    let rules = Rules { remember: Duration::from_hours(1), ..Rules::default() };
    let log = log(&place.0, &[3]);
    let mut memory = Memory::default();
    memory.see(&[seen("early", 1, 1)], 6000, &rules);
    memory.see(&[seen("late", 2, 2)], 7200, &rules);
    state::remember(&log, &state::text_of(&log, &memory, 7200).unwrap()).unwrap();
    let mut memory = Memory::default();
    let back = 7200 + 100_000;
    state::recall(&log, &mut memory, back).unwrap();
    memory.see(&[], back, &rules);
    assert_eq!(memory.needs().len(), 2);
    // The first one was gone for 20 minutes before.
    memory.see(&[], back + 2400, &rules);
    assert_eq!(memory.needs().len(), 2);
    memory.see(&[], back + 2401, &rules);
    assert_eq!(memory.needs().iter().map(|needs| &*needs.name).collect::<Vec<_>>(), ["late"]);
    // The clock was set back.
    let mut memory = Memory::default();
    state::recall(&log, &mut memory, 10).unwrap();
    memory.see(&[], 10, &rules);
    assert_eq!(memory.needs().len(), 2);
}

/// The last one is gone for good, and the relay starts again and again.
#[test]
fn the_time_that_the_relay_runs_without_replicas_counts_across_restarts() {
    let place = Place::new();
    let rules = Rules { remember: Duration::from_hours(1), ..Rules::default() };
    let log = log(&place.0, &[3]);
    let mut memory = Memory::default();
    memory.see(&[seen("gone", 1, 1)], 6000, &rules);
    let mut now_s = 6000;
    for needed in [1, 1, 0] {
        state::remember(&log, &state::text_of(&log, &memory, now_s).unwrap()).unwrap();
        // It is away for ten minutes, and runs for 25.
        let back_s = now_s + 600;
        memory = Memory::default();
        state::recall(&log, &mut memory, back_s).unwrap();
        now_s = back_s + 1500;
        memory.see(&[], now_s, &rules);
        assert_eq!(memory.needs().len(), needed, "{now_s}");
    }
}

/// As an earlier version has written it down.
#[test]
fn without_a_word_of_when_the_relay_was_there_the_last_replica_says_so() {
    let place = Place::new();
    let log = log(&place.0, &[3]);
    let text = "[[replica]]\nkey = 'k'\nname = 'n'\nseen_s = 6000\n";
    std::fs::write(place.0.join("replicas.toml"), text).unwrap();
    let mut memory = Memory::default();
    state::recall(&log, &mut memory, 900_000).unwrap();
    memory.see(&[], 900_000 + 3600, &Rules { remember: Duration::from_hours(1), ..Rules::default() });
    assert_eq!(memory.needs().len(), 1);
}

#[test]
fn a_memory_that_cannot_be_read_holds_all_files_for_its_time() {
    let place = Place::new();
    let log = log(&place.0, &[3]);
    std::fs::write(place.0.join("replicas.toml"), "replica = [[[").unwrap();
    let mut memory = Memory::default();
    assert!(state::recall(&log, &mut memory, 1000).is_err());
    let rules = Rules { remember: Duration::from_hours(1), ..Rules::default() };
    memory.see(&[], 1000 + 3600, &rules);
    assert_eq!(memory.needs()[0].first, 0);
    memory.see(&[], 1001 + 3600, &rules);
    assert_eq!(memory.needs(), []);
}

/// Refuses a file as often as it is told to, and writes down which it took.
#[derive(Debug, Default)]
struct Shelf {
    refusals: AtomicU32,
    taken: Mutex<Vec<String>>,
}

impl Archive for Shelf {
    fn take(&self, file: &ToArchive, _: &AtomicBool) -> Result<(), String> {
        let left =
            self.refusals.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1));
        if left.is_ok() {
            return Err("exit code 1".to_owned());
        }
        assert!(file.path.exists());
        self.taken.lock().unwrap().push(format!("{}/{}", file.folder, file.name));
        Ok(())
    }
}

fn archive(log: &Arc<Log>, shelf: &Arc<Shelf>, until: impl Fn(&Progress) -> bool) {
    let progress = Arc::new(Progress::read(log).unwrap());
    let archiver = Archiver {
        name: "r".to_owned(),
        log: log.clone(),
        root: Anchor::of(log.root()).unwrap(),
        progress: progress.clone(),
        archive: shelf.clone(),
        is_over: Arc::default(),
    };
    let (over, told) = rt::watch::channel(false);
    let thread = std::thread::spawn(move || rt::block_on(archiver.run(told)));
    let began = Instant::now();
    while !until(&progress) {
        assert!(began.elapsed() < Duration::from_secs(30), "{progress:?}");
        std::thread::sleep(Duration::from_millis(5));
    }
    over.send(true).unwrap();
    thread.join().unwrap().unwrap();
}

#[test]
fn closed_files_are_archived_once_in_order_and_again_after_a_failure() {
    let place = Place::new();
    let first = log(&place.0, &[2, 2]);
    let shelf = Arc::new(Shelf { refusals: AtomicU32::new(1), ..Shelf::default() });
    let took = |count| move |progress: &Progress| progress.taken.load(Ordering::Relaxed) == count;
    archive(&first, &shelf, took(3));
    let expected =
        ["000001-source1/binlog.000001", "000001-source1/binlog.000002", "000002-source2/binlog.000001"];
    assert_eq!(*shelf.taken.lock().unwrap(), expected, "not the file that is written");
    // After a restart it goes on behind the last one; the relay has removed older ones meanwhile.
    first.purge(2, false).1.unwrap();
    let again = Arc::new(Log::new(&place.0));
    for file in first.files().iter() {
        push(&again, &file.folder, &file.name);
    }
    let folder = again.files()[0].folder.clone();
    push(&again, &folder, "binlog.000003");
    again.publish(Position { ordinal: 2, offset: 4 });
    archive(&again, &shelf, took(1));
    assert_eq!(shelf.taken.lock().unwrap()[3..], ["000002-source2/binlog.000002"]);
}
