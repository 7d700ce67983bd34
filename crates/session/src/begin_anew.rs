//! A transaction that has only begun when its server stops taking writes, or goes away, is begun anew on the next primary:
//! nothing was read or written in it, so that nobody can tell the difference.
//!
//! Owns: which transactions these are. What becomes of all others is in `failover`.

use delphinus_net::rt;
use delphinus_pool::Checkout;
use delphinus_route::{Plan, Reason, Target};
use delphinus_sql::{Class, Effects, Statement};
use delphinus_state::PinReason;
use delphinus_wire::response::Status;

use crate::client_error::ProxyError;
use crate::io::Relayed;
use crate::session::Session;

/// How a transaction was begun. One WITH CONSISTENT SNAPSHOT has read, and is none of these.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Opening {
    Plain,
    ReadOnly,
    ReadWrite,
}

const READ_WRITE: &str = "START TRANSACTION READ WRITE";

impl Opening {
    /// How `statement` begins a transaction, if it does nothing else. What SET TRANSACTION has said for it pins.
    fn of(statement: &Statement, sql: &[u8]) -> Option<Self> {
        match statement.class {
            Class::StartTransaction if statement.effects.contains(Effects::BEGINS_READ_ONLY) => {
                Some(Self::ReadOnly)
            }
            Class::StartTransaction if statement.effects.contains(Effects::BEGINS_SPECIAL) => {
                sql.trim_ascii().eq_ignore_ascii_case(READ_WRITE.as_bytes()).then_some(Self::ReadWrite)
            }
            Class::Begin | Class::StartTransaction => Some(Self::Plain),
            _ => None,
        }
    }

    fn sql(self) -> &'static str {
        match self {
            Self::Plain => "START TRANSACTION",
            Self::ReadOnly => "START TRANSACTION READ ONLY",
            Self::ReadWrite => READ_WRITE,
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
    fn note(&mut self, statement: &Statement, sql: &[u8]) {
        self.by_last = Opening::of(statement, sql);
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
    fn after_loss(&self, error: &ProxyError) -> Option<Opening> {
        self.opening().filter(|_| matches!(error, ProxyError::LostTransaction { .. }))
    }
}

impl Session {
    /// Takes in that a transaction has begun. One that the server has refused to begin may leave an older one open, with all that
    /// was written in it.
    pub(crate) fn note_opening(&mut self, statement: &Statement, sql: &[u8]) {
        if self.state.status.contains(Status::IN_TRANS) {
            self.just_begun.note(statement, sql);
        }
    }

    /// The first statement of a transaction was refused because the server takes no writes any more: a connection to the next
    /// primary, on which the transaction has begun.
    pub(crate) async fn begin_on_next(
        &mut self,
        checkout: Checkout,
        relayed: Relayed,
    ) -> Result<Checkout, ProxyError> {
        let (old, refused) = (checkout.backend(), rt::now());
        self.worker.outlook.report_read_only(old);
        self.worker.buffers.give(relayed.rest);
        // A connection that cannot start over is closed, and that ends the transaction, too.
        let _ = checkout.start_over().await;
        let opening = self.just_begun.opening();
        let is_there = matches!(self.await_next_primary(old, refused).await, Ok(true));
        let Some(opening) = opening.filter(|_| is_there) else {
            return Err(self.lost("it takes no writes any more", false));
        };
        self.forget_transaction();
        self.begin_there(opening).await
    }

    /// The session's connection is gone, and with it, as `error` says, a transaction. If that had only begun, it is begun on
    /// the next primary.
    pub(crate) async fn begin_after_loss(&mut self, error: ProxyError) -> Result<Checkout, ProxyError> {
        match self.just_begun.after_loss(&error) {
            Some(opening) => self.begin_there(opening).await,
            None => Err(error),
        }
    }

    pub(crate) async fn begin_there(&mut self, opening: Opening) -> Result<Checkout, ProxyError> {
        let plan = Plan { target: Target::Primary, reason: Reason::InTransaction, or_without: None };
        let mut checkout = self.checkout_planned(plan, &[]).await?;
        if let Err(error) = checkout.query(opening.sql()).await {
            return Err(self.lost_transaction(&error.to_string()));
        }
        self.state.status = self.state.status.with(Status::IN_TRANS);
        self.state.pins.add(PinReason::Transaction, rt::now(), opening.sql().as_bytes());
        self.publish_pin();
        Ok(checkout)
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
            assert_eq!(Opening::of(&statement, sql.as_bytes()), opening, "{sql}");
        }
    }

    /// What is known when the last of these statements runs, after the others have succeeded.
    fn after(sqls: &[&str]) -> JustBegun {
        let (mut just_begun, mut begins) = (JustBegun::default(), None);
        for sql in sqls {
            if let Some((statement, sql)) = begins.take() {
                just_begun.note(&statement, sql);
            }
            just_begun.next();
            let statement = classify(sql.as_bytes(), LexOptions::default());
            let is_beginning = matches!(statement.class, Class::Begin | Class::StartTransaction);
            begins = is_beginning.then_some((statement, sql.as_bytes()));
        }
        just_begun
    }

    #[test]
    fn what_runs_no_statement_belongs_to_no_transaction_that_has_done_something() {
        let between = |sqls: &[&str]| {
            let mut just_begun = after(sqls);
            let statement = classify(sqls[sqls.len() - 1].as_bytes(), LexOptions::default());
            if matches!(statement.class, Class::Begin) {
                just_begun.note(&statement, b"");
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
        let lost = ProxyError::LostTransaction { how: String::new(), as_deadlock: true };
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
                ProxyError::LostState(String::new(), "set_transaction"),
                ProxyError::LostUnknown(String::new()),
                ProxyError::LostHarmless(String::new()),
            ] {
                assert_eq!(just_begun.after_loss(&error), None, "{sqls:?}: {error:?}");
            }
        }
    }
}
