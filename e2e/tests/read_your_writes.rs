//! A session finds what it has written, and never less than it has read before, though one replica is seconds behind.
//! Where a read ran is told by the server that ran it.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::time::{Duration, Instant};

use delphinus_e2e::{Address, Client, ConfigFile, Stage, until};
use delphinus_sandbox::Flavor;
use delphinus_testkit::Reply;

/// Sessions that write and read, and sessions that read.
const WRITERS: usize = 20;
const READERS: usize = 20;
/// How far behind the second replica is, in seconds.
const DELAY_S: u32 = 2;

/// How long each workload runs: `DELPHINUS_RYW_SECONDS`, the 60, or less in the ordinary run.
fn duration() -> Duration {
    let seconds = std::env::var("DELPHINUS_RYW_SECONDS").ok().and_then(|text| text.parse().ok());
    Duration::from_secs(seconds.unwrap_or(4))
}

/// What one session saw.
#[derive(Debug, Default, Clone, Copy)]
struct Seen {
    reads: u64,
    on_replicas: u64,
    on_delayed: u64,
    /// Own writes that were missing.
    stale: u64,
    /// Reads that found less than one before.
    backwards: u64,
}

impl Seen {
    fn add(&mut self, other: Self) {
        self.reads += other.reads;
        self.on_replicas += other.on_replicas;
        self.on_delayed += other.on_delayed;
        self.stale += other.stale;
        self.backwards += other.backwards;
    }
}

/// Servers by their ports: the primary and the delayed replica.
struct Ids {
    primary: String,
    delayed: String,
}

fn ids(stage: &Stage) -> Ids {
    let id = |at: usize| stage.cluster.servers[at].port.to_string();
    Ids { primary: id(0), delayed: id(2) }
}

fn delay(stage: &Stage, seconds: u32) {
    let sql = if stage.cluster.servers[2].query("SELECT VERSION()").unwrap().contains("MariaDB") {
        format!("STOP SLAVE; CHANGE MASTER TO MASTER_DELAY={seconds}; START SLAVE")
    } else {
        format!("STOP REPLICA; CHANGE REPLICATION SOURCE TO SOURCE_DELAY={seconds}; START REPLICA")
    };
    stage.cluster.servers[2].query(&sql).unwrap();
}

/// What was counted in a row, and who said so.
type Row = (u64, String);

fn row_of(row: &[Option<impl AsRef<[u8]>>]) -> Row {
    let text = |at: usize| String::from_utf8(row[at].as_ref().unwrap().as_ref().to_vec()).unwrap();
    (text(0).parse().unwrap(), text(1))
}

fn read(client: &mut Client, id: usize) -> Row {
    row_of(&client.rows(&format!("SELECT v, port FROM ryw, answered_by WHERE id = {id}")).unwrap()[0])
}

/// A session that can read prepared statements, too.
struct Worker {
    client: delphinus_testkit::Client,
    /// Prepared reads of two rows, by the row.
    reads: Vec<(usize, u32)>,
}

impl Worker {
    fn new(address: &Address, rows: &[usize]) -> Self {
        let login = address.login();
        let mut client = login.connect().unwrap();
        let prepare = |row: &usize| {
            let sql = format!("SELECT v, port FROM ryw, answered_by WHERE id = {row}");
            (*row, client.prepare(sql).unwrap().unwrap().id)
        };
        let reads = rows.iter().map(prepare).collect();
        Self { client, reads }
    }

    fn run(&mut self, sql: &str) {
        let replies = self.client.query(sql).unwrap();
        assert!(replies.iter().all(|reply| reply.failure().is_none()), "{sql}: {replies:?}");
    }

    fn read(&mut self, row: usize, is_prepared: bool) -> Row {
        let mut replies = if is_prepared {
            let (_, statement) = self.reads.iter().find(|(known, _)| *known == row).unwrap();
            self.client.execute(*statement, &[], true).unwrap()
        } else {
            self.client.query(format!("SELECT v, port FROM ryw, answered_by WHERE id = {row}")).unwrap()
        };
        match replies.remove(0) {
            Reply::Rows(rows) => row_of(&rows.rows[0]),
            other => panic!("{other:?}"),
        }
    }

