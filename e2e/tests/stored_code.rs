//! What routines, triggers and views do without a word of the server: advisory locks that they take keep the session on its
//! connection, user variables that they set follow it, and a view that calls a function is read where functions run.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "stored_code/unread.rs"]
mod unread;

use std::time::Duration;

use delphinus_e2e::{ConfigFile, Stage, until};
use delphinus_sandbox::{Flavor, MONITOR};
use delphinus_testkit::Client;

const NOTICE: Duration = Duration::from_secs(20);

const MADE: [&str; 23] = [
    "CREATE TABLE app.t (id INT AUTO_INCREMENT PRIMARY KEY, a INT)",
    "INSERT INTO app.t (a) VALUES (1)",
    "CREATE PROCEDURE app.p_locks() DO GET_LOCK('of p', 0)",
    "CREATE PROCEDURE app.p_outer() BEGIN IF 1 THEN CALL `app`.`P_locks`(); END IF; END",
    "CREATE PROCEDURE app.p_quotes() BEGIN IF 'don''t' = '' THEN DO 1; END IF; DO GET_LOCK('of q', 0); IF 'can''t' = '' THEN DO 1; END IF; END",
    "CREATE FUNCTION app.f_locks() RETURNS INT DETERMINISTIC RETURN GET_LOCK('of f', 0)",
    "CREATE FUNCTION app.f_into() RETURNS INT DETERMINISTIC BEGIN SELECT 'f_into' INTO @hidden; RETURN 1; END",
    "CREATE PROCEDURE app.p_into() BEGIN SELECT 'p_into' INTO @hidden; END",
    "CREATE PROCEDURE app.p_assigns() BEGIN DO (SELECT @hidden := 'p_assigns'); END",
    "CREATE PROCEDURE app.p_next() SET TRANSACTION ISOLATION LEVEL SERIALIZABLE",
    "CREATE PROCEDURE app.p_harmless() DO 1 /* GET_LOCK('x', 1) */",
    "CREATE FUNCTION app.f_harmless() RETURNS INT DETERMINISTIC RETURN 7",
    "CREATE TABLE app.fired (id INT AUTO_INCREMENT PRIMARY KEY, a INT)",
    "CREATE TRIGGER app.fires BEFORE INSERT ON app.fired FOR EACH ROW BEGIN SELECT 'fires' INTO @hidden; END",
    "CREATE TABLE app.locked (id INT AUTO_INCREMENT PRIMARY KEY, a INT)",
    "CREATE TRIGGER app.locks BEFORE INSERT ON app.locked FOR EACH ROW SET NEW.a = GET_LOCK('of t', 0)",
    "CREATE VIEW app.v_fired AS SELECT * FROM app.fired",
    "CREATE VIEW app.v_into AS SELECT app.f_into() AS a",
    "CREATE FUNCTION app.f_where() RETURNS VARCHAR(20) DETERMINISTIC RETURN @@server_id",
    "CREATE VIEW app.v_where AS SELECT app.f_where() AS a",
    "CREATE VIEW app.v_calls AS SELECT app.f_harmless() AS a FROM app.t",
    "CREATE VIEW app.v_plain AS SELECT a FROM app.t",
    "CREATE VIEW app.v_last AS SELECT CAST(LAST_INSERT_ID() AS CHAR) AS a",
];

/// What runs, and what `@hidden` is then.
const VARIABLES: [(&str, &str); 7] = [
    ("SELECT app.f_into()", "f_into"),
    ("CALL app.p_into()", "p_into"),
    ("CALL app.p_assigns()", "p_assigns"),
    ("INSERT INTO app.fired (a) VALUES (1)", "fires"),
    ("INSERT INTO app.v_fired (a) VALUES (1)", "fires"),
    ("SELECT a FROM app.v_into", "f_into"),
    ("INSERT INTO app.t (a) SELECT a FROM app.v_into", "f_into"),
];

