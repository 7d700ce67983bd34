//! Statements prepared in SQL text: they follow their session from one connection to the next, and nobody else sees them.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use delphinus_e2e::{Client, ConfigFile, Stage};
use delphinus_sandbox::Flavor;

/// Room for one connection to the primary: whoever does not let go of it keeps all others out.
fn stage(flavor: Flavor) -> Stage {
    let config = ConfigFile {
        proxy: vec!["workers = 1".to_owned()],
        pool: vec!["max_connections = 1".to_owned(), "hold_ms = 0".to_owned()],
        ..ConfigFile::default()
    };
    let stage = Stage::with(flavor, &config).unwrap();
    let mut client = stage.address.connect().unwrap();
    for sql in [
        "CREATE TABLE app.kept (id INT AUTO_INCREMENT PRIMARY KEY, a INT)",
        "CREATE TABLE app.gone (a INT)",
        "CREATE TABLE app.words (word VARCHAR(20))",
        "CREATE TABLE sbtest.kept (id INT PRIMARY KEY, a INT)",
        "INSERT INTO sbtest.kept VALUES (99, 99)",
        "CREATE PROCEDURE app.p_runs() EXECUTE s",
        "CREATE PROCEDURE app.p_prepares() PREPARE inside FROM 'SELECT 8'",
        "CREATE PROCEDURE app.p_sets_and_misses() BEGIN SET @missed = 5; EXECUTE no_such; END",
        "CREATE PROCEDURE app.p_drops() DEALLOCATE PREPARE s",
    ] {
        client.query(sql).unwrap();
    }
    stage
}

fn two(stage: &Stage) -> (Client, Client) {
    (stage.address.connect().unwrap(), stage.address.connect().unwrap())
}

/// Takes the connection, which a pinned session would not give.
#[track_caller]
fn take(other: &mut Client) {
    other.query("SELECT id FROM app.kept LIMIT 1 FOR UPDATE").unwrap();
}

/// Why the session is pinned, as the process list says.
fn pin(watcher: &mut Client, session: &Client) -> Option<String> {
    let id = session.connection_id.to_string();
    let rows = watcher.rows("SHOW PROCESSLIST").unwrap();
    let row = rows.into_iter().find(|row| row[0].as_deref() == Some(&id)).expect("it is listed");
    row[6].as_deref()?.strip_prefix("pinned: ").map(str::to_owned)
}

#[track_caller]
fn code(client: &mut Client, sql: &str) -> u16 {
    client.error(sql).unwrap().code
}

/// The session's next statement finds another connection.
fn kill(stage: &Stage) {
    kill_all_but(stage, 0);
}

fn kill_all_but(stage: &Stage, id: u32) {
    kill_all_but_these(stage, &[id]);
}

fn kill_all_but_these(stage: &Stage, ids: &[u32]) {
    let primary = &stage.cluster.servers[0];
    let ids: Vec<String> = ids.iter().map(u32::to_string).collect();
    let sql = format!(
        "SELECT ID FROM information_schema.PROCESSLIST WHERE USER = 'app' AND ID NOT IN ({})",
        ids.join(", ")
    );
    let ids = primary.query(&sql).unwrap();
    assert!(!ids.trim().is_empty());
    for id in ids.split_whitespace() {
        primary.query(&format!("KILL {id}")).unwrap();
    }
}

#[test]
fn statements_of_sql_follow_their_session_on_mariadb() {
    all(&stage(Flavor::MariaDb));
}

#[test]
fn statements_of_sql_follow_their_session_on_mysql() {
    all(&stage(Flavor::MySql));
}

