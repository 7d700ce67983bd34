//! FOUND_ROWS() and SHOW WARNINGS after statements of which only the server knows whether they have counted rows, or
//! emptied the list: what is true, or an error that says that nobody knows. Never another number.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use delphinus_e2e::{Address, ConfigFile, Stage, on_both_flavors};
use delphinus_sandbox::Flavor;
use delphinus_testkit::{Client, ColumnShape, Login, Param, Reply};

const MADE: [&str; 17] = [
    "CREATE TABLE app.t (id INT PRIMARY KEY, a INT)",
    "CREATE TABLE app.u (id INT PRIMARY KEY, a INT)",
    "CREATE TABLE app.w (id INT AUTO_INCREMENT PRIMARY KEY, a INT)",
    "INSERT INTO app.t VALUES (1, 1), (2, 2), (3, 3), (4, 4)",
    "INSERT INTO app.u VALUES (1, 1), (2, 2), (3, 3), (4, 4), (5, 5)",
    "CREATE FUNCTION app.f() RETURNS INT READS SQL DATA BEGIN DECLARE x INT; SELECT a INTO x FROM app.t WHERE id = 1; RETURN x; END",
    "CREATE PROCEDURE app.p_none() BEGIN END",
    "CREATE PROCEDURE app.p_sets() SET @z = 1",
    "CREATE PROCEDURE app.p_inserts() INSERT INTO app.w (a) VALUES (1)",
    "CREATE PROCEDURE app.p_updates() UPDATE app.t SET a = a + 1 WHERE id < 3",
    "CREATE PROCEDURE app.p_into() SELECT a INTO @z FROM app.t WHERE id = 2",
    "CREATE PROCEDURE app.p_selects() BEGIN SELECT * FROM app.t LIMIT 2; SET @z = 2; END",
    "CREATE PROCEDURE app.p_fetches() BEGIN DECLARE x INT; DECLARE c CURSOR FOR SELECT a FROM app.t; OPEN c; FETCH c INTO x; CLOSE c; END",
    "CREATE PROCEDURE app.p_pages() SELECT SQL_CALC_FOUND_ROWS * FROM app.t LIMIT 1",
    "CREATE PROCEDURE app.p_warns() SELECT CAST('x' AS SIGNED) INTO @z",
    "CREATE PROCEDURE app.p_looks() SELECT COUNT(*) INTO @z FROM app.t",
    "CREATE TRIGGER app.w_t BEFORE INSERT ON app.w FOR EACH ROW BEGIN DECLARE x INT; SELECT a INTO x FROM app.t WHERE id = 1; END",
];

/// For those that begin with EXECUTE.
const PREPARED: [&str; 3] = [
    "PREPARE updates FROM 'UPDATE app.t SET a = a + 1 WHERE id < 3'",
    "PREPARE sets FROM 'SET @z = 3'",
    "PREPARE selects FROM 'SELECT * FROM app.t LIMIT 2'",
];

