//! A relay's log on disk is read, group by group, while a primary shows what it has.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::path::PathBuf;

use delphinus_cache::{About, Limits, Origin, Primary, Regime, Spot};
use delphinus_relay::changes::Changes;
use delphinus_relay::log::{Position, Recovered, recover};
use delphinus_sql::{Reach, ReachBuilder, TableKey, TableKind};
use delphinus_topology::{Member, Role, Snapshot};
use delphinus_view::{StoredCode, TrafficReporter, channel};
use delphinus_wire::auth::Password;
use delphinus_wire::binlog::{CHECKSUM_LEN, Checksum, HEADER_LEN, Header, Kind, MAGIC, build};

use super::*;

const CLUSTER: ClusterId = ClusterId(0);
const PRIMARY: BackendId = BackendId(0);
const REPLICA: BackendId = BackendId(1);
const UUID: &str = "327eb417-e7d4-11f1-aece-02fc00000001";

struct Scene {
    root: PathBuf,
    recovered: Recovered,
    cache: Arc<Cache>,
    reader: SnapshotReader,
}

impl Scene {
    /// A log with these groups. In each of them, what has a space is a statement, and anything else a table whose rows it has.
    fn new(name: &str, groups: &[&[&str]]) -> Self {
        let root = std::env::temp_dir().join(format!("delphinus-stream-{}-{name}", std::process::id()));
        let _ = std::fs::remove_dir_all(&root);
        let folder = root.join(format!("000001-{UUID}"));
        std::fs::create_dir_all(&folder).unwrap();
        let source = format!(
            "flavor = \"mysql\"\nidentity = \"{UUID}\"\nfirst_file = \"binlog.000001\"\ncreated = 1\nprevious = \"\"\n"
        );
        std::fs::write(folder.join("source.toml"), source).unwrap();
        std::fs::write(folder.join("binlog.000001"), file(groups)).unwrap();
        let recovered = recover(&root).unwrap();
        let whole = GtidSet::parse(&format!("{UUID}:1-{}", groups.len())).unwrap();
        assert_eq!(recovered.log.now().map(|(_, has)| has), Some(whole), "the file is as servers write it");

        let feed = Feed::new(rt::now(), Duration::from_mins(1));
        feed.begin(PRIMARY, GtidSet::default(), rt::now());
        let member = |role| Member { name: "b".into(), role, weight: 100 };
        let snapshot = Snapshot::new([Role::Primary, Role::Replica].map(member).into());
        let (observations, _) = rt::mpsc::channel(1);
        let code = StoredCode::new(false, Account::unlimited());
        let (_, reader) = channel((snapshot, 2), TrafficReporter::new(observations), code);
        let cache = Cache::new(Limits { max_bytes: 1 << 20, max_entry_bytes: 1 << 10, shares: Vec::new() });
        let cache = Arc::new(cache.ended_by_writes([Tables::default().fed_by(feed)]));
        let scene = Self { root, recovered, cache, reader };
        scene.reads_tables();
        scene
    }

    fn tables(&self) -> &Tables {
        self.cache.tables(CLUSTER).unwrap()
    }

    /// From the first group on.
    fn reading(&self) -> Reading {
        let start = Position { ordinal: 0, offset: MAGIC.len() as u64 };
        Reading::begin_at((start, GtidSet::default()), &self.recovered.log, &Account::unlimited()).unwrap()
    }

    /// Reads all groups; how many there were.
    fn reads(&self, reading: &mut Reading) -> u64 {
        reading.go_on(self.tables(), (CLUSTER, PRIMARY), &self.reader).unwrap()
    }

    /// The primary shows these groups.
    fn shows(&self, reading: &mut Reading, groups: &str) {
        reading.are_seen(self.tables(), self.code(), &self.recovered.log, &shown(groups));
    }

    fn code(&self) -> &TableMap {
        self.reader.stored_code().tables()
    }

    /// The monitor reads which tables there are.
    fn reads_tables(&self) {
        self.code().take_in(Some(reach()), self.code().seen());
    }

    /// A follower that has read all groups.
    fn follower(&self) -> Follower {
        let parts = Parts {
            name: "main".into(),
            cluster: CLUSTER,
            relay: "main".to_owned(),
            log: self.recovered.log.clone(),
            memory: Account::unlimited(),
            cache: self.cache.clone(),
            reader: self.reader.clone(),
            places: Vec::new(),
            tuning: Tuning::new("monitor".to_owned(), Password::new("")).fixed(),
        };
        let mut follower = Follower::new(parts, Arc::default());
        follower.look_for_primary();
        follower.reading = Some(self.reading());
        follower.read();
        follower
    }

    /// True if an answer about this table counts as current that a replica with these groups gives now.
    fn is_current(&self, table: &str, groups: &str) -> bool {
        let now = rt::now();
        let spot = Spot::new(CLUSTER, About::Table(TableKey::new("app", table).table));
        let Some(seen) = self.tables().see([spot], now) else { return false };
        let position = GtidSet::parse(&format!("{UUID}:{groups}")).unwrap();
        let origin = Origin { position: Some(Arc::new(position)), ..Origin::new(REPLICA, now) };
        let primary = Primary { backend: PRIMARY, succession: 1, since: None, is_elected: false };
        self.tables().prove(seen, &origin, Regime { primary: Some(primary), edition: 1 }).is_some()
    }
}

