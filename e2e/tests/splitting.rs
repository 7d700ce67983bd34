//! Which server runs a statement, read from the servers' own general logs.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use delphinus_e2e::{Client, ConfigFile, GeneralLog, Login, Stage};
use delphinus_sandbox::Flavor;

/// Where a statement has to run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    /// On exactly one replica.
    Replica,
    /// On the primary.
    Primary,
}
use Place::{Primary, Replica};

/// Statements that are sent outside a transaction, each in the same session. `{t}` is a table with a row.
const BOTH: &[(&str, Place)] = &[
    ("SELECT 1", Replica),
    ("SELECT v FROM {t} WHERE id = 1", Replica),
    ("select v from {t} where id = 1 limit 1", Replica),
    ("(SELECT v FROM {t})", Replica),
    ("((SELECT v FROM {t} LIMIT 1)) UNION ALL (SELECT 1)", Replica),
    ("WITH c AS (SELECT v FROM {t}) SELECT * FROM c", Replica),
    ("SELECT COUNT(*) FROM {t} a JOIN {t} b ON a.id = b.id", Replica),
    ("SELECT 'FOR UPDATE', \"INSERT INTO x\" FROM {t}", Replica),
    ("SELECT v AS `for update` FROM {t}", Replica),
    ("/* a comment; with INSERT */ SELECT v FROM {t}", Replica),
    ("-- DELETE FROM x\nSELECT v FROM {t}", Replica),
    ("# UPDATE\n SELECT v FROM {t}", Replica),
    ("SELECT v FROM {t} WHERE v <> 'it''s ; for update'", Replica),
    ("SELECT v FROM {t} FOR UPDATE", Primary),
    ("SELECT v FROM {t} LOCK IN SHARE MODE", Primary),
    ("SELECT v FROM {t} for\n/* x */\tupdate", Primary),
    ("(SELECT v FROM {t} FOR UPDATE)", Primary),
    ("SELECT (SELECT COUNT(*) FROM {t} FOR UPDATE)", Primary),
    ("SELECT v INTO @into_{t} FROM {t} LIMIT 1", Primary),
    ("SELECT GET_LOCK('{t}', 1)", Primary),
    ("SELECT IS_FREE_LOCK('{t}')", Primary),
    ("SELECT RELEASE_LOCK('{t}')", Primary),
    ("SELECT LAST_INSERT_ID(5)", Primary),
    ("SELECT @n := 1", Primary),
    ("INSERT INTO {t} (v) VALUES ('SELECT 1')", Primary),
    ("/* SELECT */ INSERT INTO {t} (v) VALUES ('b')", Primary),
    ("INSERT INTO {t} (v) SELECT 'c'", Primary),
    ("REPLACE INTO {t} (id, v) VALUES (1, 'a')", Primary),
    ("UPDATE {t} SET v = 'a' WHERE id = 1", Primary),
    ("DELETE FROM {t} WHERE id = 12345", Primary),
    ("CREATE TABLE {t}_2 (id INT)", Primary),
    ("ALTER TABLE {t}_2 ADD COLUMN v INT", Primary),
    ("TRUNCATE TABLE {t}_2", Primary),
    ("DROP TABLE {t}_2", Primary),
    ("CALL {t}_proc()", Primary),
    ("DO GET_LOCK('{t}', 0), RELEASE_LOCK('{t}')", Primary),
    ("CHECKSUM TABLE {t}", Primary),
    ("ANALYZE TABLE {t}", Primary),
    ("SELECT /*!1 + */ 1 FROM {t} /*! FOR UPDATE */", Primary),
];

const MYSQL: &[(&str, Place)] = &[
    ("SELECT v FROM {t} FOR SHARE", Primary),
    ("SELECT v FROM {t} FOR UPDATE SKIP LOCKED", Primary),
    ("SELECT v FROM {t} FOR SHARE OF {t} NOWAIT", Primary),
    ("WITH c AS (SELECT 1 AS x) UPDATE {t}, c SET v = 'a' WHERE id = c.x", Primary),
    ("WITH c AS (SELECT 999999 AS x) DELETE FROM {t} WHERE id IN (SELECT x FROM c)", Primary),
    ("SELECT RELEASE_ALL_LOCKS()", Primary),
];

