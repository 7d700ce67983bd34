//! Prepared statements of many sessions on few backend connections: each keeps the meaning of its PREPARE.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::time::Duration;

use delphinus_e2e::{Address, Answer, Client, ConfigFile, Login, ServerError, Stage, until};
use delphinus_sandbox::Flavor;
use delphinus_testkit::{Param, Reply};
use delphinus_wire::Capabilities;
use delphinus_wire::command::Code;

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

/// One worker, so that connections are shared as much as they can be.
fn on_one_worker(flavor: Flavor) -> (Stage, Client) {
    let config = ConfigFile { proxy: vec!["workers = 1".to_owned()], ..ConfigFile::default() };
    let stage = Stage::with(flavor, &config).unwrap();
    let mut client = stage.address.connect().unwrap();
    client.query("CREATE TABLE app.kept (a INT)").unwrap();
    (stage, client)
}

/// The number of the error that running it gives.
fn refusal(client: &mut Client, statement: u32) -> u16 {
    client.execute(statement).expect_err("an error").downcast::<ServerError>().unwrap().code
}

const COUNT: &str = "SELECT COUNT(*) FROM app.kept FOR UPDATE";

/// A statement is prepared again in the state that it was prepared in. Setting `autocommit` commits: never in a transaction.
#[test]
fn preparing_again_commits_nothing() {
    for flavor in [Flavor::MariaDb, Flavor::MySql] {
        let (_stage, mut client) = on_one_worker(flavor);
        let isolation = if flavor == Flavor::MySql { "transaction_isolation" } else { "tx_isolation" };
        let isolation = format!("SET SESSION {isolation} = 'REPEATABLE-READ'");
        for (number, (before, then)) in [
            ("SET autocommit = 1", "SET autocommit = 0"),
            ("SET autocommit = 0", "SET autocommit = 1; BEGIN"),
            (&isolation, "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED; BEGIN"),
            ("SET SESSION sql_mode = ''", "SET SESSION sql_mode = 'ANSI_QUOTES'; BEGIN"),
        ]
        .into_iter()
        .enumerate()
        {
            client.query(before).unwrap();
            // On a replica: the connection of the transaction does not know it.
            let statement = client.prepare(&format!("SELECT {number} FROM app.answered_by")).unwrap();
            client.query("ROLLBACK").unwrap();
            for sql in then.split("; ") {
                client.query(sql).unwrap();
            }
            client.query("INSERT INTO app.kept VALUES (1)").unwrap();
            assert!(matches!(client.execute(statement).unwrap(), Answer::Rows(_)));
            client.query("ROLLBACK").unwrap();
            assert_eq!(client.value(COUNT).unwrap(), "0", "{flavor}: {before}; {then}");
            client.query("ROLLBACK").unwrap();
            client.query("SET autocommit = 1").unwrap();
        }
    }
}

/// What was prepared without a schema: nothing but starting over leaves one, which would roll back.
#[test]
fn preparing_again_rolls_back_nothing() {
    for flavor in [Flavor::MariaDb, Flavor::MySql] {
        let (stage, _) = on_one_worker(flavor);
        let mut login = Login::new(&stage.address);
        login.database.clear();
        let mut client = Client::connect(&login).unwrap();
        let plain = client.prepare("SELECT 7 FROM app.answered_by").unwrap();
        let asking = client.prepare("SELECT DATABASE() FROM app.answered_by").unwrap();
        client.query("USE app").unwrap();
        client.query("BEGIN").unwrap();
        client.query("INSERT INTO kept VALUES (1)").unwrap();
        assert!(matches!(client.execute(plain).unwrap(), Answer::Rows(_)), "{flavor}");
        assert_eq!(refusal(&mut client, asking), 1105, "{flavor}");
        assert_eq!(client.value("SELECT DATABASE()").unwrap(), "app", "{flavor}");
        client.query("COMMIT").unwrap();
        assert_eq!(client.value(COUNT).unwrap(), "1", "{flavor}");
        assert!(matches!(client.execute(asking).unwrap(), Answer::Rows(_)), "{flavor}");
    }
}

