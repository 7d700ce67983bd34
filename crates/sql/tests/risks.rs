//! Which statements have which risks: what tries to get past a filter, and what only looks like one of these.

use delphinus_sql::{Flavor, LexOptions, Risks, classify};

fn risks(sql: &str, flavor: Flavor) -> Risks {
    let server_version = if flavor == Flavor::MySql { 90_700 } else { 101_119 };
    classify(sql.as_bytes(), LexOptions { flavor, server_version, ..LexOptions::default() }).risks
}

/// Each of these has the risk on both products.
fn all_have(risk: Risks, texts: &[&str]) {
    for sql in texts {
        for flavor in [Flavor::MySql, Flavor::MariaDb] {
            let found = risks(sql, flavor);
            assert!(found.contains(risk), "{flavor:?}: {sql}: {found:?}");
        }
    }
}

/// None of these has it.
fn none_has(risk: Risks, texts: &[&str]) {
    for sql in texts {
        for flavor in [Flavor::MySql, Flavor::MariaDb] {
            let found = risks(sql, flavor);
            assert!(!found.intersects(risk), "{flavor:?}: {sql}: {found:?}");
        }
    }
}

/// They say of no row that it is meant.
const OF_ALL_ROWS: &[&str] = &[
    "DELETE FROM t",
    "delete from t",
    "DELETE d FROM del d",
    "DELETE LOW_PRIORITY QUICK IGNORE FROM t",
    "DELETE FROM d USING del AS d",
    "DELETE a, b FROM a JOIN b ON a.id = b.id",
    "DELETE FROM t LIMIT 5",
    "DELETE FROM t ORDER BY id LIMIT 5",
    "DELETE FROM t PARTITION (p0)",
    "DELETE/**/FROM/**/t",
    "DELETE FROM t -- WHERE id = 1",
    "DELETE FROM t # WHERE id = 1",
    "DELETE FROM t /* WHERE id = 1 */",
    "DELETE FROM t /*!99999 WHERE id = 1 */",
    "/*!40000 DELETE FROM t */",
    "DELETE /*!40000 FROM */ t",
    "UPDATE t SET a = 1",
    "UPDATE LOW_PRIORITY t SET a = 1",
    "UPDATE t SET a = 'WHERE id = 1'",
    "UPDATE t SET a = (SELECT b FROM u WHERE u.id = 1)",
    "UPDATE t JOIN u ON t.id = u.id SET t.a = u.a",
    "UPDATE t, u SET t.a = 1 LIMIT 3",
    "UPDATE `where` SET `where`.a = 1",
    "UPDATE t SET t.where = 1",
    "WITH x AS (SELECT 1 AS id WHERE 1) DELETE FROM t",
    "WITH x AS (SELECT id FROM u WHERE id = 1) UPDATE t, x SET t.a = 1",
    "EXPLAIN ANALYZE DELETE FROM t",
    "ANALYZE FORMAT=JSON DELETE FROM t",
    "SELECT 1; DELETE FROM t",
    "DELETE FROM t WHERE id = 1; DELETE FROM t",
    ";DELETE FROM t",
    "DELETE FROM t WHERE 1",
    "DELETE FROM t WHERE 1 = 1",
    "DELETE FROM t WHERE (1)",
    "DELETE FROM t WHERE TRUE",
    "DELETE FROM t WHERE NOT FALSE",
    "DELETE FROM t WHERE 1 IS NOT NULL",
    "DELETE FROM t WHERE TRUE IS NOT UNKNOWN",
    "DELETE FROM t WHERE 'a' = 'a'",
    "DELETE FROM t WHERE 'id'",
    "DELETE FROM t WHERE _utf8mb4'id' = _utf8mb4 'id'",
    "DELETE FROM t WHERE 'a' COLLATE utf8mb4_bin = 'a'",
    "DELETE FROM t WHERE ? = ?",
    "DELETE FROM t WHERE @a IS NULL",
    "DELETE FROM t WHERE @@autocommit >= 0",
    "DELETE FROM t WHERE @@session.autocommit >= 0",
    "DELETE FROM t WHERE NOW() > '2000-01-01'",
    "DELETE FROM t WHERE CURRENT_DATE > DATE '2000-01-01'",
    "DELETE FROM t WHERE NOW() > TIMESTAMP '2000-01-01 00:00:00'",
    "DELETE FROM t WHERE NOW() + INTERVAL 1 DAY > 0",
    "DELETE FROM t WHERE INTERVAL 1 DAY + NOW() > 0",
    "DELETE FROM t WHERE TIMESTAMPDIFF(DAY, NOW(), NOW()) = 0",
    "DELETE FROM t WHERE EXTRACT(DAY FROM NOW()) > 0",
    "DELETE FROM t WHERE CAST(1 AS SIGNED)",
    "DELETE FROM t WHERE CAST('a' AS CHAR CHARACTER SET latin1) = 'a'",
    "DELETE FROM t WHERE CONVERT('a' USING latin1) = 'a'",
    "DELETE FROM t WHERE CASE WHEN 1 THEN 1 ELSE 0 END",
    "DELETE FROM t WHERE 1 IN (1, 2)",
    "DELETE FROM t WHERE 1 BETWEEN 0 AND 2 OR 1 XOR 0",
    "DELETE FROM t WHERE 1 DIV 1 = 1 MOD 2",
    "DELETE FROM t WHERE 'a' LIKE 'a' ESCAPE '|'",
    "DELETE FROM t WHERE BINARY 'a' = 'a'",
    "DELETE FROM t WHERE EXISTS (SELECT 1)",
    "DELETE FROM t WHERE EXISTS (SELECT * FROM u)",
    "DELETE FROM t WHERE 1 = ANY (SELECT 1 FROM u JOIN v)",
    "DELETE FROM t WHERE TRIM(LEADING 'a' FROM 'aa') = ''",
    "DELETE FROM t WHERE {fn now()} > 0",
    "DELETE FROM t WHERE \\N IS NULL",
    "DELETE FROM t WHERE x'41' = 0x41",
    "DELETE FROM t WHERE 1 ORDER BY id",
    "DELETE FROM t WHERE 1 LIMIT 1000",
    "DELETE FROM t WHERE RAND() < 2 ORDER BY id LIMIT 1000",
    "UPDATE t SET a = 1 WHERE 1",
    "UPDATE t SET a = id WHERE 1 ORDER BY id",
];

