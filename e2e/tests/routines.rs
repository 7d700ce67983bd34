//! What functions and triggers do to a session behind its back: user variables that no text of the client names follow
//! their client where the server tells or lists them, and are never seen by another session. Nor are warnings.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use delphinus_e2e::{Address, ConfigFile, Stage};
use delphinus_sandbox::{ADMIN, Flavor};
use delphinus_testkit::{Client, Reply};
use delphinus_wire::Capabilities;

/// Each sets `@hidden` to its own name, or reads the last id.
const MADE: [&str; 14] = [
    "CREATE FUNCTION app.f_set() RETURNS INT DETERMINISTIC BEGIN SET @hidden = 'f_set'; RETURN 1; END",
    "CREATE FUNCTION app.f_into() RETURNS INT DETERMINISTIC BEGIN SELECT 'f_into' INTO @hidden; RETURN 1; END",
    "CREATE FUNCTION app.f_none() RETURNS INT DETERMINISTIC RETURN 1",
    "CREATE PROCEDURE app.p_set() SET @hidden = 'p_set'",
    "CREATE TABLE app.plain (id INT AUTO_INCREMENT PRIMARY KEY, a INT)",
    "CREATE PROCEDURE app.p_makes() INSERT INTO app.plain (a) VALUES (1)",
    "CREATE PROCEDURE app.p_looks() SELECT 1",
    "CREATE TABLE app.fired (id INT AUTO_INCREMENT PRIMARY KEY, a INT)",
    "CREATE TRIGGER app.fires BEFORE INSERT ON app.fired FOR EACH ROW SET @hidden = 'fires'",
    "CREATE TRIGGER app.fires_too BEFORE UPDATE ON app.fired FOR EACH ROW SET @hidden = 'fires_too'",
    "CREATE FUNCTION app.f_last() RETURNS BIGINT READS SQL DATA RETURN LAST_INSERT_ID()",
    "CREATE FUNCTION app.f_over() RETURNS BIGINT READS SQL DATA RETURN app.f_last()",
    "CREATE TABLE app.noted (id INT AUTO_INCREMENT PRIMARY KEY, a BIGINT)",
    "CREATE TRIGGER app.notes BEFORE INSERT ON app.noted FOR EACH ROW SET NEW.a = LAST_INSERT_ID()",
];

/// What runs, and what `@hidden` is then.
const CASES: [(&str, Option<&str>); 8] = [
    ("SELECT app.f_set()", Some("f_set")),
    ("DO app.f_set()", Some("f_set")),
    ("INSERT INTO app.plain (a) VALUES (app.f_set())", Some("f_set")),
    ("CALL app.p_set()", Some("p_set")),
    ("INSERT INTO app.fired (a) VALUES (1)", Some("fires")),
    ("UPDATE app.fired SET a = a + 1", Some("fires_too")),
    ("SELECT app.f_none()", None),
    ("INSERT INTO app.plain (a) VALUES (1)", None),
];

/// One worker and room for two connections: one for a pinned session, one for all others.
fn stage(flavor: Flavor) -> Stage {
    let config = ConfigFile {
        proxy: vec!["workers = 1".to_owned()],
        pool: vec!["max_connections = 2".to_owned()],
        users: vec![(ADMIN.user.to_owned(), ADMIN.password.to_owned())],
        ..ConfigFile::default()
    };
    let stage = Stage::with(flavor, &config).unwrap();
    let primary = &stage.cluster.servers[0];
    primary.query("SET GLOBAL log_bin_trust_function_creators = 1").unwrap();
    let mut client = connect(&stage);
    for sql in MADE {
        client.run(sql).unwrap();
    }
    let routines = "SELECT COUNT(*) FROM information_schema.ROUTINES WHERE ROUTINE_SCHEMA = 'app'";
    stage.wait_for_replicas(routines).unwrap();
    stage
}

fn connect(stage: &Stage) -> Client {
    stage.address.login().connect().unwrap()
}

/// `@hidden` in a session, read where a write would go: on the connection that functions ran on.
fn hidden(client: &mut Client) -> Option<String> {
    let reply = client.query("SELECT @hidden, LAST_INSERT_ID() >= 0 FOR UPDATE").unwrap().remove(0);
    let rows = reply.rows().unwrap();
    rows[0][0].as_ref().map(|value| String::from_utf8_lossy(value).into_owned())
}

#[test]
fn hidden_user_variables_on_mariadb() {
    let stage = stage(Flavor::MariaDb);
    hidden_user_variables(&stage);
    logs_as_text(&stage);
}

#[test]
fn hidden_user_variables_on_mysql() {
    hidden_user_variables(&stage(Flavor::MySql));
}

