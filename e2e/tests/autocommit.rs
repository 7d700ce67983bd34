//! A server that reads a table while it turns autocommit off loses the transactions that follow on that connection: COMMIT and
//! ROLLBACK do nothing. The proxy does not make it do so, and no other session gets the connection of a client that does.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use delphinus_e2e::{Client, ConfigFile, Stage, on_both_flavors};
use delphinus_sandbox::Flavor;

on_both_flavors!(transactions_end_as_they_are_told);

fn transactions_end_as_they_are_told(flavor: Flavor) {
    let config = ConfigFile {
        proxy: vec!["workers = 1".to_owned()],
        ..ConfigFile::with_pool(&["max_connections = 1", "hold_ms = 0"])
    };
    let stage = Stage::with(flavor, &config).unwrap();
    let mut setup = stage.address.connect().unwrap();
    setup.query("CREATE TABLE counted (id INT PRIMARY KEY)").unwrap();
    drop(setup);
    if flavor == Flavor::MySql {
        a_state_with_two_collations(&stage);
    }
    what_a_client_does_stays_its_own(&stage);
    if flavor == Flavor::MySql {
        several_statements_in_one_text(&stage);
        what_the_server_knows_of_is_rolled_back(&stage);
    }
}

/// How many rows everybody sees.
fn count(stage: &Stage) -> String {
    stage.cluster.servers[0].query("SELECT COUNT(*) FROM app.counted").unwrap().trim().to_owned()
}

/// A transaction that is rolled back, and one that is committed.
fn check(stage: &Stage, client: &mut Client, begin: &str) {
    for (end, wanted) in [("ROLLBACK", "0"), ("COMMIT", "1")] {
        client.query(begin).unwrap();
        client.query("INSERT INTO counted VALUES (1)").unwrap();
        client.query(end).unwrap();
        assert_eq!(client.value("SELECT COUNT(*) FROM counted FOR UPDATE").unwrap(), wanted, "{end}");
        assert_eq!(count(stage), wanted, "{end}");
    }
    client.query("DELETE FROM counted").unwrap();
    client.query("COMMIT").unwrap();
}

/// Collations that differ, and that no variable shows, are brought along by their numbers.
fn a_state_with_two_collations(stage: &Stage) {
    let mut client = stage.address.connect().unwrap();
    client.query("SET NAMES utf8mb4 COLLATE utf8mb4_bin").unwrap();
    client.query("SET character_set_results = 224").unwrap();
    client.query("SET autocommit = 0").unwrap();
    let primary = &stage.cluster.servers[0];
    let ids = primary.query("SELECT ID FROM information_schema.PROCESSLIST WHERE USER = 'app'").unwrap();
    for id in ids.split_whitespace() {
        primary.query(&format!("KILL {id}")).unwrap();
    }
    check(stage, &mut client, "DO 0");
    assert_eq!(client.value("SELECT @@autocommit").unwrap(), "0");
}

fn what_a_client_does_stays_its_own(stage: &Stage) {
    for text in [
        "SET autocommit = 0, @a = (SELECT COUNT(*) FROM counted)",
        "SET @a = (SELECT COUNT(*) FROM counted), @@session.autocommit = OFF",
    ] {
        let mut client = stage.address.connect().unwrap();
        client.query(text).unwrap();
        client.query("SET autocommit = 1").unwrap();
        let statement = client.command(0x1f, &[]).unwrap();
        assert_eq!(statement[0], 0, "COM_RESET_CONNECTION");
        // On a server it would not be over with that.
        check(stage, &mut client, "BEGIN");
        client.query(text).unwrap();
        client.query("SET autocommit = 1").unwrap();
        drop(client);
        check(stage, &mut stage.address.connect().unwrap(), "BEGIN");
    }
}

/// A client that has lost its transactions keeps the connection, and no other session inherits that. What the server has not
/// committed by the end of the connection is rolled back.
fn several_statements_in_one_text(stage: &Stage) {
    let lose = "SET autocommit = 0, @a = (SELECT COUNT(*) FROM counted)";
    let insert = format!("{lose}; INSERT INTO counted VALUES (5)");
    for text in [
        format!("{lose}; SELECT 1"),
        insert.clone(),
        format!("{insert}; ROLLBACK"),
        format!("{insert}; INSERT INTO counted VALUES (5)"),
    ] {
        for is_reset in [true, false] {
            let mut client = stage.address.connect().unwrap();
            assert_eq!(client.command(0x1b, &[0, 0]).unwrap()[0], 0xfe, "COM_SET_OPTION");
            let is_refused = client.query_all(&text).is_err();
            assert_eq!(is_refused, text.matches("INSERT").count() == 2, "{text}");
            if is_reset {
                assert_eq!(client.command(0x1f, &[]).unwrap()[0], 0, "COM_RESET_CONNECTION");
                assert_eq!(client.value("SELECT COUNT(*) FROM counted FOR UPDATE").unwrap(), "0", "{text}");
                check(stage, &mut client, "BEGIN");
            }
            drop(client);
            check(stage, &mut stage.address.connect().unwrap(), "BEGIN");
            assert_eq!(count(stage), "0", "{text}");
        }
    }
}

/// A client goes away, or is reset, with a transaction open that the server may have forgotten, and has not.
fn what_the_server_knows_of_is_rolled_back(stage: &Stage) {
    let makes = "CREATE PROCEDURE opens() BEGIN SET autocommit = 0; INSERT INTO counted VALUES (7); END";
    stage.address.connect().unwrap().query(makes).unwrap();
    let known = "SET autocommit = 0; SET @n = (SELECT COUNT(*) FROM counted); INSERT INTO counted VALUES (7)";
    for text in ["CALL opens()", known] {
        for is_reset in [true, false] {
            let mut client = stage.address.connect().unwrap();
            assert_eq!(client.command(0x1b, &[0, 0]).unwrap()[0], 0xfe, "COM_SET_OPTION");
            client.query_all(text).unwrap();
            if is_reset {
                assert_eq!(client.command(0x1f, &[]).unwrap()[0], 0, "COM_RESET_CONNECTION");
                assert_eq!(client.value("SELECT COUNT(*) FROM counted FOR UPDATE").unwrap(), "0", "{text}");
            }
            drop(client);
            let mut next = stage.address.connect().unwrap();
            assert_eq!(
                next.value("SELECT COUNT(*) FROM counted FOR UPDATE").unwrap(),
                "0",
                "{text}, {is_reset}"
            );
            assert_eq!(count(stage), "0", "{text}, {is_reset}");
        }
    }
}