    /// By itself, in a transaction, and prepared: each leaves its trace in another packet.
    fn write(&mut self, own: usize, way: u64) {
        let update = format!("UPDATE ryw SET v = v + 1 WHERE id = {own}");
        match way % 3 {
            0 => self.run(&update),
            1 => {
                self.run("BEGIN");
                self.run(&update);
                self.run("UPDATE ryw SET v = v + 1 WHERE id = 0");
                self.run("COMMIT");
            }
            _ => {
                let id = self.client.prepare(&update).unwrap().unwrap().id;
                let replies = self.client.execute(id, &[], true).unwrap();
                assert!(matches!(replies[0], Reply::Done(_)), "{replies:?}");
                self.client.close(id).unwrap();
            }
        }
    }
}

/// Row 0 is everybody's; each writer has its own beside.
fn run_writer(address: &Address, own: usize, ids: &Ids, end: Instant) -> Seen {
    let mut worker = Worker::new(address, &[own, 0]);
    let (mut seen, mut written, mut most) = (Seen::default(), 0, 0);
    while Instant::now() < end {
        worker.write(own, written);
        written += 1;
        for again in 0..5 {
            let (value, server) = worker.read(own, again % 2 == 0);
            seen.stale += u64::from(value < written);
            count(&mut seen, &server, ids);
            let (value, server) = worker.read(0, again % 2 == 0);
            seen.backwards += u64::from(value < most);
            most = most.max(value);
            count(&mut seen, &server, ids);
        }
    }
    seen
}

fn run_reader(address: &Address, ids: &Ids, end: Instant) -> Seen {
    let mut worker = Worker::new(address, &[0]);
    let (mut seen, mut most) = (Seen::default(), 0);
    while Instant::now() < end {
        let (value, server) = worker.read(0, seen.reads % 2 == 0);
        seen.backwards += u64::from(value < most);
        most = most.max(value);
        count(&mut seen, &server, ids);
        // Sometimes on the primary, where there is more to see.
        if seen.reads % 50 == 0 {
            worker.run("BEGIN");
            most = most.max(worker.read(0, false).0);
            worker.run("COMMIT");
        }
    }
    seen
}

fn count(seen: &mut Seen, server: &str, ids: &Ids) {
    seen.reads += 1;
    seen.on_replicas += u64::from(*server != ids.primary);
    seen.on_delayed += u64::from(*server == ids.delayed);
}

fn workload(stage: &Stage, consistency: &str) -> Seen {
    let routing = format!("[routing]\n{consistency}\n");
    let (_proxy, address, _port) = stage.another_proxy(&ConfigFile::with_sections(&routing)).unwrap();
    let mut client = address.connect().unwrap();
    client.query("DROP TABLE IF EXISTS ryw").unwrap();
    client.query("CREATE TABLE ryw (id INT PRIMARY KEY, v BIGINT NOT NULL)").unwrap();
    let rows: Vec<String> = (0..=WRITERS).map(|id| format!("({id}, 0)")).collect();
    client.query(&format!("INSERT INTO ryw VALUES {}", rows.join(", "))).unwrap();
    // A session that never wrote reads wherever it is sent: not before the table is there.
    until(Duration::from_secs(30), "the delayed replica has the rows", || {
        let count = stage.cluster.servers[2].query("SELECT COUNT(*) FROM app.ryw WHERE v = 0");
        Ok(count.is_ok_and(|count| count.trim() == (WRITERS + 1).to_string()))
    })
    .unwrap();
    let (ids, end) = (ids(stage), Instant::now() + duration());
    let mut all = Seen::default();
    std::thread::scope(|scope| {
        let mut sessions = Vec::new();
        for number in 1..=WRITERS {
            let (address, ids) = (&address, &ids);
            sessions.push(scope.spawn(move || run_writer(address, number, ids, end)));
        }
        for _ in 0..READERS {
            sessions.push(scope.spawn(|| run_reader(&address, &ids, end)));
        }
        for session in sessions {
            all.add(session.join().unwrap());
        }
    });
    eprintln!("{consistency:30} {all:?}");
    all
}

