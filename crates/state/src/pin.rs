//! Why a session has to keep its backend connection, since when, because of which statement, and what ends it.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Instant;

use delphinus_sql::{Effects, ServerLock, Statement};
use delphinus_wire::response::Status;

use crate::held_names::HeldNames;

/// Declares the reasons, with all that others say of them.
macro_rules! reasons {
    ($($(#[$about:meta])* $reason:ident { label: $label:literal, effects: $effects:expr, ends_with_user: $ends_with_user:literal, goes_on: $goes_on:literal, name: $name:literal, by: $by:literal, until: $until:literal, })+) => {
        /// A reason to stay on one backend connection.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum PinReason {
            $($(#[$about])* $reason,)+
        }

        impl PinReason {
            /// All of them. The position of one is its number (`as usize`).
            pub const ALL: &[Self] = &[$(Self::$reason),+];
            /// The labels of all of them.
            pub const LABELS: &[&str] = &[$($label),+];

            /// The word for it in metrics, tables, SHOW and EXPLAIN.
            pub const fn label(self) -> &'static str {
                Self::LABELS[self as usize]
            }

            /// What the session has on its connection, in errors: "this session's ..".
            pub fn name(self) -> &'static str {
                match self {
                    $(Self::$reason => $name,)+
                }
            }

            /// The effects of statements that may pin for it; a command that is no statement has none.
            fn effects(self) -> Effects {
                match self {
                    $(Self::$reason => $effects,)+
                }
            }

            /// True if COM_CHANGE_USER ends it on every server.
            pub fn ends_with_user(self) -> bool {
                match self {
                    $(Self::$reason => $ends_with_user,)+
                }
            }

            /// True if a session that loses this with its connection can go on.
            pub fn goes_on(self) -> bool {
                match self {
                    $(Self::$reason => $goes_on,)+
                }
            }

            /// What pins for it, for the reference.
            pub fn by(self) -> &'static str {
                match self {
                    $(Self::$reason => $by,)+
                }
            }

            /// What ends it, for the reference.
            pub fn until(self) -> &'static str {
                match self {
                    $(Self::$reason => $until,)+
                }
            }
        }
    };
}

