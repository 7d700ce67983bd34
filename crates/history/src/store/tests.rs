//! What is stored agrees, stays within its bounds, and outlives kills and damage.

use std::fs;
use std::path::PathBuf;

use rusqlite::Connection;

use super::*;
use crate::sample::Row;
use crate::snapshot::{Grouped, StatementRow, TOTALS};
use crate::tables::Stored;

/// 2026-11-26 00:00:00.
const TODAY: i64 = 20_783 * DAY;

struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        // In memory, where there is such a place: a disk takes its time for what the tests do not ask.
        let shared = PathBuf::from("/dev/shm");
        let parent = if shared.is_dir() { shared } else { std::env::temp_dir() };
        let dir = parent.join(format!("delphinus-activity-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&dir);
        Self(dir)
    }

    fn place(&self) -> Place {
        Place::Dir(self.0.clone())
    }

    fn names(&self) -> Vec<String> {
        let mut names = self.place().list();
        names.sort();
        names
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

const LIMITS: Limits = Limits {
    max_bytes: 64 << 20,
    raw_days: 2,
    minute_days: 30,
    hour_days: 366,
    snapshot_days: 7,
    most_groups: 5,
};

const STATES: [&str; 3] = ["running", "waiting", "idle in transaction"];
const CLASSES: [Option<&str>; 4] = [Some("backend"), Some("pool"), Some("cpu"), None];

/// The same numbers each time.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % limit
    }

    fn row(&mut self, session: u32) -> Row {
        let user = format!("user{}", self.below(20));
        let is_rest = self.below(10) == 0;
        Row {
            session: (!is_rest).then_some(session),
            sessions: if is_rest { 1 + self.below(50) as u32 } else { 1 },
            user: (!is_rest).then(|| user.into()),
            client: Some(format!("10.0.0.{}", self.below(9)).into()),
            cluster: Some("main".into()),
            schema: (self.below(2) == 0).then(|| "shop".into()),
            digest: (!is_rest).then(|| 0xffff_0000_0000_0000 + self.below(30)),
            kind: Some("query"),
            state: STATES[self.below(3) as usize],
            wait_class: CLASSES[self.below(4) as usize],
            backend: (self.below(3) > 0).then(|| format!("db{}", self.below(3)).into()),
            in_command_us: self.below(5_000_000),
            ..Row::default()
        }
    }

    fn sample(&mut self, at: i64, rows: u32) -> Sample {
        Sample { at, rows: (0..rows).map(|session| self.row(session)).collect() }
    }
}

#[expect(clippy::unnecessary_wraps, reason = "others may have no text")]
fn text_of(digest: u64) -> Option<Arc<str>> {
    Some(format!("SELECT {digest}").into())
}

/// What a statement over a table gives: one row of whole numbers and texts a line. `{t}` is the table.
fn ask(store: &Store, table: Stored, sql: &str) -> Vec<String> {
    let mut all = Vec::new();
    for uri in table.files(&store.files()) {
        let connection = Connection::open(uri).unwrap();
        let columns = match table {
            Stored::Activity => {
                "at, unix, session, sessions, command, user, client, cluster, schema, digest, text, kind, state, class, event, backend, thread, route, pin, s_us, c_us, t_us, rest"
            }
            Stored::Minutes | Stored::Hours => {
                "at, unix, user, cluster, schema, digest, text, state, class, backend, sessions, longest, rest"
            }
            Stored::Snapshots => "id, at, unix, started, by, resets",
            Stored::Counters => "id, at, name, value",
            Stored::Statements => {
                "id, at, grouped, cluster, backend, user, digest, text, count, errors, total, q, p, s, b, c, rs, ra, br, bs, histogram"
            }
        };
        let select = table.select().replace("{db}", "main");
        let sql = format!("WITH t({columns}) AS ({select}) {sql}");
        let mut statement = connection.prepare(&sql).unwrap_or_else(|error| panic!("{sql}: {error}"));
        let count = statement.column_count();
        let mut rows = statement.query([]).unwrap();
        while let Some(row) = rows.next().unwrap() {
            let cell = |at| match row.get_ref(at).unwrap() {
                rusqlite::types::ValueRef::Null => "-".to_owned(),
                rusqlite::types::ValueRef::Integer(value) => value.to_string(),
                rusqlite::types::ValueRef::Text(text) => String::from_utf8_lossy(text).into_owned(),
                other => panic!("{other:?}"),
            };
            all.push((0..count).map(cell).collect::<Vec<_>>().join(" "));
        }
    }
    all
}