/// What it sets is found in the text as servers read that: by the `sql_mode` of its preparation.
#[test]
fn what_was_prepared_is_read_as_it_was_then() {
    for flavor in [Flavor::MariaDb, Flavor::MySql] {
        let (_stage, mut client) = on_one_worker(flavor);
        client.query("SET SESSION sql_mode = 'NO_BACKSLASH_ESCAPES'").unwrap();
        let statement = client.prepare(r"SET @x = '\', @a = 7").unwrap();
        client.query("SET SESSION sql_mode = ''").unwrap();
        client.execute(statement).unwrap();
        // On a replica, and on the primary.
        assert_eq!(client.value("SELECT @a FROM app.answered_by LIMIT 1").unwrap(), "7", "{flavor}");
        assert_eq!(client.value("SELECT @a FOR UPDATE").unwrap(), "7", "{flavor}");
    }
}

/// One that cannot be prepared any more leaves the session's connection in the session's state.
#[test]
fn what_cannot_be_prepared_again_changes_nothing() {
    for flavor in [Flavor::MariaDb, Flavor::MySql] {
        let (_stage, mut client) = on_one_worker(flavor);
        client.query("SET SESSION sql_mode = 'ANSI_QUOTES'").unwrap();
        client.query("CREATE TABLE app.gone (a INT)").unwrap();
        let statement = client.prepare("SELECT a FROM app.gone").unwrap();
        client.query("SET SESSION sql_mode = 'PIPES_AS_CONCAT'").unwrap();
        client.query("DROP TABLE app.gone").unwrap();
        client.query("BEGIN").unwrap();
        client.query("INSERT INTO app.kept VALUES (1)").unwrap();
        assert_eq!(refusal(&mut client, statement), 1146, "{flavor}");
        assert_eq!(client.value("SELECT @@sql_mode").unwrap(), "PIPES_AS_CONCAT", "{flavor}");
        client.query("ROLLBACK").unwrap();
        assert_eq!(client.value(COUNT).unwrap(), "0", "{flavor}");
    }
}

/// The schema that the session is in is gone while its connection is in another one, to prepare something again: what runs
/// next must not run there.
#[test]
fn a_connection_that_cannot_go_back_runs_nothing() {
    for flavor in [Flavor::MariaDb, Flavor::MySql] {
        let (stage, mut client) = on_one_worker(flavor);
        for sql in ["CREATE DATABASE a", "CREATE DATABASE b", "CREATE TABLE b.t (a INT)"] {
            stage.cluster.servers[0].query(sql).unwrap();
        }
        for sql in ["GRANT ALL ON a.* TO app@'%'", "GRANT ALL ON b.* TO app@'%'"] {
            stage.cluster.servers[0].query(sql).unwrap();
        }
        until(Duration::from_secs(20), "the replicas to follow", || Ok(client.query("USE b").is_ok()))
            .unwrap();
        let statement = client.prepare("/*slave*/ SELECT 1 FROM t").unwrap();
        for sql in ["USE a", "BEGIN", "INSERT INTO app.kept VALUES (1)"] {
            client.query(sql).unwrap();
        }
        stage.cluster.servers[0].query("DROP DATABASE a").unwrap();
        client.execute(statement).expect_err("no way back");
        // Whatever it is told: not in b.
        let _ = client.query("INSERT INTO t VALUES (2)");
        let _ = client.query("COMMIT");
        let count = stage.cluster.servers[0].query("SELECT COUNT(*) FROM b.t").unwrap();
        assert_eq!(count.trim(), "0", "{flavor}");
    }
}

