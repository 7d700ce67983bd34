//! What statements do with data, as far as it matters for who may be read from afterwards.

use delphinus_sql::{LexOptions, classify};

use super::*;

#[test]
fn what_writes_or_commits_is_told_from_what_only_reads_or_changes_the_session() {
    use Touch::{Nothing, Reads, Writes};
    for (sql, free, after_a_write) in [
        ("SELECT * FROM t", Reads, Reads),
        ("SELECT * FROM t FOR UPDATE", Reads, Reads),
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
        ("SELECT ROW_COUNT(); DELETE FROM t", false),
        ("INSERT INTO t VALUES (1)", false),
    ] {
        assert_eq!(only_looks(&classify(sql.as_bytes(), LexOptions::default())), expected, "{sql}");
    }
}

#[test]
fn tokens_grow_by_what_is_understood() {
    let mut causality = Causality::default();
    assert!(causality.is_blank());
    assert!(causality.add("0-1-5") && causality.add("0-1-7") && causality.add("1-1-2"));
    assert!(!causality.add("nonsense"));
    assert_eq!(causality.token.as_ref().unwrap().to_string(), "0-1-7,1-1-2");
    assert!(!causality.is_blank());
}

#[test]
fn only_what_loads_a_file_may_ask_for_one() {
    let lex = LexOptions { flavor: delphinus_sql::Flavor::MariaDb, ..LexOptions::default() };
    for (sql, expected) in [
        ("LOAD DATA LOCAL INFILE 'x' INTO TABLE t", true),
        ("load xml low_priority local infile 'x' into table t", true),
        ("/*! LOAD DATA LOCAL */ INFILE 'x' INTO TABLE t", true),
        ("SET STATEMENT max_statement_time = 1 FOR LOAD DATA LOCAL INFILE 'x' INTO TABLE t", true),
        ("SELECT 1; LOAD DATA LOCAL INFILE 'x' INTO TABLE t", true),
        ("EXECUTE s", true),
        ("EXECUTE IMMEDIATE CONCAT('LOAD ', @x)", true),
        ("NEW THING OF NEXT YEAR", true),
        ("LOAD DATA INFILE 'x' INTO TABLE t", false),
        ("SELECT 'LOAD DATA LOCAL INFILE'", false),
        ("INSERT INTO t VALUES (1)", false),
        ("SET @a = 1", false),
        ("BEGIN", false),
        ("CALL p()", false),
    ] {
        assert_eq!(may_ask_for_file(&classify(sql.as_bytes(), lex)), expected, "{sql}");
    }
}