/// Of some only the server knows whether they count; others are known to, or not to.
const STATEMENTS: [&str; 34] = [
    "UPDATE app.t SET a = a + 1 WHERE id < 4",
    "UPDATE app.t SET a = 1 WHERE id = 99",
    "UPDATE app.t JOIN app.u USING (id) SET t.a = t.a + 1 WHERE t.id < 3",
    "UPDATE app.t, app.u SET t.a = u.a WHERE t.id = u.id",
    "UPDATE app.t STRAIGHT_JOIN app.u SET t.a = u.a WHERE t.id = u.id",
    "UPDATE app.t SET a = (SELECT MAX(a) FROM app.u) WHERE id < 3",
    "DELETE FROM app.u WHERE id = 500",
    "DELETE FROM app.u WHERE id IN (SELECT id + 200 FROM app.t)",
    "DELETE u FROM app.u JOIN app.t USING (id) WHERE t.id = 400",
    "DELETE u FROM app.u WHERE u.id = 300",
    "DELETE FROM app.u WHERE a > (SELECT 100)",
    "INSERT INTO app.w (a) VALUES (app.f())",
    "INSERT INTO app.w (a) VALUES (1)",
    "INSERT INTO app.w (a) SELECT a FROM app.t",
    "INSERT INTO app.w (a) VALUES ((SELECT MAX(a) FROM app.t))",
    "INSERT INTO app.w (a) VALUES ((SELECT 1))",
    "REPLACE INTO app.w SET a = (SELECT MAX(a) FROM app.t)",
    "CALL app.p_none()",
    "CALL app.p_sets()",
    "CALL app.p_inserts()",
    "CALL app.p_updates()",
    "CALL app.p_into()",
    "CALL app.p_selects()",
    "CALL app.p_fetches()",
    "CALL app.p_pages()",
    "DO app.f()",
    "SET @q = app.f()",
    "SELECT app.f() INTO @q",
    "SELECT app.f()",
    "SHOW ENGINES",
    "EXPLAIN SELECT * FROM app.t",
    "EXECUTE updates",
    "EXECUTE sets",
    "EXECUTE selects",
];

const ELEVEN: &str = "/*+ delphinus(replica, consistency=eventual) */ SELECT 1 UNION SELECT 2 UNION SELECT 3 UNION SELECT 4 UNION SELECT 5 UNION SELECT 6 UNION SELECT 7 UNION SELECT 8 UNION SELECT 9 UNION SELECT 10 UNION SELECT 11";

/// ER_UNKNOWN_ERROR: of the proxy, that it does not know any more.
const GONE: u16 = 1105;

/// The rows of the first answer, or the error's number.
fn told(client: &mut Client, sql: &str) -> Result<Vec<String>, u16> {
    let reply = client.query(sql).unwrap().remove(0);
    if let Some(failure) = reply.failure() {
        return Err(failure.code);
    }
    let text =
        |cell: &Option<Vec<u8>>| String::from_utf8_lossy(cell.as_deref().unwrap_or(b"NULL")).into_owned();
    let row = |row: &Vec<Option<Vec<u8>>>| row.iter().map(text).collect::<Vec<_>>().join(" ");
    Ok(reply.rows().unwrap().iter().map(row).collect())
}

/// The error's number, if there is one.
fn done(client: &mut Client, sql: &str) -> Option<u16> {
    client.query(sql).unwrap().remove(0).failure().map(|failure| failure.code)
}

/// A session on the primary itself, and one through the proxy.
fn sides(flavor: Flavor) -> (Stage, Client, Client) {
    let config = ConfigFile { proxy: vec!["workers = 1".to_owned()], ..ConfigFile::default() };
    let stage = Stage::with(flavor, &config).unwrap();
    stage.cluster.servers[0].query("SET GLOBAL log_bin_trust_function_creators = 1").unwrap();
    let through = |address: &Address| address.login().connect().unwrap();
    let mut direct = through(&stage.primary_address());
    for sql in MADE {
        direct.run(sql).unwrap();
    }
    // Reads of any age go to them: without rows there is nothing to count, and to warn of.
    stage.wait_for_replicas("SELECT (SELECT COUNT(*) FROM app.t) + (SELECT COUNT(*) FROM app.u)").unwrap();
    let proxied = through(&stage.address);
    (stage, direct, proxied)
}