impl Drop for Scene {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.root);
    }
}

/// The primary shows these groups.
fn shown(groups: &str) -> Shown {
    Shown::told(&format!("{UUID}:{groups}"), "")
}

/// What there is in the schema `app`.
fn reach() -> Reach {
    let mut builder = ReachBuilder::default();
    for name in ["t", "u"] {
        builder.table("app", name, TableKind::Plain);
    }
    builder.build().unwrap()
}

fn file(groups: &[&[&str]]) -> Vec<u8> {
    let mut file = MAGIC.to_vec();
    event(&mut file, Kind::FORMAT_DESCRIPTION, &format());
    event(&mut file, Kind::PREVIOUS_GTIDS, &[0; 8]);
    for (at, group) in groups.iter().enumerate() {
        event(&mut file, Kind::GTID, &gtid(at as u64 + 1));
        // DDL is a group by itself.
        let is_ddl = group[0].starts_with("ALTER");
        if !is_ddl {
            event(&mut file, Kind::QUERY, &query("BEGIN"));
        }
        for part in *group {
            if part.contains(' ') {
                event(&mut file, Kind::QUERY, &query(part));
            } else {
                event(&mut file, Kind::TABLE_MAP, &table_map(part));
            }
        }
        if !is_ddl {
            event(&mut file, Kind::XID, &[0; 8]);
        }
    }
    file
}

fn event(file: &mut Vec<u8>, kind: Kind, body: &[u8]) {
    let tail = if kind == Kind::FORMAT_DESCRIPTION { CHECKSUM_LEN } else { 0 };
    let log_pos = (file.len() + HEADER_LEN + body.len() + tail) as u32;
    let header = Header { timestamp: 1_795_503_401, kind, server_id: 1, size: 0, log_pos, flags: 0 };
    build(file, header, body, Checksum::Off);
}

/// The body of FORMAT_DESCRIPTION, of a file without checksums.
fn format() -> Vec<u8> {
    let mut body = vec![4, 0];
    let mut version = [0; 50];
    version[..5].copy_from_slice(b"9.7.4");
    body.extend_from_slice(&version);
    body.extend_from_slice(&[0; 4]);
    body.push(HEADER_LEN as u8);
    body.extend_from_slice(&[0; 41]);
    body
}

fn gtid(number: u64) -> Vec<u8> {
    let mut body = vec![1];
    body.extend_from_slice(&0x327e_b417_e7d4_11f1_aece_02fc_0000_0001_u128.to_be_bytes());
    body.extend_from_slice(&number.to_le_bytes());
    body
}

fn query(text: &str) -> Vec<u8> {
    let mut body = vec![0; 8];
    body.extend_from_slice(&[3, 0, 0, 0, 0]);
    body.extend_from_slice(b"app\0");
    body.extend_from_slice(text.as_bytes());
    body
}

fn table_map(table: &str) -> Vec<u8> {
    let mut body = vec![0; 8];
    for name in ["app", table] {
        body.push(name.len() as u8);
        body.extend_from_slice(name.as_bytes());
        body.push(0);
    }
    body
}

/// One group ends with rows of a table. The next one has a statement about another table, and then rows of the first one.
#[test]
fn each_group_tells_its_tables_whatever_the_one_before_has_ended_with() {
    let scene = Scene::new("rows", &[&["u", "t"], &["UPDATE u SET v = 1", "t", "t"]]);
    let mut reading = scene.reading();
    assert_eq!((scene.reads(&mut reading), reading.unseen()), (2, 2));
    scene.shows(&mut reading, "1-2");
    assert_eq!(reading.unseen(), 0);
    for table in ["t", "u"] {
        let current = ["1", "1-2"].map(|groups| scene.is_current(table, groups));
        assert_eq!(current, [false, true], "{table}");
    }
}

/// Its numbers come again with something else in them: by these alone the log has told all of it.
#[test]
fn no_era_begins_with_a_primary_that_lacks_what_it_had() {
    let scene = Scene::new("anew", &[&["t"], &["t"], &["t"]]);
    let mut follower = scene.follower();
    follower.hear(rt::now(), shown("1-3"));
    assert!(follower.is_on);
    for groups in ["1", "1-2", "1-3", "1-9"] {
        follower.hear(rt::now(), shown(groups));
        assert!(!follower.is_on && follower.feed().lag(rt::now()).is_none(), "{groups}");
        assert_eq!(follower.status.trouble().as_deref(), Some(BEGUN_ANEW), "{groups}");
    }
    // Another server has the role.
    follower.primary = None;
    follower.look_for_primary();
    follower.hear(rt::now(), shown("1-3"));
    assert!(follower.is_on);
}