/// Sessions by state and class, over all files.
fn totals(store: &Store, table: Stored, before: i64) -> BTreeMap<String, i64> {
    let mut sums = BTreeMap::new();
    let sql =
        format!("SELECT coalesce(sum(sessions), 0), state, class FROM t WHERE unix < {before} GROUP BY 2, 3");
    for line in ask(store, table, &sql) {
        let (number, what) = line.split_once(' ').unwrap();
        *sums.entry(what.to_owned()).or_default() += number.parse::<i64>().unwrap();
    }
    sums
}

fn roll_all(store: &mut Store, now: i64) {
    while store.upkeep(now).unwrap() {}
}

#[test]
fn samples_minutes_and_hours_agree_with_rows_of_the_rest() {
    let (folder, mut random) = (Folder::new("agree"), Random(1));
    let mut store = Store::open(folder.place(), LIMITS);
    // Across midnight.
    for at in (TODAY - 2 * HOUR_S..TODAY + 2 * HOUR_S).step_by(7) {
        let sample = random.sample(at, 12);
        store.add(&[sample], &text_of).unwrap();
    }
    roll_all(&mut store, TODAY + 2 * HOUR_S);
    assert_eq!(folder.names(), ["hours", "minutes", "raw-2026-11-25", "raw-2026-11-26", "snapshots"]);
    let raw = totals(&store, Stored::Activity, i64::MAX);
    assert!(raw.len() == 12 && raw.values().sum::<i64>() > 20_000, "{raw:?}");
    assert_eq!(totals(&store, Stored::Minutes, i64::MAX), raw);
    assert_eq!(totals(&store, Stored::Hours, i64::MAX), raw);
    let most = ask(
        &store,
        Stored::Minutes,
        "SELECT max(n) FROM (SELECT count(*) n FROM t WHERE rest = 'NO' GROUP BY at)",
    );
    assert_eq!(most, ["5"]);
    let longest = |table, column: &str| {
        ask(&store, table, &format!("SELECT max({column}) FROM t"))
            .iter()
            .map(|us| us.parse::<i64>().unwrap())
            .max()
    };
    assert_eq!(longest(Stored::Activity, "c_us"), longest(Stored::Hours, "longest"));
    let texts =
        ask(&store, Stored::Hours, "SELECT DISTINCT digest, text FROM t WHERE digest IS NOT NULL LIMIT 1");
    let (digest, text) = texts[0].split_once(' ').unwrap();
    let number = u64::from_str_radix(digest, 16).unwrap();
    assert!(digest.len() == 16 && text == format!("SELECT {number}"), "{texts:?}");
    assert_eq!(ask(&store, Stored::Minutes, "SELECT min(at) FROM t"), ["2026-11-25 22:00:00"]);
}

/// A copy of the files at any moment is what a kill leaves.
#[test]
fn after_a_kill_all_is_there_and_agrees() {
    let (folder, killed, mut random) = (Folder::new("kill"), Folder::new("killed"), Random(2));
    let mut store = Store::open(folder.place(), LIMITS);
    for at in TODAY..TODAY + 3 * HOUR_S + 30 {
        if at % 5 == 0 {
            store.add(&[random.sample(at, 6)], &text_of).unwrap();
        }
        if at % 60 == 0 && at < TODAY + 2 * HOUR_S {
            store.upkeep(at).unwrap();
        }
    }
    fs::create_dir(&killed.0).unwrap();
    for entry in fs::read_dir(&folder.0).unwrap() {
        let path = entry.unwrap().path();
        // What is beside a file for readers of the process alone is made anew.
        if !path.to_string_lossy().ends_with("-shm") {
            fs::copy(&path, killed.0.join(path.file_name().unwrap())).unwrap();
        }
    }
    let before = totals(&store, Stored::Activity, i64::MAX);
    drop(store);
    let mut store = Store::open(killed.place(), LIMITS);
    assert_eq!(totals(&store, Stored::Activity, i64::MAX), before);
    store.add(&[random.sample(TODAY + 3 * HOUR_S + 60, 6)], &text_of).unwrap();
    roll_all(&mut store, TODAY + 3 * HOUR_S + 60);
    let whole = totals(&store, Stored::Activity, TODAY + 3 * HOUR_S);
    assert_eq!(totals(&store, Stored::Minutes, TODAY + 3 * HOUR_S), whole);
    assert_eq!(totals(&store, Stored::Hours, TODAY + 3 * HOUR_S), whole);
    assert_eq!(totals(&store, Stored::Minutes, i64::MAX), before);
}