/// What makes a text is computed once by the server where it is not the same twice, or does more than that.
#[test]
fn what_makes_a_text_is_done_once() {
    let stage = stage(Flavor::MariaDb);
    let mut a = stage.address.connect().unwrap();
    a.query("CREATE SEQUENCE app.numbers").unwrap();
    for number in 1..4 {
        assert_eq!(a.value("SELECT NEXTVAL(app.numbers)").unwrap(), number.to_string());
        // The server refuses this before it takes a number.
        assert_eq!(code(&mut a, "EXECUTE IMMEDIATE CONCAT('SELECT ', NEXTVAL(app.numbers))"), 1970);
    }
    let begun = std::time::Instant::now();
    a.query("EXECUTE IMMEDIATE CONCAT('DO ', SLEEP(2))").unwrap();
    assert!(begun.elapsed() < std::time::Duration::from_millis(3_900), "{:?}", begun.elapsed());
    // A comment behind it ends no question of the proxy's own; NULL and a long text are the server's to refuse, or to run.
    assert_eq!(a.value("EXECUTE IMMEDIATE CONCAT('SELECT', ' 5') -- a comment").unwrap(), "5");
    assert!(a.error("EXECUTE IMMEDIATE CONCAT('DO', NULL)").is_ok());
    assert_eq!(a.value("EXECUTE IMMEDIATE CONCAT('SELECT 6', REPEAT(' ', 1000000))").unwrap(), "6");
    a.query("SET @text = CONCAT('SELECT 7', REPEAT(' ', 1000000))").unwrap();
    a.query("PREPARE long_one FROM @text").unwrap();
    assert_eq!(a.value("EXECUTE long_one").unwrap(), "7");
}

fn all(stage: &Stage) {
    the_same_name_in_two_sessions(stage);
    what_is_not_theirs(stage);
    procedures(stage);
    connections_that_are_lost(stage);
    in_transactions(stage);
    tables_that_are_gone(stage);
    other_states(stage);
    what_was_left_behind(stage);
    many(stage);
    one_that_is_not_to_be_had(stage);
    transactions_on_replicas(stage);
    by_binary_protocol(stage);
    what_fails_inside(stage);
    tables_made_by_them(stage);
    parameters(stage);
    early_savepoints(stage);
}

/// A statement that cannot be prepared any more is missed by who runs it, and by nobody else.
fn one_that_is_not_to_be_had(stage: &Stage) {
    let (mut a, mut b) = two(stage);
    a.query("CREATE TABLE app.short (a INT)").unwrap();
    a.query("PREPARE s FROM 'SELECT * FROM app.short'").unwrap();
    a.query("DROP TABLE app.short").unwrap();
    take(&mut b);
    kill(stage);
    a.query("SET SESSION sql_mode = ''").unwrap();
    a.query("SET NAMES latin1").unwrap();
    a.query("CALL app.p_prepares()").unwrap();
    assert_eq!(code(&mut a, "EXECUTE s"), 1243);
    assert_eq!(a.value("SELECT 1").unwrap(), "1");
    drop(a);
    // Names that servers take for equal.
    let mut a = stage.address.connect().unwrap();
    a.query("PREPARE e FROM 'SELECT 5'").unwrap();
    assert_eq!(code(&mut b, "EXECUTE `\u{e9}`"), 1243);
    assert_eq!(code(&mut b, "EXECUTE `e `"), 1243);
    assert_eq!(a.value("EXECUTE e").unwrap(), "5");
}

/// What would hold the session to the replica runs on the primary.
fn transactions_on_replicas(stage: &Stage) {
    let mut a = stage.address.connect().unwrap();
    a.query("PREPARE s FROM 'SELECT 6'").unwrap();
    a.query("START TRANSACTION READ ONLY").unwrap();
    a.query("SET SESSION time_zone = '+01:00'").unwrap();
    a.query("COMMIT").unwrap();
    a.query("INSERT INTO app.kept (a) VALUES (6)").unwrap();
    assert_eq!(a.value("EXECUTE s").unwrap(), "6");
}

/// A procedure that is called by a prepared statement finds them, too.
fn by_binary_protocol(stage: &Stage) {
    let (mut a, mut b) = two(stage);
    let called = a.prepare("CALL app.p_runs()").unwrap();
    a.query("PREPARE s FROM 'SELECT 9'").unwrap();
    for _ in 0..2 {
        take(&mut b);
        kill(stage);
        assert!(a.execute(called).is_ok());
        b.query("PREPARE s FROM 'SELECT no_such_column FROM app.kept'").unwrap_err();
        b.query("PREPARE s FROM 'SELECT 10'").unwrap();
    }
}