fn found_rows_are_true_or_gone(flavor: Flavor) {
    let (_stage, mut direct, mut proxied) = sides(flavor);
    let (mut known, mut gone) = (0, Vec::new());
    for sql in STATEMENTS {
        if sql == "EXECUTE updates" {
            for client in [&mut direct, &mut proxied] {
                for sql in PREPARED {
                    client.run(sql).unwrap();
                }
            }
        }
        // The SELECT runs on a replica, and what follows on the primary, where others have counted before.
        let [wanted, got] = [&mut direct, &mut proxied].map(|client| {
            client.run(ELEVEN).unwrap();
            client.run(sql).unwrap();
            told(client, "SELECT FOUND_ROWS()")
        });
        match got {
            Err(GONE) => gone.push(sql),
            got => {
                assert_eq!(got, wanted, "{flavor:?}: {sql}");
                known += 1;
            }
        }
        // All of it on one connection.
        let [wanted, got] = [&mut direct, &mut proxied].map(|client| {
            client.run("BEGIN").unwrap();
            client.run(ELEVEN).unwrap();
            client.run(sql).unwrap();
            let told = told(client, "SELECT FOUND_ROWS()");
            client.run("COMMIT").unwrap();
            told
        });
        assert_eq!(got, wanted, "{flavor:?}, in a transaction: {sql}");
    }
    // What everybody would ask is known.
    for sql in ["CALL app.p_pages()", "CALL app.p_selects()", "EXECUTE selects", "SELECT app.f()"] {
        assert!(!gone.contains(&sql), "{flavor:?}: {sql}");
    }
    assert!(known >= 14 && gone.contains(&"CALL app.p_none()"), "{flavor:?}: {known} known; gone: {gone:?}");
}

#[test]
fn found_rows_are_true_or_gone_on_mariadb() {
    found_rows_are_true_or_gone(Flavor::MariaDb);
}

#[test]
fn found_rows_are_true_or_gone_on_mysql() {
    found_rows_are_true_or_gone(Flavor::MySql);
}

/// What the proxy sets before a procedure, so that LAST_INSERT_ID() is its session's there, leaves what was counted.
#[test]
fn rows_counted_before_a_procedure_are_known_where_another_session_has_made_an_id() {
    for flavor in [Flavor::MariaDb, Flavor::MySql] {
        let config = ConfigFile {
            proxy: vec!["workers = 1".to_owned()],
            pool: vec!["max_connections = 1".to_owned()],
            ..ConfigFile::default()
        };
        let stage = Stage::with(flavor, &config).unwrap();
        let through = |address: &Address| address.login().connect().unwrap();
        let mut direct = through(&stage.primary_address());
        for sql in MADE.iter().filter(|sql| sql.contains("p_none") || !sql.starts_with("CREATE PROC")) {
            if !sql.contains("FUNCTION") && !sql.contains("TRIGGER") {
                direct.run(sql).unwrap();
            }
        }
        let (mut other, mut client) = (through(&stage.address), through(&stage.address));
        other.run("INSERT INTO app.w (a) VALUES (1)").unwrap();
        client.run("SELECT id FROM app.t WHERE id < 4 FOR UPDATE").unwrap();
        client.run("CALL app.p_none()").unwrap();
        assert_eq!(
            told(&mut client, "SELECT FOUND_ROWS(), LAST_INSERT_ID()"),
            Ok(vec!["3 0".to_owned()]),
            "{flavor}"
        );
    }
}

/// `MariaDB` counts the rows that it fills a table with.
#[test]
fn rows_that_fill_a_table_are_counted() {
    let (_stage, mut direct, mut proxied) = sides(Flavor::MariaDb);
    for sql in ["CREATE OR REPLACE TABLE app.made SELECT a FROM app.t LIMIT 3", "SELECT 1"] {
        let [wanted, got] = [&mut direct, &mut proxied].map(|client| {
            client.run(ELEVEN).unwrap();
            client.run(sql).unwrap();
            told(client, "SELECT FOUND_ROWS()")
        });
        assert_eq!(got, wanted, "{sql}");
    }
}

