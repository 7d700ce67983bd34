//! What the client wants its session to be like, and what keeps that on one connection.
//!
//! Owns: the state that the client wants and that it began with, the pins and what others know of them, the status flags, whether
//! a transaction has only begun, and how texts are read. Knows nothing of connections: what they have is in the pool's.

mod asked_tracking;
mod just_begun;
mod lex;
mod pinned;
mod ran;

use std::rc::Rc;

use delphinus_clients::ClientConnId;
use delphinus_memory::{Kept, Share};
use delphinus_net::rt;
use delphinus_pool::StatementKey;
use delphinus_route::{Holds, Transaction};
use delphinus_sql::{Flavor, LexOptions, SqlText, Statement};
use delphinus_state::{PinReason, Pins, SessionState, SqlStatements};
use delphinus_topology::BackendId;
use delphinus_wire::response::Status;

pub(crate) use asked_tracking::AskedTracking;
pub(crate) use just_begun::{JustBegun, Opening};
pub(crate) use lex::Lex;
pub(crate) use pinned::Published;
pub(crate) use ran::Ran;

/// The variable that says what COMMIT and ROLLBACK end beside the transaction.
pub(crate) const COMPLETION_TYPE: &str = "completion_type";

/// The state of one session.
pub(crate) struct Wanted {
    /// Whose it is.
    pub id: ClientConnId,
    /// The state that the client wants.
    pub want: SessionState,
    /// The state to go back to with COM_RESET_CONNECTION.
    pub initial: SessionState,
    /// What the client has prepared in SQL text.
    pub sql: SqlStatements,
    pub pins: Pins,
    /// The pin that others know of.
    pub published: Published,
    /// Whether its transaction can be begun anew.
    pub just_begun: JustBegun,
    /// Status flags as the last answer of a backend had them.
    pub status: Status,
    pub lex: Lex,
    /// What the client wants to be told of.
    pub asked_tracking: AskedTracking,
    /// The client's own `wait_timeout`, 0 if it has set none.
    pub idle_limit_s: u32,
    /// What the session may keep.
    pub share: Share,
    /// The room that its variables and the statements of SQL text take.
    pub kept_state: Option<Rc<Kept>>,
}

impl Wanted {
    /// How the session's texts are read now. What was prepared before is read by [`Wanted::text_of`].
    #[inline]
    pub(crate) fn lex(&mut self) -> LexOptions {
        self.lex.options(&self.want.vars)
    }

    /// The text of a statement that was prepared before, to be read as the session read then: servers keep the `sql_mode` with it.
    #[inline]
    pub(crate) fn text_of<'a>(&self, key: &'a StatementKey) -> SqlText<'a> {
        SqlText::new(key.text(), self.lex.options_with(&key.state().vars))
    }

    /// True if `sql_select_limit` cuts its results short.
    #[inline]
    pub(crate) fn limits_rows(&mut self) -> bool {
        self.lex.limits_rows(&self.want.vars)
    }

    /// The family of its servers, which does not change with its variables.
    #[inline]
    pub(crate) fn flavor(&self) -> Flavor {
        self.lex.flavor()
    }

    /// True if what pins the session is the same after a plain statement that has left this status: nothing, or its transaction.
    #[inline]
    pub(crate) fn stays_as_it_is(&self, status: Status) -> bool {
        if status.contains(Status::IN_TRANS) { self.pins.are_a_transaction() } else { self.pins.is_empty() }
    }

    /// True where nothing but an operator's wish, if anything, holds the session to a connection.
    pub(crate) fn is_only_kept(&self) -> bool {
        self.pins.iter().all(|pin| pin.reason == PinReason::Dedicated)
    }

    /// True if COM_CHANGE_USER ends all that pins the session.
    pub(crate) fn ends_with_its_user(&self) -> bool {
        self.pins.iter().all(|pin| pin.reason.ends_with_user())
    }

    /// What goes with the session's connection.
    pub(crate) fn holds(&self) -> Holds {
        if self.pins.is_empty() {
            Holds::Nothing
        } else if self.pins.iter().all(|pin| pin.reason.goes_on()) {
            Holds::Transaction
        } else {
            Holds::More
        }
    }

    /// The session's transaction: with a savepoint there is one for its client, whatever the server says.
    pub(crate) fn transaction(&self) -> Transaction {
        if !self.status.contains(Status::IN_TRANS) && !self.pins.has(PinReason::Transaction) {
            Transaction::None
        } else if self.just_begun.opening().is_some() {
            Transaction::JustBegun
        } else {
            Transaction::Open
        }
    }

    /// Takes in that a transaction has begun. One that the server has refused to begin may leave an older one open, with all that
    /// was written in it.
    pub(crate) fn note_opening(&mut self, statement: &Statement) {
        if self.status.contains(Status::IN_TRANS) {
            self.just_begun.note(statement);
        }
    }

    /// Takes in that the proxy has begun a transaction by this text; `status`: the flags of that.
    pub(crate) fn begins(&mut self, sql: &str, status: Status) {
        self.status = self.status.with(status);
        self.pins.add(PinReason::Transaction, rt::now(), sql.as_bytes());
    }

    /// True if COMMIT and ROLLBACK end the session, where they do not say otherwise: its `completion_type`.
    pub(crate) fn releases_by_default(&self) -> bool {
        let value = self.want.vars.get(COMPLETION_TYPE);
        value.is_some_and(|value| value.eq_ignore_ascii_case(b"RELEASE") || **value == *b"2")
    }

    /// The transaction is gone, and the session goes on.
    pub(crate) fn forget_transaction(&mut self, backend: Option<BackendId>) {
        self.pins.remove(PinReason::Transaction);
        self.status = self.status.without(Status::IN_TRANS.with(Status::IN_TRANS_READONLY));
        self.publish(backend);
    }
}
