//! Statements one behind the other whose answers stand on what the one before has left: a session at the server itself and one
//! through the proxy are told the same, as text and prepared.

use delphinus_sandbox::Flavor;
use delphinus_testkit::{Client, Login, Reply};

const SCRIPTS: &[&[&str]] = &[
    &["GET CURRENT", "GET DIAGNOSTICS", "GET DIAGNOSTICS CONDITION 1 @a = RETURNED_SQLSTATE", "SELECT @a"],
    &[
        "SELECT a FROM no_such",
        "GET DIAGNOSTICS CONDITION 9 @a = MYSQL_ERRNO",
        "GET DIAGNOSTICS CONDITION 1 @a = MYSQL_ERRNO",
        "SELECT @a",
    ],
    &[
        "SELECT a FROM no_such",
        "GET DIAGNOSTICS CONDITION 1 @a = MYSQL_ERRNO, @b = MESSAGE_TEXT",
        "SELECT @a, @b",
    ],
    &[
        "SELECT a FROM no_such",
        "GET DIAGNOSTICS @a = NUMBER",
        "GET DIAGNOSTICS CONDITION 1 @b = MYSQL_ERRNO",
        "SELECT @a, @b",
    ],
    &["SELEC 1", "GET DIAGNOSTICS @a = NUMBER", "SELECT @a"],
    &["SELEC 1", "SHOW WARNINGS", "GET DIAGNOSTICS CONDITION 1 @a = MYSQL_ERRNO", "SELECT @a"],
    // The proxy asks how the transaction stands behind these.
    &["CALL fails()", "GET DIAGNOSTICS CONDITION 1 @a = MYSQL_ERRNO, @b = MESSAGE_TEXT", "SELECT @a, @b"],
    &["CALL fails()", "SHOW WARNINGS", "CALL fails()", "GET DIAGNOSTICS @a = NUMBER", "SELECT @a > 0"],
    &["CALL fails()", "GET DIAGNOSTICS CONDITION (1) @a = MYSQL_ERRNO", "SHOW ERRORS"],
    &["BEGIN", "CALL fails()", "SELECT ROW_COUNT()", "SHOW COUNT(*) ERRORS"],
    &["INSERT INTO numbers VALUES (1)", "GET DIAGNOSTICS @a = ROW_COUNT", "SELECT @a"],
    // None of these has warnings, and the proxy asks behind each of them.
    &["DROP PROCEDURE IF EXISTS no_such", "CALL deletes(0)", "CALL deletes(0)", "SHOW WARNINGS"],
    // What the proxy asks must not be traced.
    &[
        "SET optimizer_trace = 'enabled=on'",
        "SELECT a FROM numbers WHERE a = 50",
        "SET @a = (SELECT query FROM information_schema.optimizer_trace LIMIT 1)",
        "SELECT @a",
        "SELECT doubled(a) FROM numbers WHERE a = 91",
        "SELECT query INTO @b FROM information_schema.optimizer_trace LIMIT 1",
        "SELECT @b",
    ],
    // The server refuses what the proxy asks.
    &["SET sql_big_selects = 0, max_join_size = 1", "CALL deletes(0)", "CALL deletes(0)", "SHOW WARNINGS"],
    &["SET sql_big_selects = 0, max_join_size = 1", "CALL deletes(0)", "SELECT doubled(1)", "SHOW WARNINGS"],
    // Of MariaDB. The proxy asks before them, too.
    &[
        "EXECUTE IMMEDIATE EXISTS (SELECT a FROM numbers)",
        "GET DIAGNOSTICS CONDITION 1 @a = MYSQL_ERRNO",
        "SELECT @a",
    ],
    &["EXECUTE IMMEDIATE CONCAT('SELECT ', '1/0')", "SET @a = 1", "SHOW WARNINGS"],
    &["EXECUTE IMMEDIATE 'SELECT 1/0'", "DO 1", "SHOW WARNINGS"],
    &["EXECUTE IMMEDIATE 'SELECT 1/0'", "SELECT a FROM numbers LIMIT 1", "SHOW WARNINGS"],
    // The proxy asks for the variables behind what is counted here.
    &[
        "CREATE TABLE IF NOT EXISTS numbers SELECT doubled(1) AS a",
        "SET @had = @@warning_count != 0, @b = @@session.`error_count`",
        "SELECT @had, @b",
    ],
    &["CREATE TABLE IF NOT EXISTS numbers SELECT doubled(1) AS a", "SELECT @@warning_count + 1, 'x'"],
    &["CREATE TABLE IF NOT EXISTS numbers SELECT doubled(1) AS a", "DO @@warning_count", "SHOW WARNINGS"],
    &["SELECT a FROM numbers WHERE a = 50 INTO @a", "SET @b = @@warning_count", "SELECT @a, @b"],
    // More than servers list.
    &[
        "SET sql_mode = '', max_error_count = 2",
        "INSERT INTO numbers SELECT doubled(CONCAT(a, 'x')) FROM numbers",
        "SHOW WARNINGS",
    ],
    &["DELETE FROM numbers WHERE a < 3 AND doubled(a) > 0", "SELECT ROW_COUNT()"],
    &["DELETE FROM numbers WHERE a < 5 AND doubled(a) > 0", "DO 1", "SELECT ROW_COUNT()"],
    &["UPDATE numbers SET a = doubled(a) WHERE a > 90", "SELECT ROW_COUNT(), @last"],
    &["INSERT INTO numbers SELECT doubled(3)", "SELECT ROW_COUNT()", "SELECT ROW_COUNT()"],
    &["CALL deletes(10)", "SELECT ROW_COUNT()"],
    &["SET @x = 5", "SELECT ROW_COUNT()"],
    &["SELECT a FROM numbers WHERE a = 50", "SELECT ROW_COUNT()"],
    &["INSERT INTO numbers VALUES (1), (2)", "SELECT ROW_COUNT() FROM numbers LIMIT 1"],
    &[
        "SELECT @@session_track_schema, @@session.session_track_state_change, @@session_track_system_variables",
    ],
    &["SELECT CONCAT(@@session_track_schema, 'x')", "SELECT 'x'"],
    &["SET session_track_schema = OFF", "SELECT @@session_track_schema, @@session_track_state_change"],
    &["SHOW VARIABLES LIKE 'session_track%'"],
    &["SHOW SESSION VARIABLES WHERE Variable_name LIKE 'session%'"],
    &[
        "SET @a = @@session_track_state_change",
        "SELECT @a",
        "SET session_track_schema = OFF, @b = @@autocommit",
        "SELECT @b, @@session_track_schema",
    ],
    &[
        "SELECT @@session_track_state_change",
        "SET sql_mode = 'ANSI_QUOTES'",
        "SELECT \"a\" FROM numbers LIMIT 1",
        "SELECT @@session_track_state_change, @@sql_mode",
    ],
    &[
        "BEGIN",
        "SELECT @@session_track_state_change, @@session_track_schema",
        "INSERT INTO numbers VALUES (7)",
        "COMMIT",
    ],
];