/// On `MariaDB`, what uses no table leaves the warnings of the statement before; of a procedure only the server knows.
#[test]
fn warnings_before_a_procedure_are_true_or_gone() {
    let (_stage, mut direct, mut proxied) = sides(Flavor::MariaDb);
    let mut gone = 0;
    for procedure in ["p_none", "p_sets", "p_inserts", "p_warns", "p_looks"] {
        for before in ["SELECT CAST('abc' AS SIGNED) FROM app.t", "SELECT * FROM app.t"] {
            let before = &format!("/*+ delphinus(replica, consistency=eventual) */ {before}");
            let [wanted, got] = [&mut direct, &mut proxied].map(|client| {
                client.run(before).unwrap();
                client.run(format!("CALL app.{procedure}()")).unwrap();
                told(client, "SHOW WARNINGS")
            });
            if got == Err(GONE) {
                gone += 1;
            } else {
                assert_eq!(got, wanted, "{before}; {procedure}");
            }
            let [wanted, got] = [&mut direct, &mut proxied].map(|client| {
                client.run("BEGIN").unwrap();
                client.run(before).unwrap();
                client.run(format!("CALL app.{procedure}()")).unwrap();
                let told = told(client, "SHOW WARNINGS");
                client.run("COMMIT").unwrap();
                told
            });
            assert_eq!(got, wanted, "in a transaction: {before}; {procedure}");
        }
    }
    // Without warnings before, and where the procedure has its own, they are known.
    assert!((1..=4).contains(&gone), "{gone}");
}

/// Nobody tells which of them have run before the one that fails.
const UNKNOWN: &str = "SHOW CREATE TABLE app.t; SELECT a FROM app.t; SELECT a FROM app.none";

/// Of several statements in one text, those with rows need not be queries.
#[test]
fn several_statements_count_as_each_of_them() {
    for flavor in [Flavor::MariaDb, Flavor::MySql] {
        let (_stage, mut direct, mut proxied) = sides(flavor);
        for client in [&mut direct, &mut proxied] {
            client.set_multi_statements(true).unwrap();
        }
        for text in [
            "SHOW CREATE TABLE app.t; SHOW CREATE TABLE app.u",
            "CHECK TABLE app.t; CHECK TABLE app.u",
            "SELECT a FROM app.t; COMMIT",
            "BEGIN; SET @a = 1; COMMIT",
            "SELECT a FROM app.t; SHOW WARNINGS",
            "SET @a = 1; SELECT a FROM app.none; SET @a = 2",
            "DO 1; SELECT a FROM app.none",
            "SELECT a INTO @a FROM app.t LIMIT 1; SELECT a FROM app.none",
            UNKNOWN,
        ] {
            let [wanted, got] = [&mut direct, &mut proxied].map(|client| {
                client.run(ELEVEN).unwrap();
                drop(client.query(text).unwrap());
                told(client, "SELECT FOUND_ROWS()")
            });
            let is_right = if text == UNKNOWN { got == Err(GONE) } else { got == wanted };
            assert!(is_right, "{flavor}: {text}: {got:?}, and not {wanted:?}");
        }
        // What is asked first is about the statement before the text, which may have run elsewhere.
        proxied.reset_connection().unwrap();
        let immediate = "EXECUTE IMMEDIATE 'SELECT FOUND_ROWS()'";
        let texts = ["SELECT ROW_COUNT(); SELECT 1", "SHOW WARNINGS; SELECT 1", immediate];
        for text in texts.into_iter().filter(|text| *text != immediate || flavor == Flavor::MariaDb) {
            assert_eq!(done(&mut proxied, text), Some(GONE), "{flavor}: {text}");
        }
    }
}

/// A connection that lists warnings of an older statement does not pass them off as those of a procedure.
#[test]
fn older_warnings_do_not_come_back() {
    let (_stage, mut direct, mut proxied) = sides(Flavor::MariaDb);
    for call in ["CALL app.p_none()", "CALL app.p_sets()"] {
        let [wanted, got] = [&mut direct, &mut proxied].map(|client| {
            client.run("INSERT IGNORE INTO app.t VALUES ('x', 1)").unwrap();
            client.run(ELEVEN).unwrap();
            client.run("/*+ delphinus(replica, consistency=eventual) */ SELECT a FROM app.t").unwrap();
            client.run(call).unwrap();
            told(client, "SHOW WARNINGS")
        });
        assert!(got == wanted || got == Err(GONE), "{call}: {got:?}, and not {wanted:?}");
    }
}