#[test]
fn writes_of_all_rows() {
    all_have(Risks::WRITES_ALL_ROWS, OF_ALL_ROWS);
    assert!(
        risks("SET STATEMENT max_statement_time = 1 FOR DELETE FROM t", Flavor::MariaDb)
            .contains(Risks::WRITES_ALL_ROWS)
    );
    assert!(risks("DELETE FROM t WHERE 1 RETURNING id", Flavor::MariaDb).contains(Risks::WRITES_ALL_ROWS));
    // A version comment that this server does not run.
    assert!(
        risks("DELETE FROM t /*!80000 WHERE id = 1 */", Flavor::MariaDb).contains(Risks::WRITES_ALL_ROWS)
    );
}

/// They say which rows are meant, or write nothing.
const OF_SOME_ROWS: &[&str] = &[
    "DELETE FROM t WHERE id = 1",
    "DELETE FROM t WHERE t.id = 1",
    "DELETE FROM t WHERE `id` = 1",
    "DELETE FROM t WHERE (id) IN (1, 2)",
    "DELETE FROM t WHERE 1 = id",
    "DELETE FROM t WHERE status = 1",
    "DELETE FROM t WHERE date < NOW()",
    "DELETE FROM t WHERE day = 4",
    "DELETE FROM t WHERE COALESCE(a, b) = 1",
    "DELETE FROM t WHERE LOWER(name) = 'x'",
    "DELETE FROM t WHERE CAST(id AS SIGNED) = 1",
    "DELETE FROM t WHERE id IN (SELECT id FROM u)",
    "DELETE FROM t WHERE EXISTS (SELECT 1 FROM u WHERE u.id = t.id)",
    "DELETE FROM t WHERE (a, b) IN ((1, 2))",
    "DELETE FROM t WHERE NOT deleted",
    "DELETE FROM t WHERE 1 AND id = 1 ORDER BY id LIMIT 1",
    "DELETE FROM t WHERE a COLLATE utf8mb4_bin = 'x'",
    "DELETE FROM t WHERE MATCH(a) AGAINST ('x' IN BOOLEAN MODE)",
    "DELETE d FROM del d WHERE d.id = 1",
    "DELETE FROM t /*!40000 WHERE id = 1 */",
    "UPDATE t SET a = 1 WHERE id = 1",
    "UPDATE t JOIN u ON t.id = u.id SET t.a = u.a WHERE u.b = 2",
    "WITH x AS (SELECT 1 AS id) DELETE FROM t WHERE id IN (SELECT id FROM x)",
    "EXPLAIN DELETE FROM t",
    "DESC UPDATE t SET a = 1",
    "SELECT * FROM t",
    "SELECT * FROM t FOR UPDATE",
    "WITH x AS (SELECT 1) SELECT * FROM x FOR UPDATE",
    "INSERT INTO t VALUES (1) ON DUPLICATE KEY UPDATE a = 1",
    "REPLACE INTO t VALUES (1)",
    "TRUNCATE TABLE t",
    "CREATE TRIGGER g BEFORE INSERT ON t FOR EACH ROW DELETE FROM u",
];

