//! The ways of a statement through the proxy, and what can go wrong under it: each way with each trouble. What the client is told
//! depends on what the statement does, never on how it was sent.
//!
//! So there is one table for all ways of a write, and one for all of a read. An array of parameters does more than one thing, and has
//! its own.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fmt::Write as _;
use std::thread::scope;
use std::time::Duration;

use delphinus_e2e::{ConfigFile, Relay, Stage, until};
use delphinus_sandbox::{Flavor, PortLease, Server};
use delphinus_testkit::{Client, Login, Param, Reply};
use delphinus_wire::Capabilities;
use delphinus_wire::command::Code;

const PATIENCE: Duration = Duration::from_secs(30);

/// What each command of these tests has in it, where the relay sees it.
const MARK: &str = "the-mark";

/// A write that waits for no other session.
const READY: &str = "REPLACE INTO app.flow_ready VALUES (1)";

/// For so long the primary takes no writes.
const SWITCHOVER: Duration = Duration::from_millis(800);

/// Prepares what a way needs, and sends the command that the trouble is for; what the client is told: 0 is no error, 1 the end of
/// the session.
type Send = fn(&mut Client, Step) -> u16;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Step {
    Before,
    Now,
}

/// A way of a statement, as a write and as a read.
struct Flow {
    name: &'static str,
    send: Send,
}

/// What the client is told of replies, or of their lack.
fn told(outcome: anyhow::Result<Vec<Reply>>) -> u16 {
    match outcome {
        Ok(replies) => replies.iter().find_map(Reply::failure).map_or(0, |failure| failure.code),
        Err(_) => 1,
    }
}

fn text(client: &mut Client, step: Step, sql: &str) -> u16 {
    if step == Step::Before { 0 } else { told(client.query(sql)) }
}

/// A prepared statement with one parameter, which has the mark.
fn execution(client: &mut Client, step: Step, sql: &str) -> u16 {
    match step {
        Step::Before => {
            let id = client.prepare(sql).unwrap().unwrap().id;
            assert_eq!(id, 1, "the first one of the session");
            0
        }
        Step::Now => told(client.execute(1, &[Param::Text(MARK.to_owned())], true)),
    }
}

/// COM_STMT_BULK_EXECUTE of one row.
fn bulk(client: &mut Client, step: Step, sql: &str) -> u16 {
    if step == Step::Before { execution(client, step, sql) } else { run_rows(client, &[MARK]) }
}

/// COM_STMT_BULK_EXECUTE of the session's first prepared statement, with one parameter for each row.
/// Source: <https://mariadb.com/kb/en/com_stmt_bulk_execute/>
fn run_rows(client: &mut Client, rows: &[&str]) -> u16 {
    /// Types are sent; they are those of a string.
    const WITH_TYPES: [u8; 2] = [128, 0];
    const STRING: [u8; 2] = [0xfe, 0];
    let mut payload = vec![Code::StmtBulkExecute as u8, 1, 0, 0, 0];
    payload.extend(WITH_TYPES.iter().chain(&STRING));
    for row in rows {
        payload.extend([0, u8::try_from(row.len()).unwrap()]);
        payload.extend(row.as_bytes());
    }
    told(client.send(&payload).and_then(|()| client.read_replies()))
}

const WRITES: &[Flow] = &[
    Flow {
        name: "text",
        send: |client, step| text(client, step, "INSERT INTO app.flow (t) VALUES ('the-mark')"),
    },
    Flow {
        name: "text with LAST_INSERT_ID()",
        send: |client, step| {
            text(client, step, "INSERT INTO app.flow (t, m) VALUES ('the-mark', LAST_INSERT_ID())")
        },
    },
    Flow {
        name: "text with CONNECTION_ID()",
        send: |client, step| {
            text(client, step, "INSERT INTO app.flow (t, m) VALUES ('the-mark', CONNECTION_ID())")
        },
    },
    Flow {
        name: "text with ROW_COUNT()",
        send: |client, step| {
            text(client, step, "INSERT INTO app.flow (t, m) VALUES ('the-mark', ROW_COUNT())")
        },
    },
    Flow {
        name: "execution",
        send: |client, step| execution(client, step, "INSERT INTO app.flow (t) VALUES (?)"),
    },
    Flow {
        name: "execution with LAST_INSERT_ID()",
        send: |client, step| {
            execution(client, step, "INSERT INTO app.flow (t, m) VALUES (?, LAST_INSERT_ID())")
        },
    },
    Flow {
        name: "execution with ROW_COUNT()",
        send: |client, step| execution(client, step, "INSERT INTO app.flow (t, m) VALUES (?, ROW_COUNT())"),
    },
];

const ARRAYS: &[Flow] =
    &[Flow { name: "bulk", send: |client, step| bulk(client, step, "INSERT INTO app.flow (t) VALUES (?)") }];

