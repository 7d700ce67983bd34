//! Which statements can follow their session, and which hold it.

use std::time::Instant;

use super::*;
use delphinus_sql::{Hidden, Quotes, SqlText};

use crate::tracker::Response;
use crate::user_vars::UserValue;

#[derive(Default)]
struct Session {
    state: SessionState,
    statements: SqlStatements,
}

impl Session {
    fn run(&mut self, sql: &str, error: Option<u16>) {
        self.run_on(Flavor::MariaDb, sql, error);
    }

    fn run_on(&mut self, flavor: Flavor, sql: &str, error: Option<u16>) {
        let lex = LexOptions { flavor, ..LexOptions::default() };
        let statement = classify(sql.as_bytes(), lex);
        let response = Response { error, ..Response::default() };
        let (statement, sql) = (&statement, sql.as_bytes());
        let executed = Executed {
            statement,
            text: &SqlText::new(sql, lex),
            response: &response,
            hidden: &Hidden::default(),
            now: Instant::now(),
        };
        self.statements.learn(&self.state, &executed, 3);
    }

    fn holds(&self) -> bool {
        self.statements.hold(&self.state)
    }

    /// What this one runs.
    fn text(&self, name: &str) -> Option<&str> {
        self.statements.text(name).map(|(text, _)| text)
    }

    /// What prepares `s` again.
    fn prepare(&self) -> Option<&str> {
        Some(self.statements.find("s")??.prepare())
    }
}

#[test]
fn what_execute_runs_is_read_as_it_was_prepared() {
    let from = PreparedFrom::Literal("SELECT \"a\" FROM t".to_owned());
    let ansi = LexOptions { ansi_quotes: Quotes::Ansi, ..LexOptions::default() };
    let made = SqlStatements::default().movable("s", &from, &SessionState::default(), ansi).unwrap();
    assert_eq!(made.runs().1.lex.ansi_quotes, Quotes::Ansi);
}

#[test]
fn what_does_nothing_to_its_session_can_be_prepared_again() {
    for (text, moves) in [
        ("'SELECT 1'", true),
        ("'SELECT ''a'', ?'", true),
        ("'INSERT INTO t VALUES (?)'", true),
        ("'SELECT SQL_CALC_FOUND_ROWS a FROM t LIMIT 1'", true),
        ("'ALTER TABLE t ADD b INT'", true),
        ("'SELECT NOW()'", true),
        ("@plain", true),
        ("@binary", false),
        ("@unknown", false),
        ("CONCAT('SELECT', ' 1')", false),
        ("'SELECT \"\u{e4}\"'", false),
        (r"'SELECT ''\\'''", false),
        ("'SELECT @a'", false),
        ("'SELECT @@sql_mode'", false),
        ("'SELECT f(1)'", false),
        ("'CALL p()'", false),
        ("'SELECT FOUND_ROWS()'", false),
        ("'SELECT CONNECTION_ID()'", false),
        ("'SHOW WARNINGS'", false),
        ("'SELECT GET_LOCK(\"a\", 1)'", false),
        ("'START TRANSACTION'", false),
        ("'CREATE TEMPORARY TABLE t (a INT)'", false),
        ("'DROP TABLE t'", false),
        ("'SET sql_mode = \"\"'", false),
        ("'USE app'", false),
    ] {
        let mut session = Session::default();
        let value = |text: &[u8]| UserValue::from_bytes(text, "utf8mb4", "utf8mb4_bin");
        let vars = Rc::make_mut(&mut session.state.user_vars);
        vars.insert("plain".into(), value(b"SELECT 'x'"));
        vars.insert("binary".into(), value(b"SELECT '\xe4'"));
        session.run(&format!("PREPARE s FROM {text}"), None);
        assert_eq!(session.prepare().is_some(), moves, "{text}");
        assert_eq!(session.holds(), !moves, "{text}");
        session.run("DEALLOCATE PREPARE S", None);
        assert!(session.statements.is_empty() && !session.holds());
    }
}

/// The first value that a parameter is given gives it its type there, for good.
#[test]
fn mysql_keeps_one_with_parameters_where_it_is() {
    for (flavor, text, moves) in [
        (Flavor::MySql, "SELECT 1", true),
        (Flavor::MySql, "SELECT ?", false),
        (Flavor::MySql, "SELECT ''?''", true),
        (Flavor::MariaDb, "SELECT ?", true),
    ] {
        let mut session = Session::default();
        session.run_on(flavor, &format!("PREPARE s FROM '{text}'"), None);
        assert_eq!(session.holds(), !moves, "{flavor:?} {text}");
    }
}

