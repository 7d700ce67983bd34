//! A transaction that has only begun when its server stops taking writes, or goes away, can be begun anew on the next primary:
//! nothing was read or written in it, so that nobody can tell the difference.
//!
//! Owns: which transactions these are. How one begins anew is in `crate::rescue::failover`.

use delphinus_sql::{Class, Effects, Statement};

use crate::client_error::{Lost, ProxyError};

/// How a transaction was begun. One WITH CONSISTENT SNAPSHOT has read, and is none of these.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Opening {
    Plain,
    ReadOnly,
    ReadWrite,
}

impl Opening {
    /// How `statement` begins a transaction, if it does nothing else. What SET TRANSACTION has said for it pins.
    fn of(statement: &Statement) -> Option<Self> {
        match statement.class {
            Class::StartTransaction if statement.effects.contains(Effects::BEGINS_READ_ONLY) => {
                Some(Self::ReadOnly)
            }
            Class::StartTransaction if statement.effects.contains(Effects::BEGINS_READ_WRITE) => {
                Some(Self::ReadWrite)
            }
            Class::StartTransaction if statement.effects.contains(Effects::BEGINS_SPECIAL) => None,
            Class::Begin | Class::StartTransaction => Some(Self::Plain),
            _ => None,
        }
    }

    pub(crate) fn sql(self) -> &'static str {
        match self {
            Self::Plain => "START TRANSACTION",
            Self::ReadOnly => "START TRANSACTION READ ONLY",
            Self::ReadWrite => "START TRANSACTION READ WRITE",
        }
    }
}

/// Whether the transaction that is open has only begun.
#[derive(Debug, Default)]
pub(crate) struct JustBegun {
    /// By the last statement.
    by_last: Option<Opening>,
    /// By the one before the statement that runs; then `by_last` is what that one has begun.
    before_this: Option<Opening>,
}

impl JustBegun {
    /// Another statement runs.
    #[inline]
    pub(crate) fn next(&mut self) {
        self.before_this = self.by_last.take();
    }

    /// `statement` has begun a transaction.
    pub(super) fn note(&mut self, statement: &Statement) {
        self.by_last = Opening::of(statement);
    }

    /// The statement has run.
    #[inline]
    pub(crate) fn end_command(&mut self) {
        self.before_this = None;
    }

    /// How the transaction of the command that runs is begun anew; `None` if that has done something, or if there is none. A
    /// command that runs no statement, such as a preparation, leaves a transaction that has only begun as it is.
    pub(crate) fn opening(&self) -> Option<Opening> {
        self.before_this.or(self.by_last)
    }

    /// The same, where its connection is gone, and the client would be told by this error: whatever else has gone with it does not
    /// begin anew.
    pub(crate) fn after_loss(&self, error: &ProxyError) -> Option<Opening> {
        self.opening().filter(|_| matches!(error, ProxyError::Lost(Lost::Transaction { .. })))
    }
}

#[cfg(test)]
mod tests {
    use delphinus_sql::{LexOptions, classify};

    use super::*;

    #[test]
    fn a_transaction_that_has_read_or_is_not_understood_is_never_begun_anew() {
        for (sql, opening) in [
            ("BEGIN", Some(Opening::Plain)),
            ("begin work", Some(Opening::Plain)),
            ("START TRANSACTION", Some(Opening::Plain)),
            ("/* x */ START TRANSACTION", Some(Opening::Plain)),
            ("START TRANSACTION READ ONLY", Some(Opening::ReadOnly)),
            (" start transaction read write ", Some(Opening::ReadWrite)),
            ("/* app */ START TRANSACTION READ WRITE", Some(Opening::ReadWrite)),
            ("START TRANSACTION  READ  WRITE", Some(Opening::ReadWrite)),
            ("START TRANSACTION READ WRITE;", Some(Opening::ReadWrite)),
            ("START TRANSACTION READ WRITE /* app */", Some(Opening::ReadWrite)),
            ("/* app */ START TRANSACTION  READ ONLY;", Some(Opening::ReadOnly)),
            ("START TRANSACTION WITH CONSISTENT SNAPSHOT", None),
            ("START TRANSACTION READ ONLY, WITH CONSISTENT SNAPSHOT", None),
            ("START TRANSACTION READ WRITE, WITH CONSISTENT SNAPSHOT", None),
            ("COMMIT AND CHAIN", None),
            ("SET autocommit = 0", None),
            ("XA START 'x'", None),
            ("INSERT INTO t VALUES (1)", None),
            ("BEGIN; SELECT 1 FROM t", None),
        ] {
            let statement = classify(sql.as_bytes(), LexOptions::default());
            assert_eq!(Opening::of(&statement), opening, "{sql}");
        }
    }

