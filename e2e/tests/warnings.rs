//! What MariaDB lists by SHOW WARNINGS after statements that keep the list of one before, wherever a session's connections lead
//! it meanwhile: what a client of the server itself is told.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use delphinus_e2e::{Address, ConfigFile, Stage};
use delphinus_sandbox::Flavor;
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

#[test]
fn a_list_is_kept_as_on_the_server() {
    let sections = ConfigFile::with_sections("[routing]\nread_primary_percentage = 100\n");
    let config = ConfigFile { pool: vec!["max_connections = 1".to_owned()], ..sections };
    let stage = Stage::with(Flavor::MariaDb, &config).unwrap();
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