fn the_same_name_in_two_sessions(stage: &Stage) {
    let (mut a, mut b) = two(stage);
    a.query("PREPARE s FROM 'SELECT ''a'', 5'").unwrap();
    b.query("SET @text = \"SELECT 'b', 5\"").unwrap();
    b.query("PREPARE S FROM @text").unwrap();
    b.query("SET @text = NULL").unwrap();
    let execute = "EXECUTE s";
    for _ in 0..3 {
        assert_eq!(a.rows(execute).unwrap(), [[Some("a".to_owned()), Some("5".to_owned())]]);
        assert_eq!(b.rows(execute).unwrap(), [[Some("b".to_owned()), Some("5".to_owned())]]);
    }
    a.query("PREPARE s FROM 'SELECT 2'").unwrap();
    take(&mut b);
    assert_eq!(a.value("EXECUTE s").unwrap(), "2");
    // With one that cannot be prepared, the one before is gone.
    assert_eq!(code(&mut a, "PREPARE s FROM 'SELEC'"), 1064);
    assert_eq!(b.rows(execute).unwrap().len(), 1);
    assert_eq!(code(&mut a, "EXECUTE s"), 1243);
}

/// What a procedure has done before it missed a statement is the session's all the same.
fn what_fails_inside(stage: &Stage) {
    let (mut a, mut b) = two(stage);
    a.query("PREPARE c FROM 'CALL app.p_sets_and_misses()'").unwrap();
    assert_eq!(code(&mut a, "EXECUTE c"), 1243);
    a.query("DEALLOCATE PREPARE c").unwrap();
    assert_eq!(a.value("SELECT @missed").unwrap(), "5");
    drop(a);
    assert!(b.rows("SELECT @missed").unwrap()[0][0].is_none());
}

/// A table that is no temporary one does not pin.
fn tables_made_by_them(stage: &Stage) {
    let (mut a, mut b) = two(stage);
    a.query("PREPARE c FROM 'CREATE TABLE app.made (a INT)'").unwrap();
    a.query("EXECUTE c").unwrap();
    take(&mut b);
    assert_eq!(code(&mut a, "EXECUTE c"), 1050);
    take(&mut b);
    a.query("DROP TABLE app.made").unwrap();
}

/// A run of `s`, and all that can be told of it.
fn answers(client: &mut Client, value: &str, variables: &str) -> Vec<String> {
    client.query(&format!("SET @v = {value}")).unwrap();
    let told = |answer: anyhow::Result<Vec<Vec<Option<String>>>>| match answer {
        Ok(rows) => format!("{rows:?}"),
        Err(error) => error.to_string(),
    };
    let run = client.query(&format!("EXECUTE s USING {variables}"));
    let mut all = vec![run.map_or_else(|error| error.to_string(), |answer| format!("{answer:?}"))];
    for sql in ["SHOW WARNINGS", "SELECT * FROM words FOR UPDATE"] {
        all.push(told(client.rows(sql)));
    }
    client.query("DELETE FROM words").unwrap();
    all
}

/// MySQL gives a parameter the type of the first number, and converts to it from then on: a session with such a statement stays
/// there. MariaDB keeps no types.
fn parameters(stage: &Stage) {
    let server = stage.primary_address();
    for text in [
        "SELECT ?",
        "SELECT CONCAT(?, ''/''), ? + 1",
        "SELECT ? LIMIT 1",
        "INSERT INTO words VALUES (CONCAT(?, ''/''))",
    ] {
        for values in [
            &["'3x'", "NULL", "'abc'", "'7'"][..],
            &["1", "2", "'3x'", "NULL", "'abc'", "4"],
            &["-1", "9223372036854775807", "0", "NULL", "'abc'"],
            &["'abc'", "NULL", "1", "3", "'abc'", "1.5", "'abc'"],
            &["1", "1", "2.5", "'abc'"],
            &["1", "CAST(18446744073709551615 AS UNSIGNED)", "-1"],
            &["1", "'1.5'", "1"],
            &["1.5", "'2.25x'", "3.5"],
            &["'-1'", "1e3", "'abc'", "NULL", "2"],
        ] {
            let (mut a, mut b) = two(stage);
            let mut there = server.connect().unwrap();
            for client in [&mut a, &mut there] {
                client.query(&format!("PREPARE s FROM '{text}'")).unwrap();
            }
            let variables = if text.matches('?').count() == 1 { "@v" } else { "@v, @v" };
            let moves = stage.cluster.flavor == Flavor::MariaDb;
            assert_eq!(pin(&mut b, &a).is_none(), moves, "{text}");
            for value in values {
                if moves {
                    // It is not there the next time.
                    take(&mut b);
                    kill_all_but(stage, there.connection_id);
                }
                let run = |client: &mut Client| answers(client, value, variables);
                assert_eq!(run(&mut a), run(&mut there), "{text} {value} of {values:?}");
            }
        }
    }
    let (mut a, mut b) = two(stage);
    a.query("PREPARE s FROM 'SELECT ?'").unwrap();
    for (value, given) in [("'-1'", "-1"), ("1", "1"), ("1.5", "1.5"), ("'2.5'", "2.5"), ("1", "1")] {
        a.query(&format!("SET @v = {value}")).unwrap();
        let found = a.value("EXECUTE s USING @v").unwrap();
        assert_eq!(found.trim_end_matches('0').trim_end_matches('.'), given);
    }
    // Whatever held it is gone with the statement.
    a.query("DEALLOCATE PREPARE s").unwrap();
    take(&mut b);
}

