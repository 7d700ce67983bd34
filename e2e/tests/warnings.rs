//! What MariaDB lists by SHOW WARNINGS after statements that keep the list of one before, wherever a session's connections lead
//! it meanwhile: what a client of the server itself is told.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use delphinus_e2e::{Address, ConfigFile, Stage};
use delphinus_sandbox::{ADMIN, Flavor};
use delphinus_testkit::{Client, Login, Reply};

/// Several statements leave a list that their answer does not count, or keep an older one.
const BEFORE: &[&[&str]] = &[
    &["SELECT 1/0 FROM orders LIMIT 3; SHOW WARNINGS"],
    &["SELECT 1/0 FROM orders LIMIT 3; SELECT 1", "SELECT 2"],
    &["SELECT 1/0 FROM orders LIMIT 3", "SET @a = 1; SELECT @a; SET @b = 2"],
    &["SELECT 1/0 FROM orders LIMIT 3", "SELECT 1/0; SELECT 2; SET @b = 2"],
    &["SELECT 1/0 FROM orders LIMIT 3", "SET @a = 1; SELECT COUNT(*) FROM orders; SET @b = 2"],
    // To take this along warns: the variable is going out of use.
    &["SET big_tables = 1", "SELECT 1/0 FROM orders LIMIT 3", "SELECT 1; SELECT 2"],
];
const BETWEEN: &[&[&str]] = &[&[], &["SET identity = 33", "SET @c = 1"], &["DO LAST_INSERT_ID(32)"]];

fn connect(address: &Address) -> Client {
    let Address { socket, user, password, database, .. } = address;
    Login::new(socket, user, password).schema(database).connect().unwrap()
}

/// The answer to the prepared `ask`. After the steps whose bits are in `moves` another session takes the connection.
fn answer(
    address: &Address,
    (before, ask, between): (&[&str], &str, &[&str]),
    moves: u32,
) -> Vec<Vec<Option<Vec<u8>>>> {
    let (mut client, mut other) = (connect(address), connect(address));
    client.set_multi_statements(true).unwrap();
    let mut steps = 0_u32;
    let mut step_aside = || {
        if moves & (1 << steps) != 0 {
            other.query("SELECT id FROM orders LIMIT 1").unwrap();
        }
        steps += 1;
    };
    for sql in before {
        client.query(*sql).unwrap();
        step_aside();
    }
    let statement = client.prepare(ask).unwrap().unwrap().id;
    step_aside();
    for sql in between {
        client.query(*sql).unwrap();
        step_aside();
    }
    match client.execute(statement, &[], true).unwrap().remove(0) {
        Reply::Rows(rows) => rows.rows,
        other => panic!("{other:?}"),
    }
}

/// One statement a line, which may stand on those before it. What they make, they drop.
const STATEMENTS: &str = include_str!("warnings/statements.sql");

/// Statements that run others, which may have emptied it: nobody may know then.
const MAY_EMPTY: [&str; 3] = ["CALL p()", "PREPARE z FROM 'DO 1'", "EXECUTE z"];

fn texts(rows: &[Vec<Option<Vec<u8>>>]) -> String {
    rows.iter().flatten().flatten().map(|cell| String::from_utf8_lossy(cell)).collect::<Vec<_>>().join(" ")
}

/// What is listed behind each of them, after a SELECT that warns. With an `other` session, that one takes the connection before.
fn lists(address: &Address, mut other: Option<Client>) -> Vec<String> {
    let operator = Address { user: ADMIN.user.into(), password: ADMIN.password.into(), ..address.clone() };
    let mut client = connect(&operator);
    let list = |sql: &str| {
        client.query("SELECT CAST('12abc' AS SIGNED)").unwrap();
        client.query(sql).unwrap();
        if let Some(other) = &mut other {
            // Where the first one is pinned, it is told that it cannot have it.
            other.query("SELECT id FROM orders LIMIT 1").unwrap();
        }
        match client.query("SHOW WARNINGS").unwrap().remove(0) {
            Reply::Rows(list) => format!("{sql}: {}", texts(&list.rows)),
            Reply::Failed(failure) => format!("{sql}: {}", failure.message),
            other @ Reply::Done(_) => panic!("{other:?}"),
        }
    };
    STATEMENTS.lines().map(list).collect()
}

fn stage(more: &str) -> Stage {
    let sections = ConfigFile::with_sections("[routing]\nread_primary_percentage = 100\n");
    let pool = vec!["max_connections = 1".to_owned(), more.to_owned()];
    let users = vec![(ADMIN.user.to_owned(), ADMIN.password.to_owned())];
    Stage::with(Flavor::MariaDb, &ConfigFile { pool, users, ..sections }).unwrap()
}