const READS: &[Flow] = &[
    Flow {
        name: "text",
        send: |client, step| text(client, step, "SELECT COUNT(*) FROM app.flow WHERE t = 'the-mark'"),
    },
    Flow {
        name: "text with LAST_INSERT_ID()",
        send: |client, step| {
            text(client, step, "SELECT COUNT(*) FROM app.flow WHERE t = 'the-mark' AND m = LAST_INSERT_ID()")
        },
    },
    Flow {
        name: "text with CONNECTION_ID()",
        send: |client, step| {
            text(client, step, "SELECT COUNT(*) FROM app.flow WHERE t = 'the-mark' AND m = CONNECTION_ID()")
        },
    },
    Flow {
        name: "execution",
        send: |client, step| execution(client, step, "SELECT COUNT(*) FROM app.flow WHERE t = ?"),
    },
    Flow {
        name: "execution with LAST_INSERT_ID()",
        send: |client, step| {
            execution(client, step, "SELECT COUNT(*) FROM app.flow WHERE t = ? AND m = LAST_INSERT_ID()")
        },
    },
    Flow { name: "preparation", send: |client, step| preparation(client, step) },
    Flow { name: "USE as a command", send: |client, step| enter(client, step) },
];

fn preparation(client: &mut Client, step: Step) -> u16 {
    if step == Step::Before {
        return 0;
    }
    match client.prepare("SELECT COUNT(*) FROM app.flow WHERE t = 'the-mark' AND id = ?") {
        Ok(Ok(_)) => 0,
        Ok(Err(failure)) => failure.code,
        Err(_) => 1,
    }
}

fn enter(client: &mut Client, step: Step) -> u16 {
    if step == Step::Before { 0 } else { told(client.init_db(MARK).map(|reply| vec![reply])) }
}

/// What is open when the trouble comes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Situation {
    Alone,
    Begun,
    Written,
    TemporaryTable,
}

const SITUATIONS: [Situation; 4] =
    [Situation::Alone, Situation::Begun, Situation::Written, Situation::TemporaryTable];

impl Situation {
    fn statements(self) -> &'static [&'static str] {
        match self {
            Self::Alone => &[],
            Self::Begun => &["BEGIN"],
            Self::Written => &["BEGIN", "INSERT INTO app.flow (t) VALUES ('before')"],
            Self::TemporaryTable => &["CREATE TEMPORARY TABLE app.flow_own (id INT)"],
        }
    }
}

/// What goes wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Trouble {
    /// The server takes no writes for a moment, as in a switchover.
    Refused,
    /// The connection breaks when the command is sent, before anything comes back.
    Broken,
    /// It was closed before the command.
    Closed,
}

const TROUBLES: [Trouble; 3] = [Trouble::Refused, Trouble::Broken, Trouble::Closed];

struct Ground {
    stage: Stage,
    relay: Relay,
    login: Login,
    _proxy: delphinus_e2e::Proxy,
    _port: PortLease,
}

fn ground(flavor: Flavor) -> Ground {
    let stage = Stage::with_servers(flavor, &["general_log=OFF"], &ConfigFile::default()).unwrap();
    let primary = &stage.cluster.servers[0];
    for sql in [
        "CREATE TABLE app.flow (id INT AUTO_INCREMENT PRIMARY KEY, t VARCHAR(20), m BIGINT)",
        "CREATE TABLE app.flow_ready (id INT PRIMARY KEY)",
        "CREATE DATABASE `the-mark`",
    ] {
        primary.query(sql).unwrap();
    }
    let (user, password) = (stage.cluster.app_user.clone(), stage.cluster.app_password.clone());
    primary.query(&format!("GRANT ALL ON `the-mark`.* TO {user}")).unwrap();
    let relay = Relay::start(&stage.cluster.dir().join("relay"), &primary.socket).unwrap();
    let config = ConfigFile {
        topology: Some("read_only"),
        only_primary_at: Some(relay.path.clone()),
        ..ConfigFile::default()
    };
    let (proxy, address, port) = stage.another_proxy(&config).unwrap();
    let mut login = Login::new(&address.socket, &user, &password).patience(PATIENCE).schema("app");
    if flavor == Flavor::MariaDb {
        login = login.with(Capabilities::MARIADB_STMT_BULK);
    }
    until(PATIENCE, "a primary", || Ok(told(login.connect()?.query(READY)) == 0)).unwrap();
    Ground { stage, relay, login, _proxy: proxy, _port: port }
}

impl Ground {
    fn primary(&self) -> &Server {
        &self.stage.cluster.servers[0]
    }

    /// One cell: what the client is told, and what is there afterwards.
    fn try_one(&self, flow: &Flow, trouble: Trouble, situation: Situation) -> u16 {
        self.primary().query("DELETE FROM app.flow").unwrap();
        let mut client = self.login.connect().unwrap();
        (flow.send)(&mut client, Step::Before);
        for sql in situation.statements() {
            assert_eq!(told(client.query(sql)), 0, "{sql}");
        }
        let told = match trouble {
            Trouble::Refused => self.refuse(&mut client, flow),
            Trouble::Broken => {
                self.relay.cut_on(MARK.as_bytes(), 1);
                let told = (flow.send)(&mut client, Step::Now);
                assert_eq!(self.relay.cuts_left(), 0, "{}: the command did not come by", flow.name);
                told
            }
            Trouble::Closed => {
                self.close_all();
                (flow.send)(&mut client, Step::Now)
            }
        };
        if told == 0 && situation != Situation::Alone {
            client.query("COMMIT").unwrap();
        }
        told
    }

