//! A log with its thread: what is wanted comes into the file, and what is lost is counted.

use std::fs;
use std::path::Path;

use super::*;
use crate::format::tests::entry;

const LIMIT: Duration = Duration::from_secs(20);

fn settings(path: &Path) -> Settings {
    Settings {
        path: Some(path.to_owned()),
        format: Format::Json,
        least_us: 1000,
        one_of: 1,
        users: Vec::new(),
        digests: Vec::new(),
        shows_literals: false,
        syncs: false,
        rotation: Rotation { max_bytes: 0, after: Duration::ZERO, keep: 3 },
    }
}

fn folder(name: &str) -> PathBuf {
    let folder = std::env::temp_dir().join(format!("delphinus-journal-{}-{name}", std::process::id()));
    fs::create_dir_all(&folder).unwrap();
    folder
}

fn until(what: &str, is_so: impl Fn() -> bool) {
    let began = Instant::now();
    while !is_so() {
        assert!(began.elapsed() < LIMIT, "waited too long: {what}");
        thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn what_is_wanted_is_written_and_a_file_that_was_moved_is_opened_anew() {
    let folder = folder("written");
    let path = folder.join("slow.log");
    let account = Account::unlimited();
    let journal = Journal::start(account.clone(), settings(&path));
    assert!(journal.may_want(1000) && !journal.may_want(999));
    for n in 0..1000 {
        journal.push(entry(&format!("SELECT {n}")));
    }
    until("all are written", || journal.counts().written == 1000);
    journal.push(entry("SELECT 'last'"));
    journal.finish(LIMIT);
    assert_eq!(journal.counts().written, 1001);
    let text = fs::read_to_string(&path).unwrap();
    assert_eq!((text.lines().count(), text.len() as u64), (1001, journal.counts().bytes));
    assert_eq!((journal.counts().dropped, journal.queued.load(Ordering::Relaxed)), (0, 0));
    fs::rename(&path, folder.join("old")).unwrap();
    journal.follow(settings(&path));
    journal.push(entry("SELECT 'new'"));
    until("it is written", || fs::read_to_string(&path).is_ok_and(|text| text.contains("new")));
    journal.stop();
    assert!(!journal.may_want(u64::MAX - 1));
    journal.resume();
    assert!(journal.may_want(1000));
    // Without a file there is no log, and no room is taken.
    journal.follow(Settings { path: None, ..settings(&path) });
    assert!(!journal.may_want(u64::MAX - 1));
    assert_eq!(account.used(), 0);
    // The thread may be about to open its file.
    let _ = fs::remove_dir_all(&folder);
}

#[test]
fn entries_are_chosen_by_user_digest_and_number() {
    let folder = folder("chosen");
    let wanted = Settings {
        users: vec!["app".to_owned()],
        digests: vec![7],
        one_of: 3,
        ..settings(&folder.join("x"))
    };
    let journal = Journal::start(Account::unlimited(), wanted);
    assert!(journal.wants("other", Some(7)).is_none());
    assert!(journal.wants("app", Some(8)).is_none() && journal.wants("app", None).is_none());
    let chosen: Vec<_> = (0..6).map(|_| journal.wants("app", Some(7)).is_some()).collect();
    assert_eq!(chosen, [true, false, false, true, false, false]);
    // The thread may be about to open its file.
    let _ = fs::remove_dir_all(&folder);
}

#[test]
fn a_file_that_cannot_be_written_loses_entries_and_counts_them() {
    let journal = Journal::start(Account::unlimited(), settings(Path::new("/dev/full")));
    journal.push(entry("SELECT 1"));
    until("it is lost", || journal.counts().failed == 1);
    let missing = settings(Path::new("/nowhere/slow.log"));
    journal.follow(missing);
    journal.push(entry("SELECT 2"));
    until("it is lost, too", || journal.counts().failed == 2);
    assert_eq!(journal.counts().written, 0);
}

#[test]
fn a_queue_without_room_drops_entries_and_counts_them() {
    let folder = folder("dropped");
    let journal = Journal::start(Account::unlimited(), settings(&folder.join("slow.log")));
    let large = "x".repeat(1 << 20);
    for _ in 0..100 {
        journal.push(entry(&large));
    }
    let all = || {
        let counts = journal.counts();
        counts.written + counts.dropped
    };
    until("each is written or dropped", || all() == 100);
    assert!(journal.counts().written >= 7, "{:?}", journal.counts());
    assert_eq!(journal.queued.load(Ordering::Relaxed), 0);
    // There is no room in memory_limit for a queue.
    let poor = Journal::start(Account::new(1000), settings(&folder.join("poor.log")));
    assert!(!poor.may_want(u64::MAX - 1));
    // The thread may be about to open its file.
    let _ = fs::remove_dir_all(&folder);
}
