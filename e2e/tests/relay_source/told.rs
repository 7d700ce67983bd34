//! What the subscription tells of a real source's transactions.

use std::time::Duration;

use delphinus_relay::changes::{Change, Changes};
use delphinus_relay::log::{Position, recover};
use delphinus_sandbox::Flavor;

use crate::support::Scene;

pub(crate) fn tables_and_statements_are_told(flavor: Flavor) {
    let mut scene = Scene::start(flavor, 0, (&[], &[]));
    let primary = scene.primary();
    primary.query("CREATE TABLE app.a (id INT PRIMARY KEY, t MEDIUMTEXT); CREATE TABLE app.b (id INT PRIMARY KEY, t MEDIUMTEXT)").unwrap();
    let mut expected = Vec::new();
    let mut run = |sql: &str, changes: &[&[&str]]| {
        primary.query(&format!("USE app; {sql}")).unwrap();
        expected
            .extend(changes.iter().map(|one| one.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>()));
    };
    run("INSERT INTO a VALUES (1, 'x')", &[&["rows app.a"]]);
    run(
        "BEGIN; INSERT INTO a VALUES (2, 'x'); SAVEPOINT s; INSERT INTO b VALUES (2, 'x'); COMMIT",
        &[&["rows app.a", "rows app.b"]],
    );
    run(
        "XA START 'x'; INSERT INTO a VALUES (3, 'x'); XA END 'x'; XA PREPARE 'x'; XA COMMIT 'x'",
        &[&["rows app.a"], &["anything"]],
    );
    run("FLUSH BINARY LOGS; ALTER TABLE b ADD COLUMN c INT", &[&["app: ALTER TABLE b ADD COLUMN c INT"]]);
    if flavor.is_mysql() {
        run(
            "SET binlog_transaction_compression=ON; BEGIN; INSERT INTO a VALUES (4, REPEAT('y', 300000)); \
             INSERT INTO b (id) VALUES (4); COMMIT",
            &[&["rows app.a", "rows app.b"]],
        );
        run("SET GTID_NEXT='AUTOMATIC:green'; INSERT INTO a VALUES (5, 'x')", &[&["rows app.a"]]);
        run(
            "SET binlog_format=STATEMENT; INSERT INTO a VALUES (6, 'x')",
            &[&["app: INSERT INTO a VALUES (6, 'x')"]],
        );
    } else {
        run(
            "SET binlog_format=MIXED; INSERT INTO a VALUES (6, 'x')",
            &[&["app: INSERT INTO a VALUES (6, 'x')"]],
        );
        run("SET binlog_format=ROW; SET gtid_domain_id=7; INSERT INTO a VALUES (7, 'x')", &[&["rows app.a"]]);
        primary.query("SET GLOBAL log_bin_compress=ON, log_bin_compress_min_len=10").unwrap();
        let long = format!("INSERT INTO a VALUES (8, '{}')", "long ".repeat(60));
        run(&format!("SET binlog_format=STATEMENT; {long}"), &[&[&format!("app: {long}")]]);
        run("SET binlog_format=ROW; INSERT INTO a VALUES (9, REPEAT('z', 1000))", &[&["rows app.a"]]);
    }
    scene.has_all_of(scene.primary());
    scene.relay.stop(Duration::from_secs(10)).unwrap();

    let log = recover(&scene.folder).unwrap().log;
    let mut changes = Changes::from(&log, Position { ordinal: 0, offset: 4 }).unwrap();
    let (mut all, mut set) = (Vec::new(), delphinus_wire::gtid::GtidSet::default());
    loop {
        let mut told: Vec<String> = Vec::new();
        let see = |change: Change<'_>| {
            let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
            let word = match change {
                Change::Rows { schema, table } => format!("rows {}.{}", text(schema), text(table)),
                Change::Statement { schema, text: sql } => format!("{}: {}", text(schema), text(sql)),
                Change::Anything => "anything".to_owned(),
            };
            if told.last() != Some(&word) {
                told.push(word);
            }
        };
        let Some(committed) = changes.next(see).unwrap() else { break };
        assert!(!set.has(&committed.gtid), "{} twice", committed.gtid);
        set.insert(&committed.gtid);
        all.push(told);
    }
    assert_eq!(&all[all.len() - expected.len()..], &expected[..]);
    if flavor.is_mysql() {
        assert_eq!(set, log.executed());
    }
}
