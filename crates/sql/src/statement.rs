//! The facts about one text: what `classify` answers.
//!
//! Owns: [`Statement`], [`Class`], [`Access`] and [`Why`]. Must not know how they are found.

use crate::{Effects, Risks, Uses};

/// What a text is, where it may run, and what it does to its session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Statement {
    /// The kind of statement; [`Class::Multi`] when there are several.
    pub class: Class,
    /// Whether a replica may run it.
    pub access: Access,
    /// The reason for `access`.
    pub why: Why,
    /// What it may change in its session; of a multi-statement text, of all parts.
    pub effects: Effects,
    /// What its answer depends on in its session; of a multi-statement text, of all parts.
    pub uses: Uses,
    /// What it does that an operator may not want; of a multi-statement text, of all parts.
    pub risks: Risks,
    /// The number of statements in the text; empty ones at its end do not count.
    pub count: u32,
    /// Of a statement that is no plain read: it looks at, or sets, only what is its session's own, and its values are plain. Any
    /// server does the same with it.
    pub is_of_session: bool,
}

impl Statement {
    /// True for a plain read whose answer follows from what is stored, and from the user and the variables of its session
    /// alone: until something is written, the same answer would do again.
    pub fn is_repeatable(&self) -> bool {
        matches!(self.class, Class::Select | Class::Values | Class::Table | Class::With)
            && self.access == Access::Read
            && self.count == 1
            && self.effects.is_empty()
            && self.uses.without(Uses::HINTS.union(Uses::SKIPS_ROWS)).is_empty()
    }
}

/// Where a statement may run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Access {
    /// Proven to only read: it may run on a replica.
    Read,
    /// Everything else: it goes to the primary.
    Write,
}

impl Why {
    /// True for a reason for which no replica may run a query, whatever else it does, and wherever its session is.
    pub fn is_for_primary(self) -> bool {
        matches!(
            self,
            Self::Write
                | Self::LockingRead
                | Self::IntoFile
                | Self::AdvisoryLock
                | Self::Sequence
                | Self::VersionComment
                | Self::AmbiguousText
        )
    }
}

/// Defines an enum whose variants have a text each.
macro_rules! named_enum {
    ($(#[$meta:meta])* pub enum $name:ident { $($(#[$variant_meta:meta])* $variant:ident = $text:literal,)* }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum $name { $($(#[$variant_meta])* $variant,)* }

        impl $name {
            /// Every variant, in order of declaration.
            pub const ALL: &'static [Self] = &[$(Self::$variant),*];

            /// The text for people: logs, metrics labels, `EXPLAIN ROUTE`.
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $text,)* }
            }
        }
    };
}

named_enum! {
    /// The kind of a statement.
    pub enum Class {
        /// Nothing but white space, comments and semicolons.
        Empty = "empty",
        /// `SELECT`, also in parentheses.
        Select = "select",
        /// `VALUES ROW(1), ..` / `VALUES (1), ..`.
        Values = "values",
        /// `TABLE t`.
        Table = "table",
        /// `WITH ..`, whatever follows.
        With = "with",
        /// `INSERT`.
        Insert = "insert",
        /// `REPLACE`.
        Replace = "replace",
        /// `UPDATE`.
        Update = "update",
        /// `DELETE`.
        Delete = "delete",
        /// `LOAD DATA`.
        LoadData = "load_data",
        /// `LOAD XML`.
        LoadXml = "load_xml",
        /// `CALL`.
        Call = "call",
        /// `DO`.
        Do = "do",
        /// `HANDLER`.
        Handler = "handler",
        /// `SET`, all forms but MariaDB's `SET STATEMENT .. FOR`, which has the class of what it runs.
        Set = "set",
        /// `USE`.
        Use = "use",
        /// `BEGIN`.
        Begin = "begin",
        /// `START TRANSACTION`.
        StartTransaction = "start_transaction",
        /// `COMMIT`.
        Commit = "commit",
        /// `ROLLBACK`.
        Rollback = "rollback",
        /// `SAVEPOINT`.
        Savepoint = "savepoint",
        /// `RELEASE SAVEPOINT`.
        ReleaseSavepoint = "release_savepoint",
        /// `ROLLBACK TO`.
        RollbackToSavepoint = "rollback_to_savepoint",
        /// `XA ..`.
        Xa = "xa",
        /// `LOCK TABLES`.
        LockTables = "lock_tables",
        /// `UNLOCK TABLES`.
        UnlockTables = "unlock_tables",
        /// `FLUSH`.
        Flush = "flush",
        /// `SHOW`.
        Show = "show",
        /// `DESCRIBE t` and its synonyms.
        Describe = "describe",
        /// `EXPLAIN` of a statement or a connection; MariaDB's `ANALYZE` of a statement.
        Explain = "explain",
        /// SQL `PREPARE`.
        Prepare = "prepare",
        /// SQL `EXECUTE`.
        Execute = "execute",
        /// SQL `DEALLOCATE PREPARE`.
        Deallocate = "deallocate",
        /// `CREATE TEMPORARY TABLE` (and MariaDB's temporary sequences).
        CreateTemporaryTable = "create_temporary_table",
        /// `CREATE TABLE`.
        CreateTable = "create_table",
        /// `DROP TEMPORARY TABLE`.
        DropTemporaryTable = "drop_temporary_table",
        /// `DROP TABLE`.
        DropTable = "drop_table",
        /// `ALTER TABLE`.
        AlterTable = "alter_table",
        /// Every other change of the schema.
        OtherDdl = "other_ddl",
        /// Users, roles and their rights.
        Account = "account",
        /// `KILL`.
        Kill = "kill",
        /// `BACKUP ..`, `LOCK INSTANCE ..`.
        Backup = "backup",
        /// Maintenance of tables and of the server.
        Admin = "admin",
        /// Replication and binary logs.
        Replication = "replication",
        /// `GET DIAGNOSTICS`, `SIGNAL`, `RESIGNAL`.
        Diagnostics = "diagnostics",
        /// Several statements.
        Multi = "multi",
        /// Not recognised.
        Unknown = "unknown",
    }
}