fn sessions_find_what_they_have_written(flavor: Flavor) {
    let stage = Stage::start(flavor).unwrap();
    delay(&stage, DELAY_S);
    // What is to be seen if nobody cares, so that the test can fail.
    let mut eventual = Seen::default();
    let is_seen = |seen: &Seen| seen.stale > 0 && seen.backwards > 0 && seen.on_delayed > 0;
    for _ in 0..5 {
        // A busy machine runs few reads in that time.
        eventual.add(workload(&stage, "consistency = \"eventual\""));
        if is_seen(&eventual) {
            break;
        }
    }
    assert!(is_seen(&eventual), "{eventual:?}");
    assert_eq!(waits(&stage), 0);
    for (consistency, may_wait) in
        [("consistency = \"session\"\nconsistency_timeout_ms = 0", false), ("", true)]
    {
        let session = workload(&stage, consistency);
        assert_eq!(waits(&stage) > 0, may_wait, "{consistency}");
        assert_eq!((session.stale, session.backwards), (0, 0), "{consistency}: {session:?}");
        assert!(session.on_replicas * 10 > session.reads, "replicas are hardly used: {session:?}");
    }
    let global = workload(&stage, "consistency = \"global\"");
    assert_eq!((global.stale, global.backwards, global.on_replicas), (0, 0, 0));
    who_says_what(&stage);
    tokens(&stage);
    rest(&stage);
}

/// How often the replicas were asked to wait until they had something.
fn waits(stage: &Stage) -> u32 {
    let count = "SELECT COUNT(*) FROM mysql.general_log WHERE user_host LIKE 'app[%' \
                 AND CONVERT(argument USING utf8mb4) REGEXP 'MASTER_GTID_WAIT|WAIT_FOR_EXECUTED_GTID_SET'";
    let of =
        |server: &delphinus_sandbox::Server| -> u32 { server.query(count).unwrap().trim().parse().unwrap() };
    stage.cluster.servers[1..].iter().map(of).sum()
}

/// Hints, settings, rules and users have a say, the strongest first.
fn who_says_what(stage: &Stage) {
    let routing = "[routing]\nread_balance = \"round_robin\"\n\
        [[rule]]\nname = \"old is fine\"\nmatch_pattern = \"old-is-fine\"\nconsistency = \"eventual\"\n\
        [[user]]\nname = \"admin\"\npassword = \"adminpw\"\nconsistency = \"eventual\"\n";
    let (_proxy, address, _port) = stage.another_proxy(&ConfigFile::with_sections(routing)).unwrap();
    let (mut client, ids) = (address.connect().unwrap(), ids(stage));
    let write = |client: &mut Client| {
        client.query("UPDATE ryw SET v = v + 1 WHERE id = 1").unwrap();
    };
    let places = |client: &mut Client, hint: &str| -> Vec<String> {
        (0..6).map(|_| client.value(&format!("SELECT {hint} port FROM answered_by")).unwrap()).collect()
    };
    write(&mut client);
    let found = places(&mut client, "/*+ delphinus(consistency=eventual) */");
    assert!(found.contains(&ids.delayed), "{found:?}");
    let found = places(&mut client, "/*+ delphinus(consistency=global) */");
    assert_eq!(found, vec![ids.primary.clone(); 6]);
    write(&mut client);
    let found = places(&mut client, "");
    assert!(!found.contains(&ids.delayed), "{found:?}");
    client.query("SET @@delphinus.consistency = 'eventual'").unwrap();
    write(&mut client);
    let found = places(&mut client, "");
    assert!(found.contains(&ids.delayed), "{found:?}");
    client.query("SET @@delphinus.consistency = DEFAULT").unwrap();
    write(&mut client);
    let found = places(&mut client, "");
    assert!(!found.contains(&ids.delayed), "{found:?}");
    rule_and_user(&address, &ids);
}

