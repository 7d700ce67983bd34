//! Statements prepared in SQL text: those of a session, and those that a connection has.
//!
//! Owns: which of them can be prepared again on another connection, so that nobody can tell the difference.

use std::collections::BTreeMap;
use std::rc::Rc;

use delphinus_sql::{
    Class, Effects, Flavor, LexOptions, PreparedFrom, Statement, Uses, Why, classify, prepared_from,
    sql_prepared,
};

use crate::learn::Executed;
use crate::session::SessionState;
use crate::vars::{Vars, quote_identifier};

/// A statement that can be prepared again.
#[derive(Debug)]
pub struct SqlStatement {
    /// What prepares it.
    prepare: Box<str>,
    /// What it runs.
    text: Box<str>,
    statement: Statement,
    schema: Option<Rc<str>>,
    vars: Rc<Vars>,
}

impl SqlStatement {
    /// What prepares it, in the state that it was prepared in.
    pub fn prepare(&self) -> &str {
        &self.prepare
    }

    /// What EXECUTE runs, as if it had been sent by itself.
    pub fn runs(&self) -> (&Statement, &[u8]) {
        (&self.statement, self.text.as_bytes())
    }

    /// True in the state that it was prepared in: servers keep the schema, the mode and the character sets with it, and
    /// resolve it by other variables.
    pub fn is_at_home(&self, state: &SessionState) -> bool {
        self.schema == state.schema && (Rc::ptr_eq(&self.vars, &state.vars) || self.vars == state.vars)
    }
}

/// Statements by their names, in lower case.
#[derive(Debug, Default)]
pub struct SqlStatements {
    /// `None` for one that cannot be prepared again.
    by_name: BTreeMap<Box<str>, Option<Rc<SqlStatement>>>,
}

/// Longer texts are not kept.
const MAX_TEXT: usize = 16 << 10;

/// The bytes of all texts of a session. What goes beyond is not kept.
const MAX_TEXTS: usize = 1 << 20;

/// What a statement may do to its session and be run on another connection the next time.
const PASSING: Effects =
    Effects::IMPLICIT_COMMIT.union(Effects::CALC_FOUND_ROWS).union(Effects::MAY_COUNT_ROWS);

/// What it may look at.
const LOOKED_AT: Uses = Uses::HINTS.union(Uses::VOLATILE);

