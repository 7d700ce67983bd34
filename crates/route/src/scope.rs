//! What may run on a replica although it is not a plain read: transactions that cannot write, and the sessions of a
//! listener that is for reading only.
//!
//! Owns: which statements these are, by what the classifier says of them. A replica that is not `read_only` never gets
//! any of them, so that what is wrongly let through is refused by the server (1290), too.

use delphinus_sql::{Access, Class, Effects, Statement, Uses, Why, may_lock_rows};

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
    /// The statement goes to the primary if there is one, and to a replica if there is none.
    WithoutPrimary,
}

/// What is to be done with a statement in a transaction that cannot write and runs on a replica.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InReadOnly {
    /// It runs there.
    Run,
    /// It ends the transaction before it begins: that is ended there, and then it goes where it belongs.
    Leave,
    /// Every server refuses it in such a transaction (1792).
    Refuse,
    /// A primary would run it, and a replica would not, or not with the same effect.
    Primary,
}

/// Effects by which a statement leaves something on its server or in its accounts, or begins another transaction there.
const LASTING: Effects = Effects::LOCKS_TABLES
    .union(Effects::READ_LOCK)
    .union(Effects::GETS_LOCK)
    .union(Effects::CREATES_TEMP_TABLE)
    .union(Effects::SETS_GLOBAL_VARS)
    .union(Effects::SETS_PASSWORD)
    .union(Effects::CHANGES_RIGHTS)
    .union(Effects::SETS_FOR_STATEMENT)
    .union(Effects::SQL_EXECUTES)
    .union(Effects::XA_STARTS)
    .union(Effects::UNKNOWN);

/// Effects that hold a session to its connection for longer than the transaction.
const OUTLIVING: Effects = Effects::SETS_ROLE
    .union(Effects::SETS_TRACKING)
    .union(Effects::OPENS_HANDLER)
    .union(Effects::SQL_PREPARES);

/// How far a transaction that cannot write has come, on a replica.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Progress {
    /// It has read, so that it cannot begin again elsewhere and see the same.
    pub has_read: bool,
    /// What a function changes of its session can be asked for. Where it cannot, it would hold the session to the replica.
    pub lists_changes: bool,
}

/// What becomes of a statement in a transaction that cannot write, on a replica.
pub fn in_read_only(statement: &Statement, progress: Progress) -> InReadOnly {
    if statement.access == Access::Read {
        return InReadOnly::Run;
    }
    match statement.class {
        // Without locks, which nobody has there, it does nothing.
        Class::UnlockTables => return InReadOnly::Run,
        Class::Begin | Class::StartTransaction | Class::LockTables => return InReadOnly::Leave,
        Class::Insert
        | Class::Replace
        | Class::Update
        | Class::Delete
        | Class::LoadData
        | Class::LoadXml
        | Class::CreateTemporaryTable
        | Class::DropTemporaryTable
        | Class::Explain
            if is_write(statement) =>
        {
            return InReadOnly::Refuse;
        }
        // Changes of the schema, accounts, maintenance: servers commit first, and run it then outside of the transaction.
        class if class != Class::Multi && statement.effects.contains(Effects::IMPLICIT_COMMIT) => {
            return InReadOnly::Leave;
        }
        // It shows what is the server's own.
        Class::Show if !statement.uses.intersects(Uses::DIAGNOSTICS.union(Uses::SESSION_VARS)) => {
            return InReadOnly::Primary;
        }
        // It cannot move: where there is a choice still, it is set where everything can follow it.
        Class::Savepoint | Class::RollbackToSavepoint | Class::ReleaseSavepoint if !progress.has_read => {
            return InReadOnly::Primary;
        }
        _ => {}
    }
    // A function may do anything that does not write: where there is a choice, it is the primary that it does it to.
    let has_choice = !progress.has_read || !progress.lists_changes;
    if statement.effects.contains(Effects::CALLS_ROUTINE) && has_choice {
        return InReadOnly::Primary;
    }
    let is_here = is_harmless(statement) && !statement.effects.intersects(OUTLIVING);
    if is_here { InReadOnly::Run } else { InReadOnly::Primary }
}

/// True for a statement of rows or temporary tables that is certainly one.
fn is_write(statement: &Statement) -> bool {
    matches!(statement.why, Why::Write | Why::Ddl | Why::ExplainsWrite)
        && !statement.effects.intersects(Effects::SETS_FOR_STATEMENT.union(Effects::UNKNOWN))
}

/// True for what may run on a replica that keeps writes out, in a session that stays there.
fn is_harmless(statement: &Statement) -> bool {
    if statement.access == Access::Read {
        return true;
    }
    if statement.why == Why::LockingRead || statement.effects.intersects(LASTING) {
        return false;
    }
    match statement.class {
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
        | Class::Diagnostics
        // The proxy does it by itself.
        | Class::Kill => true,
        // ANALYZE runs what it is about.
        Class::Explain => statement.why != Why::Write,
        Class::Select | Class::Values | Class::Table | Class::With | Class::Do => {
            !statement.why.is_for_primary()
        }
        _ => false,
    }
}

/// Whether a listener for reading lets a statement through.
pub fn is_for_readers(statement: &Statement) -> bool {
    let begins = matches!(statement.class, Class::Begin | Class::StartTransaction);
    if begins {
        return !statement.effects.contains(Effects::BEGINS_SPECIAL);
    }
    is_harmless(statement)
}

/// Whether a statement about the one before it may run where that ran, on a replica. Others ask there what can be asked, and run on
/// the primary.
pub fn runs_behind_last(statement: &Statement, sql: &[u8]) -> bool {
    let reads = matches!(statement.class, Class::Select | Class::Show | Class::Set | Class::Do);
    reads
        && is_harmless(statement)
        && !statement.effects.contains(Effects::CALLS_ROUTINE)
        && !statement.uses.contains(Uses::SEQUENCES)
        && !may_lock_rows(sql)
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