#[test]
fn tables_that_change_are_known_when_they_are_read_after_the_primary_has_shown_it() {
    let scene = Scene::new("ddl", &[&["ALTER TABLE t ADD c INT"], &["t"]]);
    for is_given_up in [false, true] {
        let mut reading = scene.reading();
        assert!(scene.code().current().is_some());
        assert_eq!((scene.reads(&mut reading), reading.unseen()), (2, 2));
        scene.reads_tables();
        assert!(scene.code().current().is_none(), "they may have been read as they were before");
        let seen = scene.code().seen();
        if is_given_up {
            reading.give_up(scene.tables(), scene.code());
        } else {
            scene.shows(&mut reading, "1");
            assert_eq!(reading.unseen(), 1);
        }
        scene.code().take_in(Some(reach()), seen);
        assert!(scene.code().current().is_none(), "that reading began before");
        scene.reads_tables();
        assert!(scene.code().current().is_some());
    }
}

#[test]
fn tables_are_read_again_when_an_era_begins() {
    let scene = Scene::new("era", &[&["t"]]);
    let mut follower = scene.follower();
    assert!(scene.code().current().is_some());
    follower.hear(rt::now(), shown("1"));
    assert!(follower.is_on && scene.code().current().is_none());
}

/// MariaDB has a group in its log before others see it. Of one that was there when the reading began no write is noted.
#[test]
fn no_era_begins_while_something_in_the_log_is_not_seen_on_the_primary() {
    let scene = Scene::new("stall", &[&["t"], &["t"]]);
    let log = &scene.recovered.log;
    let end = log.end().unwrap();
    let sees = |offset| shown("1-2").seen_up_to((UUID, "binlog.000001"), offset);
    let mut follower = scene.follower();
    follower.reading = None;
    follower.read();
    let mut changes = Changes::from(log, Position { offset: MAGIC.len() as u64, ..end }).unwrap();
    let first = changes.next(|_| {}).unwrap().unwrap();
    for offset in [MAGIC.len() as u64, first.end.offset] {
        follower.hear(rt::now(), sees(offset));
        assert!(!follower.is_on, "{offset}");
    }
    follower.hear(rt::now(), sees(end.offset));
    assert!(follower.is_on);
    // What a file begins with is no group: its place need not be shown.
    let head = log.file(end.ordinal).unwrap().head_len;
    let has = &shown("1-2").executed;
    assert!(sees(MAGIC.len() as u64).shows_all(Position { offset: head, ..end }, (has, log)));
    let shows_first = |offset| sees(offset).shows_all(first.end, (has, log));
    assert!(!shows_first(head) && shows_first(first.end.offset));
}

/// The same where the relay has the old file: it knows whether a place is the end of that, whatever else was written since.
#[test]
fn the_end_of_an_old_file_is_known_by_that_file() {
    let mut scene = Scene::new("old-end", &[&["t"], &["t"]]);
    let folder = scene.root.join(format!("000001-{UUID}"));
    let old = file(&[&["t"], &["t"], &["t"], &["t"]]);
    let (mut whole, rotate) = (old.clone(), [&4_u64.to_le_bytes()[..], b"binlog.000002"].concat());
    event(&mut whole, Kind::ROTATE, &rotate);
    std::fs::write(folder.join("binlog.000001"), whole).unwrap();
    std::fs::write(folder.join("binlog.000002"), file(&[&["t"], &["t"]])).unwrap();
    let root = scene.root.join("again");
    std::fs::create_dir(&root).unwrap();
    std::fs::rename(&folder, root.join(format!("000001-{UUID}"))).unwrap();
    scene.recovered = recover(&root).unwrap();
    let log = &scene.recovered.log;
    let end = log.end().unwrap();
    assert_eq!(end.ordinal, 1);
    // The relay has not all of it: what the place says does not depend on that, nor on how long the new file is by now.
    let sees = |offset| shown("1-9").seen_up_to((UUID, "binlog.000002"), offset);
    let has = &shown("1-4").executed;
    let shows_all = |offset| sees(offset).shows_all(end, (has, log));
    assert!(!shows_all(old.len() as u64), "no group of the new file is seen");
    assert!(shows_all(old.len() as u64 + 1) && shows_all(end.offset));
    assert!(shows_all(u64::MAX), "no place that a server names stops the relay");
    // Where the relay has all of it, a place beyond the new file is no place in it, whatever the old file's length is.
    let beyond = shown("1-4").seen_up_to((UUID, "binlog.000002"), end.offset + 1_000_000);
    assert!(!beyond.shows_all(end, (has, log)));
}

/// The primary has gone on with a new file, and names the place in it where the old one had ended.
#[test]
fn what_is_in_a_new_file_is_not_seen_by_the_end_of_the_old_one() {
    let scene = Scene::new("rotated", &[&["t"], &["t"]]);
    let (mut reading, log) = (scene.reading(), &scene.recovered.log);
    assert_eq!(scene.reads(&mut reading), 2);
    let end = log.end().unwrap().offset;
    let mut unseen = |groups: &str, offset| {
        let shown = shown(groups).seen_up_to((UUID, "binlog.000001"), offset);
        reading.are_seen(scene.tables(), scene.code(), log, &shown);
        reading.unseen()
    };
    assert_eq!(unseen("1-2", end + 1000), 2);
    assert_eq!(unseen("1-3", end + 1000), 0, "the relay has not all of it yet");
}