/// To `MariaDB`, FLUSH TABLES WITH READ LOCK has no tables: it leaves the warnings of the statement before.
#[test]
fn a_read_lock_leaves_the_warnings() {
    let (stage, ..) = sides(Flavor::MariaDb);
    stage.cluster.servers[0].query("GRANT RELOAD ON *.* TO app@'%'").unwrap();
    let login =
        |address: &Address| Login::new(&address.socket, &address.user, &address.password).connect().unwrap();
    let (mut direct, mut proxied) = (login(&stage.primary_address()), login(&stage.address));
    let [wanted, got] = [&mut direct, &mut proxied].map(|client| {
        client.run("SELECT CAST('abc' AS SIGNED) FROM app.t FOR UPDATE").unwrap();
        client.run("FLUSH TABLES WITH READ LOCK").unwrap();
        client.run("SET @m = 1").unwrap();
        let told = told(client, "SELECT @@warning_count");
        client.run("UNLOCK TABLES").unwrap();
        told
    });
    assert_eq!(got, wanted);
}

/// Queries with a limit: servers count other rows than those sent, for some.
const LIMITED: [&str; 30] = [
    "SELECT id FROM app.u LIMIT 2",
    "SELECT id FROM app.u LIMIT 2, 1",
    "SELECT id FROM app.u LIMIT 1 OFFSET 2",
    "SELECT id FROM app.u LIMIT 3, 9",
    "SELECT id FROM app.u LIMIT 9, 1",
    "SELECT id FROM app.u LIMIT 0",
    "SELECT id FROM app.u LIMIT 2, 0",
    "SELECT id FROM app.u ORDER BY a DESC LIMIT 2",
    "SELECT id FROM app.u ORDER BY a DESC LIMIT 2, 1",
    "SELECT DISTINCT a FROM app.u LIMIT 2",
    "SELECT DISTINCT a FROM app.u LIMIT 1, 2",
    "SELECT a, COUNT(*) FROM app.u GROUP BY a LIMIT 2",
    "SELECT a, COUNT(*) FROM app.u GROUP BY a LIMIT 1, 2",
    "SELECT a, COUNT(*) FROM app.u GROUP BY a ORDER BY COUNT(*) LIMIT 2",
    "SELECT a + 1, COUNT(*) FROM app.u GROUP BY a + 1 WITH ROLLUP LIMIT 2",
    "SELECT id FROM app.t UNION SELECT id FROM app.u LIMIT 2",
    "SELECT id FROM app.t UNION ALL SELECT id FROM app.u LIMIT 2",
    "SELECT id FROM app.t UNION ALL SELECT id FROM app.u LIMIT 2, 3",
    "(SELECT id FROM app.t LIMIT 1, 1) UNION ALL (SELECT id FROM app.u LIMIT 2)",
    "SELECT COUNT(*) FROM (SELECT id FROM app.u LIMIT 2, 2) AS d",
    "SELECT id FROM app.u WHERE id IN (SELECT * FROM (SELECT id FROM app.t LIMIT 1, 2) AS d)",
    "SELECT id, SUM(a) OVER (ORDER BY id) FROM app.u LIMIT 1, 2",
    "SELECT t.id FROM app.t JOIN app.u USING (id) LIMIT 1, 2",
    "VALUES ROW(1), ROW(2), ROW(3) LIMIT 1, 1",
    "SELECT id FROM app.u EXCEPT SELECT id FROM app.t",
    "SELECT id FROM app.u EXCEPT SELECT id FROM app.t WHERE id > 3 LIMIT 2",
    "SELECT id FROM app.u EXCEPT SELECT id FROM app.t WHERE id > 3 LIMIT 1, 2",
    "SELECT id FROM app.u INTERSECT SELECT id FROM app.t LIMIT 1, 2",
    // MariaDB's words for a limit.
    "SELECT id FROM app.u ORDER BY id OFFSET 2 ROWS FETCH NEXT 1 ROWS ONLY",
    "SELECT id FROM app.u ORDER BY id OFFSET 1 ROW FETCH FIRST 2 ROWS WITH TIES",
];

