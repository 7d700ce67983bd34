//! What statements and responses teach about a session.

use super::*;
use crate::vars::{CLIENT_COLLATION as CLIENT, RESULTS_COLLATION as RESULTS};
use delphinus_sql::{Flavor, LexOptions, classify};

#[derive(Default)]
struct Session {
    state: SessionState,
    pins: Pins,
    lex: LexOptions,
}

impl Session {
    fn run(&mut self, sql: &str, response: &Response) -> Learnt {
        let lex = self.lex;
        let statement = classify(sql.as_bytes(), lex);
        let executed = Executed {
            statement: &statement,
            text: &SqlText::new(sql.as_bytes(), lex),
            response,
            hidden: &Hidden::default(),
            now: Instant::now(),
        };
        learn(&mut self.state, &mut self.pins, &executed).unwrap_or_default()
    }

    fn ok(&mut self, sql: &str) -> Learnt {
        self.run(sql, &done(2, vec![]))
    }

    fn pins(&self) -> Vec<&'static str> {
        self.pins.iter().map(|pin| pin.reason.label()).collect()
    }
}

fn done(status: u16, changes: Vec<Changed>) -> Response {
    Response { status: Some(Status(status)), affected_rows: Some(0), changes, ..Response::default() }
}

fn var(name: &str, value: &str) -> Changed {
    Changed::Var(name.into(), value.as_bytes().into())
}

#[test]
fn reported_variables_are_kept_and_the_others_are_asked_for() {
    let mut session = Session::default();
    let learnt = session.run("SET sql_mode='ANSI', time_zone='UTC'", &done(2, vec![var("sql_mode", "ANSI")]));
    assert_eq!(session.state.vars.get("sql_mode").map(|value| &**value), Some(&b"ANSI"[..]));
    assert_eq!(learnt.vars, ["time_zone".into()]);
    assert!(session.pins.is_empty());
}

#[test]
fn set_names_asks_for_the_collation() {
    let mut session = Session::default();
    let changes = ["character_set_client", "character_set_connection", "character_set_results"];
    let response = done(2, changes.iter().map(|name| var(name, "latin1")).collect());
    let learnt = session.run("SET NAMES latin1", &response);
    assert_eq!(learnt.vars, ["collation_connection".into()]);
    assert!(!session.state.vars.contains_key("character_set_connection"));
}

#[test]
fn a_number_names_the_collation_that_hides() {
    let (client, results) = (CLIENT, RESULTS);
    for (sql, numbered) in [
        ("SET character_set_client = 224", vec![(client, 224)]),
        ("SET character_set_client = ( (224) )", vec![(client, 224)]),
        (
            "SET character_set_results=47, @@session.character_set_client = 8",
            vec![(results, 47), (client, 8)],
        ),
        ("SET character_set_client = 8, character_set_client = 45", vec![(client, 45)]),
        ("SET character_set_client = 8, character_set_client = utf8mb4", vec![]),
        ("SET character_set_client = 8, NAMES utf8mb4", vec![]),
        ("SET character_set_client = 200 + 24", vec![]),
        ("SET GLOBAL character_set_client = 224", vec![]),
        ("SET collation_connection = 224", vec![]),
    ] {
        assert_eq!(Session::default().ok(sql).numbered_collations, numbered, "{sql}");
    }
}