fn hidden_user_variables(stage: &Stage) {
    for (sql, wanted) in CASES {
        let (mut client, mut others) = (connect(stage), [connect(stage), connect(stage), connect(stage)]);
        client.run(sql).unwrap();
        for other in &mut others {
            assert_eq!(hidden(other), None, "another session after {sql}");
        }
        assert_eq!(hidden(&mut client).as_deref(), wanted, "the same session after {sql}");
        // Also after the session has had a statement of its own about it.
        client.run("SET @hidden = 'own'").unwrap();
        assert_eq!(hidden(&mut others[0]), None, "another session after SET");
        assert_eq!(hidden(&mut client).as_deref(), Some("own"));
        client.run("DO 1").unwrap();
    }
    a_list_that_fails_later(stage);
    unreported(stage);
    a_limit(stage);
    a_file_in_the_middle(stage);
    warnings_of_another_session(stage);
    ids_of_procedures(stage);
    ids_that_code_reads(stage);
}

const INSERT: &str = "INSERT INTO app.plain (a) VALUES (2)";

fn number_in(reply: Reply) -> u64 {
    let value = reply.rows().unwrap()[0][0].clone().unwrap();
    String::from_utf8(value).unwrap().parse().unwrap()
}

fn number(client: &mut Client, sql: &str) -> u64 {
    number_in(client.query(sql).unwrap().remove(0))
}

/// What a procedure makes of LAST_INSERT_ID(), and what it leaves as it was, on connections that others have made ids on.
fn ids_of_procedures(stage: &Stage) {
    let (mut client, mut others) = (connect(stage), [connect(stage), connect(stage)]);
    client.run(INSERT).unwrap();
    let mut wanted = number(&mut client, "SELECT LAST_INSERT_ID()");
    for (begin, call, makes, end) in [
        ("DO 1", "CALL app.p_makes()", true, "DO 1"),
        ("DO 1", "CALL app.p_looks()", false, "DO 1"),
        ("BEGIN", "CALL app.p_makes()", true, "COMMIT"),
    ] {
        for is_prepared in [false, true] {
            client.run(begin).unwrap();
            for other in &mut others {
                other.run(INSERT).unwrap();
                other.run("SELECT id FROM app.plain LIMIT 1 FOR UPDATE").unwrap();
            }
            if is_prepared {
                let statement = client.prepare(call).unwrap().unwrap().id;
                client.execute(statement, &[], true).unwrap();
                client.close(statement).unwrap();
            } else {
                client.run(call).unwrap();
            }
            if makes {
                wanted = number(&mut client, "SELECT MAX(id) FROM app.plain FOR UPDATE");
            }
            assert_eq!(number(&mut client, "SELECT LAST_INSERT_ID()"), wanted, "{call} {is_prepared}");
            client.run(end).unwrap();
        }
    }
}

/// `LAST_INSERT_ID()` in a function and in a trigger is the session's own, on connections that others have made ids on.
fn ids_that_code_reads(stage: &Stage) {
    let (mut client, mut others) = (connect(stage), [connect(stage), connect(stage)]);
    let noted = "SELECT a FROM app.noted ORDER BY id DESC LIMIT 1 FOR UPDATE";
    for is_prepared in [false, true] {
        for (sql, then) in [
            ("SELECT app.f_last()", None),
            ("SELECT app.f_over()", None),
            ("INSERT INTO app.noted (a) VALUES (0)", Some(noted)),
        ] {
            client.run(INSERT).unwrap();
            let own = number(&mut client, "SELECT LAST_INSERT_ID()");
            // Together they have both connections to the primary.
            for other in &mut others {
                other.run("BEGIN").unwrap();
                other.run(INSERT).unwrap();
            }
            for other in &mut others {
                other.run("COMMIT").unwrap();
            }
            let reply = if is_prepared {
                let statement = client.prepare(sql).unwrap().unwrap().id;
                let reply = client.execute(statement, &[], true).unwrap().remove(0);
                client.close(statement).unwrap();
                reply
            } else {
                client.run(sql).unwrap().remove(0)
            };
            let found = then.map_or_else(|| number_in(reply), |then| number(&mut client, then));
            assert_eq!(found, own, "{sql} {is_prepared}");
        }
    }
}

/// `MariaDB` lists the warnings of the statement before after one without tables.
fn warnings_of_another_session(stage: &Stage) {
    let listed = |client: &mut Client| client.query("SHOW WARNINGS").unwrap().remove(0).rows().unwrap().len();
    let (mut client, mut others) = (connect(stage), [connect(stage), connect(stage)]);
    for (sql, count) in
        [("SELECT CAST('12x' AS SIGNED) FOR UPDATE", 1), ("SELECT none FROM app.plain FOR UPDATE", 1)]
    {
        assert!(!client.query(sql).unwrap().is_empty());
        // Together they have both connections to the primary, also the one that the statement ran on.
        for other in &mut others {
            other.run("BEGIN").unwrap();
            assert_eq!(listed(other), 0, "another session after {sql}");
        }
        for other in &mut others {
            other.run("ROLLBACK").unwrap();
        }
        assert_eq!(listed(&mut client), count, "the same session after {sql}");
    }
}