/// The same with a limit that is not in the text.
const LIMITED_BY_PARAMETERS: [(&str, &[i64]); 5] = [
    ("SELECT id FROM app.u LIMIT ?", &[2]),
    ("SELECT id FROM app.u LIMIT ?, ?", &[2, 1]),
    ("SELECT id FROM app.u LIMIT ? OFFSET ?", &[1, 2]),
    ("SELECT id FROM app.u ORDER BY id OFFSET ? ROWS FETCH NEXT 1 ROWS ONLY", &[2]),
    ("SELECT id FROM app.t UNION ALL SELECT id FROM app.u LIMIT ?, ?", &[2, 3]),
];

/// Rows of the execution, or the error's number.
fn executed(client: &mut Client, sql: &str, params: &[i64]) -> Result<usize, u16> {
    let statement = client.prepare(sql).unwrap().map_err(|failure| failure.code)?;
    let params: Vec<_> = params.iter().map(|value| Param::Int(*value)).collect();
    let reply = client.execute(statement.id, &params, true).unwrap().remove(0);
    client.close(statement.id).unwrap();
    match reply.failure() {
        Some(failure) => Err(failure.code),
        None => Ok(reply.rows().unwrap().len()),
    }
}

/// Queries with a limit count what servers count, also when another session has had their connection.
fn limited_queries_count_as_on_a_server(flavor: Flavor) {
    let (stage, mut direct, _) = sides(flavor);
    let config = ConfigFile {
        proxy: vec!["workers = 1".to_owned()],
        only_primary_at: Some(stage.cluster.servers[0].socket.clone()),
        ..ConfigFile::with_pool(&["max_connections = 1", "hold_ms = 0"])
    };
    let (_proxy, address, _port) = stage.another_proxy(&config).unwrap();
    let through = |address: &Address| address.login().connect().unwrap();
    let (mut proxied, mut other) = (through(&address), through(&address));
    for sql in LIMITED {
        let sent = |client: &mut Client| told(client, sql).map(|rows| rows.len());
        let wanted = (sent(&mut direct), told(&mut direct, "SELECT FOUND_ROWS()"));
        for is_taken in [false, true] {
            let rows = sent(&mut proxied);
            if is_taken {
                other.run(ELEVEN).unwrap();
            }
            let got = (rows, told(&mut proxied, "SELECT FOUND_ROWS()"));
            assert_eq!(got, wanted, "{flavor}, {is_taken}: {sql}");
        }
    }
    for (sql, params) in LIMITED_BY_PARAMETERS {
        let wanted = (executed(&mut direct, sql, params), told(&mut direct, "SELECT FOUND_ROWS()"));
        for is_taken in [false, true] {
            let rows = executed(&mut proxied, sql, params);
            if is_taken {
                other.run(ELEVEN).unwrap();
            }
            let got = (rows, told(&mut proxied, "SELECT FOUND_ROWS()"));
            assert_eq!(got, wanted, "{flavor}, {is_taken}: {sql} by {params:?}");
        }
    }
    cursors_count_as_on_a_server(flavor, &mut direct, (&mut proxied, &mut other));
    row_count_is_about_fetches(flavor, &mut direct, &mut proxied);
}

