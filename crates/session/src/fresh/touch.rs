//! What statements do with data, as far as it matters for what is read afterwards.

use delphinus_sql::{Access, Class, Effects, Statement, Uses, Why};

/// What a statement does with data.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Touch {
    /// It changes the session only.
    #[default]
    Nothing,
    Reads,
    /// It may write, or end a transaction that has.
    Writes,
}

impl Touch {
    /// `has_written`: in the transaction that is open.
    #[inline]
    pub(super) fn of(statement: &Statement, has_written: bool) -> Self {
        match statement.access {
            Access::Read => Self::Reads,
            Access::Write => Self::of_write(statement, has_written),
        }
    }

    fn of_write(statement: &Statement, has_written: bool) -> Self {
        // Beside locking it may write: a locking read hides other reasons.
        let only_reads = matches!(statement.class, Class::Select | Class::Values | Class::Table)
            && !statement.effects.intersects(Effects::OPAQUE)
            && !statement.uses.contains(Uses::SEQUENCES);
        if statement.why == Why::LockingRead && only_reads {
            return Self::Reads;
        }
        let harmless = match statement.class {
            Class::Use
            | Class::Savepoint
            | Class::ReleaseSavepoint
            | Class::RollbackToSavepoint
            | Class::Deallocate
            | Class::Kill
            | Class::Empty => true,
            // They end a transaction, or may.
            Class::Begin | Class::StartTransaction | Class::Set | Class::Commit | Class::Rollback => {
                !has_written
            }
            _ => false,
        };
        let more = Effects::OPAQUE.union(Effects::SETS_USER_VARS).union(Effects::SETS_PASSWORD);
        let is_more = statement.effects.intersects(more) || statement.uses.contains(Uses::SEQUENCES);
        if harmless && !is_more { Self::Nothing } else { Self::Writes }
    }
}

/// True for what goes to the primary, or to the connection of the statement before, for what it looks at, and writes nothing.
pub(super) fn only_looks(statement: &Statement) -> bool {
    let why =
        [Why::SessionFunction, Why::LastInsertId, Why::SystemVariable, Why::CalcFoundRows, Why::ServerState];
    let is_look = match statement.class {
        Class::Show => true,
        Class::Select => why.contains(&statement.why),
        _ => false,
    };
    is_look
        && !statement.effects.intersects(Effects::OPAQUE)
        && !statement.uses.contains(Uses::SEQUENCES)
        && statement.count == 1
}

/// True for what writes rows and commits nothing.
#[inline]
pub(super) fn is_plain_write(statement: &Statement) -> bool {
    let classes = [
        Class::Insert,
        Class::Replace,
        Class::Update,
        Class::Delete,
        Class::LoadData,
        Class::Select,
        Class::With,
        Class::Rollback,
    ];
    classes.contains(&statement.class) && !statement.effects.intersects(Effects::OPAQUE)
}

#[cfg(test)]
mod tests {
    use delphinus_sql::{LexOptions, classify};

    use super::*;

    #[test]
    fn what_writes_or_commits_is_told_from_what_only_reads_or_changes_the_session() {
        use Touch::{Nothing, Reads, Writes};
        for (sql, free, after_a_write) in [
            ("SELECT * FROM t", Reads, Reads),
            ("SELECT * FROM t FOR UPDATE", Reads, Reads),
            ("(SELECT id FROM t LIMIT 1 FOR UPDATE) UNION SELECT 2", Reads, Reads),
            ("(SELECT id FROM t LIMIT 1 FOR UPDATE) UNION SELECT f()", Writes, Writes),
            ("DO (SELECT id FROM t FOR UPDATE), f()", Writes, Writes),
            ("(SELECT id FROM t LIMIT 1 FOR UPDATE) UNION SELECT NEXT VALUE FOR s", Writes, Writes),
            (
                "WITH n AS (SELECT id FROM t LIMIT 1 FOR UPDATE SKIP LOCKED) UPDATE t JOIN n USING (id) SET a = 1",
                Writes,
                Writes,
            ),
            ("INSERT INTO t VALUES (1)", Writes, Writes),
            ("CREATE TABLE t (a INT)", Writes, Writes),
            ("CALL p()", Writes, Writes),
            ("COMMIT", Nothing, Writes),
            ("ROLLBACK", Nothing, Writes),
            ("BEGIN", Nothing, Writes),
            ("START TRANSACTION READ ONLY", Nothing, Writes),
            ("SET autocommit = 1", Nothing, Writes),
            ("SET NAMES utf8mb4", Nothing, Writes),
            ("SET @a = (SELECT MAX(id) FROM t)", Writes, Writes),
            ("SET PASSWORD = 'x'", Writes, Writes),
            ("USE test", Nothing, Nothing),
            ("SAVEPOINT s", Nothing, Nothing),
            ("SELECT 1; INSERT INTO t VALUES (1)", Writes, Writes),
            ("what is this", Writes, Writes),
        ] {
            let statement = classify(sql.as_bytes(), LexOptions::default());
            assert_eq!(
                (Touch::of(&statement, false), Touch::of(&statement, true)),
                (free, after_a_write),
                "{sql}"
            );
        }
    }

    #[test]
    fn what_only_looks_is_no_write() {
        for (sql, expected) in [
            ("SELECT FOUND_ROWS()", true),
            ("SELECT LAST_INSERT_ID()", true),
            ("SELECT @@server_id", true),
            ("SHOW WARNINGS", true),
            ("SELECT f()", false),
            ("SELECT @@server_id, f()", false),
            ("SELECT @@server_id, NEXT VALUE FOR s", false),
            ("SELECT ROW_COUNT(); DELETE FROM t", false),
            ("INSERT INTO t VALUES (1)", false),
        ] {
            assert_eq!(only_looks(&classify(sql.as_bytes(), LexOptions::default())), expected, "{sql}");
        }
    }
}