/// What a server may have read in another way may have left anything.
#[test]
fn several_statements_of_which_the_last_are_read_in_another_way_pin() {
    for (sql, is_pinned) in [
        (r"SET sql_mode = 'NO_BACKSLASH_ESCAPES'; SELECT '\'; SELECT GET_LOCK(0x70, 0); -- '", true),
        ("SET NAMES utf8mb4; SELECT 'é'", true),
        ("SET NAMES utf8mb4; SET sql_mode = 'ANSI_QUOTES'; SELECT 'a'", false),
        (r#"SET time_zone = 'UTC'; SELECT "é\\""#, false),
    ] {
        let mut session = Session::default();
        session.ok(sql);
        assert_eq!(session.pins(), if is_pinned { &["unknown_state"][..] } else { &[] }, "{sql}");
    }
    let mut session = Session::default();
    session.run("SET NAMES gbk; SELECT 'é'", &failed(1064));
    assert!(!session.pins.has(PinReason::UnknownState), "nothing of it ran");
    session.run("SET NAMES gbk; SELECT 'é'", &failed_later(1054));
    assert!(session.pins.has(PinReason::UnknownState));
}

/// An error behind what an earlier statement of the text said.
fn failed_later(code: u16) -> Response {
    Response { error: Some(code), affected_rows: None, ..done(10, vec![]) }
}

/// A session with another collation behind its results.
fn hiding(flavor: Flavor) -> Session {
    let mut session = Session { lex: LexOptions { flavor, ..LexOptions::default() }, ..Session::default() };
    Rc::make_mut(&mut session.state.vars).insert(RESULTS.into(), (&b"utf8mb4_bin 46"[..]).into());
    session
}

#[test]
fn what_hides_is_unknown_where_a_part_of_a_list_may_be_done() {
    let (no_default, unknown, second) = (failed(1230), failed(1193), failed_later(1054));
    for (sql, hides, response, is_pinned) in [
        ("SET character_set_results = DEFAULT, identity = DEFAULT", true, &no_default, true),
        ("SET character_set_results = DEFAULT, identity = DEFAULT", false, &no_default, false),
        ("SET character_set_results = 46, identity = DEFAULT", false, &no_default, true),
        ("SET character_set_client = latin1, identity = DEFAULT", true, &no_default, false),
        ("SET NAMES utf8mb4, identity = DEFAULT", true, &no_default, true),
        ("SET NAMES utf8mb4, identity = DEFAULT", false, &no_default, false),
        ("SET NAMES utf8mb4 COLLATE utf8mb4_bin, identity = DEFAULT", false, &no_default, true),
        ("SET NAMES utf8mb4 COLLATE utf8mb4_bin; SELECT a", false, &second, true),
        // No server shows a time that was set apart from the time now.
        ("SET timestamp = 5, identity = DEFAULT", false, &no_default, true),
        // Nothing is done where a name is unknown, or where it is one alone.
        ("SET character_set_results = DEFAULT, no_such_name = 1", true, &unknown, false),
        ("SET timestamp = 5, no_such_name = 1", true, &unknown, false),
        ("SET character_set_results = 46", true, &no_default, false),
        ("SET GLOBAL character_set_results = 46, identity = DEFAULT", true, &no_default, false),
        ("SET sql_mode = '', identity = DEFAULT", true, &no_default, false),
    ] {
        let mut session = if hides { hiding(Flavor::MySql) } else { Session::default() };
        session.run(sql, response);
        assert_eq!(session.pins(), if is_pinned { &["unknown_state"][..] } else { &[] }, "{sql}");
    }
}

#[test]
fn mariadb_does_the_whole_list_where_one_has_no_default() {
    let mut session = hiding(Flavor::MariaDb);
    let learnt = session.run(
        "SET identity = DEFAULT, character_set_results = 47, character_set_client = 'gbk'",
        &failed(1230),
    );
    assert_eq!(learnt.numbered_collations, [(RESULTS, 47)]);
    assert!(learnt.has_failed && learnt.vars.iter().any(|name| &**name == "character_set_client"));
    assert!(session.state.vars.is_empty() && session.pins.is_empty());
    session.run("SET timestamp = 5, identity = DEFAULT", &failed(1230));
    assert_eq!(session.pins(), ["unknown_state"]);
}

#[test]
fn a_lock_that_was_perhaps_taken_again_is_released_once() {
    let mut session = Session::default();
    session.run("SELECT GET_LOCK('a', 10)", &failed(3024));
    session.run("SELECT GET_LOCK('a', 10)", &failed(3024));
    session.ok("DO RELEASE_LOCK('a')");
    assert_eq!(session.pins(), [""; 0]);
}

#[test]
fn what_pins_counts_in_the_order_of_the_text() {
    let (lock, handler, none): (&[&str], &[&str], &[&str]) = (&["get_lock"], &["handler"], &[]);
    for (texts, pins) in [
        (&["DO RELEASE_LOCK('x'); SELECT GET_LOCK('x', 1)"][..], lock),
        (&["SELECT RELEASE_ALL_LOCKS(), GET_LOCK('y', 1)"], lock),
        (&["SELECT GET_LOCK('y', 1), RELEASE_ALL_LOCKS()"], none),
        (&["DO GET_LOCK('x', 1), RELEASE_LOCK('x')"], none),
        (&["HANDLER t OPEN AS h; HANDLER h CLOSE; HANDLER t OPEN AS h"], handler),
        (&["HANDLER t OPEN AS h; HANDLER h CLOSE"], none),
    ] {
        assert_eq!(pins_after(in_x(), texts), pins, "{texts:?}");
    }
}

#[test]
fn each_lock_on_the_server_is_ended_by_its_own_statement() {
    let global = "FLUSH TABLES WITH READ LOCK";
    let instance = "LOCK INSTANCE FOR BACKUP";
    for (texts, is_held) in [
        (&[instance, global, "UNLOCK INSTANCE"][..], true),
        (&[global, instance, "UNLOCK TABLES"], true),
        (&[global, instance, "UNLOCK TABLES", "UNLOCK INSTANCE"], false),
        (&["BACKUP LOCK t", "UNLOCK TABLES"], true),
        (&["BACKUP STAGE START", "BACKUP UNLOCK"], true),
        (&["BACKUP STAGE START", "BACKUP STAGE END"], false),
        (&[global, "START TRANSACTION"], true),
        (&["FLUSH TABLES t WITH READ LOCK", "START TRANSACTION"], false),
        (&["UNLOCK TABLES; FLUSH TABLES WITH READ LOCK"], true),
        (&["FLUSH TABLES WITH READ LOCK; UNLOCK TABLES"], false),
    ] {
        let session = Session { lex: mariadb(), ..Session::default() };
        assert_eq!(pins_after(session, texts).contains(&"read_lock"), is_held, "{texts:?}");
    }
}

/// Servers count them. What is perhaps not run ends nothing.
#[test]
fn a_lock_that_may_be_taken_more_than_once_is_released_with_all() {
    let get = "SELECT GET_LOCK('a', 1)";
    for (take, release, is_held) in [
        ("SELECT GET_LOCK('a', 1) FROM (SELECT 1 UNION SELECT 2) t", "DO RELEASE_LOCK('a')", true),
        ("SELECT GET_LOCK('a', 1) FROM t", "SELECT RELEASE_ALL_LOCKS()", false),
        ("SELECT NULLIF(GET_LOCK('a', 1), 2)", "DO RELEASE_LOCK('a')", true),
        (get, "SELECT RELEASE_LOCK('a') FROM t WHERE b = 5", true),
        (get, "SELECT RELEASE_ALL_LOCKS() LIMIT 0", true),
        (get, "SELECT RELEASE_LOCK('a') FROM DUAL", false),
    ] {
        let wanted: &[&str] = if is_held { &["get_lock"] } else { &[] };
        assert_eq!(pins_after(in_x(), &[take, release]), wanted, "{take}; {release}");
    }
    let mut session = Session::default();
    session.run("SELECT GET_LOCK('a', 1) FROM t", &failed(3058));
    assert_eq!(session.pins(), ["get_lock"], "a row before");
    let mut session = Session::default();
    session.ok(get);
    let rows = |rows| Response { result_sets: 1, rows, ..done(2, vec![]) };
    session.run("SELECT RELEASE_LOCK('a')", &rows(0));
    assert_eq!(session.pins(), ["get_lock"], "sql_select_limit = 0");
    session.run("SELECT RELEASE_LOCK('a')", &rows(1));
    assert_eq!(session.pins(), [""; 0]);
    session.run(get, &rows(0));
    assert_eq!(session.pins(), [""; 0], "it was not taken");
}

/// A server refuses each of these, and the text may have any number.
#[test]
fn names_that_are_no_locks_do_not_pin() {
    let long = |letter: &str| format!("GET_LOCK('{}', 0)", letter.repeat(1000));
    let overlong = || Response { error: Some(4163), ..Response::default() };
    let mut session = Session::default();
    session.lex.flavor = Flavor::MySql;
    session.run(&format!("DO {}, {}", long("x"), long("y")), &overlong());
    session.run(&format!("SELECT GET_LOCK('{}', 0)", "x".repeat(65)), &overlong());
    assert_eq!(session.pins(), [""; 0]);
    session.run(&format!("DO GET_LOCK('a', 0), {}", long("x")), &overlong());
    assert_eq!(session.pins(), ["get_lock"]);
    session.ok("DO RELEASE_LOCK('a')");
    assert_eq!(session.pins(), [""; 0]);
    let mut session = Session { lex: mariadb(), ..Session::default() };
    session.ok(&format!("DO {}", long("x")));
    assert_eq!(session.pins(), [""; 0]);
}

/// More than are kept by name.
#[test]
fn locks_without_names_end_together() {
    let mut session = Session::default();
    for number in 0..300 {
        session.ok(&format!("DO GET_LOCK('{number}', 0)"));
    }
    for number in 0..300 {
        session.ok(&format!("DO RELEASE_LOCK('{number}')"));
    }
    assert_eq!(session.pins(), ["get_lock"]);
    session.ok("DO RELEASE_ALL_LOCKS()");
    assert_eq!(session.pins(), [""; 0]);
}

#[test]
fn what_has_failed_may_pin_and_ends_no_pin() {
    let clock = || Response { changes: vec![var("timestamp", "1790000000.5")], ..failed_later(1054) };
    for (sql, response, pins) in [
        ("SELECT GET_LOCK('a', 1), EXP(1000)", failed(1690), &["get_lock"][..]),
        ("SET @a = GET_LOCK('a', 1), @b = EXP(1000)", failed(1690), &["get_lock"]),
        ("SELECT GET_LOCK('a', 1), no_such_column", failed(1054), &[]),
        ("SELECT GET_LOCK('a', 1), FROM", failed(1064), &[]),
        ("SET @a = GET_LOCK('a', 1), no_such_name = 1", failed(1193), &[]),
        ("SET insert_id = 5, identity = DEFAULT", failed(1230), &["fixed_variable"]),
        ("SET session_track_schema = OFF, identity = DEFAULT", failed(1230), &["session_track"]),
        ("SET session_track_schema = OFF, sql_mode = 'x'", failed(1231), &[]),
        ("SET timestamp = DEFAULT; SELECT no_such_column", clock(), &["unknown_state"]),
        ("SELECT GET_LOCK('a', 1), SLEEP(-1)", failed(1210), &["get_lock"]),
        ("SELECT GET_LOCK('a', 1), app.f()", failed(1146), &["get_lock"]),
        ("SELECT GET_LOCK('a', 1)", failed(3058), &[]),
        ("SELECT GET_LOCK('a', 1), GET_LOCK('b', 1)", failed(3058), &["get_lock"]),
        ("SET insert_id = 5, sql_mode = 'x'", failed(1231), &[]),
        ("LOCK TABLES t READ; SELECT no_such_column", failed_later(1054), &["lock_tables"]),
        ("DO GET_LOCK('a', 1), EXP(1000); SELECT 1", failed(1690), &["get_lock"]),
        // A client that may not send several statements.
        ("LOCK TABLES t READ; SELECT 1", failed(1064), &[]),
        ("LOCK TABLES t READ", failed(1054), &[]),
        ("FLUSH TABLES WITH READ LOCK", failed(1054), &[]),
    ] {
        let mut session = Session::default();
        session.run(sql, &response);
        assert_eq!(session.pins(), pins, "{sql}");
    }
    for (open, close, reason) in [
        ("LOCK TABLES t READ", "SELECT no_such_column; UNLOCK TABLES", "lock_tables"),
        ("FLUSH TABLES WITH READ LOCK", "SELECT no_such_column; UNLOCK TABLES", "read_lock"),
        ("SELECT GET_LOCK('a', 1)", "SELECT no_such_column; DO RELEASE_LOCK('a')", "get_lock"),
        ("SELECT GET_LOCK('a', 1)", "SELECT no_such_column; DO RELEASE_ALL_LOCKS()", "get_lock"),
        ("SELECT GET_LOCK('a', 1)", "SELECT RELEASE_LOCK('a'), EXP(1000)", "get_lock"),
        ("CREATE TEMPORARY TABLE t (a INT)", "SELECT no_such_column; DROP TABLE t", "temporary_table"),
        ("HANDLER t OPEN", "SELECT no_such_column; HANDLER t CLOSE", "handler"),
        ("SET rand_seed1 = 5", "SET sql_mode = '', rand_seed1 = DEFAULT", "fixed_variable"),
        ("XA START 'x'", "SELECT no_such_column; XA COMMIT 'x'", "xa"),
    ] {
        let mut session = Session::default();
        session.ok(open);
        assert_eq!(session.pins(), [reason], "{open}");
        session.run(close, &if close.starts_with("SET") { failed(1230) } else { failed(1054) });
        assert_eq!(session.pins(), [reason], "{close}");
    }
}

#[test]
fn user_variables_are_asked_for_once() {
    let learnt = Session::default().ok("SET @a = 1, @b = 2, @A = 3");
    assert_eq!(learnt.user_vars, ["a".into(), "b".into()]);
}

/// A session in the schema `x`.
fn in_x() -> Session {
    let state = SessionState { schema: Some("x".into()), ..SessionState::default() };
    Session { state, ..Session::default() }
}

/// Runs each text, and says what pins behind the last one.
fn pins_after(mut session: Session, texts: &[&str]) -> Vec<&'static str> {
    for sql in texts {
        // The server says which schema it is.
        let used = sql.rsplit_once("USE ").map(|(_, rest)| rest.split(';').next().unwrap_or_default());
        let changes = used.map(|schema| Changed::Schema(Some(schema.into())));
        session.run(sql, &done(2, changes.into_iter().collect()));
    }
    session.pins()
}