#[test]
fn writes_of_some_rows() {
    none_has(Risks::WRITES_ALL_ROWS, OF_SOME_ROWS);
}

/// They take their time.
const DELAYS: &[&str] = &[
    "SELECT SLEEP(1)",
    "select sleep (1)",
    "SELECT SLEEP/**/(1)",
    "SELECT `sleep`(1)",
    "SELECT BENCHMARK(1000000, MD5('a'))",
    "SELECT 1 FROM t WHERE id = SLEEP(1)",
    "SELECT * FROM t ORDER BY SLEEP(1)",
    "SELECT IF(SLEEP(1), 1, 2)",
    "SELECT (SELECT SLEEP(1))",
    "SELECT 1 UNION SELECT SLEEP(1)",
    "SELECT /*!SLEEP(1)*/",
    "SELECT /*!50000 SLEEP*/ (1)",
    "WITH x AS (SELECT SLEEP(1)) SELECT * FROM x",
    "(SELECT SLEEP(1))",
    "DO SLEEP(1)",
    "SET @a = SLEEP(1)",
    "CALL p(SLEEP(1))",
    "INSERT INTO t VALUES (SLEEP(1))",
    "INSERT INTO t SELECT SLEEP(1)",
    "UPDATE t SET a = SLEEP(1) WHERE id = 1",
    "DELETE FROM t WHERE id = 1 OR SLEEP(1)",
    "DELETE FROM t WHERE id = 1 ORDER BY SLEEP(1)",
    "LOAD DATA INFILE 'x' INTO TABLE t SET a = SLEEP(1)",
    "CREATE TABLE t AS SELECT SLEEP(1)",
    "CREATE TABLE t SELECT SLEEP(1) AS a",
    "SHOW TABLES WHERE SLEEP(1)",
    "SHOW STATUS WHERE SLEEP(1)",
    "KILL (SELECT SLEEP(1))",
    "EXPLAIN SELECT SLEEP(1)",
    "HANDLER t READ FIRST WHERE SLEEP(1)",
    "SELECT 1; SELECT SLEEP(1)",
    "VALUES ROW(SLEEP(1))",
    "EXECUTE s USING SLEEP(1)",
];