/// The function has run, though the statement fails: at another variable, or with the function's own answer.
fn a_list_that_fails_later(stage: &Stage) {
    for sql in [
        "SET @q = app.f_set(), sql_mode = 'NONSENSE'",
        "SET @q = app.f_set(), time_zone = 'Nowhere/At_All'",
        "SET sql_mode = IF(app.f_set() = 1, 'NONSENSE', '')",
    ] {
        let (mut client, mut others) = (connect(stage), [connect(stage), connect(stage), connect(stage)]);
        let reply = client.query(sql).unwrap().remove(0);
        assert!(reply.failure().is_some(), "{sql}: {reply:?}");
        for other in &mut others {
            assert_eq!(hidden(other), None, "another session after {sql}");
        }
        assert_eq!(hidden(&mut client).as_deref(), Some("f_set"), "the same session after {sql}");
    }
}

/// What a text does after the file that it asks for has come is learnt from the text as well.
fn a_file_in_the_middle(stage: &Stage) {
    let address = &stage.address;
    let login = address.login();
    let wanted = Capabilities::MULTI_STATEMENTS | Capabilities::LOCAL_FILES;
    let mut client = login.with(wanted).connect().unwrap();
    client.run("CREATE TEMPORARY TABLE filled (a INT); LOAD DATA LOCAL INFILE 'x' INTO TABLE filled; SET @after = 'kept'").unwrap();
    for _ in 0..2 {
        let mut others = [connect(stage), connect(stage), connect(stage)];
        for other in &mut others {
            assert_eq!(hidden(other), None);
        }
        client.run("SELECT COUNT(*) FROM filled").unwrap();
        let reply = client.query("SELECT @after").unwrap().remove(0).rows().unwrap();
        assert_eq!(reply[0][0].as_deref(), Some(&b"kept"[..]));
    }
}

/// Whether a function has made a temporary table is asked for, whatever the session lets servers show.
fn a_limit(stage: &Stage) {
    let (mut client, mut watcher) = (connect(stage), connect(stage));
    for limit in ["0", "1", "DEFAULT"] {
        client.run(format!("SET sql_select_limit = {limit}")).unwrap();
        client.run("DO app.f_none()").unwrap();
        let rows = watcher.query("SHOW PROCESSLIST").unwrap().remove(0).rows().unwrap();
        let id = client.connection_id().to_string();
        let row = rows.into_iter().find(|row| row[0].as_deref() == Some(id.as_bytes())).unwrap();
        let state = row[6].clone().unwrap_or_default();
        assert!(state.is_empty(), "sql_select_limit = {limit}: {}", String::from_utf8_lossy(&state));
    }
}

/// The proxy asks behind each of these, or before the last of them.
const ASKED: [&[&str]; 4] = [
    &["SELECT app.f_set()"],
    // A question that was refused has left an error, which the last one must not list.
    &[
        "SET sql_big_selects = 0, max_join_size = 1",
        "SELECT app.f_none()",
        "SET sql_big_selects = 1",
        "CALL app.p_looks()",
    ],
    &["INSERT INTO app.fired (a) VALUES (1)"],
    &["SET ROLE NONE"],
];

/// A session with a temporary table logs rows from an unsafe statement on, where `MariaDB` chooses what it logs: no question of the proxy
/// may be one.
fn logs_as_text(stage: &Stage) {
    let primary = &stage.cluster.servers[0];
    let operator =
        Address { user: ADMIN.user.into(), password: ADMIN.password.into(), ..stage.address.clone() };
    let file = primary.query("SHOW MASTER STATUS").unwrap();
    let show = format!("SHOW BINLOG EVENTS IN '{}'", file.split('\t').next().unwrap());
    let (mut number, mut as_rows) = (1000, Vec::new());
    for asked in ASKED {
        for first in ["DO 0", "SET sql_select_limit = 0", "SET sql_select_limit = 5"] {
            let mut client = operator.login().connect().unwrap();
            client.run("SET binlog_format = MIXED").unwrap();
            client.run(first).unwrap();
            client.run("CREATE TEMPORARY TABLE app.own (a INT)").unwrap();
            for sql in asked {
                client.run(sql).unwrap();
            }
            number += 1;
            let insert = format!("INSERT INTO app.plain (a) VALUES ({number})");
            client.run(&insert).unwrap();
            let events = primary.query(&show).unwrap();
            let logged: Vec<&str> = events.lines().filter(|line| line.contains(&insert)).collect();
            let [logged] = logged[..] else { panic!("{first} {asked:?}: {logged:?}") };
            if logged.split('\t').nth(2) != Some("Query") {
                as_rows.push(format!("{first} {asked:?}: {logged}"));
            }
        }
    }
    assert!(as_rows.is_empty(), "{as_rows:#?}");
}

/// `SELECT .. INTO @a` in a function: `MariaDB` lists the variable, `MySQL` says nothing to anybody, but the function's text does.
fn unreported(stage: &Stage) {
    let (mut client, mut other) = (connect(stage), connect(stage));
    for _ in 0..4 {
        client.run("SELECT app.f_into()").unwrap();
        assert_eq!(hidden(&mut client).as_deref(), Some("f_into"), "on its own connection");
        client.run("SELECT app.f_into()").unwrap();
        // More sessions than connections: one of them has the client's.
        for _ in 0..3 {
            assert_eq!(hidden(&mut other), None);
            assert_eq!(hidden(&mut connect(stage)), None);
        }
        assert_eq!(hidden(&mut client).as_deref(), Some("f_into"));
    }
}
