//! Where one statement ends and the next begins.

use super::*;
use crate::Flavor;

fn parts_as(sql: &str, options: LexOptions) -> Vec<&str> {
    split(sql.as_bytes(), options).map(|range| &sql[range]).collect()
}

fn parts(sql: &str) -> Vec<&str> {
    parts_as(sql, LexOptions::default())
}

#[test]
fn semicolons_end_statements_but_not_in_strings_and_comments() {
    assert_eq!(parts("SELECT 1"), ["SELECT 1"]);
    assert_eq!(parts(" SELECT 1 ; SELECT 2;"), ["SELECT 1", "SELECT 2"]);
    assert_eq!(
        parts("SELECT ';' /* ; */, `;` -- ;\n, \";\" # ;\n; x"),
        ["SELECT ';' /* ; */, `;` -- ;\n, \";\"", "x"]
    );
    assert_eq!(parts("SELECT 'it''s; \\'; '; x"), ["SELECT 'it''s; \\'; '", "x"]);
    assert_eq!(parts("SELECT 'unterminated; x"), ["SELECT 'unterminated; x"]);
}

#[test]
fn empty_statements_count_only_before_others() {
    assert_eq!(parts(""), [""; 0]);
    assert_eq!(parts(" ; ;; -- x\n;/* y */"), [""; 0]);
    assert_eq!(parts("SELECT 1;;; "), ["SELECT 1"]);
    assert_eq!(parts(";SELECT 1"), ["", "SELECT 1"]);
    assert_eq!(parts("SELECT 1;;SELECT 2"), ["SELECT 1", "", "SELECT 2"]);
}

#[test]
fn a_body_keeps_its_semicolons() {
    let bodies = [
        "CREATE PROCEDURE p() BEGIN SELECT 1; SELECT 2; END",
        "CREATE PROCEDURE p() BEGIN IF a THEN SELECT 1; ELSEIF b THEN SELECT 2; ELSE SELECT 3; END IF; END",
        "CREATE PROCEDURE p() BEGIN l: LOOP IF IF(a, b, c) THEN LEAVE l; END IF; END LOOP l; END",
        "CREATE PROCEDURE p() BEGIN SELECT CASE a WHEN 1 THEN IF(b, 1, 2) ELSE IF(c, 3, 4) END; SELECT 2; END",
        "CREATE PROCEDURE p() BEGIN CASE a WHEN 1 THEN IF b THEN SELECT 1; END IF; ELSE BEGIN END; END CASE; END",
        "CREATE PROCEDURE p() BEGIN REPEAT SET x = REPEAT('a', 2); UNTIL x END REPEAT; WHILE y DO SET y = 0; END WHILE; END",
        "CREATE PROCEDURE p() BEGIN DECLARE CONTINUE HANDLER FOR NOT FOUND BEGIN SET d = 1; END; SELECT t.end, t.begin, `end`; END",
        "CREATE TRIGGER t AFTER INSERT ON u FOR EACH ROW BEGIN SET @a = 1; END",
        "CREATE DEFINER=`a`@`b` EVENT e ON SCHEDULE EVERY 1 DAY DO BEGIN SELECT 1; END",
        "ALTER EVENT e DO BEGIN SELECT 1; END",
        "CREATE FUNCTION f() RETURNS INT IF 1 THEN RETURN 1; ELSE RETURN 2; END IF",
    ];
    for body in bodies {
        let text = format!("{body}; SELECT 2");
        assert_eq!(parts(&text), [body, "SELECT 2"]);
    }
    let mariadb = LexOptions { flavor: Flavor::MariaDb, server_version: 101_119, ..LexOptions::default() };
    for body in [
        "BEGIN NOT ATOMIC SET @a = 1; SELECT @a; END",
        "BEGIN NOT ATOMIC IF 1 THEN SELECT 1; END IF; END",
        "BEGIN NOT ATOMIC FOR i IN 1..3 DO SELECT i; END FOR; END",
        "FOR i IN 1..3 DO SELECT i; SELECT 2; END FOR",
        "IF 1 THEN SELECT 1; SELECT 2; END IF",
        "WHILE 1 DO SELECT 1; END WHILE",
        "l: LOOP LEAVE l; END LOOP l",
        "CASE 1 WHEN 1 THEN SELECT 1; END CASE",
    ] {
        assert_eq!(parts_as(&format!("{body}; SELECT 2"), mariadb), [body, "SELECT 2"]);
    }
}

#[test]
fn what_only_looks_like_a_body_does_not_swallow_the_rest() {
    for plain in [
        "BEGIN",
        "BEGIN WORK",
        "CREATE TABLE t (begin INT, end INT, `case` INT)",
        "CREATE VIEW v AS SELECT CASE WHEN 1 THEN 2 END",
        "SELECT CASE 1 WHEN 1 THEN 2 END",
        "SELECT IF(1, 2, 3)",
        "XA BEGIN 'x'",
        "DROP PROCEDURE IF EXISTS p",
        "CREATE PROCEDURE p() SELECT 1",
        "CREATE PROCEDURE IF NOT EXISTS p() SELECT IF(1, 2, 3)",
        "ALTER TABLE t ADD begin INT",
    ] {
        assert_eq!(parts(&format!("{plain}; SELECT 2")), [plain, "SELECT 2"]);
    }
}

#[test]
fn a_word_that_begins_a_statement_is_no_label() {
    let count = |sql: &str| {
        (
            split(sql.as_bytes(), LexOptions::default()).count(),
            crate::classify(sql.as_bytes(), LexOptions::default()).count,
        )
    };
    assert_eq!(count("KILL:FOR*/;("), (2, 2));
    assert_eq!(count("l: FOR i IN 1..2 DO SELECT 1; END FOR; SELECT 2"), (2, 2));
}
