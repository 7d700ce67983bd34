//! Limits under which the server refuses what the proxy itself asks on the connection, or sets there for the next session: clients
//! see nothing of that, neither the one that has set the limit nor another.

use delphinus_sandbox::Flavor;
use delphinus_testkit::{Client, Login, Reply};

/// What is refused then: a join, any statement, one that takes longer, one that needs memory.
const LIMITS: [(Option<Flavor>, &str, &str); 6] = [
    (None, "max_join_size", "1"),
    (None, "sql_select_limit", "0"),
    (None, "max_error_count", "0"),
    (Some(Flavor::MySql), "max_execution_time", "1"),
    (Some(Flavor::MariaDb), "max_statement_time", "0.000001"),
    (Some(Flavor::MariaDb), "max_session_mem_used", "8192"),
];

/// Which statements these refuse is different each time.
const UNSTEADY: [&str; 3] = ["max_execution_time", "max_statement_time", "max_session_mem_used"];

/// Behind each of them the proxy has something to ask, or to set.
const STATEMENTS: [&str; 16] = [
    "SET @a = 1",
    "SET @b = REPEAT('b', 9000)",
    "SELECT 1/0",
    "SELECT CAST('x' AS SIGNED) INTO @c",
    "SELECT a FROM refused.no_such",
    "SET @d = (SELECT COUNT(*) FROM refused.two), sql_mode = 'NONSENSE'",
    "SET sort_buffer_size = 400000, @e = 5",
    "CALL refused.sets()",
    "SELECT refused.f(3)",
    "INSERT INTO refused.counted (b) VALUES (1)",
    "INSERT INTO refused.counted (b) VALUES (1), (2)",
    "SELECT LAST_INSERT_ID(7)",
    "PREPARE p FROM 'SET @g = 7'",
    "EXECUTE p",
    "SET NAMES latin1",
    "SET autocommit = 1",
];

/// What the session has in the end, which the limit does not refuse.
const LEFT: [&str; 3] = [
    "SELECT @a, LENGTH(@b), @c, @d, @e",
    "SELECT @@sort_buffer_size, @@character_set_client",
    "SELECT 'mine'",
];

fn said(client: &mut Client, sql: &str) -> String {
    match client.query(sql).map(|mut replies| replies.remove(0)) {
        Ok(Reply::Failed(failure)) => format!("{sql}: {} {}", failure.code, failure.message),
        Ok(reply) => format!("{sql}: {:?}", reply.rows().unwrap_or_default()),
        Err(error) => format!("{sql}: {error:#}"),
    }
}

fn run(login: &Login, (name, value): (&str, &str), between: &mut dyn FnMut()) -> Vec<String> {
    let mut client = login.connect().unwrap();
    let mut found = vec![said(&mut client, &format!("SET {name} = {value}"))];
    for sql in STATEMENTS {
        found.push(said(&mut client, sql));
        between();
    }
    found.push(said(&mut client, &format!("SET {name} = DEFAULT")));
    found.extend(LEFT.map(|sql| said(&mut client, sql)));
    found
}

/// True if each statement was answered, and what was set without an error is there in the end.
fn keeps_all(found: &[String]) -> bool {
    let is_set = |sql: &str| found.iter().any(|said| *said == format!("{sql}: []"));
    let has = |sql: &str, value: &str| !is_set(sql) || found.iter().any(|said| said.contains(value));
    found.iter().all(|said| !said.contains("packet") && !said.contains("Delphinus"))
        && has(STATEMENTS[0], "SELECT @a, LENGTH(@b), @c, @d, @e: [[Some([49])")
        && has(
            STATEMENTS[6],
            "SELECT @@sort_buffer_size, @@character_set_client: [[Some([52, 48, 48, 48, 48, 48])",
        )
        && found.ends_with(&["SELECT 'mine': [[Some([109, 105, 110, 101])]]".to_owned()])
}

/// `primary` prepares what the statements need.
pub(crate) fn questions_that_are_refused(
    primary: &mut Client,
    (direct, proxied): (&Login, &Login),
    flavor: Flavor,
) {
    for sql in [
        "CREATE DATABASE refused",
        "CREATE TABLE refused.counted (a INT AUTO_INCREMENT PRIMARY KEY, b INT)",
        "CREATE TABLE refused.two (a INT)",
        "INSERT INTO refused.two VALUES (1), (2)",
        "CREATE PROCEDURE refused.sets() SET @f = 6",
        "CREATE FUNCTION refused.f(x INT) RETURNS INT NO SQL BEGIN SET @f = x; RETURN x; END",
    ] {
        primary.run(sql).unwrap();
    }
    let mut wrong = Vec::new();
    for (on, name, value) in LIMITS {
        if on.is_some_and(|on| on != flavor) {
            continue;
        }
        primary.run("TRUNCATE TABLE refused.counted").unwrap();
        let wanted = run(direct, (name, value), &mut || {});
        for others in [0, 3] {
            primary.run("TRUNCATE TABLE refused.counted").unwrap();
            let mut others: Vec<_> = (0..others).map(|_| proxied.connect().unwrap()).collect();
            let mut foreign = Vec::new();
            let found = run(proxied, (name, value), &mut || {
                for other in &mut others {
                    foreign.push(said(other, "SELECT a FROM rows_of FOR UPDATE"));
                }
            });
            foreign.retain(|said| !said.ends_with(": []"));
            let is_right = if UNSTEADY.contains(&name) { keeps_all(&found) } else { found == wanted };
            if !is_right || !foreign.is_empty() {
                wrong.push(format!("{name}\n through {found:#?}\n direct {wanted:#?}\n others {foreign:?}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