#[test]
fn a_temporary_table_pins_until_it_is_surely_dropped() {
    for (texts, is_held) in [
        (&["DROP TEMPORARY TABLE IF EXISTS t; CREATE TEMPORARY TABLE t (a INT)"][..], true),
        (&["CREATE TEMPORARY TABLE t (a INT); DROP TEMPORARY TABLE t"], false),
        (&["CREATE TEMPORARY TABLE t (a INT)", "DROP TABLE x.t"], false),
        (&["CREATE TEMPORARY TABLE t (a INT)", "USE y", "DROP TABLE IF EXISTS t"], true),
        (&["USE y; CREATE TEMPORARY TABLE t (a INT); USE x", "DROP TEMPORARY TABLE IF EXISTS t"], true),
        (&["USE y; CREATE TEMPORARY TABLE x.t (a INT); USE x", "DROP TEMPORARY TABLE IF EXISTS t"], false),
        (&["CREATE TEMPORARY TABLE t (a INT)", "USE y; DROP TEMPORARY TABLE IF EXISTS t; USE x"], true),
        (&["CREATE TEMPORARY TABLE `a.b`.c (a INT)", "DROP TABLE IF EXISTS a.`b.c`"], true),
        (&["CREATE TEMPORARY TABLE n (a INT)", "ALTER TABLE n RENAME TO t", "DROP TABLE IF EXISTS n"], true),
        (&["CREATE TEMPORARY TABLE n (a INT); RENAME TABLE n TO t; DROP TABLE IF EXISTS n"], true),
        (
            &[
                "CREATE TEMPORARY TABLE n (a INT)",
                "EXECUTE IMMEDIATE 'ALTER TABLE n RENAME TO t'",
                "DROP TABLE IF EXISTS n",
            ],
            true,
        ),
        (&["CREATE TEMPORARY TABLE n (a INT)", "ALTER TABLE n ADD b INT", "DROP TABLE n"], false),
        (&["ALTER TABLE n RENAME TO t"], false),
    ] {
        let has = pins_after(in_x(), texts).contains(&"temporary_table");
        assert_eq!(has, is_held, "{texts:?}");
    }
}

