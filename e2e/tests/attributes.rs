//! Connection attributes: what servers see of the proxy and of its clients. Query attributes pass through.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use delphinus_e2e::{Address, ConfigFile, Driver, Outcome, Stage, run};
use delphinus_sandbox::Flavor;

const LIMIT: Duration = Duration::from_mins(1);
/// A statement that runs on the primary.
const PRIMARY: &str = "SELECT 1 FROM app.answered_by FOR UPDATE";
const SERVERS: [&str; 1] = ["performance_schema=ON"];

fn config(pool: &[&str]) -> ConfigFile {
    ConfigFile::with_pool(pool)
}

/// The attributes of each connection of the application on the primary, by connection.
fn attributes(stage: &Stage) -> BTreeMap<String, BTreeMap<String, String>> {
    let sql = "SELECT a.PROCESSLIST_ID, ATTR_NAME, ATTR_VALUE FROM performance_schema.session_connect_attrs a \
               JOIN information_schema.PROCESSLIST p ON p.ID = a.PROCESSLIST_ID WHERE p.USER = 'app'";
    let mut found = BTreeMap::<String, BTreeMap<String, String>>::new();
    for line in stage.cluster.servers[0].query(sql).unwrap().lines() {
        let mut words = line.split('\t').map(str::to_owned);
        let (id, name, value) = (words.next().unwrap(), words.next().unwrap(), words.next().unwrap());
        found.entry(id).or_default().insert(name, value);
    }
    found
}

fn client(stage: &Stage, address: &Address) -> Outcome {
    let mut command = std::process::Command::new(stage.cluster.client_program());
    command.args(["--no-defaults", "-S"]).arg(&address.socket).args(["-u", &address.user, "-e", PRIMARY]);
    run(command.env("MYSQL_PWD", &address.password), LIMIT).unwrap()
}

fn check_connection_attributes(flavor: Flavor) {
    let stage = Stage::with_servers(flavor, &SERVERS, &config(&["max_connections = 2"])).unwrap();
    for _ in 0..4 {
        client(&stage, &stage.address).success().unwrap();
    }
    // Shared connections are the proxy's.
    let own = attributes(&stage);
    assert!(!own.is_empty() && own.len() <= 2, "{own:?}");
    for connection in own.values() {
        assert_eq!(connection["program_name"], "delphinus");
        assert_eq!(connection["_client_name"], "delphinus");
        assert!(connection["_delphinus_version"].starts_with(char::is_numeric));
        assert!(connection["_pid"].parse::<u32>().is_ok());
    }
    let before: BTreeSet<_> = attributes(&stage).into_keys().collect();
    // With the option, what is listed is the client's, and shared with nobody who has something else.
    let config = config(&["pass_connection_attributes = [\"program_name\", \"_client_name\"]"]);
    let (_proxy, address, _port) = stage.another_proxy(&config).unwrap();
    for _ in 0..4 {
        client(&stage, &address).success().unwrap();
        let mut own = address.connect().unwrap();
        own.query(PRIMARY).unwrap();
        own.quit().unwrap();
    }
    let passed: Vec<_> = attributes(&stage)
        .into_iter()
        .filter(|(id, _)| !before.contains(id))
        .map(|(_, found)| found)
        .collect();
    let of =
        |program: &str| passed.iter().filter(|found| found["program_name"] == program).collect::<Vec<_>>();
    // Two workers may have one connection each.
    assert!((1..=2).contains(&of("mysql").len()) && (1..=2).contains(&of("delphinus").len()), "{passed:?}");
    for connection in of("mysql") {
        assert!(connection["_client_name"].starts_with("lib"), "{connection:?}");
        assert!(connection["_delphinus_version"].starts_with(char::is_numeric));
    }
    for connection in of("delphinus") {
        assert_eq!(connection["_client_name"], "delphinus");
    }
}

#[test]
fn connection_attributes_on_mariadb() {
    check_connection_attributes(Flavor::MariaDb);
}

#[test]
fn connection_and_query_attributes_on_mysql() {
    check_connection_attributes(Flavor::MySql);
}

#[test]
fn query_attributes_pass_through_shared_connections() {
    let config = ConfigFile {
        proxy: vec!["workers = 1".to_owned()],
        pool: vec!["max_connections = 1".to_owned(), "hold_ms = 0".to_owned()],
        ..ConfigFile::default()
    };
    let stage = Stage::with(Flavor::MySql, &config).unwrap();
    stage.cluster.servers[0].query("INSTALL COMPONENT 'file://component_query_attributes'").unwrap();
    for kind in ["pure", "cext"] {
        let mut command = Driver::python("check_attributes.py", &[kind]).unwrap();
        let outcome = run(stage.address.give_to(&mut command), LIMIT).unwrap();
        let said = outcome.success().unwrap();
        assert_eq!(said.lines().filter(|line| line.starts_with("ok ")).count(), 72, "{kind}: {said}");
    }
}
