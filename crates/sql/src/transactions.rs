//! What statements mean to a transaction that cannot write: whether they let the next ones write, and what they look at.

use crate::mentions::mentions;
use crate::{Access, Class, Effects, LexOptions, Statement, Target, assignments};

/// True if transactions may write after this `SET`.
pub fn lets_transactions_write(sql: &[u8], lex: LexOptions) -> bool {
    assignments(sql, lex).iter().any(|assignment| match &assignment.target {
        Target::System { name, .. } => name == "transaction_read_only" || name == "tx_read_only",
        Target::Transaction { .. } => assignment
            .value
            .split(|byte| !byte.is_ascii_alphabetic())
            .any(|word| word.eq_ignore_ascii_case(b"write")),
        _ => false,
    })
}

/// False for what certainly looks at nothing but its session.
pub fn looks_at_data(sql: &[u8], statement: &Statement) -> bool {
    let may_be_about_session = match statement.class {
        Class::Select
        | Class::Do
        | Class::Set
        | Class::Use
        | Class::Empty
        | Class::Kill
        | Class::Deallocate
        | Class::Diagnostics => true,
        Class::Show => statement.access == Access::Write,
        _ => false,
    };
    !may_be_about_session
        || statement.effects.contains(Effects::CALLS_ROUTINE)
        || mentions(sql, &["from", "table"])
}

/// False for a locking read that certainly locks as a write does, with `FOR UPDATE`.
pub fn may_lock_to_share(sql: &[u8]) -> bool {
    mentions(sql, &["share"])
}

/// False for what certainly locks no rows: FOR UPDATE, FOR SHARE and LOCK IN SHARE MODE have one of these words.
pub fn may_lock_rows(sql: &[u8]) -> bool {
    mentions(sql, &["update", "share"])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::classify;

    #[test]
    fn what_has_looked_at_nothing_can_begin_again() {
        for (sql, looks) in [
            ("SELECT 1", false),
            ("SELECT @@session.transaction_isolation, CONNECTION_ID()", false),
            ("SET NAMES utf8mb4", false),
            ("SET @a = 1", false),
            ("USE app", false),
            ("SHOW VARIABLES LIKE 'tx%'", false),
            ("SELECT f(1)", true),
            ("SET @a = (SELECT COUNT(*) FROM t)", true),
            ("SELECT COUNT(*) FROM t", true),
            ("SELECT 1 UNION TABLE t", true),
            ("TABLE t", true),
            ("SHOW TABLES", true),
            ("SAVEPOINT s", true),
            ("COMMIT AND CHAIN", true),
        ] {
            let statement = classify(sql.as_bytes(), LexOptions::default());
            assert_eq!(looks_at_data(sql.as_bytes(), &statement), looks, "{sql}");
        }
    }

    #[test]
    fn a_set_of_the_access_mode_lets_transactions_write() {
        for (sql, lets) in [
            ("SET SESSION TRANSACTION READ WRITE", true),
            ("SET TRANSACTION ISOLATION LEVEL READ COMMITTED, read write", true),
            ("SET SESSION TRANSACTION READ ONLY", false),
            ("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ", false),
            // Which value it has then is not looked at.
            ("SET a.b = 1, transaction_read_only = 1", true),
            ("SET @@session.tx_read_only = 0", true),
            ("SET sql_mode = 'write'", false),
            ("SET @write = 1", false),
        ] {
            assert_eq!(lets_transactions_write(sql.as_bytes(), LexOptions::default()), lets, "{sql}");
        }
    }

    #[test]
    fn for_share_is_no_write() {
        for (sql, locks, may_share) in [
            ("SELECT a FROM t FOR UPDATE", true, false),
            ("SELECT a FROM t LOCK IN SHARE MODE", true, true),
            ("SELECT a FROM t for share SKIP LOCKED", true, true),
            ("SELECT shared FROM t FOR UPDATE", true, false),
            ("SELECT shared, updates FROM t", false, false),
        ] {
            let found = (may_lock_rows(sql.as_bytes()), may_lock_to_share(sql.as_bytes()));
            assert_eq!(found, (locks, may_share), "{sql}");
        }
    }
}