/// It is in that schema, whatever the session's own is.
#[test]
fn a_temporary_table_that_was_prepared_in_another_schema_is_not_the_sessions() {
    let there = |schema: &str| done(2, vec![Changed::Schema(Some(schema.into())), Changed::State]);
    let mut session = in_x();
    session.run("CREATE TEMPORARY TABLE t (a INT)", &there("x"));
    session.ok("DROP TEMPORARY TABLE IF EXISTS t");
    assert_eq!(session.pins(), ["temporary_table"]);
    let mut session = in_x();
    session.ok("CREATE TEMPORARY TABLE t (a INT)");
    session.run("DROP TEMPORARY TABLE IF EXISTS t", &there("x"));
    assert_eq!(session.pins(), ["temporary_table"]);
}

#[test]
fn pins_come_and_go() {
    let mut session = in_x();
    for (open, reason, close) in [
        ("CREATE TEMPORARY TABLE t (a INT)", "temporary_table", "DROP TEMPORARY TABLE t"),
        ("CREATE TEMPORARY TABLE t (a INT)", "temporary_table", "DROP TABLE IF EXISTS t"),
        ("LOCK TABLES t READ", "lock_tables", "UNLOCK TABLES"),
        ("LOCK TABLES t READ", "lock_tables", "START TRANSACTION"),
        ("FLUSH TABLES WITH READ LOCK", "read_lock", "UNLOCK TABLES"),
        ("SELECT GET_LOCK('a', 1)", "get_lock", "SELECT RELEASE_LOCK('a')"),
        ("SELECT GET_LOCK(CONCAT('a'), 1)", "get_lock", "DO RELEASE_ALL_LOCKS()"),
        ("HANDLER t OPEN", "handler", "HANDLER t CLOSE"),
        ("SET TRANSACTION ISOLATION LEVEL READ COMMITTED", "set_transaction", "COMMIT"),
        ("SET SESSION gtid_next='a:1'", "fixed_variable", "SET gtid_next='AUTOMATIC'"),
        ("SET character_set_database = 'latin1'", "fixed_variable", "USE app"),
        ("SET @@collation_database = latin1_bin", "fixed_variable", "USE app"),
        ("XA START 'x'", "xa", "XA COMMIT 'x'"),
    ] {
        session.ok(open);
        assert_eq!(session.pins(), [reason], "{open}");
        session.ok("SELECT 1");
        assert_eq!(session.pins(), [reason], "{open}");
        session.ok(close);
        assert_eq!(session.pins(), [""; 0], "{close}");
    }
}

