//! Prepared statements of many sessions on few backend connections: each keeps the meaning of its PREPARE.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use delphinus_e2e::{Address, Answer, Client, ConfigFile, Stage};
use delphinus_sandbox::Flavor;

/// Backend connections to each server.
const CONNECTIONS: usize = 2;
/// More sessions than connections, so that each connection serves several of them in turn.
const SESSIONS: usize = 6;

/// The same text in all sessions. It has a row if `"x"` is the column x, which is what ANSI_QUOTES says; otherwise
/// it is a string, and no number.
const QUOTED: &str = "SELECT 1 FROM (SELECT 1 AS x) t WHERE \"x\" = 1";
/// It has a row if the connection's collation tells letters by their case.
const COLLATED: &str = "SELECT 1 FROM (SELECT 1 AS x) t WHERE 'a' <> 'A'";
/// It has a row if the schema is the demo's.
const SCHEMA: &str = "SELECT 1 FROM (SELECT 1 AS x) t WHERE DATABASE() = 'app'";

/// A session with the three statements, prepared under one state and run under another.
struct Session {
    client: Client,
    /// Prepared with ANSI_QUOTES, a binary collation and the schema `app`; run with none of them. Or the opposite.
    is_special: bool,
    statements: [u32; 3],
}

fn special(client: &mut Client, is_special: bool) {
    let (mode, collation, schema) = if is_special {
        ("ANSI_QUOTES", "utf8mb4_bin", "app")
    } else {
        ("", "utf8mb4_general_ci", "information_schema")
    };
    client.query(&format!("SET SESSION sql_mode = '{mode}'")).unwrap();
    client.query(&format!("SET NAMES utf8mb4 COLLATE {collation}")).unwrap();
    client.query(&format!("USE {schema}")).unwrap();
}

fn rows(answer: &Answer) -> usize {
    let Answer::Rows(rows) = answer else { panic!("no rows: {answer:?}") };
    rows.len()
}

impl Session {
    fn start(stage: &Stage, is_special: bool) -> Self {
        let mut client = stage.address.connect().unwrap();
        special(&mut client, is_special);
        let statements = [QUOTED, COLLATED, SCHEMA].map(|sql| client.prepare(sql).unwrap());
        special(&mut client, !is_special);
        Self { client, is_special, statements }
    }

    /// Runs the prepared statements and the same texts without preparing: they mean opposite things.
    fn check(&mut self, context: &str) {
        let prepared = self.statements.map(|statement| rows(&self.client.execute(statement).unwrap()));
        assert_eq!(prepared, [usize::from(self.is_special); 3], "{context}: as at PREPARE");
        let plain = [QUOTED, COLLATED, SCHEMA].map(|sql| rows(&self.client.query(sql).unwrap()));
        assert_eq!(plain, [usize::from(!self.is_special); 3], "{context}: as now");
    }
}

#[test]
fn on_a_small_pool_each_statement_keeps_its_meaning() {
    for flavor in [Flavor::MariaDb, Flavor::MySql] {
        let limit = format!("max_connections = {CONNECTIONS}");
        let stage = Stage::with(flavor, &ConfigFile::with_pool(&[&limit])).unwrap();
        let mut sessions: Vec<_> =
            (0..SESSIONS).map(|number| Session::start(&stage, number % 2 == 0)).collect();
        for turn in 0..5 {
            for (number, session) in sessions.iter_mut().enumerate() {
                session.check(&format!("{flavor}, turn {turn}, session {number}"));
            }
        }
        // In a transaction they run on the primary, where nobody has prepared them yet or somebody else has.
        for (number, session) in sessions.iter_mut().enumerate() {
            session.client.query("BEGIN").unwrap();
            session.check(&format!("{flavor}, in a transaction, session {number}"));
            session.client.query("COMMIT").unwrap();
        }
        let list = "SELECT COUNT(*) FROM information_schema.PROCESSLIST WHERE USER = 'app'";
        for server in &stage.cluster.servers {
            let count: usize = server.query(list).unwrap().trim().parse().unwrap();
            assert!(count <= CONNECTIONS, "{flavor}: {count} connections, so the sessions did not share");
        }
    }
}

/// Only MariaDB prepares it.
#[test]
fn a_prepared_use_is_the_sessions_own() {
    let one = ConfigFile { pool: vec!["max_connections = 1".to_owned()], ..ConfigFile::default() };
    let stage = Stage::with(Flavor::MariaDb, &one).unwrap();
    let Address { socket, user, password, .. } = &stage.address;
    let connect = || delphinus_testkit::Login::new(socket, user, password).connect().unwrap();
    let schema =
        |client: &mut delphinus_testkit::Client| match client.query("SELECT DATABASE()").unwrap().remove(0) {
            delphinus_testkit::Reply::Rows(rows) => rows.rows[0][0].clone(),
            other => panic!("{other:?}"),
        };
    let (mut client, mut other) = (connect(), connect());
    let statement = client.prepare("USE app").unwrap().unwrap().id;
    client.execute(statement, &[], true).unwrap();
    assert_eq!(schema(&mut other), None);
    assert_eq!(schema(&mut client).as_deref(), Some(&b"app"[..]));
    assert_eq!(schema(&mut other), None);
}