/// What runs, and whose lock is held then.
const LOCKS: [(&str, &str); 5] = [
    ("CALL app.p_locks()", "of p"),
    ("CALL app.p_outer()", "of p"),
    ("CALL app.p_quotes()", "of q"),
    ("SELECT app.f_locks()", "of f"),
    ("INSERT INTO app.locked (a) VALUES (0)", "of t"),
];

/// Room for two connections to each backend.
fn stage(flavor: Flavor, monitor: &[&str]) -> Stage {
    let config = ConfigFile {
        proxy: vec!["workers = 1".to_owned()],
        pool: vec!["max_connections = 2".to_owned()],
        monitor: monitor.iter().map(|line| (*line).to_owned()).collect(),
        sections: vec!["[routing]\nexplain_route = true\n".to_owned()],
        ..ConfigFile::default()
    };
    let stage = Stage::with(flavor, &config).unwrap();
    for sql in [
        "SET GLOBAL log_bin_trust_function_creators = 1".to_owned(),
        // Servers show nobody a view who may not read it.
        format!("GRANT SELECT ON app.* TO {}@'%'", MONITOR.user),
    ] {
        stage.cluster.servers[0].query(&sql).unwrap();
    }
    stage
}

fn make(stage: &Stage) {
    let mut client = connect(stage);
    for sql in MADE {
        client.run(sql).unwrap();
    }
    let views = "SELECT COUNT(*) FROM information_schema.VIEWS WHERE TABLE_SCHEMA = 'app'";
    stage.wait_for_replicas(views).unwrap();
}

fn connect(stage: &Stage) -> Client {
    stage.address.login().connect().unwrap()
}

/// In the text or in the binary protocol.
fn run_as(client: &mut Client, sql: &str, is_prepared: bool) {
    if !is_prepared {
        client.run(sql).unwrap();
        return;
    }
    let statement = client.prepare(sql).unwrap().unwrap().id;
    let replies = client.execute(statement, &[], true).unwrap();
    assert!(replies.iter().all(|reply| reply.failure().is_none()), "{sql}: {replies:?}");
    client.close(statement).unwrap();
}

/// One value, asked of the primary.
fn value(client: &mut Client, expression: &str) -> Option<String> {
    let sql = format!("SELECT {expression}, LAST_INSERT_ID() >= 0 FOR UPDATE");
    let reply = client.query(&sql).unwrap().remove(0);
    let rows = reply.rows().unwrap();
    rows[0][0].as_ref().map(|value| String::from_utf8_lossy(value).into_owned())
}

/// Why the session is pinned, as another one sees it.
fn pin(stage: &Stage, client: &Client) -> Option<String> {
    let id = client.connection_id().to_string();
    let rows = connect(stage).query("SHOW PROCESSLIST").unwrap().remove(0).rows().unwrap();
    let row = rows.into_iter().find(|row| row[0].as_deref() == Some(id.as_bytes())).unwrap();
    let state = String::from_utf8_lossy(row[6].as_deref().unwrap_or_default()).into_owned();
    state.strip_prefix("pinned: ").map(str::to_owned)
}

#[test]
fn nothing_that_code_leaves_behind_is_lost_on_mariadb() {
    nothing_is_lost(&stage(Flavor::MariaDb, &[]));
}

#[test]
fn nothing_that_code_leaves_behind_is_lost_on_mysql() {
    nothing_is_lost(&stage(Flavor::MySql, &[]));
}

fn nothing_is_lost(stage: &Stage) {
    make(stage);
    for is_prepared in [false, true] {
        variables_follow(stage, is_prepared);
        locks_pin(stage, is_prepared);
        views_that_call_are_read_on_the_primary(stage, is_prepared);
        views_of_the_last_id_have_the_own_one(stage, is_prepared);
    }
    the_next_transaction_is_what_a_routine_says(stage);
    what_is_harmless_pins_nobody(stage);
    changes_count_at_once(stage);
    changes_count_where_nothing_can_be_read(stage);
    a_statement_of_sql_text_is_one_like_others(stage);
    unread::no_statement_waits(stage);
}