const MARIADB: &[(&str, Place)] = &[
    ("SELECT NEXT VALUE FOR {t}_seq", Primary),
    ("SELECT NEXTVAL({t}_seq)", Primary),
    ("SELECT NEXTVAL({t}_seq), LASTVAL({t}_seq)", Primary),
    ("INSERT INTO {t} (v) VALUES ('r') RETURNING id", Primary),
    ("DELETE FROM {t} WHERE id = 54321 RETURNING v", Primary),
];

#[derive(Clone, Copy, PartialEq, Eq)]
enum Protocol {
    Text,
    Prepared,
}

#[test]
fn mariadb_statements() {
    check_flavor(Flavor::MariaDb, MARIADB);
}

#[test]
fn mysql_statements() {
    check_flavor(Flavor::MySql, MYSQL);
}

fn check_flavor(flavor: Flavor, more: &[(&str, Place)]) {
    // What a session finds after a write is tested in read_your_writes.
    let file = ConfigFile::with_sections("[routing]\nconsistency = \"eventual\"\n");
    let stage = Stage::with(flavor, &file).unwrap();
    let mut client = stage.address.connect().unwrap();
    prepare_table(&stage, &mut client, flavor);
    for protocol in [Protocol::Text, Protocol::Prepared] {
        let cases: Vec<_> = BOTH.iter().chain(more).collect();
        let mut markers = Vec::new();
        for (number, (sql, place)) in cases.iter().enumerate() {
            let tag = if protocol == Protocol::Text { 't' } else { 'p' };
            let marker = format!("case-{tag}{number}");
            let sql = sql.replace("{t}", "split");
            run_marked(&mut client, &sql, &marker, protocol);
            markers.push((marker, sql, *place));
        }
        let wrong = markers.iter().filter_map(|(marker, sql, place)| misplaced(&stage, marker, sql, *place));
        let wrong: Vec<String> = wrong.collect();
        assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    }
    reads_use_all_replicas(&stage, &mut client);
    transactions_stay_on_the_primary(&stage, &mut client);
    multi_statements_go_to_the_primary(&stage);
    a_prepared_read_leaves_the_replica_inside_a_transaction(&stage, &mut client);
    client.quit().unwrap();
}

/// Made at the primary itself; its replicas have it when this returns.
fn prepare_table(stage: &Stage, client: &mut Client, flavor: Flavor) {
    let mut sql = vec![
        "CREATE TABLE app.split (id INT AUTO_INCREMENT PRIMARY KEY, v VARCHAR(50))".to_owned(),
        "INSERT INTO app.split (v) VALUES ('a')".to_owned(),
        "CREATE PROCEDURE app.split_proc() SELECT 1".to_owned(),
    ];
    if flavor == Flavor::MariaDb {
        sql.push("CREATE SEQUENCE app.split_seq".to_owned());
    }
    sql.push("CREATE TABLE app.split_ready (id INT)".to_owned());
    for statement in sql {
        client.query(&statement).unwrap_or_else(|error| panic!("{statement}: {error:#}"));
    }
    for server in &stage.cluster.servers {
        let limit = std::time::Duration::from_secs(30);
        delphinus_e2e::until(limit, "replication", || {
            Ok(server.query("SELECT * FROM app.split_ready").is_ok())
        })
        .unwrap();
    }
}

fn run_marked(client: &mut Client, sql: &str, marker: &str, protocol: Protocol) {
    // Behind the statement: what stands before it is part of what is tested.
    let marked = format!("{sql} /*{marker}*/");
    let result = match protocol {
        Protocol::Text => client.query(&marked).map(drop),
        Protocol::Prepared => client.prepare(&marked).and_then(|statement| {
            client.execute(statement)?;
            client.close_statement(statement)
        }),
    };
    if let Err(error) = result {
        panic!("{marked}: {error:#}");
    }
}

