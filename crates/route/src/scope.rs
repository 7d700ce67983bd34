//! What may run on a replica although it is not a plain read: transactions that cannot write, and the sessions of a
//! listener that is for reading only.
//!
//! Owns: which statements these are, by what the classifier says of them. A replica that is not `read_only` never gets
//! any of them, so that what is wrongly let through is refused by the server (1290), too.

use delphinus_sql::{Access, Class, Effects, Statement, Why};

/// How far a replica may be used for a statement.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Scope {
    /// For plain reads in free sessions.
    #[default]
    Usual,
    /// The statement is in a transaction that cannot write, or begins one.
    ReadOnlyTransaction,
    /// The session came in by a listener for reading: everything that does not write runs on replicas.
    Replicas,
    /// The session came in by a listener for writing, too: nothing runs on replicas.
    Primary,
}

/// What is to be done with a statement in a transaction that cannot write and runs on a replica.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InReadOnly {
    /// It runs there.
    Run,
    /// It ends the transaction before it begins: that is ended there, and then it goes where it belongs.
    Leave,
    /// It must not run there: where nothing was read yet, the transaction moves to the primary; else error 1792.
    Refuse,
}

/// Effects by which a statement leaves something on its server, or begins another transaction there.
const LASTING: Effects = Effects::LOCKS_TABLES
    .union(Effects::READ_LOCK)
    .union(Effects::GETS_LOCK)
    .union(Effects::CREATES_TEMP_TABLE)
    .union(Effects::SETS_GLOBAL_VARS)
    .union(Effects::SETS_PASSWORD)
    .union(Effects::SETS_FOR_STATEMENT)
    .union(Effects::SQL_EXECUTES)
    .union(Effects::XA_STARTS)
    .union(Effects::UNKNOWN);

/// What becomes of a statement in a transaction that cannot write, on a replica.
pub fn in_read_only(statement: &Statement) -> InReadOnly {
    if statement.access == Access::Read {
        return InReadOnly::Run;
    }
    if matches!(statement.class, Class::Begin | Class::StartTransaction | Class::LockTables) {
        return InReadOnly::Leave;
    }
    if statement.why == Why::LockingRead || statement.effects.intersects(LASTING) {
        return InReadOnly::Refuse;
    }
    let is_harmless = match statement.class {
        Class::Commit
        | Class::Rollback
        | Class::Savepoint
        | Class::ReleaseSavepoint
        | Class::RollbackToSavepoint
        | Class::Use
        | Class::Set
        | Class::Deallocate
        | Class::Empty
        | Class::Show
        | Class::Describe
        | Class::Explain
        | Class::Diagnostics
        // The proxy does it by itself.
        | Class::Kill => true,
        Class::Select | Class::Values | Class::Table | Class::With | Class::Do => !matches!(
            statement.why,
            Why::Write
                | Why::IntoFile
                | Why::AdvisoryLock
                | Why::Sequence
                | Why::VersionComment
                | Why::AmbiguousText
        ),
        _ => false,
    };
    if is_harmless { InReadOnly::Run } else { InReadOnly::Refuse }
}

/// Whether a listener for reading lets a statement through.
pub fn is_for_readers(statement: &Statement) -> bool {
    let begins = matches!(statement.class, Class::Begin | Class::StartTransaction);
    if begins {
        return !statement.effects.contains(Effects::BEGINS_SPECIAL);
    }
    in_read_only(statement) == InReadOnly::Run
}

impl Scope {
    /// For a listener that splits: what the session's transactions are decides.
    pub fn of_transaction(statement: &Statement, reads_only: bool, autocommit_off: bool) -> Self {
        let is_in_one = autocommit_off && reads_only && statement.access == Access::Read;
        if is_in_one || begins_read_only(statement, reads_only) {
            Self::ReadOnlyTransaction
        } else {
            Self::Usual
        }
    }
}

/// True if the statement begins a transaction that cannot write; `reads_only` if the session's transactions cannot.
pub fn begins_read_only(statement: &Statement, reads_only: bool) -> bool {
    match statement.class {
        Class::StartTransaction if statement.effects.contains(Effects::BEGINS_READ_ONLY) => true,
        Class::Begin | Class::StartTransaction => {
            reads_only && !statement.effects.contains(Effects::BEGINS_SPECIAL)
        }
        _ => false,
    }
}