named_enum! {
    /// Why a statement may or may not run on a replica: the first reason found in the text, or a later one for which no replica
    /// may run it.
    pub enum Why {
        /// It only reads.
        PlainRead = "only reads",
        /// It writes.
        Write = "writes",
        /// It changes the schema.
        Ddl = "changes the schema",
        /// It changes accounts or rights.
        Account = "changes accounts",
        /// It reads with locks.
        LockingRead = "locking read",
        /// It writes a file on the server.
        IntoFile = "writes a file on the server",
        /// It stores its result in variables.
        IntoVariable = "stores its result in variables",
        /// It takes, releases or looks at an advisory lock.
        AdvisoryLock = "advisory lock",
        /// It reads or sets the last insert id.
        LastInsertId = "reads or sets LAST_INSERT_ID()",
        /// It calls a function about its own session.
        SessionFunction = "calls a function about the session",
        /// It reads a system variable.
        SystemVariable = "system variable",
        /// It assigns a user variable.
        AssignsUserVariable = "assigns a user variable",
        /// It uses a sequence.
        Sequence = "sequence",
        /// It calls a function that is not built in.
        UnknownFunction = "calls a function that is not built in",
        /// It calls a procedure.
        CallsRoutine = "calls a procedure",
        /// It waits for replication.
        ReplicationWait = "waits for replication",
        /// It reads the state or the files of one server.
        ServerState = "reads the state of one server",
        /// It counts rows for the next statement.
        CalcFoundRows = "counts rows for FOUND_ROWS()",
        /// `PROCEDURE ANALYSE`.
        ProcedureClause = "has a PROCEDURE clause",
        /// It has a comment that a server may run.
        VersionComment = "has a comment that a server may run",
        /// Where a token ends depends on what is not known here.
        AmbiguousText = "cannot be parsed with certainty",
        /// There are several statements.
        MultiStatement = "several statements",
        /// It changes its session.
        ChangesSession = "changes session state",
        /// It begins, ends or belongs to a transaction.
        Transaction = "controls a transaction",
        /// It locks or unlocks tables or the instance.
        Locks = "locks tables",
        /// It makes, runs or drops a prepared statement of SQL.
        SqlPrepared = "uses a statement of PREPARE",
        /// It reads through an open handler.
        OpenHandler = "uses an open HANDLER",
        /// A `SHOW` that depends on the server or the session.
        Show = "shows the state of a server or session",
        /// It reads or sets warnings and errors of its session.
        Diagnostics = "reads or sets the session's warnings",
        /// It plans a write.
        ExplainsWrite = "explains a write",
        /// It is run for its side effects.
        SideEffect = "runs for its side effects",
        /// It administers the server.
        Admin = "administers the server",
        /// There is nothing to run.
        Empty = "empty",
        /// Not recognised.
        Unclassified = "not recognised",
    }
}