/// COM_SET_OPTION in a transaction reaches its connection, and nothing else happens to it.
#[test]
fn an_option_is_set_in_the_middle_of_a_transaction() {
    const SET_OPTION: u8 = 0x1b;
    for flavor in [Flavor::MariaDb, Flavor::MySql] {
        let (_stage, mut client) = on_one_worker(flavor);
        client.query("SET SESSION sql_mode = 'ANSI_QUOTES'").unwrap();
        client.query("BEGIN").unwrap();
        client.query("INSERT INTO app.kept VALUES (1)").unwrap();
        let two = "SELECT 1; SELECT @@sql_mode";
        assert_eq!(client.error(two).unwrap().code, 1064, "{flavor}");
        client.command(SET_OPTION, &[0, 0]).unwrap();
        let answers = client.query_all(two).unwrap();
        assert_eq!(answers[1], Answer::Rows(vec![vec![Some("ANSI_QUOTES".to_owned())]]), "{flavor}");
        client.command(SET_OPTION, &[1, 0]).unwrap();
        assert_eq!(client.error(two).unwrap().code, 1064, "{flavor}");
        assert_eq!(client.value("SELECT COUNT(*) FROM app.kept").unwrap(), "1", "{flavor}");
        client.query("ROLLBACK").unwrap();
        assert_eq!(client.value(COUNT).unwrap(), "0", "{flavor}");
    }
}

/// What a client prepares is prepared anew, also for a cursor: MariaDB does not look again whether a temporary table stands in
/// the place of a view.
#[test]
fn a_cursor_reads_what_was_prepared_last() {
    for flavor in [Flavor::MariaDb, Flavor::MySql] {
        let stage = Stage::with(flavor, &ConfigFile::default()).unwrap();
        let read = |client: &mut delphinus_testkit::Client| {
            let id = client.prepare("SELECT * FROM app.seen").unwrap().unwrap().id;
            let Reply::Rows(opened) = client.open_cursor(id, &[]).unwrap() else { panic!("no cursor") };
            let rows = client.fetch(id, 9, &opened.columns).unwrap().rows().unwrap();
            client.close(id).unwrap();
            rows
        };
        let [direct, proxied] = [stage.primary_address(), stage.address].map(|address| {
            let mut client = address.login().connect().unwrap();
            client.run("CREATE OR REPLACE VIEW app.seen AS SELECT 100 AS a").unwrap();
            let before = read(&mut client);
            client.run("CREATE TEMPORARY TABLE app.seen AS SELECT 1 AS a").unwrap();
            let after = read(&mut client);
            assert_ne!(before, after, "{flavor}");
            (before, after)
        });
        assert_eq!(proxied, direct, "{flavor}");
    }
}

/// Integers of 4 and of 8 bytes, which are of one class.
const LONG: u8 = 3;
const LONGLONG: u8 = 8;

/// COM_STMT_BULK_EXECUTE of one parameter, an integer; the number of the error, if there is one. `kind` is not sent again where
/// `with_types` is false. Source: <https://mariadb.com/docs/server/reference/clientserver-protocol/3-binary-protocol-prepared-statements/com_stmt_bulk_execute>
fn bulk(
    client: &mut delphinus_testkit::Client,
    id: u32,
    (kind, with_types): (u8, bool),
    values: &[u8],
) -> Option<u16> {
    let mut payload = vec![Code::StmtBulkExecute as u8];
    payload.extend(id.to_le_bytes());
    let head: &[u8] = if with_types { &[128, 0, kind, 0] } else { &[0, 0] };
    payload.extend(head);
    for value in values {
        // It is not NULL.
        payload.extend([0, *value]);
        payload.extend(vec![0; if kind == LONG { 3 } else { 7 }]);
    }
    client.send(&payload).unwrap();
    client.read_replies().unwrap()[0].failure().map(|failure| failure.code)
}

