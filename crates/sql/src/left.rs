//! What a statement leaves of the warnings and of the count of rows of the one before it, as far as its text says.
//!
//! Owns: which forms of statements have to do with a table. Must not know what a server has answered.

use crate::mentions::{is_one_of, mentions, words};
use crate::names::bare_words;
use crate::{Class, Flavor, LexOptions, SqlText};

/// True if MariaDB keeps the warnings of the statement before for this one, if it has none of its own: it has no tables.
/// Source: what 10.11 was seen to do, in e2e/tests/warnings.rs.
pub fn keeps_warnings(class: Class, text: &SqlText<'_>) -> bool {
    let (sql, lex) = (text.sql, text.lex);
    let has = |wanted| mentions(sql, &[wanted]);
    match class {
        Class::OtherDdl => changes_no_table(sql, lex),
        Class::Backup => !bare_words(sql, lex).any(|word| word.eq_ignore_ascii_case(b"lock")),
        Class::Admin => bare_words(sql, lex).next().is_some_and(|verb| is_one_of(verb, &["reset", "help"])),
        Class::Account | Class::Replication => true,
        Class::Show => (has("profiles") || !shows_tables(sql, lex) && !has("profile")) && !text.has_tables(),
        Class::Empty
        | Class::Select
        | Class::Values
        | Class::With
        | Class::Do
        | Class::Set
        | Class::Use
        | Class::Begin
        | Class::StartTransaction
        | Class::Commit
        | Class::Rollback
        | Class::Savepoint
        | Class::ReleaseSavepoint
        | Class::RollbackToSavepoint
        | Class::Xa
        | Class::UnlockTables
        | Class::Deallocate
        | Class::Kill
        | Class::Flush
        | Class::Explain => !text.has_tables(),
        _ => false,
    }
}

/// True if what a text creates, alters or drops is nothing that stands where a table may, nor belongs to one.
fn changes_no_table(sql: &[u8], lex: LexOptions) -> bool {
    const OBJECTS: [&str; 7] = ["database", "schema", "function", "procedure", "package", "event", "server"];
    const WITH_TABLES: [&str; 5] = ["table", "view", "index", "trigger", "sequence"];
    let mut words = bare_words(sql, lex);
    let verb = words.next().unwrap_or_default();
    let object = words.find(|word| is_one_of(word, &OBJECTS) || is_one_of(word, &WITH_TABLES));
    // Which table a trigger belongs to, only CREATE says.
    let is_drop = verb.eq_ignore_ascii_case(b"drop");
    is_one_of(verb, &["create", "alter", "drop"])
        && object.is_some_and(|object| {
            is_one_of(object, &OBJECTS) || is_drop && object.eq_ignore_ascii_case(b"trigger")
        })
}

/// False for forms of SHOW that no table stands behind.
pub fn shows_tables(sql: &[u8], lex: LexOptions) -> bool {
    const OTHERS: [&str; 20] = [
        "create",
        "grants",
        "privileges",
        "binary",
        "binlog",
        "master",
        "slave",
        "slaves",
        "replica",
        "replicas",
        "relaylog",
        "engine",
        "processlist",
        "warnings",
        "errors",
        "explain",
        "profile",
        "profiles",
        "authors",
        "contributors",
    ];
    const OTHERS_OF_MYSQL: [&str; 2] = ["engines", "storage"];
    let mut words = words(sql).skip_while(|word| is_one_of(word, &["show", "full", "all"]));
    let others_here: &[&str] = if lex.flavor == Flavor::MySql { &OTHERS_OF_MYSQL } else { &[] };
    words.next().is_none_or(|word| !is_one_of(word, &OTHERS) && !is_one_of(word, others_here))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::classify;

    fn lex_of(flavor: Flavor) -> LexOptions {
        LexOptions { flavor, ..LexOptions::default() }
    }

    #[test]
    fn what_has_no_tables_keeps_the_warnings() {
        for (sql, keeps) in [
            ("SELECT 1", true),
            ("SELECT a FROM t", false),
            ("SET @a = (SELECT 1 FROM t)", false),
            ("CREATE DATABASE a", true),
            ("DROP TRIGGER a", true),
            ("CREATE TRIGGER a BEFORE INSERT ON t FOR EACH ROW SET @a = 1", false),
            ("ALTER SERVER s OPTIONS (USER 'index')", true),
            ("DROP INDEX a ON t", false),
            ("BACKUP STAGE START", true),
            ("BACKUP LOCK t", false),
            ("SHOW GRANTS", true),
            ("SHOW PROFILE", false),
            ("SHOW PROFILES", true),
            ("SHOW TABLES", false),
            ("GRANT SELECT ON t TO u", true),
            ("INSERT INTO t VALUES (1)", false),
        ] {
            let lex = lex_of(Flavor::MariaDb);
            let class = classify(sql.as_bytes(), lex).class;
            assert_eq!(keeps_warnings(class, &SqlText::new(sql.as_bytes(), lex)), keeps, "{sql}");
        }
    }

    #[test]
    fn some_forms_of_show_have_no_table_behind_them() {
        let shows = |sql: &str| {
            [Flavor::MariaDb, Flavor::MySql].map(|flavor| shows_tables(sql.as_bytes(), lex_of(flavor)))
        };
        for (sql, expected) in [
            ("SHOW FULL COLUMNS FROM t", [true, true]),
            ("SHOW FULL PROCESSLIST", [false, false]),
            ("show all slaves status", [false, false]),
            ("SHOW ENGINES", [true, false]),
        ] {
            assert_eq!(shows(sql), expected, "{sql}");
        }
    }
}