#[test]
fn delays() {
    all_have(Risks::SLEEPS, DELAYS);
    none_has(
        Risks::SLEEPS,
        &[
            "SELECT sleep FROM t",
            "SELECT 'SLEEP(1)'",
            "SELECT 1 -- SLEEP(1)",
            "SELECT 1 /* SLEEP(1) */",
            "SELECT `sleep(1)` FROM t",
            "INSERT INTO sleep (a) VALUES (1)",
            "SELECT db.sleep(1)",
            "SELECT sleeps(1)",
            "CREATE TABLE sleep (a INT)",
        ],
    );
    // No product runs this one.
    assert!(!risks("SELECT 1 /*!999999 , SLEEP(1) */", Flavor::MySql).contains(Risks::SLEEPS));
}

#[test]
fn the_others() {
    all_have(
        Risks::SEVERAL_STATEMENTS,
        &["SELECT 1; SELECT 2", ";;SELECT 1;SELECT 2;", "SELECT 1;/*!SELECT 2*/", "SELECT 1 /*!; SELECT 2*/"],
    );
    none_has(
        Risks::SEVERAL_STATEMENTS,
        &["SELECT 1", "SELECT 1;", "SELECT ';'", "SELECT 1; -- x", "SELECT 1; /* ; */"],
    );
    all_have(
        Risks::LOADS_DATA,
        &[
            "LOAD DATA INFILE 'x' INTO TABLE t",
            "LOAD DATA LOCAL INFILE 'x' INTO TABLE t",
            "LOAD DATA LOW_PRIORITY LOCAL INFILE 'x' REPLACE INTO TABLE t",
            "load/**/data local infile 'x' into table t",
            "LOAD XML INFILE 'x' INTO TABLE t",
            "SELECT 1; LOAD DATA INFILE 'x' INTO TABLE t",
            "/*!40000 LOAD */ DATA INFILE 'x' INTO TABLE t",
        ],
    );
    none_has(Risks::LOADS_DATA, &["LOAD INDEX INTO CACHE t", "SELECT 'LOAD DATA'"]);
    all_have(
        Risks::WRITES_FILE,
        &[
            "SELECT * FROM t INTO OUTFILE '/tmp/x'",
            "SELECT * INTO OUTFILE '/tmp/x' FROM t",
            "SELECT 1 INTO DUMPFILE '/tmp/x'",
            "SELECT 1 INTO /*!OUTFILE*/ '/tmp/x'",
            "SELECT 1 UNION SELECT 2 INTO OUTFILE '/tmp/x'",
            "(SELECT 1) INTO OUTFILE '/tmp/x'",
            "WITH x AS (SELECT 1) SELECT * FROM x INTO OUTFILE '/tmp/x'",
            "TABLE t INTO OUTFILE '/tmp/x'",
            "SELECT 1; SELECT 1 INTO OUTFILE '/tmp/x'",
        ],
    );
    none_has(Risks::WRITES_FILE, &["SELECT 1 INTO @a", "SELECT outfile FROM t", "SELECT 'INTO OUTFILE'"]);
}

