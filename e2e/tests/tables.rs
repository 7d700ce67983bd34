//! Tables by SELECT on the admin listener, on real servers: whole, typed, prepared, several in one text, and hostile statements
//! beside ordinary ones.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "admin/support.rs"]
#[expect(dead_code, reason = "the support of another test, of which this one needs a part")]
mod support;

use std::thread;
use std::time::{Duration, Instant};

use delphinus_e2e::until;
use delphinus_sandbox::{Flavor, ensure_packages};
use delphinus_testkit::{Login, Param, Reply};
use delphinus_wire::Capabilities;
use support::{LIMIT, admin_stage};

#[test]
fn every_table_is_read_with_its_types() {
    let (stage, admin) = admin_stage(Flavor::MariaDb, &[]);
    let mut client = stage.address.connect().unwrap();
    client.query("BEGIN").unwrap();
    client.query("SELECT GET_LOCK('a secret', 0)").unwrap();
    let mut operator = admin.operator();
    let address = admin.as_operator();
    let mut typed = Login::new(&address.socket, &address.user, &address.password).connect().unwrap();
    let names: Vec<String> =
        operator.rows("SHOW TABLES").unwrap().into_iter().map(|row| row[0].clone().unwrap()).collect();
    assert!(names.len() > 20, "{names:?}");
    for name in names {
        let described = operator.rows(&format!("DESCRIBE {name}")).unwrap();
        let Reply::Rows(rows) = typed.query(format!("SELECT * FROM {name}")).unwrap().remove(0) else {
            panic!("{name}")
        };
        assert_eq!(rows.columns.len(), described.len(), "{name}");
        for (at, (column, said)) in rows.columns.iter().zip(&described).enumerate() {
            assert_eq!(Some(&column.name), said[0].as_ref(), "{name}");
            let has_values = rows.rows.iter().any(|row| row[at].is_some());
            let expected = if said[1].as_deref() == Some("bigint") { 8 } else { 253 };
            assert!(!has_values || column.kind == expected, "{name}.{}: {}", column.name, column.kind);
            assert!(said[6].as_ref().is_some_and(|help| !help.is_empty()), "{name}.{}", column.name);
        }
    }
    let one =
        |operator: &mut delphinus_e2e::Client, sql: &str| operator.rows(sql).unwrap()[0][0].clone().unwrap();
    assert_eq!(one(&mut operator, "SELECT count(*) FROM backends"), "3");
    let joined = "SELECT group_concat(p.reason ORDER BY p.reason) FROM sessions s JOIN pins p ON p.session = s.id \
                  JOIN backends b ON b.name = s.backend WHERE b.type = 'rw'";
    assert_eq!(one(&mut operator, joined), "get_lock,transaction");
    assert_eq!(
        one(&mut operator, "SELECT SessionID FROM stats_mysql_processlist"),
        client.connection_id.to_string()
    );
    let servers =
        operator.rows("SELECT hostgroup_id, hostname, port FROM runtime_mysql_servers ORDER BY 1").unwrap();
    let groups: Vec<_> = servers.iter().map(|row| row[0].as_deref().unwrap()).collect();
    assert_eq!(groups, ["0", "1", "1"]);
    assert!(
        servers.iter().all(|row| row[1].as_deref() == Some("127.0.0.1") && row[2].as_deref() != Some("0")),
        "{servers:?}"
    );
    // SHOW is the same rows, without the columns for others.
    let (shown, selected) =
        (operator.rows("SHOW PINS").unwrap(), operator.rows("SELECT * FROM pins").unwrap());
    assert_eq!(shown, selected);
}

#[test]
fn statements_that_run_are_seen_without_literals() {
    let (stage, admin) = admin_stage(Flavor::MariaDb, &[]);
    let mut operator = admin.reader();
    let mut client = stage.address.connect().unwrap();
    let id = client.connection_id;
    let running = thread::spawn(move || drop(client.query("SELECT SLEEP(60), 'a secret'")));
    let sql = "SELECT statement FROM sessions WHERE state = 'query' AND statement IS NOT NULL";
    until(LIMIT, "the statement to be seen", || Ok(!operator.rows(sql)?.is_empty())).unwrap();
    let seen = operator.rows(sql).unwrap()[0][0].clone().unwrap();
    assert!(seen.contains("SLEEP") && !seen.contains("secret"), "{seen}");
    assert_eq!(operator.error(&format!("KILL {id}")).unwrap().code, 1227);
    admin.operator().query(&format!("KILL {id}")).unwrap();
    running.join().unwrap();
}

