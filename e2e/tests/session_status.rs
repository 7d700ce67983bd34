//! SHOW STATUS of a session: from the first look on it counts as a connection of its own does, while others use the shared ones.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeMap;

use delphinus_e2e::{Address, ConfigFile, Stage};
use delphinus_sandbox::Flavor;
use delphinus_testkit::{Client, Login};

const USER: (&str, &str) = ("counter", "counterpw");

fn connect(address: &Address) -> Client {
    Login::new(&address.socket, USER.0, USER.1).schema("app").connect().unwrap()
}

/// Names and values, one in a line.
fn status(client: &mut Client, sql: &str) -> String {
    let rows = client.run(sql).unwrap().remove(0).rows().unwrap();
    let text = |cell: &Option<Vec<u8>>| String::from_utf8_lossy(cell.as_deref().unwrap()).into_owned();
    let lines = rows.iter().map(|row| format!("{} {}\n", text(&row[0]), text(&row[1])));
    lines.collect::<Vec<_>>().concat()
}

/// What sessions do between any two steps of the one that looks.
fn others_work(others: &mut [Client]) {
    for other in others {
        other.run("INSERT INTO app.counted VALUES (1)").unwrap();
        other.run("SELECT * FROM app.counted LIMIT 3").unwrap();
    }
}

/// Counters of the session, each by its name.
fn counters(client: &mut Client) -> BTreeMap<String, i64> {
    let sql = "SHOW SESSION STATUS WHERE Variable_name RLIKE                '^(Com_(insert|select|rollback|begin)|Handler_read_(first|rnd_next)|Sort_rows|Select_scan)$'";
    let rows = client.run(sql).unwrap().remove(0).rows().unwrap();
    let text = |cell: &Option<Vec<u8>>| String::from_utf8_lossy(cell.as_deref().unwrap()).into_owned();
    rows.iter().map(|row| (text(&row[0]), text(&row[1]).parse().unwrap())).collect()
}

/// How far the client's counters go between two looks at them; it must not depend on the way that it goes.
fn steps(mut client: Client, others: &mut [Client]) -> Vec<(String, i64)> {
    let mut steps = Vec::new();
    let mut before = counters(&mut client);
    for work in [
        &["INSERT INTO app.counted VALUES (2)", "INSERT INTO app.counted VALUES (2)"][..],
        &["BEGIN", "INSERT INTO app.counted VALUES (3)", "ROLLBACK"],
        &["SELECT * FROM app.nine WHERE n > 3", "SELECT v FROM app.nine ORDER BY v"],
        &[
            "SET sql_select_limit = 3",
            "SELECT v FROM app.nine ORDER BY v FOR UPDATE",
            "SET sql_select_limit = DEFAULT",
        ],
    ] {
        for sql in work {
            others_work(others);
            client.run(sql).unwrap();
        }
        others_work(others);
        let after = counters(&mut client);
        steps.extend(after.iter().map(|(name, count)| (name.clone(), count - before[name])));
        before = after;
    }
    client.run("FLUSH STATUS").unwrap();
    others_work(others);
    client.run("SELECT v FROM app.nine ORDER BY v").unwrap();
    steps.extend(counters(&mut client).into_iter().filter(|(name, _)| name == "Com_select"));
    steps
}

/// A session that asks for what is not its own keeps on sharing.
fn global_values_do_not_pin(stage: &Stage) {
    let mut client = connect(&stage.address);
    let connected = status(&mut client, "SHOW STATUS LIKE 'Threads_connected'");
    assert!(connected.starts_with("Threads_connected "), "{connected}");
    assert_eq!(status(&mut client, "SHOW STATUS LIKE 'Ssl_cipher'"), "Ssl_cipher \n");
    assert_eq!(pin(&mut client), "starting");
    let asked = |client: &mut Client| {
        let mut told = Vec::new();
        for sql in ["SELECT FOUND_ROWS(), ROW_COUNT()", "SHOW COUNT(*) WARNINGS"] {
            client.run("SELECT 1 / 0, CAST('x' AS SIGNED) UNION ALL SELECT 2, 3").unwrap();
            status(client, "SHOW STATUS LIKE 'Ssl_cipher'");
            told.push(client.run(sql).unwrap().remove(0).rows().unwrap());
        }
        told
    };
    assert_eq!(asked(&mut client), asked(&mut connect(&stage.primary_address())));
    status(&mut client, "SHOW STATUS LIKE 'Bytes_sent'");
    assert_eq!(pin(&mut client), "pinned: session_status");
    client.reset_connection().unwrap();
    assert_eq!(pin(&mut client), "starting");
}

/// The state of the client's own session in the process list.
fn pin(client: &mut Client) -> String {
    let id = client.connection_id().to_string();
    let rows = client.run("SHOW PROCESSLIST").unwrap().remove(0).rows().unwrap();
    let own = rows.into_iter().find(|row| row[0].as_deref() == Some(id.as_bytes())).unwrap();
    String::from_utf8_lossy(own[6].as_deref().unwrap()).into_owned()
}

fn a_mistake_is_the_servers_own_error(stage: &Stage) {
    let (mut direct, mut proxied) = (connect(&stage.primary_address()), connect(&stage.address));
    for sql in ["SHOW STATUS LIKE", "SHOW SESSION STATUS WHERE no_such = 1"] {
        let error = |client: &mut Client| client.query(sql).unwrap().remove(0).failure().cloned().unwrap();
        assert_eq!(error(&mut direct), error(&mut proxied), "{sql}");
    }
    proxied.run("SELECT 1").unwrap();
}

fn counts_are_the_sessions_own(flavor: Flavor) {
    let stage = Stage::with(
        flavor,
        &ConfigFile {
            users: vec![(USER.0.to_owned(), USER.1.to_owned())],
            proxy: vec!["workers = 1".to_owned()],
            ..ConfigFile::with_pool(&["max_connections = 2"])
        },
    )
    .unwrap();
    let primary = &stage.cluster.servers[0];
    for sql in [
        "CREATE TABLE app.counted (a INT)",
        "CREATE TABLE app.nine (n INT PRIMARY KEY, v INT)",
        "INSERT INTO app.nine VALUES (1, 9), (2, 8), (3, 7), (4, 6), (5, 5), (6, 4), (7, 3), (8, 2), (9, 1)",
    ] {
        primary.query(sql).unwrap();
    }
    primary.query(&format!("CREATE USER {}@'%' IDENTIFIED BY '{}'", USER.0, USER.1)).unwrap();
    primary.query(&format!("GRANT ALL ON *.* TO {}@'%'", USER.0)).unwrap();
    let direct = steps(connect(&stage.primary_address()), &mut []);
    let mut others: Vec<Client> = (0..3).map(|_| connect(&stage.address)).collect();
    others_work(&mut others);
    assert_eq!(steps(connect(&stage.address), &mut others), direct);
    global_values_do_not_pin(&stage);
    a_mistake_is_the_servers_own_error(&stage);
}

#[test]
fn counts_are_the_sessions_own_on_mariadb() {
    counts_are_the_sessions_own(Flavor::MariaDb);
}

#[test]
fn counts_are_the_sessions_own_on_mysql() {
    counts_are_the_sessions_own(Flavor::MySql);
}