fn variables_follow(stage: &Stage, is_prepared: bool) {
    for (sql, wanted) in VARIABLES {
        let (mut client, mut others) = (connect(stage), [connect(stage), connect(stage), connect(stage)]);
        run_as(&mut client, sql, is_prepared);
        for _ in 0..2 {
            // More sessions than connections.
            for other in &mut others {
                other.run("SET @hidden = NULL").unwrap();
                assert_eq!(value(other, "@hidden"), None, "another session after {sql}");
            }
            assert_eq!(value(&mut client, "@hidden").as_deref(), Some(wanted), "after {sql} {is_prepared}");
        }
    }
}

fn locks_pin(stage: &Stage, is_prepared: bool) {
    for (sql, name) in LOCKS {
        let (mut client, mut other) = (connect(stage), connect(stage));
        run_as(&mut client, sql, is_prepared);
        assert_eq!(pin(stage, &client).as_deref(), Some("get_lock"), "{sql}");
        let is_free = format!("IS_FREE_LOCK('{name}')");
        for _ in 0..4 {
            assert_eq!(value(&mut other, &is_free).as_deref(), Some("0"), "{sql}");
        }
        let release = format!("RELEASE_LOCK('{name}')");
        assert_eq!(value(&mut client, &release).as_deref(), Some("1"), "{sql}: it is the session's own");
        assert_eq!(value(&mut other, &is_free).as_deref(), Some("1"), "{sql}");
        // Which names it was, only the routine knows.
        client.run("DO RELEASE_ALL_LOCKS()").unwrap();
        assert_eq!(pin(stage, &client), None, "{sql}");
    }
}

/// The text of one value.
fn read(client: &mut Client, sql: &str, is_prepared: bool) -> String {
    let reply = if is_prepared {
        let statement = client.prepare(sql).unwrap().unwrap().id;
        let reply = client.execute(statement, &[], true).unwrap().remove(0);
        client.close(statement).unwrap();
        reply
    } else {
        client.query(sql).unwrap().remove(0)
    };
    String::from_utf8_lossy(reply.rows().unwrap()[0][0].as_deref().unwrap()).into_owned()
}

/// A replica, and a connection that others have used, have another one.
fn views_of_the_last_id_have_the_own_one(stage: &Stage, is_prepared: bool) {
    let (mut client, mut others) = (connect(stage), [connect(stage), connect(stage), connect(stage)]);
    client.run("INSERT INTO app.t (a) VALUES (5)").unwrap();
    let own = value(&mut client, "LAST_INSERT_ID()").unwrap();
    for _ in 0..4 {
        for other in &mut others {
            other.run("INSERT INTO app.t (a) VALUES (6)").unwrap();
        }
        assert_eq!(read(&mut client, "SELECT a FROM app.v_last", is_prepared), own);
    }
}

/// Where the function ran it says itself.
fn views_that_call_are_read_on_the_primary(stage: &Stage, is_prepared: bool) {
    let mut client = connect(stage);
    let primary = stage.cluster.servers[0].query("SELECT @@server_id").unwrap().trim().to_owned();
    for _ in 0..12 {
        assert_eq!(read(&mut client, "SELECT a FROM app.v_where", is_prepared), primary);
    }
    for (sql, word) in [
        ("SELECT a FROM app.v_where", "calls a function that is not built in"),
        ("SELECT a FROM app.v_plain", "only reads"),
        ("INSERT INTO app.locked (a) VALUES (1)", "get_lock"),
    ] {
        let rows = client.query(format!("EXPLAIN ROUTE {sql}")).unwrap().remove(0);
        let cells = rows.rows().unwrap().into_iter().flatten().flatten();
        let text: Vec<_> = cells.map(|cell| String::from_utf8_lossy(&cell).into_owned()).collect();
        assert!(text.iter().any(|cell| cell.starts_with(word)), "{sql}: {text:?}");
    }
}