#[test]
fn a_damaged_file_is_moved_aside_and_the_others_stay() {
    let (folder, mut random) = (Folder::new("damaged"), Random(3));
    let mut store = Store::open(folder.place(), LIMITS);
    for at in (TODAY - HOUR_S..TODAY + HOUR_S).step_by(3) {
        store.add(&[random.sample(at, 20)], &text_of).unwrap();
    }
    roll_all(&mut store, TODAY + HOUR_S);
    let yesterday = totals(&store, Stored::Activity, TODAY);
    drop(store);
    let path = folder.0.join("raw-2026-11-26.sqlite");
    let mut bytes = fs::read(&path).unwrap();
    let length = bytes.len();
    bytes[length / 3..length / 2].fill(0x5a);
    fs::write(&path, bytes).unwrap();
    fs::write(
        folder.0.join("hours.sqlite"),
        "no database at all, but a text that is long enough to be one".repeat(99),
    )
    .unwrap();
    let mut store = Store::open(folder.place(), LIMITS);
    assert!(
        folder.0.join("raw-2026-11-26.sqlite.damaged").exists()
            || folder.0.join("hours.sqlite.damaged").exists()
    );
    assert_eq!(totals(&store, Stored::Activity, i64::MAX), yesterday);
    store.add(&[random.sample(TODAY + HOUR_S + 120, 5)], &text_of).unwrap();
    // Minutes have what the damaged file had; hours are made of them.
    roll_all(&mut store, TODAY + 2 * HOUR_S);
    assert_eq!(totals(&store, Stored::Hours, i64::MAX), totals(&store, Stored::Minutes, i64::MAX));
    // One that was cut, too.
    drop(store);
    let file = fs::OpenOptions::new().write(true).open(folder.0.join("minutes.sqlite")).unwrap();
    file.set_len(5000).unwrap();
    let mut store = Store::open(folder.place(), LIMITS);
    assert!(folder.0.join("minutes.sqlite.damaged").exists());
    roll_all(&mut store, TODAY + 4 * HOUR_S);
}

#[test]
fn a_clock_that_is_set_back_adds_up_once_more() {
    let (folder, mut random) = (Folder::new("clock"), Random(4));
    let mut store = Store::open(folder.place(), LIMITS);
    for at in
        [TODAY, TODAY + 1, TODAY + HOUR_S, TODAY + 2 * HOUR_S, TODAY + 30, TODAY + 31, TODAY + 3 * HOUR_S]
    {
        store.add(&[random.sample(at, 8), random.sample(at, 3)], &text_of).unwrap();
        store.upkeep(at).unwrap();
    }
    roll_all(&mut store, TODAY + 4 * HOUR_S);
    let raw = totals(&store, Stored::Activity, i64::MAX);
    assert_eq!(totals(&store, Stored::Minutes, i64::MAX), raw);
    assert_eq!(totals(&store, Stored::Hours, i64::MAX), raw);
}

#[test]
fn what_is_too_old_goes() {
    let (folder, mut random) = (Folder::new("old"), Random(5));
    let limits = Limits { raw_days: 1, minute_days: 3, hour_days: 10, snapshot_days: 2, ..LIMITS };
    let mut store = Store::open(folder.place(), limits);
    for hour in 0..20 * 24 {
        let at = TODAY + hour * HOUR_S;
        store.add(&[random.sample(at, 4)], &text_of).unwrap();
        store.add_snapshot(&Snapshot { at, ..Snapshot::default() }).unwrap();
        roll_all(&mut store, at);
    }
    let oldest = |table| ask(&store, table, "SELECT min(at) FROM t").into_iter().min();
    assert_eq!(oldest(Stored::Activity).as_deref(), Some("2026-12-14 00:00:00"));
    assert_eq!(oldest(Stored::Minutes).as_deref(), Some("2026-12-12 23:00:00"));
    assert_eq!(oldest(Stored::Hours).as_deref(), Some("2026-12-05 23:00:00"));
    assert_eq!(oldest(Stored::Snapshots).as_deref(), Some("2026-12-13 23:00:00"));
}

#[test]
fn old_samples_go_also_where_nothing_can_be_written() {
    let (folder, mut random) = (Folder::new("full"), Random(8));
    let mut store = Store::open(folder.place(), LIMITS);
    store.add(&[random.sample(TODAY, 4)], &text_of).unwrap();
    drop(store);
    // Nothing can be added up.
    fs::remove_file(folder.0.join("minutes.sqlite")).unwrap();
    fs::create_dir(folder.0.join("minutes.sqlite")).unwrap();
    let mut store = Store::open(folder.place(), LIMITS);
    let has_first = || folder.names().contains(&day_name(TODAY / DAY));
    for (days, stays) in [(3, true), (4, false)] {
        let now = TODAY + days * DAY;
        assert!(store.upkeep(now).is_err());
        store.upkeep_after_failure(now);
        assert_eq!(has_first(), stays, "{days} days later");
    }
}