// A new reason is a row here, in the place where docs/reference/pins.md is to show it, and what adds and removes it.
reasons! {
    /// A transaction is open.
    Transaction {
        label: "transaction",
        effects: Effects::BEGINS_TRANSACTION,
        ends_with_user: true,
        goes_on: true,
        name: "transaction",
        by: "an open transaction (the server's status flag); without autocommit, a savepoint that was set before it, and a procedure, SQL `EXECUTE` or unknown statement before it, which may have set one",
        until: "commit, rollback, or anything else that ends it",
    }
    /// SET TRANSACTION waits for the next transaction.
    NextTransaction {
        label: "set_transaction",
        effects: Effects::SETS_NEXT_TRANSACTION,
        ends_with_user: false,
        goes_on: false,
        name: "SET TRANSACTION for the next transaction",
        by: "`SET TRANSACTION` without SESSION or GLOBAL, also in a routine or a trigger",
        until: "`COMMIT` or `ROLLBACK`; a statement outside of a transaction may leave it for the next one",
    }
    /// A temporary table exists.
    TemporaryTable {
        label: "temporary_table",
        effects: Effects::CREATES_TEMP_TABLE,
        ends_with_user: true,
        goes_on: false,
        name: "temporary tables",
        by: "`CREATE TEMPORARY TABLE`",
        until: "all of them are dropped; where one was perhaps renamed, or made in a schema that the session was not in before or after the statement: the session is reset",
    }
    /// LOCK TABLES.
    TableLock {
        label: "lock_tables",
        effects: Effects::LOCKS_TABLES,
        ends_with_user: true,
        goes_on: false,
        name: "table locks",
        by: "`LOCK TABLES`, `FLUSH TABLES t WITH READ LOCK`",
        until: "`UNLOCK TABLES`, or the beginning of a transaction",
    }
    /// FLUSH TABLES WITH READ LOCK, LOCK INSTANCE FOR BACKUP, BACKUP STAGE.
    ReadLock {
        label: "read_lock",
        effects: Effects::READ_LOCK,
        ends_with_user: true,
        goes_on: false,
        name: "global read lock",
        by: "`FLUSH TABLES WITH READ LOCK`, `LOCK INSTANCE FOR BACKUP`, `BACKUP`",
        until: "the release of each, by the statement of its kind",
    }
    /// GET_LOCK.
    AdvisoryLock {
        label: "get_lock",
        effects: Effects::GETS_LOCK,
        ends_with_user: true,
        goes_on: false,
        name: "locks of GET_LOCK()",
        by: "`GET_LOCK`, also in a statement that fails, in a routine or in a trigger",
        until: "all names are released, or `RELEASE_ALL_LOCKS()`, by an item of `SELECT` without tables and conditions, or of `DO`; what a routine or a trigger has taken, or a call that stands elsewhere and may be run more than once: `RELEASE_ALL_LOCKS()`",
    }
    /// HANDLER ... OPEN.
    Handler {
        label: "handler",
        effects: Effects::OPENS_HANDLER,
        ends_with_user: true,
        goes_on: false,
        name: "open handlers",
        by: "`HANDLER ... OPEN`",
        until: "all are closed",
    }
    /// PREPARE in SQL text, of something that cannot be prepared again elsewhere.
    SqlPrepared {
        label: "sql_prepare",
        effects: Effects::SQL_PREPARES,
        ends_with_user: true,
        goes_on: false,
        name: "statements of PREPARE",
        by: "`PREPARE ... FROM` in SQL text, of what cannot be prepared again elsewhere; a change of schema or variables after a `PREPARE`; on MySQL, of one with parameters (`?`)",
        until: "all of these are deallocated or replaced, or schema and variables are as they were",
    }
    /// A cursor is open.
    Cursor {
        label: "cursor",
        effects: NO_EFFECTS,
        ends_with_user: true,
        goes_on: false,
        name: "open cursor",
        by: "COM_STMT_EXECUTE that opens a cursor",
        until: "its last row, COM_STMT_RESET or COM_STMT_CLOSE",
    }
    /// Pieces of a parameter were sent ahead.
    LongData {
        label: "long_data",
        effects: NO_EFFECTS,
        ends_with_user: true,
        goes_on: false,
        name: "pieces of a long parameter",
        by: "COM_STMT_SEND_LONG_DATA",
        until: "the statement is run, reset or closed",
    }
    /// A prepared statement whose text is too long to be kept.
    LargeStatement {
        label: "large_statement",
        effects: NO_EFFECTS,
        ends_with_user: true,
        goes_on: false,
        name: "long prepared statement",
        by: "COM_STMT_PREPARE of more than 256 KiB, which is not kept",
        until: "the statement is closed",
    }
    /// A user variable too long, or too many of them, to be kept.
    LargeVariables {
        label: "large_variables",
        effects: NO_EFFECTS,
        ends_with_user: true,
        goes_on: false,
        name: "large user variables",
        by: "a user variable of more than 64 KiB, which is not kept; user variables that take more than 512 KiB together, to which each byte of a string counts twice, or more than 4096 of them",
        until: "the session is reset",
    }
    /// An XA transaction.
    Xa {
        label: "xa",
        effects: Effects::XA_STARTS,
        ends_with_user: false,
        goes_on: false,
        name: "XA transaction",
        by: "`XA START`",
        until: "`XA COMMIT`, `XA ROLLBACK`",
    }
    /// A variable that means nothing on another connection.
    FixedVariable {
        label: "fixed_variable",
        effects: NO_EFFECTS,
        ends_with_user: false,
        goes_on: false,
        name: "variables that mean nothing on another connection",
        by: "`gtid_next`, `insert_id`, `pseudo_thread_id`, `rand_seed1`, `rand_seed2`, `sql_auto_is_null`, `character_set_database`, `collation_database`, `profiling`, `optimizer_trace`, ...",
        until: "set back to `AUTOMATIC`, `OFF` or 0; those of the schema: `USE`; `insert_id`, and those under which the server keeps records (`profiling`, `optimizer_trace`): the session is reset",
    }
    /// The client took over session tracking, by which the proxy learns of changes.
    Tracking {
        label: "session_track",
        effects: Effects::SETS_TRACKING,
        ends_with_user: false,
        goes_on: false,
        name: "settings of session tracking",
        by: "the client sets a `session_track_*` variable, by which the proxy learns of changes",
        until: "the session is reset",
    }
    /// SET ROLE.
    Role {
        label: "set_role",
        effects: Effects::SETS_ROLE,
        ends_with_user: false,
        goes_on: false,
        name: "role",
        by: "`SET ROLE`",
        until: "MariaDB: the role is that of a new login again: none, where the user has no default roles (asked of the server after each `SET ROLE`). MySQL: the session is reset",
    }
    /// The session has asked for its counters, which the server keeps for the connection.
    Status {
        label: "session_status",
        effects: NO_EFFECTS,
        ends_with_user: true,
        goes_on: false,
        name: "counters of SHOW STATUS",
        by: "`SHOW STATUS` of the session, where its answer may hold counters (`LIKE 'Threads%'` cannot), and `FLUSH STATUS`",
        until: "the session is reset",
    }
    /// The user's password had expired when the connection was made: it is for this session alone.
    ExpiredPassword {
        label: "expired_password",
        effects: NO_EFFECTS,
        ends_with_user: false,
        goes_on: false,
        name: "connection with an expired password",
        by: "the user's [password had expired](../authentication.md#expired-passwords) at the login to the server, or the server refuses a statement for that (error 1820)",
        until: "the session ends",
    }
    /// The server reported a change that cannot be moved.
    UnknownState {
        label: "unknown_state",
        effects: Effects::OPAQUE,
        ends_with_user: false,
        goes_on: false,
        name: "changes that the server did not name",
        by: "state that the server does not name, or that the proxy cannot move: [these cases](../pinning.md#what-pins-as-unknown_state)",
        until: "the session is reset",
    }
    /// An operator wants it so: the user or a rule has `multiplex = false`.
    Dedicated {
        label: "multiplex_off",
        effects: NO_EFFECTS,
        ends_with_user: true,
        goes_on: true,
        name: "connection of its own",
        by: "`multiplex = false` of the user or of a rule",
        until: "the session ends, or neither says so any more",
    }
}