/// Without autocommit a session may have a savepoint before its transaction has begun: it stays where that is.
fn early_savepoints(stage: &Stage) {
    let (mut a, mut b) = two(stage);
    let mut there = stage.primary_address().connect().unwrap();
    for client in [&mut a, &mut there] {
        client.query("SET autocommit = 0").unwrap();
    }
    take(&mut b);
    kill_all_but(stage, there.connection_id);
    a.query("SAVEPOINT early").unwrap();
    assert_eq!(pin(&mut b, &a).as_deref(), Some("transaction"));
    for sql in [
        "ROLLBACK TO early",
        "INSERT INTO app.gone VALUES (61)",
        "ROLLBACK TO early",
        "RELEASE SAVEPOINT early",
    ] {
        a.query(sql).unwrap();
    }
    assert_eq!(a.value("SELECT COUNT(*) FROM app.gone FOR UPDATE").unwrap(), "0");
    a.query("COMMIT").unwrap();
    assert_eq!(pin(&mut b, &a), None);
    for end in
        ["COMMIT", "ROLLBACK", "CREATE TABLE IF NOT EXISTS app.gone (a INT)", "BEGIN", "SET autocommit = 1"]
    {
        a.query("SAVEPOINT early").unwrap();
        assert!(pin(&mut b, &a).is_some(), "{end}: others have its connection");
        a.query(end).unwrap();
        assert_eq!(code(&mut a, "ROLLBACK TO early"), 1305, "{end}");
        a.query("ROLLBACK").unwrap();
        assert_eq!(pin(&mut b, &a), None, "{end}");
    }
    a.query("SAVEPOINT none").unwrap();
    assert_eq!(pin(&mut b, &a), None);
    stage.cluster.servers[0].query("SET GLOBAL log_bin_trust_function_creators = 1").unwrap();
    savepoints_of_routines(&mut a, &mut b, &mut there);
}

/// A procedure may have set one; what a function sets ends with it, on the server, too.
fn savepoints_of_routines(a: &mut Client, b: &mut Client, there: &mut Client) {
    for sql in [
        "CREATE PROCEDURE app.p_saves() SAVEPOINT of_p",
        "CREATE FUNCTION app.f_saves() RETURNS INT DETERMINISTIC BEGIN SAVEPOINT of_f; RETURN 1; END",
    ] {
        there.query(sql).unwrap();
    }
    for client in [&mut *a, &mut *there] {
        client.query("SET autocommit = 0").unwrap();
        client.query("SELECT app.f_saves()").unwrap();
        assert_eq!(code(client, "ROLLBACK TO of_f"), 1305);
    }
    assert_eq!(pin(b, a), None);
    a.query("CALL app.p_saves()").unwrap();
    assert_eq!(pin(b, a).as_deref(), Some("transaction"));
    a.query("INSERT INTO app.gone VALUES (62)").unwrap();
    a.query("ROLLBACK TO of_p").unwrap();
    assert_eq!(a.value("SELECT COUNT(*) FROM app.gone FOR UPDATE").unwrap(), "0");
    a.query("COMMIT").unwrap();
    assert_eq!(pin(b, a), None);
}