/// To fetch rows of a cursor, and to close it, are commands, too: `ROW_COUNT()` is about them.
fn row_count_is_about_fetches(flavor: Flavor, direct: &mut Client, proxied: &mut Client) {
    for resets in [false, true] {
        let [wanted, got] = [&mut *direct, &mut *proxied].map(|client| {
            let id = client.prepare("SELECT id FROM app.u").unwrap().unwrap().id;
            let Reply::Rows(opened) = client.open_cursor(id, &[]).unwrap() else { panic!("no cursor") };
            client.run("UPDATE app.t SET a = a + 1 WHERE id < 3").unwrap();
            if resets {
                client.reset_statement(id).unwrap();
            } else {
                client.fetch(id, 2, &opened.columns).unwrap();
            }
            let row_count = told(client, "SELECT ROW_COUNT()");
            client.close(id).unwrap();
            row_count
        });
        assert_eq!(got, wanted, "{flavor}, a reset: {resets}");
    }
}

/// The rows of a cursor are counted by the server, whatever of them is fetched.
fn cursors_count_as_on_a_server(
    flavor: Flavor,
    direct: &mut Client,
    (proxied, other): (&mut Client, &mut Client),
) {
    let asked = "SELECT FOUND_ROWS(), 'prepared'";
    let [in_direct, in_proxied] =
        [&mut *direct, &mut *proxied].map(|client| client.prepare(asked).unwrap().unwrap().id);
    for (sql, fetched, closes) in [
        ("SELECT id FROM app.u", None, false),
        ("SELECT id FROM app.u", Some(2), false),
        ("SELECT id FROM app.u", Some(9), false),
        ("SELECT id FROM app.u", None, true),
        ("SELECT id FROM app.u", Some(2), true),
        ("SELECT id FROM app.u", Some(9), true),
        ("SELECT id FROM app.u LIMIT 2, 1", Some(2), true),
        ("SHOW TABLES FROM app", Some(2), true),
    ] {
        for is_prepared in [false, true] {
            let told_after = |client: &mut Client, question: u32, taken: Option<&mut Client>| {
                client.run(ELEVEN).unwrap();
                let statement = client.prepare(sql).unwrap().unwrap();
                let replies = client.execute_with_cursor(statement.id, &[]).unwrap();
                let is_open = matches!(&replies[0], Reply::Rows(rows) if rows.rows.is_empty());
                if let (Reply::Rows(rows), Some(count), true) = (&replies[0], fetched, is_open) {
                    client.fetch(statement.id, count, &rows.columns).unwrap();
                }
                if closes {
                    client.close(statement.id).unwrap();
                }
                // One with a cursor keeps the only connection.
                if let Some(other) = taken {
                    other.run(ELEVEN).unwrap();
                }
                let told = if is_prepared {
                    let reply = client.execute(question, &[], true).unwrap().remove(0);
                    format!("{:?}", reply.rows().unwrap())
                } else {
                    format!("{:?}", told(client, "SELECT FOUND_ROWS()"))
                };
                if !closes {
                    client.close(statement.id).unwrap();
                }
                (is_open, told)
            };
            let wanted = told_after(direct, in_direct, None);
            for is_taken in [false, true].iter().take(1 + usize::from(closes)) {
                let taken = is_taken.then_some(&mut *other);
                let got = told_after(proxied, in_proxied, taken);
                let how =
                    format!("{fetched:?} fetched, closed: {closes}, prepared: {is_prepared}, {is_taken}");
                assert_eq!(got, wanted, "{flavor}: {sql}: {how}");
            }
        }
    }
}

