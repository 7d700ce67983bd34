//! Transactions of all kinds that logs have.

use anyhow::Result;
use delphinus_sandbox::Server;

/// Makes the tables.
pub(super) fn prepare(primary: &Server) -> Result<()> {
    primary.query(
        "CREATE DATABASE kinds; USE kinds; \
         CREATE TABLE plain (id INT PRIMARY KEY AUTO_INCREMENT, a VARCHAR(200), n DOUBLE); \
         CREATE TABLE big (id INT PRIMARY KEY AUTO_INCREMENT, b LONGBLOB); \
         CREATE TABLE loaded (a INT, b VARCHAR(60))",
    )?;
    Ok(())
}

/// One of each kind, and a rotation in the middle of them.
pub(super) fn all_kinds(primary: &Server, is_mysql: bool, round: usize) -> Result<()> {
    let flush = "FLUSH BINARY LOGS";
    primary.query(&format!(
        "USE kinds; INSERT INTO plain (a) VALUES ('one'), ('two'); \
         BEGIN; INSERT INTO plain (a) VALUES ('in a transaction'); UPDATE plain SET a = CONCAT(a, '!') WHERE id % 3 = 0; COMMIT; \
         XA START 'z{round}'; INSERT INTO plain (a) VALUES ('one phase'); XA END 'z{round}'; XA COMMIT 'z{round}' ONE PHASE; \
         XA START 'y{round}'; INSERT INTO plain (a) VALUES ('rolled back'); XA END 'y{round}'; XA PREPARE 'y{round}'; \
         XA ROLLBACK 'y{round}'; \
         XA START 'x{round}'; INSERT INTO plain (a) VALUES ('xa'); XA END 'x{round}'; XA PREPARE 'x{round}'"
    ))?;
    // In another file, by another session.
    primary.query(flush)?;
    primary.query(&format!("XA COMMIT 'x{round}'"))?;
    primary.query(&format!(
        "USE kinds; CREATE TABLE ddl{round} (id INT PRIMARY KEY) AS SELECT id FROM plain; \
         ALTER TABLE ddl{round} ADD COLUMN c INT DEFAULT {round}; CREATE INDEX i ON ddl{round} (c); \
         CREATE TEMPORARY TABLE t (a INT); INSERT INTO t VALUES (1), (2); {flush}; \
         INSERT INTO plain (a) SELECT a FROM t; DROP TEMPORARY TABLE t; \
         CREATE VIEW v{round} AS SELECT a FROM plain; DROP VIEW v{round}; TRUNCATE TABLE ddl{round}; \
         INSERT INTO ddl{round} (id) VALUES (7)"
    ))?;
    primary.query(
        "USE kinds; DELETE FROM plain WHERE id % 17 = 5; INSERT INTO big (b) VALUES (REPEAT('y', 3000000))",
    )?;
    if is_mysql { of_mysql(primary) } else { of_mariadb(primary) }
}

fn of_mysql(primary: &Server) -> Result<()> {
    primary.query(
        "USE kinds; SET GTID_NEXT='AUTOMATIC:green'; INSERT INTO plain (a) VALUES ('tagged'); SET GTID_NEXT='AUTOMATIC'; \
         SET SESSION binlog_transaction_compression=ON; INSERT INTO plain (a) SELECT a FROM plain LIMIT 500; \
         SET SESSION binlog_transaction_compression=OFF; SET SESSION binlog_row_image=MINIMAL; \
         UPDATE plain SET n = RAND() WHERE id < 50; SET SESSION binlog_row_image=FULL; \
         SET SESSION binlog_rows_query_log_events=ON; INSERT INTO plain (a) VALUES ('with its text')",
    )?;
    Ok(())
}

fn of_mariadb(primary: &Server) -> Result<()> {
    // Statements and rows; what LOAD DATA reads travels in the log with the first.
    primary.query(
        "USE kinds; SET binlog_format=STATEMENT; SET @v = 5; INSERT INTO plain (a) VALUES (@v); \
         INSERT INTO plain (a, n) VALUES ('seeded', RAND()); \
         CREATE TEMPORARY TABLE s (a INT); INSERT INTO s VALUES (1), (2), (3); FLUSH BINARY LOGS; \
         INSERT INTO plain (a) SELECT a FROM s; DROP TEMPORARY TABLE s; \
         SET binlog_format=MIXED; INSERT INTO plain (a) VALUES (UUID()); INSERT INTO plain (a) VALUES ('mixed'); \
         SET binlog_format=ROW; SET gtid_domain_id=7; INSERT INTO plain (a) VALUES ('another domain'); SET gtid_domain_id=0; \
         SET binlog_annotate_row_events=OFF; INSERT INTO plain (a) VALUES ('without its text'); \
         CREATE SEQUENCE IF NOT EXISTS numbers; SELECT NEXTVAL(numbers)",
    )?;
    primary.query("USE kinds; SET GLOBAL log_bin_compress=ON, log_bin_compress_min_len=10")?;
    primary.query("USE kinds; INSERT INTO plain (a) VALUES (REPEAT('compressed', 15))")?;
    primary.query("SET GLOBAL log_bin_compress=OFF")?;
    Ok(())
}

/// LOAD DATA of a file, by rows or (MariaDB) by statement.
pub(super) fn load_data(primary: &Server, is_mysql: bool) -> Result<()> {
    let dir = primary.datadir.parent().map(|dir| dir.join("files")).unwrap_or_default();
    let file = dir.join("rows.csv");
    let rows: Vec<_> = (0..5000).map(|number| format!("{number}\trow number {number}")).collect();
    std::fs::write(&file, rows.join("\n") + "\n")?;
    let load = format!("USE kinds; LOAD DATA INFILE '{}' INTO TABLE loaded", file.display());
    primary.query(&load)?;
    if !is_mysql {
        primary.query(&format!("SET binlog_format=STATEMENT; {load}"))?;
    }
    Ok(())
}

/// One event of this many bytes.
pub(super) fn big_event(primary: &Server, bytes: usize) -> Result<()> {
    primary.query(&format!("USE kinds; INSERT INTO big (b) VALUES (REPEAT('z', {bytes}))"))?;
    Ok(())
}