fn what_is_not_theirs(stage: &Stage) {
    let (mut a, mut b) = two(stage);
    a.query("PREPARE s FROM 'SELECT 1'").unwrap();
    assert_eq!(code(&mut b, "EXECUTE s"), 1243);
    assert_eq!(code(&mut b, "DEALLOCATE PREPARE s"), 1243);
    assert_eq!(code(&mut b, "CALL app.p_runs()"), 1243);
    // What it had done by then nobody knows.
    assert_eq!(pin(&mut a, &b).as_deref(), Some("unknown_state"));
    assert_eq!(b.command(0x1f, &[]).unwrap()[0], 0, "COM_RESET_CONNECTION");
    b.query("PREPARE other FROM 'SELECT 1'").unwrap();
    assert_eq!(a.value("EXECUTE s").unwrap(), "1");
    a.query("DEALLOCATE PREPARE s").unwrap();
    assert_eq!(code(&mut a, "EXECUTE s"), 1243);
    assert_eq!(code(&mut a, "EXECUTE other"), 1243);
    // What a session has dropped elsewhere it does not find again where it has been before.
    a.query("PREPARE s FROM 'SELECT 1'").unwrap();
    kill(stage);
    a.query("DROP PREPARE s").unwrap();
    assert_eq!(code(&mut a, "EXECUTE s"), 1243);
}

fn procedures(stage: &Stage) {
    let (mut a, mut b) = two(stage);
    a.query("PREPARE s FROM 'SELECT ''by a'''").unwrap();
    take(&mut b);
    assert_eq!(a.value("CALL app.p_runs()").unwrap(), "by a");
    drop(a);
    let (mut a, mut b) = two(stage);
    a.query("PREPARE s FROM 'SELECT 7'").unwrap();
    // What a procedure prepares or drops pins, and is the session's.
    a.query("CALL app.p_prepares()").unwrap();
    assert_eq!(a.value("EXECUTE inside").unwrap(), "8");
    assert_eq!(a.value("EXECUTE s").unwrap(), "7");
    a.query("CALL app.p_drops()").unwrap();
    assert_eq!(code(&mut a, "EXECUTE s"), 1243);
    drop(a);
    assert_eq!(code(&mut b, "EXECUTE inside"), 1243);
}

fn connections_that_are_lost(stage: &Stage) {
    let (mut a, mut b) = two(stage);
    a.query("PREPARE s FROM 'INSERT INTO kept (a) VALUES (31)'").unwrap();
    a.query("PREPARE dropped FROM 'SELECT 1'").unwrap();
    kill(stage);
    a.query("EXECUTE s").unwrap();
    kill(stage);
    take(&mut b);
    a.query("EXECUTE s").unwrap();
    assert_eq!(a.value("SELECT ROW_COUNT()").unwrap(), "1");
    a.query("DEALLOCATE PREPARE dropped").unwrap();
    assert_eq!(b.value("SELECT COUNT(*) FROM app.kept WHERE a = 31 FOR UPDATE").unwrap(), "2");
}

fn in_transactions(stage: &Stage) {
    let (mut a, mut b) = two(stage);
    a.query("PREPARE s FROM 'INSERT INTO app.kept (a) VALUES (32)'").unwrap();
    take(&mut b);
    a.query("BEGIN").unwrap();
    a.query("EXECUTE s").unwrap();
    a.query("PREPARE s FROM 'INSERT INTO app.kept (a) VALUES (33)'").unwrap();
    a.query("EXECUTE s").unwrap();
    a.query("ROLLBACK").unwrap();
    take(&mut b);
    a.query("EXECUTE s").unwrap();
    let rows = b.rows("SELECT a FROM app.kept WHERE a IN (32, 33) FOR UPDATE").unwrap();
    assert_eq!(rows, [[Some("33".to_owned())]]);
}