impl PinReason {
    /// What may hold a session to its connection after the statement.
    pub fn after(statement: &Statement) -> impl Iterator<Item = Self> + '_ {
        Self::ALL.iter().copied().filter(|reason| statement.effects.intersects(reason.effects()))
    }

    /// The reference page as Markdown.
    pub fn reference() -> String {
        let rows =
            Self::ALL.iter().map(|one| format!("| `{}` | {} | {} |\n", one.label(), one.by(), one.until()));
        rows.fold(HEAD.to_owned(), |page, row| page + &row)
    }
}

const NO_EFFECTS: Effects = Effects::empty();

const HEAD: &str = "# Why a session is pinned

<!-- Made by `cargo xtask docs`. Change the text in crates/state/src/pin.rs. -->

A [pinned](../pinning.md) session keeps its connection for these reasons. The names are those in `delphinus_pinned_microseconds_total`, in the tables of the
[admin listener](../admin.md), in `SHOW PROCESSLIST` and in `EXPLAIN ROUTE`.

| reason | pinned by | until |
|---|---|---|
";

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
    /// Temporary tables.
    pub(crate) temporary_tables: HeldNames,
    /// Advisory locks, and how often GET_LOCK has taken each; without a name where that was an expression.
    pub(crate) advisory_locks: HeldNames,
    /// Locks on the whole server.
    pub(crate) server_locks: BTreeSet<ServerLock>,
    /// Open handlers.
    pub(crate) handlers: HeldNames,
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