/// On a connection that two sessions share, arrays of parameters are run with what their session's statements have left, and with
/// the types that their client has sent. So is a statement of which pieces were sent ahead.
#[test]
fn arrays_have_what_is_their_sessions() {
    let config = ConfigFile {
        proxy: vec!["workers = 1".to_owned()],
        ..ConfigFile::with_pool(&["max_connections = 1", "hold_ms = 0"])
    };
    let stage = Stage::with(Flavor::MariaDb, &config).unwrap();
    let login = stage.address.login().with(Capabilities::MARIADB_STMT_BULK);
    let (mut client, mut other) = (login.connect().unwrap(), login.connect().unwrap());
    client.run("CREATE TABLE app.parent (id INT AUTO_INCREMENT PRIMARY KEY, x INT)").unwrap();
    client.run("CREATE TABLE app.child (a BIGINT, b VARCHAR(20))").unwrap();
    let children = |client: &mut delphinus_testkit::Client| {
        let found = client.run("SELECT a, b FROM app.child ORDER BY b FOR UPDATE").unwrap().remove(0);
        client.run("DELETE FROM app.child").unwrap();
        let text =
            |cell: &Option<Vec<u8>>| String::from_utf8_lossy(cell.as_deref().unwrap_or(b"-")).into_owned();
        let rows = found.rows().unwrap();
        rows.iter().map(|row| row.iter().map(text).collect::<Vec<_>>().join(" ")).collect::<Vec<_>>()
    };
    let prepare =
        |client: &mut delphinus_testkit::Client, sql: &str| client.prepare(sql).unwrap().unwrap().id;
    // LAST_INSERT_ID().
    let of_parent = prepare(&mut client, "INSERT INTO app.child VALUES (LAST_INSERT_ID(), ?)");
    client.run("INSERT INTO app.parent (x) VALUES (1)").unwrap();
    other.run("INSERT INTO app.parent (x) VALUES (2)").unwrap();
    assert_eq!(bulk(&mut client, of_parent, (LONGLONG, true), &[10, 11]), None);
    assert_eq!(children(&mut client), ["1 10", "1 11"]);
    // ROW_COUNT(): of the session, or an error.
    let counted = prepare(&mut client, "INSERT INTO app.child VALUES (ROW_COUNT(), ?)");
    for (is_taken, expected) in [(true, Some(1105)), (false, None)] {
        client.run("UPDATE app.parent SET x = x + 1").unwrap();
        if is_taken {
            other.run("UPDATE app.parent SET x = x + 1 WHERE id = 1").unwrap();
        }
        assert_eq!(bulk(&mut client, counted, (LONGLONG, true), &[7]), expected);
    }
    assert_eq!(children(&mut client), ["2 7"]);
    let in_pieces = prepare(&mut client, "INSERT INTO app.child SELECT ROW_COUNT(), ?");
    client.run("UPDATE app.parent SET x = x + 1").unwrap();
    other.run("UPDATE app.parent SET x = x + 1 WHERE id = 1").unwrap();
    client.send_long_data(in_pieces, 0, b"piece").unwrap();
    let reply = client.execute(in_pieces, &[Param::Bytes(Vec::new())], true).unwrap().remove(0);
    assert_eq!(reply.failure().map(|failure| failure.code), Some(1105), "{reply:?}");
    // The pieces are gone with that, and what asks without any is told what was saved.
    client.run("UPDATE app.parent SET x = x + 1").unwrap();
    let whole = [Param::Text("whole".to_owned())];
    let reply = client.execute(in_pieces, &whole, true).unwrap().remove(0);
    assert!(reply.failure().is_none(), "{reply:?}");
    assert_eq!(children(&mut client), ["2 whole"]);
    // Types: clients send them once, by whichever command.
    let sql = "INSERT INTO app.child (b) VALUES (?)";
    let (own, others) = (prepare(&mut client, sql), prepare(&mut other, sql));
    assert_eq!(bulk(&mut client, own, (LONGLONG, true), &[1, 2]), None);
    assert_eq!(bulk(&mut other, others, (LONG, true), &[3]), None);
    assert_eq!(bulk(&mut client, own, (LONGLONG, false), &[4, 5]), None);
    assert_eq!(bulk(&mut other, others, (LONG, false), &[6]), None);
    let reply = client.execute(own, &[Param::Int(7)], false).unwrap().remove(0);
    assert!(reply.failure().is_none(), "{reply:?}");
    assert_eq!(children(&mut client), ["- 1", "- 2", "- 3", "- 4", "- 5", "- 6", "- 7"]);
}