fn the_next_transaction_is_what_a_routine_says(stage: &Stage) {
    let mut client = connect(stage);
    client.run("CALL app.p_next()").unwrap();
    assert_eq!(pin(stage, &client).as_deref(), Some("set_transaction"));
    client.run("BEGIN").unwrap();
    client.run("COMMIT").unwrap();
    assert_eq!(pin(stage, &client), None);
}

fn what_is_harmless_pins_nobody(stage: &Stage) {
    let mut client = connect(stage);
    let long = format!("INSERT INTO app.t (a) VALUES {}(1)", "(1), ".repeat(100_000));
    client.run(&long).unwrap();
    assert_eq!(pin(stage, &client), None, "a long text");
    for sql in [
        "CALL app.p_harmless()",
        "DO app.f_harmless()",
        "SELECT a FROM app.v_calls",
        "SHOW CREATE VIEW app.v_into",
        "DESCRIBE app.v_into",
    ] {
        for is_prepared in [false, true] {
            run_as(&mut client, sql, is_prepared);
            assert_eq!(pin(stage, &client), None, "{sql} {is_prepared}");
        }
    }
}

/// What a session makes is known when it calls it, also in the same text.
fn changes_count_at_once(stage: &Stage) {
    let mut client = connect(stage);
    for round in 0..3 {
        client.run(format!("CREATE PROCEDURE app.p_new{round}() DO GET_LOCK('new', 0)")).unwrap();
        client.run(format!("CALL app.p_new{round}()")).unwrap();
        assert_eq!(pin(stage, &client).as_deref(), Some("get_lock"), "{round}");
        client.run("DO RELEASE_ALL_LOCKS()").unwrap();
        client.run(format!("DROP PROCEDURE app.p_new{round}")).unwrap();
        client.run(format!("CREATE PROCEDURE app.p_new{round}() DO 1")).unwrap();
        // Until that is read, it may be what it was.
        until(NOTICE, "the procedure to be read", || {
            client.run(format!("CALL app.p_new{round}()")).unwrap();
            let is_free = pin(stage, &client).is_none();
            client.run("DO RELEASE_ALL_LOCKS()").unwrap();
            Ok(is_free)
        })
        .unwrap();
    }
    client.run("CREATE TABLE app.late (id INT AUTO_INCREMENT PRIMARY KEY, a INT)").unwrap();
    client
        .run("CREATE TRIGGER app.late BEFORE INSERT ON app.late FOR EACH ROW SET NEW.a = GET_LOCK('new', 0)")
        .unwrap();
    assert_eq!(pin(stage, &client), None);
    client.run("INSERT INTO app.late (a) VALUES (1)").unwrap();
    assert_eq!(pin(stage, &client).as_deref(), Some("get_lock"));
    client.run("DO RELEASE_ALL_LOCKS()").unwrap();
    client.run("RENAME TABLE app.late TO app.later").unwrap();
    client.run("SELECT id FROM app.later FOR UPDATE").unwrap();
    assert_eq!(pin(stage, &client), None);
    client.run("INSERT INTO app.later (a) VALUES (1)").unwrap();
    assert_eq!(pin(stage, &client).as_deref(), Some("get_lock"));
    client.run("DO RELEASE_ALL_LOCKS()").unwrap();
}

