//! What ends a response: every shape of answer is taken from real servers, byte by byte, and given to the tracker in
//! every cut; and through the proxy, the next statement gets its own answer.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "responses/captures.rs"]
mod captures;
#[path = "responses/commands.rs"]
mod commands;
#[path = "responses/logins.rs"]
mod logins;
#[path = "responses/rogue.rs"]
mod rogue;

use std::time::Duration;

use delphinus_e2e::{ConfigFile, Stage};
use delphinus_sandbox::Flavor;
use delphinus_testkit::{Client, Login, Param, Reply};
use delphinus_wire::Capabilities;

const PATIENCE: Duration = Duration::from_secs(20);

/// What the shapes are made of. Each cursor in code leaves its flag behind.
const SCHEMA: &[&str] = &[
    "CREATE TABLE app.shapes (c1 INT)",
    "INSERT INTO app.shapes VALUES (1), (2)",
    "CREATE PROCEDURE app.with_cursor() BEGIN DECLARE a INT; DECLARE c CURSOR FOR SELECT c1 FROM shapes; \
     OPEN c; FETCH c INTO a; CLOSE c; SELECT a; SELECT c1 FROM shapes; END",
    "CREATE PROCEDURE app.plain() BEGIN SELECT c1 FROM shapes; SELECT 5; END",
    "CREATE PROCEDURE app.fails() BEGIN DECLARE a INT; DECLARE c CURSOR FOR SELECT c1 FROM shapes; \
     OPEN c; FETCH c INTO a; SELECT a; SELECT (SELECT c1 FROM shapes); END",
    "CREATE PROCEDURE app.with_out(OUT x INT) BEGIN DECLARE c CURSOR FOR SELECT c1 FROM shapes; \
     OPEN c; FETCH c INTO x; CLOSE c; END",
    "CREATE PROCEDURE app.plain_out(OUT x INT) SET x = 3",
    "CREATE FUNCTION app.from_cursor() RETURNS INT DETERMINISTIC READS SQL DATA BEGIN DECLARE a INT; \
     DECLARE c CURSOR FOR SELECT c1 FROM shapes; OPEN c; FETCH c INTO a; CLOSE c; RETURN a; END",
];

fn stage(flavor: Flavor) -> Stage {
    let config = ConfigFile::with_pool(&["max_connections = 2"]);
    let cnf = ["log_bin_trust_function_creators=ON", "max_allowed_packet=16M"];
    let stage = Stage::with_servers(flavor, &cnf, &config).unwrap();
    let user = &stage.cluster.app_user;
    stage.cluster.servers[0].query(&format!("GRANT RELOAD ON *.* TO {user}@'%'")).unwrap();
    let mut direct = direct(&stage).connect().unwrap();
    for sql in SCHEMA {
        direct.run(sql).unwrap();
    }
    stage
}

fn direct(stage: &Stage) -> Login {
    stage.primary_address().login().patience(PATIENCE)
}

fn through(stage: &Stage) -> Login {
    stage.address.login().patience(PATIENCE)
}

#[test]
fn responses_of_mariadb() {
    let stage = stage(Flavor::MariaDb);
    captures::all_shapes_end_where_the_server_ends(Flavor::MariaDb, &direct(&stage));
    answers_are_those_of_the_server(&stage, COMMON);
    answers_are_those_of_the_server(&stage, OF_MARIADB);
    commands::are_answered_as_by_the_server(&stage);
    commands::the_last_prepared_statement(&stage);
    commands::progress_is_reported(&stage);
    logins::are_refused_as_by_the_server(&stage);
    logins::a_refused_user_may_try_again(&stage);
    commands::too_large_for_the_proxy(&stage);
    commands::too_large_for_the_server(&stage);
    rogue::asks_for_files(&stage);
    rogue::ends_itself(&stage);
    rogue::answers_at_length(&stage);
}