/// A year, with more of everything than has room: new names and texts each day, and a clock that is given.
#[test]
fn a_year_stays_under_its_cap() {
    const CAP: u64 = 3 << 20;
    let (folder, mut random) = (Folder::new("year"), Random(6));
    let limits = Limits { max_bytes: CAP, most_groups: 40, ..LIMITS };
    let mut store = Store::open(folder.place(), limits);
    let (mut largest, mut stored) = (0, 0);
    for day in 0..365 {
        for step in 0..2 {
            let at = TODAY + day * DAY + step * 12 * HOUR_S;
            let samples: Vec<_> = (0..4)
                .map(|second| {
                    let mut sample = random.sample(at + second * 20, 25);
                    for row in &mut sample.rows {
                        row.schema = Some(format!("schema{day}_{}", random.below(20)).into());
                        row.digest = Some(day.cast_unsigned() << 32 | random.below(40));
                    }
                    sample
                })
                .collect();
            stored += samples.len();
            store.add(&samples, &|digest| Some(format!("{digest} {}", "x".repeat(900)).into())).unwrap();
            store.add_snapshot(&large_snapshot(at)).unwrap();
            roll_all(&mut store, at + 600);
            largest = largest.max(store.bytes());
            assert!(store.bytes() <= CAP, "{} bytes on day {day}", store.bytes());
        }
    }
    assert!(stored == 365 * 2 * 4 && largest > CAP / 2, "{largest} bytes of {CAP} were used at most");
    // The newest is there.
    let newest = |table| ask(&store, table, "SELECT max(at) FROM t").into_iter().max().unwrap();
    assert!(newest(Stored::Activity).starts_with("2027-11-25 12:"), "{}", newest(Stored::Activity));
    assert!(newest(Stored::Minutes).starts_with("2027-11-25 12:"), "{}", newest(Stored::Minutes));
    assert!(newest(Stored::Hours).starts_with("2027-11-25 00:"), "{}", newest(Stored::Hours));
    assert!(newest(Stored::Statements).starts_with("2027-11-25 12:"));
}

fn large_snapshot(at: i64) -> Snapshot {
    let row = |n: u64| StatementRow {
        grouped: Grouped::Digest,
        cluster: Some("main".into()),
        name: None,
        digest: Some(n + at.cast_unsigned()),
        text: Some("SELECT something".into()),
        totals: [n.cast_signed(); TOTALS.len()],
        histogram: "1:2,3:4".repeat(30),
    };
    let counters = (0..100).map(|n| (format!("counter{n}"), n)).collect();
    Snapshot { at, started: at - 5, counters, statements: (0..20).map(row).collect(), ..Snapshot::default() }
}

#[test]
fn snapshots_come_back() {
    let mut store = Store::open(Place::memory(), Limits { max_bytes: 8 << 20, ..LIMITS });
    assert_eq!(store.add_snapshot(&large_snapshot(TODAY)), Ok(1));
    assert_eq!(store.add_snapshot(&Snapshot { by: Some("ops".into()), ..large_snapshot(TODAY + 5) }), Ok(2));
    let all = ask(&store, Stored::Snapshots, "SELECT id, at, by FROM t");
    assert_eq!(all, ["1 2026-11-26 00:00:00 -", "2 2026-11-26 00:00:05 ops"]);
    assert_eq!(
        ask(&store, Stored::Counters, "SELECT id, sum(value) FROM t GROUP BY 1"),
        ["1 4950", "2 4950"]
    );
    let rows = ask(&store, Stored::Statements, "SELECT id, count(*), sum(bs), max(text) FROM t GROUP BY 1");
    assert_eq!(rows, ["1 20 190 SELECT something", "2 20 190 SELECT something"]);
}

#[test]
fn in_memory_it_has_its_cap_too() {
    let mut random = Random(7);
    let limits = Limits { max_bytes: 2 << 20, ..LIMITS };
    let mut store = Store::open(Place::memory(), limits);
    for at in TODAY..TODAY + 3000 {
        store.add(&[random.sample(at, 10)], &text_of).unwrap();
        if at % 60 == 0 {
            roll_all(&mut store, at);
        }
        assert!(store.bytes() <= limits.max_bytes, "{} bytes", store.bytes());
    }
    assert!(totals(&store, Stored::Activity, i64::MAX).values().sum::<i64>() > 1000);
    assert_eq!(ask(&store, Stored::Activity, "SELECT max(unix) FROM t"), [(TODAY + 2999).to_string()]);
}