/// What a rule says, which is weaker than a hint, and what is said for a user, which is weaker than a setting.
fn rule_and_user(address: &Address, ids: &Ids) {
    let places = |client: &mut Client, hint: &str| -> Vec<String> {
        client.query("UPDATE ryw SET v = v + 1 WHERE id = 1").unwrap();
        (0..6).map(|_| client.value(&format!("SELECT {hint} port FROM answered_by")).unwrap()).collect()
    };
    let mut client = address.connect().unwrap();
    assert!(places(&mut client, "/*old-is-fine*/").contains(&ids.delayed));
    let hint = "/*+ delphinus(consistency=session) */ /*old-is-fine*/";
    assert!(!places(&mut client, hint).contains(&ids.delayed));
    let mut login = delphinus_e2e::Login::new(address);
    (login.user, login.password) = ("admin".to_owned(), "adminpw".to_owned());
    let mut client = Client::connect(&login).unwrap();
    assert!(places(&mut client, "").contains(&ids.delayed));
    client.query("SET @@delphinus.consistency = 'session'").unwrap();
    assert!(!places(&mut client, "").contains(&ids.delayed));
}

/// What one session has written is found by another that was given the token.
fn tokens(stage: &Stage) {
    let (_proxy, address, _port) = stage.another_proxy(&ConfigFile::default()).unwrap();
    let mut writer = address.connect().unwrap();
    assert_eq!(writer.value("SELECT @@delphinus.causality_token").unwrap(), "");
    let has_attributes = !writer.server_version.contains("MariaDB");
    for round in 0..10 {
        writer.query("UPDATE ryw SET v = v + 1 WHERE id = 1").unwrap();
        let token = writer.value("SELECT @@delphinus.causality_token").unwrap();
        let written = read(&mut writer, 1).0;
        let mut reader = address.connect().unwrap();
        // MariaDB's protocol has no query attributes.
        let found = match round % if has_attributes { 3 } else { 2 } {
            0 => {
                reader.query(&format!("SET @@delphinus.causality_token = '{token}'")).unwrap();
                read(&mut reader, 1).0
            }
            1 => {
                let hint = format!("/*+ delphinus(causality_token='{token}') */");
                reader.value(&format!("SELECT {hint} v FROM ryw WHERE id = 1")).unwrap().parse().unwrap()
            }
            _ => {
                let mut login = delphinus_e2e::Login::new(&address);
                login.has_query_attributes = true;
                let rows = Client::connect(&login)
                    .unwrap()
                    .rows_with(&[("delphinus.causality_token", &token)], "SELECT v FROM ryw WHERE id = 1")
                    .unwrap();
                rows[0][0].as_deref().unwrap().parse().unwrap()
            }
        };
        assert!(found >= written, "round {round}: {found} < {written} with {token}");
    }
    // What was only read counts, too.
    writer.query("BEGIN").unwrap();
    let read_there = read(&mut writer, 1).0;
    writer.query("COMMIT").unwrap();
    assert!(!writer.value("SELECT @@delphinus.causality_token").unwrap().is_empty(), "{read_there}");
    for wrong in ["nonsense", "5-5", "x:1-5"] {
        let error = writer.error(&format!("SET @@delphinus.causality_token = '{wrong}'")).unwrap();
        assert_eq!(error.code, 1231, "{wrong}");
    }
}

/// Where nothing is written, sessions with a past read everywhere: per statement, on one connection.
fn rest(stage: &Stage) {
    delay(stage, 0);
    let (_proxy, address, _port) = stage.another_proxy(&ConfigFile::default()).unwrap();
    let (mut client, ids) = (address.connect().unwrap(), ids(stage));
    client.query("UPDATE ryw SET v = v + 1 WHERE id = 1").unwrap();
    until(Duration::from_secs(20), "reads spread again", || {
        let servers: Vec<String> = (0..8).map(|_| read(&mut client, 1).1).collect();
        let on_delayed = servers.iter().filter(|server| **server == ids.delayed).count();
        Ok(on_delayed == 4 && !servers.contains(&ids.primary))
    })
    .unwrap();
}

#[test]
fn sessions_find_what_they_have_written_on_mariadb() {
    sessions_find_what_they_have_written(Flavor::MariaDb);
}

#[test]
fn sessions_find_what_they_have_written_on_mysql() {
    sessions_find_what_they_have_written(Flavor::MySql);
}