/// What is made, what runs it, why the session is pinned then, and the value of `@hidden`.
type Late = (&'static [&'static str], &'static str, Option<&'static str>, Option<&'static str>);
const LATE: [Late; 14] = [
    (&["CREATE PROCEDURE app.late_1() DO 1"], "CALL app.late_1()", None, None),
    (&["CREATE FUNCTION app.late_2() RETURNS INT DETERMINISTIC RETURN 1"], "DO app.late_2()", None, None),
    (
        &["CREATE OR REPLACE VIEW app.late_3 AS SELECT app.late_2() AS a"],
        "SELECT a FROM app.late_3",
        None,
        None,
    ),
    (&["CREATE PROCEDURE app.late_4() DO GET_LOCK('late', 0)"], "CALL app.late_4()", Some("get_lock"), None),
    (
        &["DROP PROCEDURE app.late_1", "CREATE PROCEDURE app.late_1() DO GET_LOCK('late', 0)"],
        "CALL app.late_1()",
        Some("get_lock"),
        None,
    ),
    (&["CREATE PROCEDURE app.late_5() CALL app.late_1()"], "CALL app.late_5()", Some("get_lock"), None),
    (
        &[
            "DROP FUNCTION app.f_harmless",
            "CREATE FUNCTION app.f_harmless() RETURNS INT DETERMINISTIC RETURN GET_LOCK('late', 0)",
        ],
        "SELECT a FROM app.v_calls",
        Some("get_lock"),
        None,
    ),
    (
        &["CREATE OR REPLACE VIEW app.v_plain AS SELECT app.f_locks() AS a"],
        "SELECT a FROM app.v_plain",
        Some("get_lock"),
        None,
    ),
    (
        &["CREATE TRIGGER app.late_t BEFORE INSERT ON app.t FOR EACH ROW SET NEW.a = GET_LOCK('late', 0)"],
        "INSERT INTO app.t (a) VALUES (1)",
        Some("get_lock"),
        None,
    ),
    (
        &["RENAME TABLE app.locked TO app.late_6"],
        "INSERT INTO app.late_6 (a) VALUES (1)",
        Some("get_lock"),
        None,
    ),
    (
        &["CREATE PROCEDURE app.late_7() SET TRANSACTION READ ONLY"],
        "CALL app.late_7()",
        Some("set_transaction"),
        None,
    ),
    (
        &["CREATE PROCEDURE app.late_8() CREATE TEMPORARY TABLE app.late_8 (a INT)"],
        "CALL app.late_8()",
        Some("unknown_state"),
        None,
    ),
    (
        &["CREATE PROCEDURE app.late_9() SELECT 'late_9' INTO @hidden"],
        "CALL app.late_9()",
        None,
        Some("late_9"),
    ),
    (
        &["CREATE PROCEDURE app.late_10() SET @hidden = 'late_10'"],
        "CALL app.late_10()",
        // As of any procedure: servers report that something has changed.
        Some("unknown_state"),
        Some("late_10"),
    ),
];

/// It is known by the statements that have changed it: no statement waits for a reading.
fn changes_count_where_nothing_can_be_read(stage: &Stage) {
    let primary = &stage.cluster.servers[0];
    let monitor = format!("ALTER USER {}@'%' ACCOUNT", MONITOR.user);
    primary.query(&format!("{monitor} LOCK")).unwrap();
    let mut maker = connect(stage);
    for (made, runs, wanted, hidden) in LATE {
        for sql in made {
            maker.run(sql).unwrap();
        }
        // Other sessions may read it on a replica.
        stage
            .wait_for_replicas(
                "SELECT TABLE_NAME FROM information_schema.TABLES WHERE TABLE_SCHEMA = 'app' ORDER BY 1",
            )
            .unwrap();
        for is_prepared in [false, true] {
            let (mut client, mut others) = (connect(stage), [connect(stage), connect(stage), connect(stage)]);
            run_as(&mut client, runs, is_prepared);
            assert_eq!(pin(stage, &client).as_deref(), wanted, "{runs} {is_prepared}");
            for other in &mut others {
                assert_eq!(value(other, "@hidden"), None, "another session after {runs}");
                if wanted == Some("get_lock") {
                    assert_eq!(value(other, "RELEASE_ALL_LOCKS()").as_deref(), Some("0"), "{runs}");
                }
            }
            assert_eq!(value(&mut client, "@hidden").as_deref(), hidden, "after {runs} {is_prepared}");
            client.reset_connection().unwrap();
            assert_eq!(pin(stage, &client), None, "{runs} {is_prepared}");
        }
    }
    let log = stage.proxy.as_ref().unwrap().log();
    assert!(log.contains("stored routines cannot be read"), "{log}");
    // What has failed has changed nothing, and makes no session keep its connection.
    assert!(
        maker.query("CREATE PROCEDURE app.p_harmless() DO GET_LOCK('x', 0)").unwrap()[0].failure().is_some()
    );
    maker.run("CALL app.p_harmless()").unwrap();
    assert_eq!(pin(stage, &maker), None);
    // Nor does a transaction that runs none of it.
    for sql in [
        "CREATE TABLE app.calm (a INT)",
        "BEGIN",
        "INSERT INTO app.calm VALUES (1)",
        "DELETE FROM app.calm",
        "COMMIT",
    ] {
        maker.run(sql).unwrap();
    }
    assert_eq!(pin(stage, &maker), None);
    primary.query(&format!("{monitor} UNLOCK")).unwrap();
    until(NOTICE, "the code to be read", || {
        Ok(stage.proxy.as_ref().unwrap().log().contains("stored routines can be read again"))
    })
    .unwrap();
}

