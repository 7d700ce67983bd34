//! What a command needs beside a connection: found out once, from its statement and its session. One that needs nothing is
//! ordinary, as nearly all are. What several commands ask of a statement, and nothing else, is here, too.

use delphinus_sql::{Access, Class, Effects, Risks, Statement, Uses, Why};

use crate::answer::ABOUT_LAST;
use crate::follow::{AT_RISK, MAY_CHANGE_CODE, RUNS_TEXTS};

/// What a statement reads that its session's connection, or the proxy, has to provide.
const SPECIAL_USES: Uses = Uses::LAST_INSERT_ID
    .union(Uses::PROXY_SETTINGS)
    .union(Uses::ROUTE)
    .union(Uses::FOUND_ROWS)
    .union(Uses::ROW_COUNT)
    .union(Uses::DIAGNOSTICS)
    .union(Uses::CONNECTION_ID)
    .union(Uses::PROCESS_LIST)
    .union(Uses::TRACKING)
    .union(Uses::LAST_VALUE)
    .union(Uses::SESSION_STATUS);

/// Statements that the proxy has to do something for before they run, or may have to refuse.
const SPECIAL_EFFECTS: Effects =
    Effects::KILLS.union(Effects::SETS_LAST_INSERT_ID).union(Effects::CHANGES_SCHEMA).union(RUNS_TEXTS);

/// A set of needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Needs(u8);

impl Needs {
    /// What it changes of the code in the database has to be noted.
    pub(crate) const CODE: Self = Self(1);
    /// What code in the database does by it has to be found.
    pub(crate) const HIDDEN: Self = Self(2);
    /// What it changes of rights has to be noted.
    pub(crate) const RIGHTS: Self = Self(4);
    /// What is asked beside it has to be found out.
    pub(crate) const STEERING: Self = Self(8);
    /// The proxy answers it, or has to put something into it.
    pub(crate) const ANSWERS: Self = Self(16);
    /// It changes something beside rows, or is not read to its end: what it leaves has to be learnt.
    pub(crate) const LEARNING: Self = Self(32);

    /// Those of a statement.
    #[inline]
    pub(crate) fn of(statement: &Statement) -> Self {
        let needs = Self(0)
            .and_if(Self::LEARNING, !changes_rows_at_most(statement))
            .and_if(Self::ANSWERS, statement.uses.intersects(SPECIAL_USES));
        if statement.effects.is_empty() {
            return needs;
        }
        needs
            .and_if(Self::CODE, statement.effects.intersects(MAY_CHANGE_CODE))
            .and_if(Self::RIGHTS, statement.effects.intersects(AT_RISK))
            .and_if(Self::ANSWERS, statement.effects.intersects(SPECIAL_EFFECTS))
    }

    /// These and one more, where it is there.
    #[inline]
    pub(crate) fn and_if(self, need: Self, is_there: bool) -> Self {
        Self(self.0 | (need.0 * u8::from(is_there)))
    }

    /// These and those.
    pub(crate) fn and(self, others: Self) -> Self {
        Self(self.0 | others.0)
    }

    /// True for an ordinary command.
    #[inline]
    pub(crate) fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// True if this is one of them.
    #[inline]
    pub(crate) fn has(self, need: Self) -> bool {
        self.0 & need.0 != 0
    }
}

/// True for one statement that reads or writes rows, and changes nothing of its session.
#[inline]
fn changes_rows_at_most(statement: &Statement) -> bool {
    let is_of_rows = matches!(
        statement.class,
        Class::Select | Class::Insert | Class::Update | Class::Delete | Class::Replace | Class::With
    );
    is_of_rows && statement.effects.is_empty() && statement.count == 1
}

/// True if a statement is special for nothing but its schema.
pub(crate) fn is_ordinary(statement: &Statement) -> bool {
    let others = Effects::KILLS.union(Effects::SETS_LAST_INSERT_ID);
    !statement.effects.intersects(others) && !statement.uses.intersects(SPECIAL_USES)
}

/// A statement of which only the beginning is known, or kept.
pub(crate) fn as_unknown(statement: Statement) -> Statement {
    let effects = statement.effects.union(Effects::UNKNOWN);
    let risks = statement.risks.union(Risks::UNSEEN);
    Statement { access: Access::Write, why: Why::Unclassified, effects, risks, ..statement }
}

/// Statements that read LAST_INSERT_ID(). So do those that may set it: they may also leave it, and what was left of another
/// session on the connection must not be taken for it.
pub(crate) fn is_about_insert_id(statement: &Statement) -> bool {
    statement.uses.contains(Uses::LAST_INSERT_ID)
        || statement.effects.contains(Effects::SETS_LAST_INSERT_ID)
        || may_make_ids_unseen(statement)
}

/// True for what runs statements that nobody here sees, and whose answer does not tell the ids that they make. What a function
/// makes, servers forget when it ends.
#[inline]
pub(crate) fn may_make_ids_unseen(statement: &Statement) -> bool {
    statement.effects.intersects(Effects::OPAQUE)
        && (matches!(statement.class, Class::Call | Class::Multi)
            || statement.effects.intersects(Effects::SQL_EXECUTES.union(Effects::UNKNOWN)))
}

/// Statements that a server prepares but whose meaning is the session's: they are looked at when they run.
pub(crate) fn is_about_last_statement(statement: &Statement) -> bool {
    statement.uses.intersects(ABOUT_LAST)
        && statement.why != Why::Unclassified
        && !statement.effects.contains(Effects::UNKNOWN)
}

/// A statement that will hold the session to its connection, whatever it does itself.
pub(crate) fn pinning(statement: Statement) -> Statement {
    match statement.access {
        Access::Read => {
            Statement { access: Access::Write, why: Why::ChangesSession, is_of_session: false, ..statement }
        }
        Access::Write => statement,
    }
}

#[cfg(test)]
mod tests {
    use delphinus_sql::{LexOptions, classify};

    use super::*;

    fn needs(sql: &str) -> Needs {
        Needs::of(&classify(sql.as_bytes(), LexOptions::default()))
    }

    #[test]
    fn rows_need_nothing() {
        for sql in [
            "SELECT c FROM t WHERE id = 1",
            "INSERT INTO t VALUES (1, 'a')",
            "UPDATE t SET a = a + 1 WHERE id = 1",
            "DELETE FROM t WHERE id = 1",
            "WITH a AS (SELECT 1) SELECT * FROM a",
        ] {
            assert!(needs(sql).is_empty(), "{sql}: {:?}", needs(sql));
        }
    }

    #[test]
    fn what_is_of_the_session_needs_something() {
        for (sql, need) in [
            ("SET @a = 1", Needs::LEARNING),
            ("BEGIN", Needs::LEARNING),
            ("SELECT @a := 1", Needs::LEARNING),
            ("SELECT 1; SELECT 2", Needs::LEARNING),
            ("SHOW TABLES", Needs::LEARNING),
            ("SELECT LAST_INSERT_ID()", Needs::ANSWERS),
            ("SELECT FOUND_ROWS()", Needs::ANSWERS),
            ("KILL 1", Needs::ANSWERS),
            ("USE a", Needs::ANSWERS),
            ("CREATE TABLE t (a INT)", Needs::CODE),
            ("GRANT SELECT ON *.* TO a", Needs::RIGHTS),
        ] {
            assert!(needs(sql).has(need), "{sql}: {:?}", needs(sql));
        }
        let rows = needs("SELECT 1");
        assert!(rows.and_if(Needs::STEERING, false).is_empty());
        assert!(rows.and_if(Needs::STEERING, true).has(Needs::STEERING));
    }
}