#[test]
fn each_kind_of_statement_leaves_the_list_that_it_leaves_on_the_server() {
    let stage = stage("checkout_timeout_ms = 50");
    let wanted = lists(&stage.primary_address(), None);
    assert!(wanted.iter().any(|list| list.contains("12abc")), "some keep it");
    for moves in [false, true] {
        let other = moves.then(|| connect(&stage.address));
        let mut not_known = Vec::new();
        for (found, wanted) in lists(&stage.address, other).iter().zip(&wanted) {
            match found.split_once(": Delphinus: ") {
                Some((sql, _)) => not_known.push(sql.to_owned()),
                None => assert_eq!(found, wanted, "moves {moves}"),
            }
        }
        assert!(not_known.iter().all(|sql| MAY_EMPTY.contains(&sql.as_str())), "{not_known:?}");
    }
}

#[test]
fn a_list_is_kept_as_on_the_server() {
    let stage = stage("");
    let direct = stage.primary_address();
    for before in BEFORE {
        for ask in ["SHOW WARNINGS", "SELECT @@warning_count"] {
            for between in BETWEEN {
                let wanted = answer(&direct, (before, ask, between), 0);
                for moves in [0, 1, 2, 3, 7] {
                    let found = answer(&stage.address, (before, ask, between), moves);
                    assert_eq!(found, wanted, "{before:?} {ask} {between:?}, moves {moves:b}");
                }
            }
        }
    }
}

/// What is listed, or the error that nobody knows it. After the steps whose bits are in `moves` another session takes the
/// connection.
fn list_in_latin1(address: &Address, moves: u32) -> Result<String, u16> {
    let (mut client, mut other) = (connect(address), connect(address));
    let steps: [&[u8]; 3] =
        [b"SET NAMES koi8r", b"SELECT CAST('12\xc3\xa9' AS SIGNED) FROM orders LIMIT 1", b"SET NAMES latin1"];
    for (at, sql) in steps.into_iter().enumerate() {
        client.query(sql).unwrap();
        if moves & (1 << at) != 0 {
            other.query("SELECT id FROM orders LIMIT 1").unwrap();
        }
    }
    match client.query("SHOW WARNINGS").unwrap().remove(0) {
        Reply::Rows(list) => Ok(texts(&list.rows)),
        Reply::Failed(failure) => Err(failure.code),
        other @ Reply::Done(_) => panic!("{other:?}"),
    }
}

#[test]
fn texts_saved_in_another_character_set_are_not_passed_on() {
    let stage = stage("");
    let wanted = list_in_latin1(&stage.primary_address(), 0).unwrap();
    // KOI8-R has letters for these bytes that Latin 1 has none for.
    assert!(wanted.contains("12\\0446"), "{wanted}");
    for moves in [0, 1, 4, 5] {
        assert_eq!(list_in_latin1(&stage.address, moves), Ok(wanted.clone()), "moves {moves:b}");
    }
    // Saved before the character set was another one.
    assert_eq!(list_in_latin1(&stage.address, 2), Err(1105));
}

/// Each makes the proxy ask for itself behind a statement that has warned: for a user variable, a list, LAST_INSERT_ID().
const ASKED_AMID: &[&[&str]] = &[
    &["SELECT CAST('12abc' AS SIGNED) INTO @a", "BEGIN NOT ATOMIC DO 1; END"],
    &["SELECT CAST('12abc' AS SIGNED) FROM orders LIMIT 1", "SET @a = 1", "BEGIN NOT ATOMIC DO 1; END"],
    &["SELECT 1/0", "SET @a = 1", "BEGIN NOT ATOMIC SET @b = 2; SET @b = (SELECT COUNT(*) FROM orders); END"],
    &["INSERT INTO none VALUES (1)", "SET insert_id = 7", "BEGIN NOT ATOMIC SET @b = 2; END", "SET @a = @b"],
    &["SELECT 1/0 INTO @a", "EXECUTE IMMEDIATE 'SELECT COUNT(*) FROM orders INTO @b'", "SET @b = 1"],
];

#[test]
fn what_the_proxy_asks_for_itself_takes_no_list() {
    let stage = stage("");
    let list = |address: &Address, steps: &[&str]| {
        let mut client = connect(address);
        for sql in steps {
            client.query(*sql).unwrap();
        }
        match client.query("SHOW WARNINGS").unwrap().remove(0) {
            Reply::Rows(list) => texts(&list.rows),
            other => panic!("{steps:?}: {other:?}"),
        }
    };
    let direct = stage.primary_address();
    for steps in ASKED_AMID {
        assert_eq!(list(&stage.address, steps), list(&direct, steps), "{steps:?}");
    }
}
