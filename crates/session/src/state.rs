//! What the client wants its session to be like, and what keeps that on one connection.
//!
//! Owns: the state that the client wants and that it began with, the pins, the status flags, and how texts are read. Knows
//! nothing of connections: what they have is in the pool's.

mod lex;
mod ran;

use std::rc::Rc;

use delphinus_clients::ClientConnId;
use delphinus_memory::{Kept, Share};
use delphinus_sql::{Flavor, LexOptions};
use delphinus_state::{Pins, SessionState, SqlStatements};
use delphinus_wire::response::Status;

use crate::follow::AskedTracking;
use crate::pinned::Published;

pub(crate) use lex::Lex;
pub(crate) use ran::Ran;

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
    /// How the session's texts are read.
    #[inline]
    pub(crate) fn lex(&mut self) -> LexOptions {
        self.lex.options(&self.want.vars)
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
}