/// What the session is told, without its own numbers.
pub(crate) fn said(client: &mut Client, sql: &str, is_prepared: bool) -> String {
    let replies = if is_prepared {
        match client.prepare(sql) {
            Ok(Ok(statement)) => client.execute(statement.id, &[], true),
            Ok(Err(failure)) => return format!("{sql}: {} {}", failure.code, failure.message),
            Err(error) => Err(error),
        }
    } else {
        client.query(sql)
    };
    match replies.map(|mut replies| replies.remove(0)) {
        Ok(Reply::Failed(failure)) => format!("{sql}: {} {}", failure.code, failure.message),
        Ok(Reply::Done(_)) => format!("{sql}: OK"),
        Ok(Reply::Rows(rows)) => {
            let cell = |cell: &Option<Vec<u8>>| {
                cell.as_deref().map_or("NULL".to_owned(), |cell| String::from_utf8_lossy(cell).into_owned())
            };
            let rows: Vec<_> = rows.rows.iter().map(|row| row.iter().map(cell).collect::<Vec<_>>()).collect();
            format!("{sql}: {rows:?}")
        }
        Err(error) => format!("{sql}: {error:#}"),
    }
}

const NEEDED: &[&str] = &[
    "DROP TABLE IF EXISTS numbers",
    "CREATE TABLE numbers (a INT)",
    "INSERT INTO numbers VALUES (1), (2), (3), (4), (5), (50), (91), (95)",
    "DROP FUNCTION IF EXISTS doubled",
    "CREATE FUNCTION doubled(x INT) RETURNS INT NO SQL BEGIN SET @last = x; RETURN 2 * x; END",
    "DROP PROCEDURE IF EXISTS deletes",
    "CREATE PROCEDURE deletes(x INT) BEGIN DELETE FROM numbers WHERE a < x; END",
    "DROP PROCEDURE IF EXISTS fails",
    "CREATE PROCEDURE fails() SIGNAL SQLSTATE '77777' SET MYSQL_ERRNO = 1000, MESSAGE_TEXT = 'abc'",
];

pub(crate) fn scripts_answer_the_same(
    primary: &mut Client,
    (direct, proxied): (&Login, &Login),
    flavor: Flavor,
) {
    let mut wrong = Vec::new();
    for steps in SCRIPTS {
        for is_prepared in [false, true] {
            let mut answers = Vec::new();
            for login in [direct, proxied] {
                for sql in NEEDED {
                    primary.run(sql).unwrap();
                }
                let mut client = login.connect().unwrap();
                answers.push(steps.iter().map(|sql| said(&mut client, sql, is_prepared)).collect::<Vec<_>>());
            }
            if answers[0] != answers[1] {
                wrong.push(format!(
                    "prepared: {is_prepared}\n direct {:#?}\n through {:#?}",
                    answers[0], answers[1]
                ));
            }
        }
    }
    assert!(wrong.is_empty(), "{flavor}: {}", wrong.join("\n"));
}