#[test]
fn prepared_statements_and_several_in_one_text() {
    let (_stage, admin) = admin_stage(Flavor::MariaDb, &[]);
    let address = admin.as_operator();
    let login = Login::new(&address.socket, &address.user, &address.password);
    let mut client = login.with(Capabilities::MULTI_STATEMENTS).connect().unwrap();
    let sql = "SELECT name, weight, 1.5 AS half, ? AS given, NULL AS absent FROM backends WHERE name = ? OR weight > ?";
    let prepared = client.prepare(sql).unwrap().unwrap();
    let params = [Param::Text("é".into()), Param::Text(admin.primary.clone()), Param::Int(1_000_000)];
    for with_types in [true, false] {
        let rows = client.execute(prepared.id, &params, with_types).unwrap().remove(0).rows().unwrap();
        let cells: Vec<_> = rows[0]
            .iter()
            .map(|cell| cell.as_ref().map(|text| String::from_utf8_lossy(text).into_owned()))
            .collect();
        assert_eq!(cells[0].as_deref(), Some(&*admin.primary));
        assert_eq!(cells[1..], [Some("100".into()), Some("1.5".into()), Some("é".into()), None], "{cells:?}");
        assert_eq!(rows.len(), 1);
    }
    client.close(prepared.id).unwrap();
    let gone = client.execute(prepared.id, &params, true).unwrap().remove(0);
    assert_eq!(gone.failure().unwrap().code, 1243);
    for (sql, code) in [("SELECT * FROM nowhere", 1146), ("SELEC", 1064), ("DELETE FROM backends", 1064)] {
        assert_eq!(client.prepare(sql).unwrap().unwrap_err().code, code, "{sql}");
    }
    let shown = client.prepare("SHOW BACKENDS").unwrap().unwrap();
    assert_eq!(client.execute(shown.id, &[], true).unwrap().remove(0).rows().unwrap().len(), 3);

    let several = client
        .query(
            "SELECT count(*) FROM backends; SET NAMES utf8mb4; SELECT ';'; SELECT * FROM nowhere; SELECT 1",
        )
        .unwrap();
    assert_eq!(several.len(), 4, "{several:?}");
    assert_eq!(several[0].clone().rows().unwrap(), [[Some(b"3".to_vec())]]);
    assert_eq!(several[3].failure().unwrap().code, 1146);
    assert!(client.ping().is_ok());
}

/// What one operator does wrong, or on purpose, delays another by no more than one statement, and SHOW not at all.
#[test]
fn hostile_statements_harm_no_other_operator() {
    let (_stage, admin) = admin_stage(Flavor::MariaDb, &[]);
    let numbers = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n)";
    let mut hostile = admin.reader();
    let endless = format!("{numbers} SELECT count(*) FROM n");
    let runs =
        thread::spawn(move || (0..2).map(|_| hostile.error(&endless).unwrap().code).collect::<Vec<_>>());
    let mut operator = admin.operator();
    let started = Instant::now();
    while !runs.is_finished() {
        let (shown, selected) = (Instant::now(), operator.rows("SHOW BACKENDS").unwrap().len());
        assert!(selected == 3 && shown.elapsed() < Duration::from_secs(2), "SHOW took {:?}", shown.elapsed());
        let asked = Instant::now();
        assert_eq!(operator.rows("SELECT * FROM backends").unwrap().len(), 3);
        assert!(asked.elapsed() < Duration::from_secs(6), "SELECT took {:?}", asked.elapsed());
    }
    assert_eq!(runs.join().unwrap(), [3024, 3024]);
    assert!(started.elapsed() < Duration::from_secs(20), "{:?}", started.elapsed());
    for (sql, code) in [
        ("SELECT randomblob(1e9)".to_owned(), 1104),
        (format!("{numbers} SELECT hex(randomblob(60000)) AS h FROM n ORDER BY h"), 1038),
        (format!("{numbers} SELECT i FROM n"), 1104),
        ("ATTACH '/tmp/x' AS x".to_owned(), 1064),
        ("WITH x AS (SELECT 1) DELETE FROM backends".to_owned(), 1142),
        ("SELECT load_extension('x')".to_owned(), 1142),
        ("PRAGMA hard_heap_limit = 0".to_owned(), 1064),
    ] {
        assert_eq!(operator.error(&sql).unwrap().code, code, "{sql}");
    }
    assert_eq!(operator.rows("SELECT count(*) FROM backends").unwrap()[0][0].as_deref(), Some("3"));
}

#[test]
fn the_mariadb_client_reads_tables() {
    let (stage, admin) = admin_stage(Flavor::MariaDb, &[]);
    ensure_packages(&["mariadb-client"]).unwrap();
    let client = stage.cluster.client_program();
    let said = admin.program(
        client,
        &["-N", "-B"],
        "SELECT count(*) FROM backends; SELECT type FROM backends WHERE role = 'primary'",
    );
    assert_eq!(said.success().unwrap(), "3\nrw\n");
}