/// After DDL no question of the proxy's own comes before those of the client.
fn diagnostics_after_ddl(flavor: Flavor) {
    let (_stage, mut direct, mut proxied) = sides(flavor);
    for ddl in [
        "CREATE TABLE app.d{} (a INT)",
        "CREATE TABLE IF NOT EXISTS app.d{} (a INT)",
        "CREATE TEMPORARY TABLE app.tmp{} (a INT)",
        "DROP TEMPORARY TABLE app.tmp{}",
        "CREATE OR REPLACE VIEW app.v{} AS SELECT 1",
        "ALTER TABLE app.d{} ADD COLUMN b INT",
        "ALTER TABLE app.d{} DROP COLUMN b",
        "DROP TABLE app.d{}",
    ] {
        for question in
            ["SELECT @@warning_count", "SELECT @@warning_count + 1, @@error_count", "SELECT ROW_COUNT()"]
        {
            let [wanted, got] = [(&mut direct, "0"), (&mut proxied, "1")].map(|(client, own)| {
                let prepared = client.prepare("SELECT ROW_COUNT(), 'prepared'").unwrap().unwrap();
                let result = done(client, &ddl.replace("{}", own));
                if question.contains("ROW_COUNT") {
                    // Binary rows begin with a NULL bitmap: compared as they are.
                    let reply = client.execute(prepared.id, &[], true).unwrap().remove(0);
                    return (result, reply.rows().map(|rows| format!("{rows:?}")).unwrap());
                }
                let told = told(client, question);
                client.close(prepared.id).unwrap();
                (result, format!("{told:?}"))
            });
            assert_eq!(got, wanted, "{flavor}: {question} after {ddl}");
        }
        let [wanted, got] = [(&mut direct, "0"), (&mut proxied, "1")].map(|(client, own)| {
            let result = done(client, &ddl.replace("{}", own));
            let asked = done(client, "GET DIAGNOSTICS @n = NUMBER, @r = ROW_COUNT");
            (result, asked, told(client, "SELECT @n, @r"))
        });
        assert_eq!(got, wanted, "{flavor}: GET DIAGNOSTICS after {ddl}");
    }
}

/// What the proxy puts in the place of a function has its name and its type, also in a table that is made of it.
fn columns_are_as_written(flavor: Flavor) {
    let (_stage, mut direct, mut proxied) = sides(flavor);
    for columns in [
        "CONNECTION_ID()",
        "CONCAT(CONNECTION_ID(), ''), 1",
        "CONNECTION_ID() + 1, connection_id() AS id",
        "CONCAT('`', ROW_COUNT(), FOUND_ROWS())",
        "(SELECT CONNECTION_ID())",
        "FOUND_ROWS(), ROW_COUNT()",
    ] {
        let [wanted, got] = [(&mut direct, "0"), (&mut proxied, "1")].map(|(client, own)| {
            let Reply::Rows(rows) = client.query(format!("SELECT {columns}")).unwrap().remove(0) else {
                panic!()
            };
            let shape =
                |column: &ColumnShape| format!("{:?} {:?} {:?}", column.name, column.kind, column.flags);
            let shapes: Vec<_> = rows.columns.iter().map(shape).collect();
            done(client, &format!("DROP TABLE IF EXISTS app.made{own}"));
            done(client, &format!("CREATE TABLE app.made{own} SELECT {columns}"));
            (shapes, told(client, &format!("SHOW COLUMNS FROM app.made{own}")))
        });
        assert_eq!(got, wanted, "{flavor}: {columns}");
    }
    // What is kept for others is not about this session.
    proxied.run("CREATE OR REPLACE VIEW app.ids AS SELECT CONNECTION_ID() AS id").unwrap();
    let view = told(&mut direct, "SHOW CREATE VIEW app.ids").unwrap().concat().to_lowercase();
    assert!(view.contains("select connection_id() as `id`"), "{view}");
    proxied.run("CREATE FUNCTION app.own() RETURNS BIGINT READS SQL DATA RETURN CONNECTION_ID()").unwrap();
    let function = told(&mut direct, "SHOW CREATE FUNCTION app.own").unwrap().concat().to_lowercase();
    assert!(function.contains("return connection_id()"), "{function}");
}

on_both_flavors!(what_servers_count);

fn what_servers_count(flavor: Flavor) {
    limited_queries_count_as_on_a_server(flavor);
    diagnostics_after_ddl(flavor);
    columns_are_as_written(flavor);
}