/// What the server has recorded for the session is on its connection until the end.
#[test]
fn records_outlive_the_variable_that_makes_them() {
    for (on, off) in [
        ("SET profiling = 1", "SET profiling = 0"),
        ("SET optimizer_trace = 'enabled=on'", "SET optimizer_trace = 'enabled=off'"),
        ("SET STATEMENT profiling = 1 FOR SELECT 1", "SET profiling = DEFAULT"),
    ] {
        let lex = LexOptions { flavor: Flavor::MariaDb, ..LexOptions::default() };
        let mut session = Session { lex, ..Session::default() };
        session.ok(off);
        assert_eq!(session.pins(), [""; 0], "{off}");
        for sql in [on, off] {
            session.ok(sql);
            assert_eq!(session.pins(), ["fixed_variable"], "{sql}");
        }
    }
}

#[test]
fn two_locks_need_two_releases() {
    let mut session = Session::default();
    session.ok("SELECT GET_LOCK('a', 1), GET_LOCK('b', 1)");
    session.ok("SELECT RELEASE_LOCK('a')");
    assert_eq!(session.pins(), ["get_lock"]);
    session.ok("SELECT RELEASE_LOCK('b')");
    assert!(session.pins.is_empty());
}

#[test]
fn a_failed_statement_neither_pins_nor_unpins() {
    let mut session = Session::default();
    let failed = Response { error: Some(1146), ..Response::default() };
    session.run("LOCK TABLES nothing READ", &failed);
    assert!(session.pins.is_empty());
    session.ok("CREATE TEMPORARY TABLE t (a INT)");
    session.run("DROP TEMPORARY TABLE t", &failed);
    assert_eq!(session.pins(), ["temporary_table"]);
}

#[test]
fn the_transaction_follows_the_status() {
    let mut session = Session::default();
    session.run("BEGIN", &done(3, vec![]));
    assert_eq!(session.pins(), ["transaction"]);
    for code in [1020, 1205, 1206, 1213] {
        assert!(session.run("UPDATE t SET a=1", &failed(code)).ping, "{code}: only the server knows");
    }
    assert!(!session.run("SELECT 1", &failed(1064)).ping);
    session.ok("COMMIT");
    assert!(session.pins.is_empty());
}

#[test]
fn a_routine_that_changes_something_unnamed_pins() {
    let mut session = Session::default();
    session.run("CALL p()", &done(2, vec![]));
    assert!(session.pins.is_empty());
    session.run("CALL p()", &done(2, vec![Changed::State]));
    assert_eq!(session.pins(), ["unknown_state"]);
}

fn failed(code: u16) -> Response {
    Response { error: Some(code), ..Response::default() }
}

#[test]
fn an_error_without_autocommit_leaves_a_transaction_that_must_be_asked_for() {
    let mut session = Session::default();
    assert!(!session.run("INSERT INTO t VALUES (1)", &failed(1062)).ping);
    session.run("SET autocommit=0", &done(0, vec![var("autocommit", "OFF")]));
    assert!(session.run("INSERT INTO t VALUES (1)", &failed(1062)).ping);
    session.run("SET autocommit=1", &done(2, vec![var("autocommit", "ON")]));
    assert!(!session.run("INSERT INTO t VALUES (1)", &failed(1062)).ping);
}

#[test]
fn what_a_failed_statement_has_changed_is_asked_for() {
    let mut session = Session::default();
    assert!(session.run("CALL p()", &failed(1146)).ping);
    assert!(session.pins.has(PinReason::UnknownState));
    let mut session = Session::default();
    assert_eq!(
        session.run("SELECT @a := 1, (SELECT 1 UNION SELECT 2)", &failed(1242)).user_vars,
        ["a".into()]
    );
}