fn a_statement_of_sql_text_is_one_like_others(stage: &Stage) {
    let mut client = connect(stage);
    client.run("PREPARE s FROM 'INSERT INTO app.late_6 (a) VALUES (0)'").unwrap();
    assert_eq!(pin(stage, &client), None);
    client.run("EXECUTE s").unwrap();
    assert_eq!(pin(stage, &client).as_deref(), Some("get_lock"));
    client.run("DO RELEASE_ALL_LOCKS()").unwrap();
    client.run("DEALLOCATE PREPARE s").unwrap();
    assert_eq!(pin(stage, &client), None);
}

#[test]
fn what_may_not_be_read_may_do_anything() {
    for (flavor, right) in [(Flavor::MariaDb, "SELECT ON mysql.proc"), (Flavor::MySql, "SHOW_ROUTINE ON *.*")]
    {
        let stage = stage(flavor, &["interval_ms = 200", "stored_code_interval_ms = 200"]);
        make(&stage);
        let primary = &stage.cluster.servers[0];
        let mut client = connect(&stage);
        client.run("CALL app.p_harmless()").unwrap();
        assert_eq!(pin(&stage, &client), None);

        primary.query(&format!("REVOKE {right} FROM {}@'%'", MONITOR.user)).unwrap();
        until(NOTICE, "the routines to be hidden", || {
            client.run("CALL app.p_harmless()").unwrap();
            Ok(pin(&stage, &client).as_deref() == Some("unknown_state"))
        })
        .unwrap();
        let log = stage.proxy.as_ref().unwrap().log();
        assert!(log.contains("stored routines cannot be read") && log.contains(right), "{log}");
        client.reset_connection().unwrap();
        // Built-in functions are nobody's routine.
        client.run("SELECT NOW()").unwrap();
        assert_eq!(pin(&stage, &client), None);

        primary.query(&format!("GRANT {right} TO {}@'%'", MONITOR.user)).unwrap();
        until(NOTICE, "the routines to be seen", || {
            client.reset_connection()?;
            client.run("CALL app.p_harmless()").unwrap();
            Ok(pin(&stage, &client).is_none())
        })
        .unwrap();
        // What is made behind the proxy's back is found, too.
        primary.query("CREATE PROCEDURE app.p_behind() DO GET_LOCK('behind', 0)").unwrap();
        until(NOTICE, "the procedure to be found", || {
            client.run("CALL app.p_behind()").unwrap();
            let is_found = pin(&stage, &client).as_deref() == Some("get_lock");
            client.run("DO RELEASE_ALL_LOCKS()").unwrap();
            Ok(is_found)
        })
        .unwrap();
    }
}

#[test]
fn who_does_not_want_it_read_has_what_servers_report() {
    let stage = stage(Flavor::MariaDb, &["interval_ms = 200", "stored_code_interval_ms = 0"]);
    make(&stage);
    let mut client = connect(&stage);
    client.run("CALL app.p_locks()").unwrap();
    assert_eq!(pin(&stage, &client), None);
}