    /// What is known when the last of these statements runs, after the others have succeeded.
    fn after(sqls: &[&str]) -> JustBegun {
        let (mut just_begun, mut begins) = (JustBegun::default(), None);
        for sql in sqls {
            if let Some(statement) = begins.take() {
                just_begun.note(&statement);
            }
            just_begun.next();
            let statement = classify(sql.as_bytes(), LexOptions::default());
            let is_beginning = matches!(statement.class, Class::Begin | Class::StartTransaction);
            begins = is_beginning.then_some(statement);
        }
        just_begun
    }

    #[test]
    fn what_runs_no_statement_belongs_to_no_transaction_that_has_done_something() {
        let between = |sqls: &[&str]| {
            let mut just_begun = after(sqls);
            let statement = classify(sqls[sqls.len() - 1].as_bytes(), LexOptions::default());
            if matches!(statement.class, Class::Begin) {
                just_begun.note(&statement);
            }
            just_begun.end_command();
            just_begun.opening()
        };
        assert_eq!(between(&["BEGIN"]), Some(Opening::Plain));
        assert_eq!(between(&["BEGIN", "INSERT INTO t VALUES (1)"]), None);
        assert_eq!(between(&["BEGIN", "COMMIT"]), None);
        assert_eq!(between(&["INSERT INTO t VALUES (1)", "BEGIN"]), Some(Opening::Plain));
    }

    #[test]
    fn only_the_first_statement_begins_it_anew_and_as_it_was_begun() {
        const INSERT: &str = "INSERT INTO t VALUES (1)";
        let snapshot = "START TRANSACTION WITH CONSISTENT SNAPSHOT";
        let lost = ProxyError::Lost(Lost::Transaction { how: String::new(), as_deadlock: true });
        for (sqls, anew) in [
            (&["BEGIN", INSERT][..], Some("START TRANSACTION")),
            (&["BEGIN", "SELECT 1"], Some("START TRANSACTION")),
            (&["START TRANSACTION READ ONLY", "SELECT 1"], Some("START TRANSACTION READ ONLY")),
            (&["START TRANSACTION READ WRITE", INSERT], Some("START TRANSACTION READ WRITE")),
            (&["BEGIN", INSERT, "COMMIT", "BEGIN", INSERT], Some("START TRANSACTION")),
            (&["BEGIN", "START TRANSACTION READ ONLY", INSERT], Some("START TRANSACTION READ ONLY")),
            (&[INSERT], None),
            (&["BEGIN"], None),
            (&["BEGIN", "SELECT 1", INSERT], None),
            (&["BEGIN", INSERT, "SELECT 1"], None),
            (&["BEGIN", "SET @a = 1", INSERT], None),
            (&["BEGIN", INSERT, "COMMIT", INSERT], None),
            (&[snapshot, INSERT], None),
            (&["BEGIN", snapshot, INSERT], None),
        ] {
            let just_begun = after(sqls);
            let words = |opening: Option<Opening>| opening.map(Opening::sql);
            assert_eq!(words(just_begun.after_loss(&lost)), anew, "{sqls:?}");
            assert_eq!(words(just_begun.opening()), anew, "{sqls:?}");
            // More has gone than the transaction, or it may have been committed.
            for error in [
                Lost::State(String::new(), "set_transaction").into(),
                Lost::Outcome(String::new()).into(),
                Lost::Answer(String::new()).into(),
            ] {
                assert_eq!(just_begun.after_loss(&error), None, "{sqls:?}: {error:?}");
            }
        }
    }
}