#[test]
fn a_routine_or_body_that_failed_may_have_changed_anything() {
    let after_the_first = Response { error: Some(1064), ..done(2, vec![]) };
    for (sql, response, pins) in [
        ("BEGIN NOT ATOMIC SET @a = 1; SELECT no_such; END", failed(1054), true),
        ("BEGIN NOT ATOMIC SET @a = 1; CALL no_such(); END", failed(1305), true),
        ("BEGIN NOT ATOMIC SET @a = 1; SELECT no_such; END", failed(1064), false),
        ("CALL p()", failed(1146), true),
        ("CALL p()", failed(1305), true),
        ("CALL p(); SELECT 1", failed(1054), true),
        ("SELECT 1; CALL p()", after_the_first.clone(), true),
        ("CALL p(); SELECT 1", failed(1064), false),
        ("SELECT 1; SELECT no_such", failed(1054), false),
    ] {
        let mut session = Session { lex: mariadb(), ..Session::default() };
        assert!(session.run(sql, &response).ping, "{sql}");
        assert_eq!(session.pins.has(PinReason::UnknownState), pins, "{sql} {:?}", response.error);
    }
}

fn mariadb() -> LexOptions {
    LexOptions { flavor: Flavor::MariaDb, ..LexOptions::default() }
}

const AUTOCOMMIT: u16 = 2;
const IN_TRANS: u16 = 1;

#[test]
fn without_autocommit_what_may_have_set_a_savepoint_pins() {
    let after_the_first = Response { error: Some(1054), ..done(0, vec![]) };
    for (sql, response, pins) in [
        ("SAVEPOINT a", done(0, vec![]), true),
        ("SAVEPOINT a", failed(1064), false),
        ("SAVEPOINT a; SELECT 1", done(0, vec![]), true),
        ("SAVEPOINT a; COMMIT", done(0, vec![]), false),
        ("SAVEPOINT a; COMMIT; SELECT no_such", after_the_first.clone(), true),
        ("COMMIT; SAVEPOINT a", done(0, vec![]), true),
        ("CALL p()", done(0, vec![]), true),
        ("CALL p()", failed(1305), true),
        ("CALL p()", done(AUTOCOMMIT, vec![]), false),
        ("CALL p(); COMMIT", done(0, vec![]), false),
        ("SELECT 1; CALL p()", done(0, vec![]), true),
        ("SELECT 1; CALL p()", after_the_first.clone(), true),
        ("EXECUTE s", done(0, vec![]), true),
        ("EXECUTE s", failed(1305), true),
        ("EXECUTE IMMEDIATE 'SAVEPOINT a'", done(0, vec![]), true),
        ("BEGIN NOT ATOMIC SAVEPOINT a; END", done(0, vec![]), true),
        ("SELEC 1", failed(1064), false),
        // What a function sets ends with it.
        ("SELECT f()", done(0, vec![]), false),
        ("SELECT f()", failed(1305), false),
        ("SELECT f(); SELECT 1", done(0, vec![]), false),
        ("SELECT f(); SELECT no_such", after_the_first, false),
        ("SELECT 1", done(0, vec![]), false),
    ] {
        let mut session = Session { lex: mariadb(), ..Session::default() };
        session.run(sql, &response);
        assert_eq!(session.pins.has(PinReason::Transaction), pins, "{sql} {:?}", response.error);
    }
}

#[test]
fn what_ends_the_transaction_ends_the_pin_of_its_early_savepoint() {
    for sql in ["SAVEPOINT a", "CALL p()"] {
        for (end, status, wanted) in [
            ("COMMIT", 0, &[][..]),
            ("ROLLBACK", 0, &[]),
            ("CREATE TABLE t (a INT)", 0, &[]),
            ("SET autocommit = 1", AUTOCOMMIT, &[]),
            ("SELECT 1", 0, &["transaction"]),
            ("ROLLBACK TO a", 0, &["transaction"]),
            ("INSERT INTO t VALUES (1)", IN_TRANS, &["transaction"]),
        ] {
            let mut session = Session { lex: mariadb(), ..Session::default() };
            session.run(sql, &done(0, vec![]));
            assert_eq!(session.pins(), ["transaction"], "{sql}");
            session.run(end, &done(status, vec![]));
            assert_eq!(session.pins(), wanted, "{sql}; {end}");
        }
    }
}

#[test]
fn a_bare_variable_of_a_transaction_is_for_the_next_one() {
    let mut session = Session::default();
    session.ok("SET transaction_isolation = 'SERIALIZABLE'");
    session.ok("SET @@session.transaction_isolation = 'SERIALIZABLE'");
    assert!(session.pins.is_empty());
    session.ok("SET @@transaction_isolation = 'SERIALIZABLE'");
    assert_eq!(session.pins(), ["set_transaction"]);
}

#[test]
fn only_the_end_of_a_transaction_uses_up_what_is_for_the_next_one() {
    let mut session = Session::default();
    for end in ["COMMIT", "ROLLBACK"] {
        session.ok("SET TRANSACTION ISOLATION LEVEL SERIALIZABLE");
        for keeps in ["DELETE FROM t", "UPDATE t SET a = 1", "INSERT INTO t SELECT 1", "UNLOCK TABLES"] {
            session.ok(keeps);
            assert_eq!(session.pins(), ["set_transaction"], "{keeps}");
        }
        session.ok(end);
        assert!(session.pins.is_empty(), "{end}");
    }
}