fn misplaced(stage: &Stage, marker: &str, sql: &str, place: Place) -> Option<String> {
    let runs = GeneralLog::of(&stage.cluster).runs_of(marker).unwrap();
    let is_right = match place {
        Primary => runs[0] == 1 && runs[1..].iter().all(|count| *count == 0),
        Replica => runs[0] == 0 && runs[1..].iter().sum::<u32>() == 1,
    };
    (!is_right).then(|| {
        format!("{sql}: wanted {place:?}, ran {runs:?} times on the primary and the replicas ({marker})")
    })
}

fn reads_use_all_replicas(stage: &Stage, client: &mut Client) {
    for _ in 0..30 {
        client.query("SELECT v FROM split /*balance*/").unwrap();
    }
    let runs = GeneralLog::of(&stage.cluster).runs_of("balance").unwrap();
    assert_eq!(runs[0], 0, "reads on the primary: {runs:?}");
    assert!(runs[1] >= 10 && runs[2] >= 10 && runs[1] + runs[2] == 30, "reads on the replicas: {runs:?}");
}

fn transactions_stay_on_the_primary(stage: &Stage, client: &mut Client) {
    let ways: &[(&str, &str)] = &[
        ("BEGIN", "COMMIT"),
        ("START TRANSACTION", "ROLLBACK"),
        ("START TRANSACTION READ WRITE", "COMMIT"),
        ("START TRANSACTION WITH CONSISTENT SNAPSHOT", "COMMIT"),
        ("SET autocommit = 0", "SET autocommit = 1"),
        ("LOCK TABLES split READ", "UNLOCK TABLES"),
        ("XA START 'split'", "XA END 'split'"),
    ];
    for (number, (begin, end)) in ways.iter().enumerate() {
        client.query(begin).unwrap();
        client.query(&format!("SELECT v FROM split /*inside{number}*/")).unwrap();
        run_marked(client, "SELECT v FROM split", &format!("inside-p{number}"), Protocol::Prepared);
        client.query(end).unwrap();
        if begin.starts_with("XA") {
            client.query("XA ROLLBACK 'split'").unwrap();
        }
        client.query(&format!("SELECT v FROM split /*after{number}*/")).unwrap();
        for (marker, place) in [("inside", Primary), ("inside-p", Primary), ("after", Replica)] {
            let problem = misplaced(stage, &format!("{marker}{number}"), begin, place);
            assert!(problem.is_none(), "{marker}: {}", problem.unwrap_or_default());
        }
    }
}

fn multi_statements_go_to_the_primary(stage: &Stage) {
    let mut login = Login::new(&stage.address);
    login.allows_multi_statements = true;
    let mut client = Client::connect(&login).unwrap();
    let answers =
        client.query_all("SELECT 1; INSERT INTO split (v) VALUES ('multi'); SELECT 2 /*multi*/").unwrap();
    assert_eq!(answers.len(), 3);
    client.query_all("SELECT ';' /*single*/").unwrap();
    let log = GeneralLog::of(&stage.cluster);
    let runs = log.runs_of("multi").unwrap();
    assert!(runs[0] >= 1 && runs[1] + runs[2] == 0, "multi-statement: {runs:?}");
    assert_eq!(log.runs_of("single").unwrap()[0], 0, "a `;` in a string is no second statement");
    client.quit().unwrap();
}

/// The same statement id runs on a replica, then in a transaction on the primary, then on a replica again.
fn a_prepared_read_leaves_the_replica_inside_a_transaction(stage: &Stage, client: &mut Client) {
    let statement = client.prepare("SELECT v FROM split /*moving*/").unwrap();
    let log = GeneralLog::of(&stage.cluster);
    client.execute(statement).unwrap();
    assert_eq!(log.runs_of("moving").unwrap()[0], 0);
    client.query("BEGIN").unwrap();
    client.execute(statement).unwrap();
    client.execute(statement).unwrap();
    client.query("COMMIT").unwrap();
    assert_eq!(log.runs_of("moving").unwrap()[0], 2);
    client.execute(statement).unwrap();
    assert_eq!(log.runs_of("moving").unwrap()[0], 2);
    client.close_statement(statement).unwrap();
}