fn tables_that_are_gone(stage: &Stage) {
    let (mut a, mut b) = two(stage);
    a.query("PREPARE s FROM 'SELECT a FROM app.gone'").unwrap();
    a.query("PREPARE s2 FROM 'INSERT INTO app.gone VALUES (1)'").unwrap();
    a.query("PREPARE s3 FROM 'SELECT 3'").unwrap();
    b.query("DROP TABLE app.gone").unwrap();
    // Also on a connection that never had them.
    for _ in 0..2 {
        assert_eq!(code(&mut a, "EXECUTE s"), 1146);
        assert_eq!(a.rows("SHOW WARNINGS").unwrap()[0][1].as_deref(), Some("1146"));
        assert_eq!(code(&mut a, "EXECUTE s2"), 1146);
        assert_eq!(a.value("EXECUTE s3").unwrap(), "3");
        take(&mut b);
        kill(stage);
    }
    // The last one fails inside, as it can be prepared no more.
    assert_ne!(code(&mut a, "CALL app.p_runs()"), 0);
    drop(a);
    let mut a = stage.address.connect().unwrap();
    b.query("CREATE TABLE app.gone (a INT)").unwrap();
    a.query("PREPARE s FROM 'SELECT a FROM app.gone'").unwrap();
    b.query("DROP TABLE app.gone").unwrap();
    kill(stage);
    a.query("DEALLOCATE PREPARE s").unwrap();
    assert_eq!(code(&mut a, "DEALLOCATE PREPARE s"), 1243);
    b.query("CREATE TABLE app.gone (a INT)").unwrap();
}

/// Servers keep the schema and the mode that a statement was prepared in.
fn other_states(stage: &Stage) {
    let mode = "SET SESSION sql_mode = 'ANSI_QUOTES'";
    for (away, back) in [("USE sbtest", "USE app"), (mode, "SET SESSION sql_mode = DEFAULT")] {
        let (mut a, mut b) = two(stage);
        a.query(back).unwrap();
        a.query("PREPARE s FROM 'SELECT DATABASE(), \"text\", (SELECT COUNT(*) FROM kept WHERE id = 99)'")
            .unwrap();
        let direct = [[Some("app".to_owned()), Some("text".to_owned()), Some("0".to_owned())]];
        take(&mut b);
        assert_eq!(a.rows("EXECUTE s").unwrap(), direct);
        take(&mut b);
        kill(stage);
        a.query(away).unwrap();
        assert_eq!(a.rows("EXECUTE s").unwrap(), direct, "{away}");
        a.query(back).unwrap();
        take(&mut b);
        assert_eq!(a.rows("EXECUTE s").unwrap(), direct, "{back}");
    }
    // Where it cannot be prepared any more, a run that fails does not take it away.
    let (mut a, _) = two(stage);
    a.query("PREPARE s FROM 'SELECT ? * 9223372036854775807'").unwrap();
    for step in ["SET @a = 1, @b = 2", "EXECUTE s USING @a", "USE sbtest"] {
        a.query(step).unwrap();
    }
    assert_eq!(a.error("EXECUTE s USING @b").unwrap().code, 1690);
    assert_eq!(a.value("EXECUTE s USING @a").unwrap(), "9223372036854775807");
}

fn what_was_left_behind(stage: &Stage) {
    let (mut a, mut b) = two(stage);
    a.query("PREPARE s FROM 'SELECT 1 UNION SELECT 2'").unwrap();
    a.query("INSERT INTO app.kept (a) VALUES (41)").unwrap();
    let id = a.value("SELECT MAX(id) FROM app.kept FOR UPDATE").unwrap();
    b.query("INSERT INTO app.kept (a) VALUES (42)").unwrap();
    a.query("EXECUTE s").unwrap();
    assert_eq!(a.value("SELECT FOUND_ROWS()").unwrap(), "2");
    assert_eq!(a.value("SELECT LAST_INSERT_ID()").unwrap(), id);
    a.query("PREPARE w FROM 'INSERT INTO app.kept (a) SELECT CAST(''4x'' AS SIGNED) WHERE 1 = 0'").unwrap();
    take(&mut b);
    a.query("EXECUTE w").unwrap();
    assert!(a.rows("SHOW WARNINGS").unwrap().is_empty());
    assert!(b.rows("SHOW WARNINGS").unwrap().is_empty());
}

/// The server's limit is for all sessions together.
fn many(stage: &Stage) {
    let (mut a, mut b) = two(stage);
    for number in 0..50 {
        a.query(&format!("PREPARE s{number} FROM 'SELECT {number}'")).unwrap();
    }
    take(&mut b);
    assert_eq!(a.value("EXECUTE s49").unwrap(), "49");
    take(&mut b);
    let sql = "SHOW GLOBAL STATUS LIKE 'Prepared_stmt_count'";
    let count: u32 =
        stage.cluster.servers[0].query(sql).unwrap().split_whitespace().last().unwrap().parse().unwrap();
    assert!(count < 50, "{count}");
}
