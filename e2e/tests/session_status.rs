//! SHOW STATUS of a session: the same counts as on a connection of its own, while others use the shared connections.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use delphinus_e2e::{Address, ConfigFile, Stage};
use delphinus_sandbox::Flavor;
use delphinus_testkit::{Client, Login, Reply};

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

/// What the client sees of its counters; it must not depend on the way it goes.
fn look(mut client: Client, others: &mut [Client]) -> Vec<String> {
    let mut seen = vec![status(&mut client, "SHOW STATUS LIKE 'Com\\_insert'")];
    for _ in 0..3 {
        others_work(others);
        client.run("INSERT INTO app.counted VALUES (2)").unwrap();
    }
    seen.push(status(
        &mut client,
        "SHOW SESSION STATUS WHERE Variable_name IN ('Com_insert', 'Com_insert_select')",
    ));
    client.run("BEGIN").unwrap();
    client.run("INSERT INTO app.counted VALUES (3)").unwrap();
    client.run("ROLLBACK").unwrap();
    others_work(others);
    seen.push(status(&mut client, "show local status like 'com_rollback'"));
    seen.push(status(&mut client, "SHOW STATUS LIKE 'Com_insert'"));
    let statements: Vec<_> = (1..5).map(|n| client.prepare(format!("DO {n}")).unwrap().unwrap()).collect();
    for statement in &statements {
        client.execute(statement.id, &[], true).unwrap();
        others_work(others);
    }
    statements[1..].iter().for_each(|statement| client.close(statement.id).unwrap());
    client.ping().unwrap();
    for name in ["prepare", "execute", "close", "reset", "fetch", "send_long_data"] {
        seen.push(status(&mut client, &format!("SHOW STATUS LIKE 'Com_stmt_{name}'")));
    }
    client.run("FLUSH STATUS").unwrap();
    others_work(others);
    client.run("SELECT * FROM app.nine WHERE n > 3").unwrap();
    client.run("SELECT v FROM app.nine ORDER BY v").unwrap();
    seen.push(status(&mut client, "SHOW STATUS LIKE 'Handler_read%'"));
    seen.push(status(&mut client, "SHOW STATUS LIKE 'Sort%'"));
    seen.push(status(&mut client, "SHOW STATUS LIKE 'Com_select'"));
    seen.push(status(&mut client, "SHOW STATUS LIKE 'Com_stmt_prepare'"));
    let Reply::Rows(all) = client.run("SHOW STATUS").unwrap().remove(0) else { panic!("no rows") };
    let columns = all.columns.iter().map(|one| (&one.name, one.kind, one.flags, one.decimals));
    seen.push(format!("{:?}, {}", columns.collect::<Vec<_>>(), all.rows.len()));
    client.reset_connection().unwrap();
    for name in ["insert", "stmt_prepare"] {
        seen.push(status(&mut client, &format!("SHOW STATUS LIKE 'Com_{name}'")));
    }
    seen
}

/// A session that asks for what is not its own keeps on sharing.
/// The same for a session that has cut short what servers show; `sql_select_limit` holds for SHOW STATUS, too.
fn look_beside_a_limit(mut client: Client, others: &mut [Client]) -> Vec<String> {
    let sort = "SELECT v FROM app.nine ORDER BY v FOR UPDATE";
    client.run("SET sql_select_limit = 3").unwrap();
    for other in others.iter_mut() {
        other.run(sort).unwrap();
    }
    let mut seen = vec![status(&mut client, "SHOW STATUS LIKE 'Sort\\_rows'")];
    client.run(sort).unwrap();
    seen.push(status(&mut client, "SHOW STATUS LIKE 'Sort\\_rows'"));
    seen.push(status(&mut client, "SHOW VARIABLES LIKE 'sql_select_limit'"));
    seen
}

fn global_values_do_not_pin(stage: &Stage) {
    let mut client = connect(&stage.address);
    let connected = status(&mut client, "SHOW STATUS LIKE 'Threads_connected'");
    assert!(connected.starts_with("Threads_connected "), "{connected}");
    assert_eq!(status(&mut client, "SHOW STATUS LIKE 'Ssl_cipher'"), "Ssl_cipher \n");
    assert_eq!(pin(&mut client), "starting");
    status(&mut client, "SHOW STATUS LIKE 'Bytes_sent'");
    assert_eq!(pin(&mut client), "pinned: session_status");
    client.reset_connection().unwrap();
    assert_eq!(pin(&mut client), "starting");
    assert_eq!(status(&mut client, "SHOW STATUS LIKE 'Com_insert'"), "Com_insert 0\n");
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
    let direct = look(connect(&stage.primary_address()), &mut []);
    let mut others: Vec<Client> = (0..3).map(|_| connect(&stage.address)).collect();
    others_work(&mut others);
    let proxied = look(connect(&stage.address), &mut others);
    for (direct, proxied) in direct.iter().zip(&proxied) {
        assert_eq!(direct, proxied);
    }
    assert_eq!(direct.len(), proxied.len());
    let direct = look_beside_a_limit(connect(&stage.primary_address()), &mut []);
    assert!(direct[1].starts_with("Sort_rows ") && direct[2].ends_with(" 3\n"), "{direct:?}");
    assert_eq!(look_beside_a_limit(connect(&stage.address), &mut others), direct);
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