#[test]
fn an_insert_id_of_0_is_one_too() {
    let mut session = Session::default();
    session.ok("SET insert_id = 0");
    assert_eq!(session.pins(), ["fixed_variable"]);
}

#[test]
fn a_seed_is_set_whatever_the_server_says_of_its_value() {
    let mut session = Session::default();
    session.run("SET rand_seed1 = 7", &done(2, vec![var("rand_seed1", "0")]));
    assert_eq!(session.pins(), ["fixed_variable"]);
    session.run("SET rand_seed1 = 0", &done(2, vec![var("rand_seed1", "0")]));
    assert!(session.pins.is_empty());
}

#[test]
fn an_xa_transaction_is_called_so() {
    let mut session = Session::default();
    session.run("XA START 'x'", &done(3, vec![]));
    assert_eq!(session.pins(), ["xa", "transaction"]);
}

#[test]
fn the_clock_runs_again_after_a_default_timestamp() {
    let mut session = Session::default();
    session.run("SET timestamp = 1000000000", &done(2, vec![var("timestamp", "1000000000.000000")]));
    assert!(session.state.vars.contains_key("timestamp"));
    let learnt =
        session.run("SET timestamp = DEFAULT", &done(2, vec![var("timestamp", "1763700000.123456")]));
    assert!(learnt.is_empty() && !session.state.vars.contains_key("timestamp"));
    session.run("SET @@session.timestamp = 5", &done(2, vec![var("timestamp", "5")]));
    assert!(session.ok("SET timestamp = 0").is_empty() && session.state.vars.is_empty());
}

#[test]
fn a_timestamp_that_could_not_be_set_is_what_it_was() {
    let failed = Response { error: Some(1193), ..Response::default() };
    let mut session = Session::default();
    let learnt = session.run("SET timestamp = 5, no_such_variable = 1", &failed);
    assert!(learnt.vars.iter().all(|name| &**name != "timestamp"), "{learnt:?}");
    session.run("SET timestamp = 17.25", &done(2, vec![var("timestamp", "17.25")]));
    for sql in ["SET timestamp = DEFAULT, no_such_variable = 1", "SET timestamp = 0, no_such_variable = 1"] {
        session.run(sql, &failed);
        assert!(session.state.vars.contains_key("timestamp"), "{sql}");
    }
}

#[test]
fn a_table_that_may_be_read_while_autocommit_is_turned_off_pins() {
    for (sql, value, pins) in [
        ("SET autocommit = 0", "OFF", false),
        ("SET autocommit = 0, @a = 5", "OFF", false),
        ("/* controller='select' */ SET autocommit = 0 /* table */", "OFF", false),
        ("SET autocommit = 0; SELECT 1", "OFF", false),
        ("SET autocommit = 0, @a = (SELECT COUNT(*) FROM t)", "OFF", true),
        ("SET @a = (SELECT COUNT(*) FROM t), @@session.autocommit = 0", "OFF", true),
        ("SET autocommit = (TABLE t)", "OFF", true),
        ("SET autocommit = 1, @a = (SELECT COUNT(*) FROM t)", "ON", false),
        ("SET @a = (SELECT COUNT(*) FROM t)", "OFF", false),
        ("SET autocommit = 0, @a = f()", "OFF", true),
        ("CALL p()", "OFF", true),
        ("CALL p()", "ON", false),
    ] {
        let mut session = Session::default();
        let changes = if sql.contains("autocommit") || sql.contains("p()") {
            vec![var("autocommit", value)]
        } else {
            session.state.vars = Rc::new([("autocommit".into(), value.as_bytes().into())].into());
            vec![]
        };
        for flavor in [Flavor::MariaDb, Flavor::MySql] {
            session.lex.flavor = flavor;
            session.pins = Pins::default();
            let learnt = session.run(sql, &done(0, changes.clone()));
            assert_eq!(session.pins.has(PinReason::UnknownState), pins, "{flavor:?} {sql}");
            assert_eq!(learnt.may_lose_transactions, pins, "{flavor:?} {sql}");
        }
        // The server knows of it. Of what a routine has done, it may know of another one.
        session.pins = Pins::default();
        session.lex.flavor = Flavor::MySql;
        let learnt = session.run(sql, &done(1, changes));
        assert_eq!(learnt.may_lose_transactions, pins && sql.contains("()"), "{sql}");
    }
    // The server knows of a transaction, but maybe of another one; or does not say.
    let open = done(1, vec![var("autocommit", "OFF")]);
    let failed = Response { error: Some(1242), ..Response::default() };
    for (sql, response) in [
        ("SET autocommit = 0, @a = (SELECT a FROM t); INSERT INTO t VALUES (1)", &open),
        ("CALL p()", &open),
        ("SET autocommit = 0, @a = (SELECT a FROM t)", &failed),
    ] {
        for flavor in [Flavor::MariaDb, Flavor::MySql] {
            let lex = LexOptions { flavor, ..LexOptions::default() };
            let mut session = Session { lex, ..Session::default() };
            let learnt = session.run(sql, response);
            assert!(session.pins().contains(&"unknown_state"), "{flavor:?} {sql}");
            assert!(learnt.may_lose_transactions, "{flavor:?} {sql}");
        }
    }
    let missing = Response { error: Some(1146), ..Response::default() };
    let mut session = Session::default();
    session.run("SET autocommit = 0, @a = (SELECT a FROM missing)", &missing);
    assert!(session.pins().is_empty());
}