    fn refuse(&self, client: &mut Client, flow: &Flow) -> u16 {
        self.primary().query("SET GLOBAL read_only = 1").unwrap();
        let told = scope(|scope| {
            let running = scope.spawn(|| (flow.send)(client, Step::Now));
            let _ = until(SWITCHOVER, "the answer", || Ok(running.is_finished()));
            self.primary().query("SET GLOBAL read_only = 0").unwrap();
            running.join().unwrap()
        });
        let is_back = || Ok(crate::told(self.login.connect()?.query(READY)) == 0);
        until(PATIENCE, "the primary to take writes", is_back).unwrap();
        told
    }

    /// Closes the proxy's connections of the user.
    fn close_all(&self) {
        let list = format!(
            "SELECT ID FROM information_schema.PROCESSLIST WHERE USER = '{}'",
            self.stage.cluster.app_user
        );
        for id in self.primary().query(&list).unwrap().lines() {
            let _ = self.primary().query(&format!("KILL {id}"));
        }
        until(PATIENCE, "the connections to end", || Ok(self.primary().query(&list)?.is_empty())).unwrap();
    }

    /// What one way comes to: for each trouble, what is told in each situation.
    fn row(&self, flow: &Flow) -> [Row; TROUBLES.len()] {
        TROUBLES.map(|trouble| SITUATIONS.map(|situation| self.try_one(flow, trouble, situation)))
    }
}

/// In the order of `SITUATIONS`.
type Row = [u16; SITUATIONS.len()];

/// What every write is told, in the order of `TROUBLES`.
const OF_WRITES: [Row; TROUBLES.len()] = [[0, 0, 1213, 1290], [9101, 1213, 1213, 4031], [0, 0, 1213, 4031]];
/// What every array is told: that one of its rows was refused does not say that none was written.
const OF_ARRAYS: [Row; TROUBLES.len()] = [[1290, 1213, 1213, 1290], OF_WRITES[1], OF_WRITES[2]];
/// What every read is told.
const OF_READS: [Row; TROUBLES.len()] = [[0, 0, 0, 0], [0, 1213, 1213, 4031], [0, 0, 1213, 4031]];

fn check(ground: &Ground, flows: &[Flow], expected: [Row; TROUBLES.len()]) {
    let (mut table, mut wrong) = (String::new(), Vec::new());
    for flow in flows {
        let found = ground.row(flow);
        writeln!(table, "{:32} {found:?}", flow.name).unwrap();
        for ((trouble, found), expected) in TROUBLES.into_iter().zip(found).zip(expected) {
            if found != expected {
                wrong.push(format!("{}, {trouble:?}: {found:?}, not {expected:?}", flow.name));
            }
        }
    }
    eprintln!("{table}");
    assert!(wrong.is_empty(), "in {SITUATIONS:?}:\n{}", wrong.join("\n"));
}

#[test]
fn what_is_told_does_not_depend_on_the_way() {
    let ground = ground(Flavor::MariaDb);
    check(&ground, WRITES, OF_WRITES);
    check(&ground, ARRAYS, OF_ARRAYS);
    check(&ground, READS, OF_READS);
    no_row_of_an_array_is_run_twice(&ground);
}

/// The server stops to take writes while the second row runs: the first one is committed, and the second or the third one is refused.
fn no_row_of_an_array_is_run_twice(ground: &Ground) {
    let primary = ground.primary();
    primary.query("CREATE TABLE app.flow_rows (id INT PRIMARY KEY, n INT, slept INT)").unwrap();
    primary.query("INSERT INTO app.flow_rows VALUES (1, 0, 0), (2, 0, 0), (3, 0, 0)").unwrap();
    let mut client = ground.login.connect().unwrap();
    let sql = "UPDATE app.flow_rows SET n = n + 1, slept = SLEEP((id = 2) * 3) WHERE id = ?";
    assert_eq!(client.prepare(sql).unwrap().unwrap().id, 1, "the first one of the session");
    let told = scope(|scope| {
        let running = scope.spawn(|| run_rows(&mut client, &["1", "2", "3"]));
        let sleeping = "SELECT ID FROM information_schema.PROCESSLIST WHERE STATE = 'User sleep'";
        until(PATIENCE, "the second row to run", || Ok(!primary.query(sleeping)?.is_empty())).unwrap();
        // It may wait for the row that runs.
        primary.query("SET GLOBAL read_only = 1").unwrap();
        let _ = until(2 * SWITCHOVER, "the answer", || Ok(running.is_finished()));
        primary.query("SET GLOBAL read_only = 0").unwrap();
        running.join().unwrap()
    });
    assert_eq!(told, 1290);
    assert_eq!(primary.query("SELECT n FROM app.flow_rows WHERE id = 1").unwrap().trim(), "1");
}
