//! A log with its thread: what is wanted comes into the file, and what is lost is counted.

use std::fs;
use std::path::Path;

use delphinus_memory::Owner;
use delphinus_sql::LexOptions;

use super::*;
use crate::entry::Entry;
use crate::format::tests::entry;
use crate::pen::ROOM;

const LIMIT: Duration = Duration::from_secs(20);

fn settings(path: &Path) -> Settings {
    Settings { path: Some(path.to_owned()), least_us: 1000, ..Settings::off() }
}

fn start(account: &Account, settings: Settings) -> (Arc<Journal>, Pen) {
    let journal = Journal::start("test", account.clone(), settings);
    let pen = journal.pen();
    (journal, pen)
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
    let (journal, pen) = start(&account, settings(&path));
    assert!(pen.may_want(1000) && !pen.may_want(999));
    // Another thread's come into the same file.
    let other = journal.clone();
    let beside = thread::spawn(move || {
        let pen = other.pen();
        for n in 0..1000 {
            pen.write(&entry(&format!("INSERT {n}")));
        }
    });
    for n in 0..1000 {
        pen.write(&entry(&format!("SELECT {n}")));
    }
    beside.join().unwrap();
    until("all are written", || journal.counts().written == 2000);
    pen.write(&Entry { side: Side::Both, ..entry("SELECT 'last'") });
    journal.finish(LIMIT);
    assert_eq!((journal.counts().written, journal.counts().dropped), (2002, 0));
    let text = fs::read_to_string(&path).unwrap();
    assert_eq!((text.lines().count(), text.len() as u64), (2002, journal.counts().bytes));
    fs::rename(&path, folder.join("old")).unwrap();
    journal.follow(settings(&path));
    pen.write(&entry("SELECT 'new'"));
    until("it is written", || fs::read_to_string(&path).is_ok_and(|text| text.contains("new")));
    journal.stop();
    assert!(!pen.may_want(u64::MAX - 1));
    journal.resume();
    assert!(pen.may_want(1000));
    // Without a file there is no log, and its room is given back.
    assert_eq!(account.used_by(Owner::Logs), ROOM as u64);
    journal.follow(Settings { path: None, ..settings(&path) });
    assert!(!pen.may_want(u64::MAX - 1));
    pen.rest();
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
    let (journal, pen) = start(&Account::unlimited(), wanted.clone());
    assert!(pen.wants("other", Some(7)).is_none());
    assert!(pen.wants("app", Some(8)).is_none() && pen.wants("app", None).is_none());
    let chosen: Vec<_> = (0..6).map(|_| pen.wants("app", Some(7)).is_some()).collect();
    assert_eq!(chosen, [true, false, false, true, false, false]);
    // Other settings hold from the next statement on.
    journal.follow(Settings { users: vec!["other".to_owned()], one_of: 1, ..wanted });
    assert!(pen.wants("app", Some(7)).is_none() && pen.wants("other", Some(7)).is_some());
    // The thread may be about to open its file.
    let _ = fs::remove_dir_all(&folder);
}

#[test]
fn sides_are_chosen_by_the_mode() {
    use Side::{Backend, Both, Client};
    let chosen =
        [Sides::Client, Sides::Backend, Sides::All].map(|sides| [sides.side(true), sides.side(false)]);
    assert_eq!(chosen, [[Some(Client), Some(Client)], [Some(Backend), None], [Some(Both), Some(Client)]]);
}

#[test]
fn a_line_is_on_the_disk_by_itself_where_that_is_wanted() {
    let folder = folder("lines");
    let path = folder.join("sql.log");
    let flush = Flush { each_line: true, syncs: true };
    let rotation = Rotation { max_bytes: 1, after: Duration::ZERO, keep: 9 };
    let (journal, pen) =
        start(&Account::unlimited(), Settings { flush, rotation, format: Format::Text, ..settings(&path) });
    for n in 0..5 {
        pen.write(&entry(&format!("SELECT {n}")));
    }
    journal.finish(LIMIT);
    // Each was written by itself: the file was full after each.
    for n in 0..5 {
        let file = fs::read_to_string(folder.join(format!("sql.log.{}", 5 - n))).unwrap();
        assert!(
            file.lines().count() == 1 && file.ends_with(&format!("statement=\"SELECT {n}\"\n")),
            "{file}"
        );
    }
    // The thread may be about to open its file.
    let _ = fs::remove_dir_all(&folder);
}