#[test]
fn what_a_function_or_trigger_sets_is_listed_or_pins() {
    let reported = || done(2, vec![Changed::State]);
    for (flavor, sql, pins) in [
        (Flavor::MariaDb, "DO f()", false),
        (Flavor::MariaDb, "INSERT INTO t VALUES (1)", false),
        (Flavor::MariaDb, "CALL p()", true),
        (Flavor::MySql, "DO f()", true),
        (Flavor::MySql, "UPDATE t SET a = 1", true),
        (Flavor::MySql, "CALL p()", true),
    ] {
        let mut session =
            Session { lex: LexOptions { flavor, ..LexOptions::default() }, ..Session::default() };
        let learnt = session.run(sql, &reported());
        assert_eq!(session.pins() == ["unknown_state"], pins, "{flavor:?} {sql}");
        assert_eq!(learnt.hidden_user_vars, !pins, "{flavor:?} {sql}");
        let prepared_elsewhere = done(2, vec![Changed::Schema(Some("x".into())), Changed::State]);
        let mut other = Session { lex: session.lex, ..Session::default() };
        let learnt = other.run(sql, &prepared_elsewhere);
        assert_eq!(other.pins().is_empty(), !pins || sql.contains(" t "), "with a schema: {flavor:?} {sql}");
        assert!(learnt.hidden_user_vars || pins, "{flavor:?} {sql}");
        let learnt = Session { lex: session.lex, ..Session::default() }.ok(sql);
        assert_eq!(learnt.hidden_user_vars, !sql.contains(" t "), "not reported: {flavor:?} {sql}");
    }
}

#[test]
fn a_function_may_have_run_before_a_list_of_variables_failed() {
    for (sql, error, pins) in [
        ("SET @q = f(), sql_mode = 'NONSENSE'", 1231, true),
        ("SET @q = f(), @r = app.none()", 1305, true),
        ("SET @q = f(), version = 5", 1238, true),
        ("SET @q = f(), no_such = 5", 1193, false),
        ("SET sql_mode = f()", 1231, true),
        ("SET @q = none()", 1305, false),
        ("SELECT @q := f(), @r := none()", 1305, false),
        ("SELECT f(), no_such_column", 1054, false),
        ("SELECT f()", 1644, true),
        ("SET @q = 1, sql_mode = 'NONSENSE'", 1231, false),
    ] {
        let mut session = Session::default();
        session.run(sql, &Response { error: Some(error), ..Response::default() });
        let wanted: &[&str] = if pins { &["unknown_state"] } else { &[] };
        assert_eq!(session.pins(), wanted, "{sql}");
    }
}

#[test]
fn the_last_of_several_timestamps_counts() {
    for (sql, stands) in [
        ("SET timestamp=0, @@TIMESTAMP:=17.25", true),
        ("SET timestamp=17.25, timestamp=DEFAULT", false),
        ("SET timestamp=(0)", false),
        ("SET timestamp=17.25, @a = 0", true),
    ] {
        let mut session = Session::default();
        session.run(sql, &done(2, vec![var("timestamp", "17.25")]));
        assert_eq!(session.state.vars.contains_key("timestamp"), stands, "{sql}");
    }
}

/// Processor time of this thread.
fn processor_s() -> f64 {
    let stat = std::fs::read_to_string("/proc/thread-self/schedstat").expect("Linux");
    stat.split_whitespace().next().and_then(|ns| ns.parse::<f64>().ok()).expect("a number") / 1e9
}

/// Each text is as long as a command may be. A squared cost is several seconds of processor time, the usual one a tenth.
#[test]
fn many_names_cost_no_more_than_their_number() {
    let many = |unit: &str| {
        let mut text = String::new();
        for number in 0.. {
            if text.len() + unit.len() + 8 > 256 * 1024 {
                break;
            }
            text += &unit.replace('#', &number.to_string());
        }
        text
    };
    let failed = || Response { error: Some(1146), ..done(2, vec![]) };
    let changes = (0..20_000).map(|_| var("sql_mode", "")).collect();
    for (first, second, response) in [
        (
            "DO 1".to_owned() + &many(",GET_LOCK('a#',0)"),
            "DO 1".to_owned() + &many(",RELEASE_LOCK('a#')"),
            done(2, vec![]),
        ),
        (many("HANDLER a# OPEN;"), many("HANDLER a# CLOSE;"), done(2, vec![])),
        ("SET SESSION b=1".to_owned() + &many(",tx_isolation=1"), many("SET a#=1;"), failed()),
        (
            "SET b=1".to_owned() + &many(",time_zone=1"),
            "SET b=1".to_owned() + &many(",rand_seed1=1"),
            done(2, changes),
        ),
    ] {
        let mut session = Session::default();
        for text in [first, second] {
            let before = processor_s();
            session.run(&text, &response);
            let spent = processor_s() - before;
            assert!(spent < 1.0, "{spent:.1} s: {:?}", &text[..40]);
        }
    }
}