#[test]
fn responses_of_mysql() {
    let stage = stage(Flavor::MySql);
    captures::all_shapes_end_where_the_server_ends(Flavor::MySql, &direct(&stage));
    answers_are_those_of_the_server(&stage, COMMON);
    commands::are_answered_as_by_the_server(&stage);
    logins::are_refused_as_by_the_server(&stage);
    logins::a_refused_user_is_gone(&stage);
    commands::too_large_for_the_proxy(&stage);
    commands::too_large_for_the_server(&stage);
    rogue::asks_for_files(&stage);
    rogue::ends_itself(&stage);
}

const COMMON: &[&str] = &[
    "CALL with_cursor()",
    "CALL plain()",
    "CALL fails()",
    "CALL with_out(@x)",
    "SELECT from_cursor()",
    "SELECT c1 + from_cursor() FROM shapes",
    "SELECT (SELECT c1 FROM shapes)",
    "SELECT 1e308 + 1e308",
    "SELECT from_cursor(), 1e308 * 10 * c1 FROM shapes",
    "SELECT c1 FROM shapes",
    "SHOW CREATE TABLE shapes",
    "DO from_cursor()",
];

const OF_MARIADB: &[&str] = &[
    "BEGIN NOT ATOMIC FOR i IN (SELECT c1 FROM shapes) DO SELECT i.c1; END FOR; END",
    "EXECUTE IMMEDIATE 'CALL with_cursor()'",
    "EXPLAIN SELECT from_cursor()",
    "INSERT INTO shapes SELECT 3 FROM DUAL WHERE from_cursor() > 1 RETURNING c1",
];

/// The same directly and through the proxy, in all protocols; then the next statement gets its own answer.
fn answers_are_those_of_the_server(stage: &Stage, list: &[&str]) {
    let plain = Capabilities::DEPRECATE_EOF | Capabilities::SESSION_TRACK;
    for less in [Capabilities::default(), Capabilities::DEPRECATE_EOF, plain] {
        let mut direct = direct(stage).without(less).connect().unwrap();
        let mut proxied = through(stage).without(less).connect().unwrap();
        for (number, sql) in list.iter().enumerate() {
            for how in [in_text, prepared, with_cursor] {
                let expected = shown(&how(&mut direct, sql));
                let found = shown(&how(&mut proxied, sql));
                assert_eq!(found, expected, "{sql} without {less:?}");
                let next = proxied.query(format!("SELECT {number}, 'next'")).unwrap();
                let row = [number.to_string(), "next".to_owned()].map(|text| Some(text.into_bytes()));
                assert!(matches!(&next[0], Reply::Rows(rows) if rows.rows == [row]), "after {sql}: {next:?}");
            }
        }
    }
}

fn in_text(client: &mut Client, sql: &str) -> Vec<Reply> {
    client.query(sql).unwrap()
}

fn prepared(client: &mut Client, sql: &str) -> Vec<Reply> {
    match client.prepare(sql).unwrap() {
        Ok(statement) => client.execute(statement.id, &[], true).unwrap(),
        Err(failure) => vec![Reply::Failed(failure)],
    }
}

/// With all rows that the cursor has, if there is one.
fn with_cursor(client: &mut Client, sql: &str) -> Vec<Reply> {
    let statement = match client.prepare(sql).unwrap() {
        Ok(statement) => statement.id,
        Err(failure) => return vec![Reply::Failed(failure)],
    };
    let mut replies = client.execute_with_cursor(statement, &[] as &[Param]).unwrap();
    let columns = match replies.last() {
        Some(Reply::Rows(rows)) => rows.columns.clone(),
        _ => Vec::new(),
    };
    let mut fetched = client.fetch(statement, 9, &columns).unwrap();
    if let Reply::Failed(failure) = &mut fetched {
        // It names the statement by its number.
        failure.message.clear();
    }
    replies.push(fetched);
    client.close(statement).unwrap();
    replies
}

/// Columns and values, without what depends on the connection.
fn shown(replies: &[Reply]) -> String {
    let one = |reply: &Reply| match reply {
        Reply::Rows(rows) => format!("{:?} {:?}", rows.columns, rows.rows),
        Reply::Done(done) => format!("{} rows", done.affected_rows),
        Reply::Failed(failure) => failure.to_string(),
    };
    replies.iter().map(one).collect::<Vec<_>>().join("; ")
}