impl SqlStatements {
    /// True if there are none.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.by_name.is_empty()
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.by_name.len()
    }

    /// The names of all.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.by_name.keys().map(|name| &**name)
    }

    /// The statement of this name: `Some(None)` for one that cannot be prepared again.
    pub fn find(&self, name: &str) -> Option<Option<&Rc<SqlStatement>>> {
        self.by_name.get(name).map(Option::as_ref)
    }

    /// The only one that the text runs, if that is all that it does, and if it could be prepared again.
    pub fn run_by(&self, statement: &Statement, sql: &[u8], lex: LexOptions) -> Option<&Rc<SqlStatement>> {
        let only_runs =
            statement.class == Class::Execute && statement.effects.without(Effects::SQL_EXECUTES).is_empty();
        if self.is_empty() || !only_runs {
            return None;
        }
        let run = sql_prepared(sql, lex).run;
        self.find(run.first()?)?
    }

    /// Makes `name` here what it is in `other`.
    pub fn copy(&mut self, name: &str, other: &Self) {
        match other.by_name.get(name) {
            Some(found) => self.by_name.insert(name.into(), found.clone()),
            None => self.by_name.remove(name),
        };
    }

    /// Notes that `name` is this one here.
    pub fn put(&mut self, name: &str, statement: Option<Rc<SqlStatement>>) {
        self.by_name.insert(name.into(), statement);
    }

    /// Notes that there is none of this name.
    pub fn remove(&mut self, name: &str) {
        self.by_name.remove(name);
    }

    /// Notes that there are none.
    pub fn clear(&mut self) {
        self.by_name.clear();
    }

    /// Takes in what a text of a session in `state` has made and dropped; what it has touched. Keeps `limit` of them.
    pub fn learn(&mut self, state: &SessionState, executed: &Executed<'_>, limit: usize) -> Vec<String> {
        if !executed.statement.effects.intersects(Effects::SQL_PREPARES.union(Effects::SQL_DEALLOCATES)) {
            return Vec::new();
        }
        let found = sql_prepared(executed.sql, executed.lex);
        let is_one = executed.statement.class != Class::Multi;
        let is_ok = executed.response.is_ok();
        let from = prepared_from(executed.sql, executed.lex);
        for name in &found.made {
            if is_ok || !is_one {
                let kept = from.as_ref().filter(|_| is_one && self.len() < limit);
                let kept = kept.and_then(|from| self.movable(name, from, state, executed.lex));
                self.put(name, kept);
            } else if from.is_some() {
                // The one before is gone with a PREPARE that fails.
                self.remove(name);
            } else if self.find(name).is_some() {
                // Only with one that is not wrong itself.
                self.put(name, None);
            }
        }
        for name in &found.dropped {
            // One whose DEALLOCATE failed was not there.
            self.remove(name);
        }
        found.made.into_iter().chain(found.dropped).collect()
    }

    fn movable(
        &self,
        name: &str,
        from: &PreparedFrom,
        state: &SessionState,
        lex: LexOptions,
    ) -> Option<Rc<SqlStatement>> {
        let text = match from {
            PreparedFrom::Literal(text) => text.clone(),
            PreparedFrom::Variable(name) => state.user_vars.get(name.as_str())?.ascii()?,
        };
        // A user variable has the type that it had when the statement was prepared. What a backslash is, depends.
        let is_plain = |byte: u8| byte.is_ascii() && !matches!(byte, b'\\' | b'@' | 0);
        // MySQL gives a parameter the type that it has when the statement first runs, and keeps that.
        let keeps_types = lex.flavor == Flavor::MySql && text.contains('?');
        let kept = self.by_name.values().flatten().map(|one| one.text.len()).sum::<usize>();
        if keeps_types || !name.is_ascii() || text.len() > MAX_TEXT || kept + text.len() > MAX_TEXTS {
            return None;
        }
        let statement = classify(text.as_bytes(), lex);
        let is_passing = statement.effects.without(PASSING).is_empty()
            && statement.uses.without(LOOKED_AT).is_empty()
            && !matches!(statement.why, Why::AmbiguousText | Why::VersionComment)
            && statement.count == 1;
        if !text.bytes().all(is_plain) || !is_passing {
            return None;
        }
        let prepare = format!("PREPARE {} FROM '{}'", quote_identifier(name), text.replace('\'', "''"));
        Some(Rc::new(SqlStatement {
            prepare: prepare.into(),
            text: text.into(),
            statement,
            schema: state.schema.clone(),
            vars: state.vars.clone(),
        }))
    }

    /// True if one of them cannot follow a session in this state to another connection.
    pub fn hold(&self, state: &SessionState) -> bool {
        self.by_name.values().any(|one| one.as_ref().is_none_or(|one| !one.is_at_home(state)))
    }
}

/// The user variable whose value has just been prepared.
pub(crate) fn variable_prepared(executed: &Executed<'_>) -> Option<String> {
    if !executed.response.is_ok() || executed.statement.class != Class::Prepare {
        return None;
    }
    match prepared_from(executed.sql, executed.lex)? {
        PreparedFrom::Variable(name) => Some(name),
        PreparedFrom::Literal(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;
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
            let executed = Executed { statement, sql, lex, response: &response, now: Instant::now() };
            self.statements.learn(&self.state, &executed, 3);
        }

        fn holds(&self) -> bool {
            self.statements.hold(&self.state)
        }

        /// What prepares `s` again.
        fn prepare(&self) -> Option<&str> {
            Some(self.statements.find("s")??.prepare())
        }
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

    #[test]
    fn mysql_remembers_what_a_parameter_was() {
        for (flavor, text, moves) in [
            (Flavor::MySql, "SELECT 1", true),
            (Flavor::MySql, "SELECT ?", false),
            (Flavor::MariaDb, "SELECT ?", true),
        ] {
            let mut session = Session::default();
            session.run_on(flavor, &format!("PREPARE s FROM '{text}'"), None);
            assert_eq!(session.holds(), !moves, "{text}");
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
}
