//! Why a session has to keep its backend connection, since when, because of which statement, and what ends it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Instant;

use delphinus_wire::response::Status;

/// A reason to stay on one backend connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum PinReason {
    /// A transaction is open.
    Transaction,
    /// SET TRANSACTION waits for the next transaction.
    NextTransaction,
    /// A temporary table exists.
    TemporaryTable,
    /// LOCK TABLES.
    TableLock,
    /// FLUSH TABLES WITH READ LOCK, LOCK INSTANCE FOR BACKUP, BACKUP STAGE.
    ReadLock,
    /// GET_LOCK.
    AdvisoryLock,
    /// HANDLER ... OPEN.
    Handler,
    /// PREPARE in SQL text, of something that cannot be prepared again elsewhere.
    SqlPrepared,
    /// A cursor is open.
    Cursor,
    /// Pieces of a parameter were sent ahead.
    LongData,
    /// A prepared statement whose text is too long to be kept.
    LargeStatement,
    /// A user variable too long, or too many of them, to be kept.
    LargeVariables,
    /// An XA transaction.
    Xa,
    /// A variable that means nothing on another connection.
    FixedVariable,
    /// The client took over session tracking, by which the proxy learns of changes.
    Tracking,
    /// SET ROLE.
    Role,
    /// The session has asked for its counters, which the server keeps for the connection.
    Status,
    /// The user's password had expired when the connection was made: it is for this session alone.
    ExpiredPassword,
    /// The server reported a change that cannot be moved.
    UnknownState,
    /// An operator wants it so: the user or a rule has `multiplex = false`.
    Dedicated,
}

impl PinReason {
    /// The word shown to operators.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Transaction => "transaction",
            Self::NextTransaction => "set_transaction",
            Self::TemporaryTable => "temporary_table",
            Self::TableLock => "lock_tables",
            Self::ReadLock => "read_lock",
            Self::AdvisoryLock => "get_lock",
            Self::Handler => "handler",
            Self::SqlPrepared => "sql_prepare",
            Self::Cursor => "cursor",
            Self::LongData => "long_data",
            Self::LargeStatement => "large_statement",
            Self::LargeVariables => "large_variables",
            Self::Xa => "xa",
            Self::FixedVariable => "fixed_variable",
            Self::Tracking => "session_track",
            Self::Role => "set_role",
            Self::Status => "session_status",
            Self::ExpiredPassword => "expired_password",
            Self::UnknownState => "unknown_state",
            Self::Dedicated => "multiplex_off",
        }
    }
}

/// One pin.
#[derive(Debug, Clone)]
pub struct Pin {
    /// Why.
    pub reason: PinReason,
    /// Since when.
    pub since: Instant,
    /// The start of the statement that caused it.
    pub statement: Arc<str>,
}

/// All pins of a session, and the names that tell when they end.
#[derive(Debug, Default)]
pub struct Pins {
    active: Vec<Pin>,
    /// Counts the changes of these.
    revision: u32,
    /// Temporary tables by name.
    pub(crate) temporary_tables: BTreeSet<String>,
    /// Advisory locks by name, and how often GET_LOCK has taken each; `None` where the name was an expression.
    pub(crate) advisory_locks: BTreeMap<Option<String>, usize>,
    /// Open handlers.
    pub(crate) handlers: BTreeSet<String>,
    /// Fixed variables that were set.
    pub(crate) fixed_variables: BTreeSet<String>,
    /// A savepoint was set without autocommit, and the transaction that it belongs to has not begun.
    has_early_savepoint: bool,
}

/// How much of a statement is kept to show.
const SHOWN: usize = 256;

impl Pins {
    /// True if the session may change its connection.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.active.is_empty()
    }

    /// Another number after each change of the pins.
    #[inline]
    pub fn revision(&self) -> u32 {
        self.revision
    }

    /// True if pinned for this reason.
    pub fn has(&self, reason: PinReason) -> bool {
        self.active.iter().any(|pin| pin.reason == reason)
    }

    /// The pins, oldest first.
    pub fn iter(&self) -> impl Iterator<Item = &Pin> {
        self.active.iter()
    }

    /// True if this is the only variable that pins.
    pub fn fixes_only(&self, name: &str) -> bool {
        self.fixed_variables.len() == 1 && self.fixed_variables.contains(name)
    }

    /// True if the server keeps records of what runs on the connection, or of the last of it, for the session to look at.
    pub fn are_recorded(&self) -> bool {
        ["profiling", "optimizer_trace"].iter().any(|name| self.fixed_variables.contains(*name))
    }

    /// The oldest reason.
    pub fn reason(&self) -> Option<PinReason> {
        self.active.first().map(|pin| pin.reason)
    }

    /// Pins; a reason that is there already keeps its time and statement.
    pub fn add(&mut self, reason: PinReason, since: Instant, statement: &[u8]) {
        if !self.has(reason) {
            let shown = &statement[..statement.len().min(SHOWN)];
            let statement = String::from_utf8_lossy(shown).as_ref().into();
            self.active.push(Pin { reason, since, statement });
            self.revision = self.revision.wrapping_add(1);
        }
    }

    /// Ends a reason.
    #[inline]
    pub fn remove(&mut self, reason: PinReason) {
        if !self.active.is_empty() {
            let before = self.active.len();
            self.active.retain(|pin| pin.reason != reason);
            self.revision = self.revision.wrapping_add(u32::from(self.active.len() != before));
            self.has_early_savepoint &= reason != PinReason::Transaction;
        }
    }

    /// Pins for the transaction that is open as the server says, or for what the next one has already.
    pub fn follow(&mut self, status: Status, since: Instant, statement: &[u8]) {
        let is_open = status.contains(Status::IN_TRANS);
        self.has_early_savepoint &= !is_open && !status.contains(Status::AUTOCOMMIT);
        self.set(PinReason::Transaction, is_open || self.has_early_savepoint, since, statement);
    }

    /// The transaction has ended.
    pub(crate) fn end_early_savepoint(&mut self) {
        self.has_early_savepoint = false;
    }

    /// A savepoint was set where none is open.
    pub(crate) fn add_early_savepoint(&mut self, since: Instant, statement: &[u8]) {
        self.has_early_savepoint = true;
        self.add(PinReason::Transaction, since, statement);
    }

    /// True if nothing pins but a transaction that the server knows of.
    #[inline]
    pub fn are_a_transaction(&self) -> bool {
        !self.has_early_savepoint && matches!(&self.active[..], [Pin { reason: PinReason::Transaction, .. }])
    }

    /// Pins or ends the reason, as `holds` says.
    #[inline]
    pub fn set(&mut self, reason: PinReason, holds: bool, since: Instant, statement: &[u8]) {
        if holds {
            self.add(reason, since, statement);
        } else {
            self.remove(reason);
        }
    }

    /// Ends everything: the connection was reset or is gone.
    pub fn clear(&mut self) {
        let revision = self.revision.wrapping_add(u32::from(!self.is_empty()));
        *self = Self { revision, ..Self::default() };
    }
}