#[test]
fn it_is_prepared_again_as_it_was() {
    let mut session = Session::default();
    session.run("PREPARE `S` FROM \"SELECT 'a'\"", None);
    assert_eq!(session.prepare(), Some("PREPARE `s` FROM 'SELECT ''a'''"));
    session.run("PREPARE s FROM 'SELECT 2'", None);
    assert_eq!(session.prepare(), Some("PREPARE `s` FROM 'SELECT 2'"));
}

#[test]
fn it_holds_a_session_that_is_in_another_state() {
    let mut session = Session::default();
    session.run("PREPARE s FROM 'SELECT 1'", None);
    session.state.schema = Some("app".into());
    assert!(session.holds());
    session.state.schema = None;
    assert!(!session.holds());
    Rc::make_mut(&mut session.state.vars).insert("sql_mode".into(), b"ANSI"[..].into());
    assert!(session.holds());
    session.run("PREPARE s FROM 'SELECT 1'", None);
    assert!(!session.holds());
}

#[test]
fn one_that_cannot_be_prepared_is_gone_and_a_wrong_statement_changes_nothing() {
    let mut session = Session::default();
    session.run("PREPARE s FROM 'SELECT 1'", None);
    session.run("PREPARE s FROM 'SELEC'", Some(1064));
    assert!(session.statements.is_empty());
    session.run("PREPARE s FROM 'SELECT 1'", None);
    // The server may have it still, or not.
    session.run("PREPARE s FRO 'SELECT 1'", Some(1064));
    assert!(session.holds());
    session.run("DEALLOCATE PREPARE s", Some(1243));
    assert!(!session.holds());
}

#[test]
fn the_last_word_of_a_text_counts() {
    let mut session = Session::default();
    session.run("PREPARE s FROM 'SELECT 1'; DEALLOCATE PREPARE s; PREPARE s FROM 'SELECT 2'", None);
    assert!(session.holds());
    session.run("PREPARE s FROM 'SELECT 1'; DEALLOCATE PREPARE s", None);
    assert!(session.statements.is_empty());
}

#[test]
fn what_is_kept_has_an_end() {
    let mut session = Session::default();
    for name in ["a", "b", "c"] {
        session.run(&format!("PREPARE {name} FROM 'SELECT 1'"), None);
        assert!(!session.holds());
    }
    session.run("PREPARE d FROM 'SELECT 1'", None);
    assert!(session.holds());
    session.run("DEALLOCATE PREPARE d", None);
    session.run("DEALLOCATE PREPARE c", None);
    let long = "x".repeat(MAX_TEXT);
    session.run(&format!("PREPARE d FROM 'SELECT \"{long}\"'"), None);
    assert!(session.holds());
}

#[test]
fn the_text_of_one_that_stays_is_known() {
    let mut session = Session::default();
    for (sql, text) in [
        ("PREPARE s FROM 'SELECT 1'", Some("SELECT 1")),
        ("PREPARE s FROM 'CALL p(''x'')'", Some("CALL p('x')")),
        ("PREPARE s FROM CONCAT('CALL', ' p()')", None),
        ("PREPARE s FROM 'SELECT f()'", Some("SELECT f()")),
        ("PREPARE r FROM 'CALL q()'", Some("SELECT f()")),
        ("DEALLOCATE PREPARE s", None),
    ] {
        session.run(sql, None);
        assert_eq!(session.text("s"), text, "{sql}");
    }
    assert_eq!(session.text("r"), Some("CALL q()"));
    session.statements.clear();
    assert_eq!(session.text("r"), None);
    session.run_on(Flavor::MySql, "PREPARE s FROM 'SELECT ?'", None);
    assert_eq!((session.prepare(), session.text("s")), (None, Some("SELECT ?")));
    let long = format!("PREPARE s FROM 'CALL p({})'", "1".repeat(MAX_TEXT));
    session.run(&long, None);
    assert_eq!(session.text("s"), None);
}

/// Servers keep the mode with it.
#[test]
fn a_text_is_read_as_it_was_when_it_was_prepared() {
    let lex = LexOptions { backslash: delphinus_sql::Backslash::Literal, ..LexOptions::default() };
    let mut session = Session::default();
    for sql in [r#"PREPARE s FROM "SELECT '\', SLEEP(0) -- '""#, "PREPARE r FROM 'SELECT 1'"] {
        let text = SqlText::new(sql.as_bytes(), lex);
        let statement = classify(text.sql, text.lex);
        let executed = Executed {
            statement: &statement,
            text: &text,
            response: &Response::default(),
            hidden: &Hidden::default(),
            now: Instant::now(),
        };
        session.statements.learn(&session.state, &executed, 3);
    }
    assert_eq!(session.statements.text("s"), Some((r"SELECT '\', SLEEP(0) -- '", lex)));
    assert_eq!(session.statements.text("r"), Some(("SELECT 1", lex)));
}
