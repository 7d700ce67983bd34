//! Digests: what is the same statement, and what is not.

use super::*;
use crate::{Flavor, Quotes};
use expect_test::{Expect, expect};

fn text(sql: &str, options: LexOptions) -> String {
    let mut out = Vec::new();
    digest(sql.as_bytes(), options, &mut out);
    String::from_utf8(out).unwrap()
}

fn check(statements: &[&str], expected: &Expect) {
    let lines: Vec<String> = statements.iter().map(|sql| text(sql, LexOptions::default())).collect();
    expected.assert_eq(&lines.join("\n"));
}

#[test]
fn literals_become_question_marks() {
    check(
        &[
            "SELECT c FROM sbtest1 WHERE id=42",
            "select a, 'x', \"y\", 1.5e3, 0x1F, x'00', N'z' from t",
            "SELECT * FROM t WHERE a = -5 AND b = +1.5 AND c - 3 > -1",
            "SELECT _utf8mb4'x', _binary x'00', 'a' 'b' \"c\" FROM t",
            "UPDATE t SET a = 'x', b = NULL, c = TRUE WHERE d IS NULL",
            "SELECT DATE '2020-01-01' + INTERVAL 1 DAY, a->>'$.x', b->'$.y'",
            "CREATE USER u@localhost IDENTIFIED BY 'secret'",
            "SET PASSWORD FOR 'u'@'h' = 'secret'",
        ],
        &expect![[r"
            SELECT c FROM sbtest1 WHERE id = ?
            SELECT a, ?, ... FROM t
            SELECT * FROM t WHERE a = ? AND b = ? AND c - ? > ?
            SELECT ?, ... FROM t
            UPDATE t SET a = ?, b = NULL, c = TRUE WHERE d IS NULL
            SELECT DATE ? + INTERVAL ? DAY, a ->> ?, b -> ?
            CREATE USER u@localhost IDENTIFIED BY ?
            SET PASSWORD FOR ?@'h' = ?"]],
    );
}

/// Behind such a statement, what is a literal to the server may look like a name here.
#[test]
fn what_may_be_read_in_another_way_is_left_out() {
    check(
        &[
            r"SET sql_mode='NO_BACKSLASH_ESCAPES'; SELECT '\'; CREATE USER u IDENTIFIED BY 'secret'; -- '",
            "SET NAMES utf8mb4;; INSERT INTO t VALUES ('é')",
            "SET NAMES utf8mb4; INSERT INTO t VALUES ('e'); SELECT 1",
            r#"SELECT "a\n"; SET sql_mode = ''; COMMIT"#,
        ],
        &expect![[r"
            SET sql_mode = ?; ?
            SET NAMES utf8mb4; ?
            SET NAMES utf8mb4; INSERT INTO t VALUES (?); SELECT ?
            SELECT ?; SET sql_mode = ?; COMMIT"]],
    );
}

#[test]
fn lists_of_literals_are_shortened() {
    check(
        &[
            "SELECT * FROM t WHERE a IN (1)",
            "SELECT * FROM t WHERE a IN (1, 2)",
            "SELECT * FROM t WHERE a IN (1,2,'x',?,NULL,-4)",
            "SELECT * FROM t WHERE (a, b) IN ((1, 2), (3, 4), (5, 6))",
            "INSERT INTO t (a, b) VALUES (1, 2)",
            "INSERT INTO t(a,b) VALUES(1,2),(3,4),(5,6)",
            "INSERT INTO t VALUES (1, NOW(), 'x'), (2, NOW(), 'y') ON DUPLICATE KEY UPDATE a = 1",
            "INSERT INTO t VALUES (1, b), (2, c), (3, c)",
            "VALUES ROW(1, 2), ROW(3, 4)",
            "SELECT CONCAT('a', 'b', c), ROUND(1.5), f(1), (2), (3) LIMIT 5, 10",
            "SELECT 1, 2, a, 3, 4",
        ],
        &expect![[r"
            SELECT * FROM t WHERE a IN (?)
            SELECT * FROM t WHERE a IN (?, ...)
            SELECT * FROM t WHERE a IN (?, ...)
            SELECT * FROM t WHERE (a, b) IN ((?, ...), ...)
            INSERT INTO t(a, b) VALUES (?, ...)
            INSERT INTO t(a, b) VALUES (?, ...), ...
            INSERT INTO t VALUES (?, NOW(), ?), ... ON DUPLICATE KEY UPDATE a = ?
            INSERT INTO t VALUES (?, b), (?, c), ...
            VALUES ROW (?, ...), ROW (?, ...)
            SELECT CONCAT(?, ..., c), ROUND(?), f(?), (?), ... LIMIT ?, ...
            SELECT ?, ..., a, ?, ..."]],
    );
}

#[test]
fn spaces_comments_and_case_do_not_matter() {
    check(
        &[
            "  select  a\n\t,b  from\tt  where  a=1  ;  ",
            "SELECT a,b FROM t WHERE a = 2",
            "/* x */ SELECT /*+ NO_INDEX(t) */ a, b # y\nFROM t -- z\nWHERE a=3;;",
            "SELECT `a`, `b` FROM `t` WHERE `a` = 4",
            "SELECT `select`, `a b`, `c`.`d`, `Naïve` FROM `1t`",
            "select Count( * ), max( a ) from T group by B",
            "SELECT a FROM t WHERE a<=>1 AND b!=2 AND c<>3 AND d>=4 AND e||f AND g<<1",
            "SELECT @a := 1, @@session.sql_mode, @`b`; SELECT 2;",
            "SELECT 1 /*!50000 + a */ /*!99999 + b */",
            "BEGIN",
            "",
            ";",
            "SELECT 'unterminated",
        ],
        &expect![[r"
            SELECT a, b FROM t WHERE a = ?
            SELECT a, b FROM t WHERE a = ?
            SELECT a, b FROM t WHERE a = ?
            SELECT a, b FROM t WHERE a = ?
            SELECT `select`, `a b`, c.d, `Naïve` FROM `1t`
            SELECT COUNT(*), MAX(a) FROM T GROUP BY B
            SELECT a FROM t WHERE a <=> ? AND b != ? AND c <> ? AND d >= ? AND e || f AND g << ?
            SELECT @a := ?, @@session.sql_mode, @`b`; SELECT ?
            SELECT ? + a
            BEGIN


            SELECT ?"]],
    );
}

#[test]
fn settings_change_what_is_read() {
    let ansi = LexOptions { ansi_quotes: Quotes::Ansi, ..LexOptions::default() };
    assert_eq!(text("SELECT \"a\", 'b' FROM \"t\"", ansi), "SELECT a, ? FROM t");
    let mariadb = LexOptions { flavor: Flavor::MariaDb, server_version: 101_119, ..LexOptions::default() };
    assert_eq!(text("select nvl( a , 1 )", mariadb), "SELECT NVL(a, ?)");
}

#[test]
fn the_text_is_appended_and_the_hash_is_of_it_alone() {
    let mut out = b"before ".to_vec();
    let first = digest(b"SELECT 1", LexOptions::default(), &mut out);
    assert_eq!(out, b"before SELECT ?");
    let second = digest(b"select /* x */ 2", LexOptions::default(), &mut Vec::new());
    assert_eq!(first, second);
    let other = digest(b"SELECT a", LexOptions::default(), &mut Vec::new());
    assert_ne!(first, other);
    assert_eq!(first.to_string().len(), 16);
}

#[test]
fn deep_and_unbalanced_parentheses_are_harmless() {
    let deep = format!("SELECT {}1{}", "(".repeat(100), ")".repeat(100));
    assert!(text(&deep, LexOptions::default()).starts_with("SELECT ((((("));
    assert_eq!(text(")) (1), (2) ((", LexOptions::default()), ")) (?), ... ((");
}
