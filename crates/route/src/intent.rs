//! What the router has to know of a statement and of the session that it came in.

use delphinus_sql::{Access, Why};
use delphinus_state::PinReason;
use delphinus_topology::BackendId;

use crate::scope::Scope;
use crate::wish::Wish;

/// One statement and the state of its session before it runs.
#[derive(Debug, Clone, Copy)]
pub struct Intent<'a> {
    /// What the classifier says.
    pub access: Access,
    /// Why it says so.
    pub why: Why,
    /// A transaction is open.
    pub in_transaction: bool,
    /// `autocommit` is 0: even a read opens a transaction.
    pub autocommit_off: bool,
    /// Why the session must keep its connection, if it must.
    pub pinned: Option<PinReason>,
    /// Replicas that failed a moment ago, for this same statement or for others of this worker.
    pub avoid: &'a [BackendId],
    /// Replicas that have not caught up with what the session has written or read.
    pub behind: &'a [BackendId],
    /// Where somebody wants it to run.
    pub wish: Option<Wish<'a>>,
    /// How far replicas may be used.
    pub scope: Scope,
    /// A number made from its text, where reads of the same text go to the same backend.
    pub text: u32,
}