#[test]
fn changes_beside_rows() {
    all_have(
        Risks::CHANGES_SCHEMA,
        &[
            "CREATE TABLE t (a INT)",
            "CREATE OR REPLACE VIEW v AS SELECT 1",
            "CREATE TEMPORARY TABLE t (a INT)",
            "CREATE DATABASE d",
            "CREATE UNIQUE INDEX i ON t (a)",
            "CREATE DEFINER = a PROCEDURE p() SELECT 1",
            "ALTER TABLE t ADD b INT",
            "DROP TABLE t",
            "DROP TEMPORARY TABLE t",
            "DROP /*!40000 TABLE*/ t",
            "DROP DATABASE d",
            "RENAME TABLE a TO b",
            "TRUNCATE t",
            "SELECT 1; DROP TABLE t",
            "/*!50000 DROP TABLE t */",
        ],
    );
    none_has(
        Risks::CHANGES_SCHEMA,
        &[
            "SHOW CREATE TABLE t",
            "INSERT INTO t SELECT 1",
            "DROP PREPARE s",
            "GRANT SELECT ON *.* TO a",
            "ANALYZE TABLE t",
        ],
    );
    all_have(
        Risks::SETS_GLOBAL,
        &[
            "SET GLOBAL max_connections = 1",
            "SET @@GLOBAL.max_connections = 1",
            "SET @@global . max_connections = 1",
            "SET a = 1, GLOBAL max_connections = 1",
            "SET @a = 1, @@global.max_connections = 1",
            "SET GLOBAL TRANSACTION READ ONLY",
            "SET /*!GLOBAL*/ max_connections = 1",
            "SELECT 1; SET GLOBAL max_connections = 1",
        ],
    );
    assert!(risks("SET PERSIST max_connections = 1", Flavor::MySql).contains(Risks::SETS_GLOBAL));
    assert!(risks("SET @@persist_only.max_connections = 1", Flavor::MySql).contains(Risks::SETS_GLOBAL));
    none_has(
        Risks::SETS_GLOBAL,
        &["SET SESSION a = 1", "SET @global = 1", "SELECT @@global.max_connections", "SET NAMES utf8mb4"],
    );
    all_have(
        Risks::CHANGES_ACCOUNTS,
        &[
            "CREATE USER a",
            "GRANT SELECT ON *.* TO a",
            "SET PASSWORD = 'x'",
            "DROP ROLE a",
            "ALTER USER a ACCOUNT LOCK",
        ],
    );
}

#[test]
fn what_was_not_seen() {
    all_have(
        Risks::UNSEEN,
        &[
            "CALL p()",
            "SELECT my_function(1)",
            "EXECUTE s",
            "SELECT 1; EXECUTE s",
            "BEGIN NOT ATOMIC DELETE FROM t; END",
            "BEGIN DELETE FROM t; END",
            "DECLARE a INT; BEGIN DELETE FROM t; END",
            "CREATE TRIGGER g BEFORE INSERT ON t FOR EACH ROW DELETE FROM u",
            "CREATE EVENT e ON SCHEDULE EVERY 1 DAY DO DELETE FROM t",
            "ALTER EVENT e DO DELETE FROM t",
            "ALTER DEFINER = 'x'@'h' EVENT e DO DELETE FROM t",
            "ALTER DEFINER=x@h EVENT e DO BEGIN DELETE FROM t; END",
            "ALTER DEFINER = CURRENT_USER EVENT e DO DELETE FROM t",
            "CREATE DEFINER='x'@`h` TRIGGER g BEFORE INSERT ON t FOR EACH ROW DELETE FROM u",
            "CREATE PROCEDURE p() DELETE FROM t",
            "CREATE OR REPLACE FUNCTION f() RETURNS INT RETURN SLEEP(1)",
            "EXECUTE IMMEDIATE ?",
            "IF 1 THEN DELETE FROM t; END IF",
            "WHILE 1 DO DELETE FROM t; END WHILE",
            "FOR i IN 1..2 DO DELETE FROM t; END FOR",
            "FROBNICATE t",
            "DELETE FROM t WHERE id = 1 'unterminated",
            r"SET sql_mode = 'NO_BACKSLASH_ESCAPES'; SELECT '\'; DELETE FROM t; -- '",
            "SET NAMES gbk; SELECT 'é'",
        ],
    );
    assert!(risks("EXECUTE IMMEDIATE 'DELETE FROM t'", Flavor::MariaDb).contains(Risks::UNSEEN));
    none_has(
        Risks::UNSEEN,
        &[
            "SELECT 1",
            "INSERT INTO t VALUES (1)",
            "PREPARE s FROM 'SELECT 1'",
            "SET @a = 1",
            "BEGIN",
            "COMMIT",
            "SHOW TABLES",
            "/*!40101 SET NAMES utf8 */",
            "SET NAMES utf8; SET sql_mode = ''; DELETE FROM t WHERE a = 'b'",
        ],
    );
}