#[test]
fn texts_are_masked_and_remembered() {
    let folder = folder("masked");
    let path = folder.join("sql.log");
    let (journal, pen) = start(&Account::unlimited(), settings(&path));
    let wanted = pen.wants("app", None).unwrap();
    let given = Entry { digest: None, ..entry("") };
    pen.write_text(&given, (b"SELECT 'secret', 7", LexOptions::default()), &wanted);
    let shown = Settings { shows_literals: true, ..(*wanted).clone() };
    pen.write_text(&given, (b"SELECT 'shown'", LexOptions::default()), &shown);
    journal.finish(LIMIT);
    let text = fs::read_to_string(&path).unwrap();
    let lines: Vec<serde_json::Value> =
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(
        (&lines[0]["statement"], &lines[1]["statement"]),
        (&"SELECT ?, ...".into(), &"SELECT 'shown'".into())
    );
    assert!(lines[0]["digest"].is_string() && !text.contains("secret"), "{text}");
    // It is asked for once, and one that shares its slot takes the place.
    assert_eq!(pen.text(1, || Some("one".into())).as_deref(), Some("one"));
    assert_eq!(pen.text(1, || panic!("it is known")).as_deref(), Some("one"));
    assert_eq!(pen.text(257, || None), None);
    assert_eq!(pen.text(257, || Some("other".into())).as_deref(), Some("other"));
    assert_eq!(pen.text(1, || Some("again".into())).as_deref(), Some("again"));
    // The thread may be about to open its file.
    let _ = fs::remove_dir_all(&folder);
}

#[test]
fn a_text_that_is_too_long_is_seen_to_be_cut() {
    let folder = folder("cut");
    let path = folder.join("sql.log");
    let (journal, pen) = start(&Account::unlimited(), settings(&path));
    let shown = Settings { shows_literals: true, ..settings(&path) };
    for length in [(1 << 20) - 9, (1 << 20) - 8] {
        let sql = format!("SELECT '{}'", "x".repeat(length));
        pen.write_text(&entry(""), (sql.as_bytes(), LexOptions::default()), &shown);
    }
    journal.finish(LIMIT);
    let text = fs::read_to_string(&path).unwrap();
    let cut: Vec<_> = text.lines().map(|line| line.contains("/* cut */")).collect();
    assert_eq!(cut, [false, true]);
    // The thread may be about to open its file.
    let _ = fs::remove_dir_all(&folder);
}

#[test]
fn a_file_that_cannot_be_written_loses_entries_and_counts_them() {
    let (journal, pen) = start(&Account::unlimited(), settings(Path::new("/dev/full")));
    pen.write(&entry("SELECT 1"));
    until("it is lost", || journal.counts().failed == 1);
    let missing = settings(Path::new("/nowhere/slow.log"));
    journal.follow(missing);
    pen.write(&entry("SELECT 2"));
    until("it is lost, too", || journal.counts().failed == 2);
    assert_eq!(journal.counts().written, 0);
}

#[test]
fn a_queue_without_room_drops_entries_and_counts_them() {
    let folder = folder("dropped");
    let (journal, pen) = start(&Account::unlimited(), settings(&folder.join("slow.log")));
    let large = "x".repeat(1 << 20);
    for _ in 0..100 {
        pen.write(&entry(&large));
    }
    let all = || {
        let counts = journal.counts();
        counts.written + counts.dropped
    };
    until("each is written or dropped", || all() == 100);
    assert!(journal.counts().written >= 3 && journal.counts().dropped > 0, "{:?}", journal.counts());
    // There is no room in memory_limit for a queue.
    let (poor, pen) = start(&Account::new(1000), settings(&folder.join("poor.log")));
    pen.write(&entry("SELECT 1"));
    assert_eq!((poor.counts().dropped, poor.counts().written), (1, 0));
    // The thread may be about to open its file.
    let _ = fs::remove_dir_all(&folder);
}
