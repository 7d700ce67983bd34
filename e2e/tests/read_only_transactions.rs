//! Transactions that cannot write run on a replica, and nobody who does not ask where can tell: their answers are those of the
//! primary, or the error that programs know to try again. Which server ran a statement is told by that server.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::time::Duration;

use delphinus_e2e::{Address, Client, ConfigFile, ServerError, Stage, delay_replica, until};
use delphinus_sandbox::{Flavor, Server};

/// The server that runs it answers with its port.
const WHO: &str = "SELECT port FROM answered_by";
const VISITS: &str = "SELECT port, (SELECT COUNT(*) FROM visits) FROM answered_by";
const READ: &str = "SELECT COUNT(*) FROM orders";
const BEGIN: &str = "START TRANSACTION READ ONLY";
/// Refused in such a transaction, and not behind it.
const INSERT: &str = "INSERT INTO visits (server_id) VALUES (77)";

/// Transactions begin on replicas at once after a write: what sessions find there is tested apart.
const EVENTUAL: &str = "[routing]\nconsistency = \"eventual\"\n";

/// The place in the cluster of the server that ran it; 0 is the primary.
fn place(stage: &Stage, client: &mut Client, sql: &str) -> usize {
    let port: u16 = client.value(sql).unwrap_or_else(|error| panic!("{sql}: {error:#}")).parse().unwrap();
    stage.cluster.servers.iter().position(|server| server.port == port).unwrap()
}

fn run(client: &mut Client, sql: &str) {
    client.query(sql).map_or_else(|error| panic!("{sql}: {error:#}"), drop);
}

/// The number of the error that a statement gives; 0: none.
fn code(client: &mut Client, sql: &str) -> u16 {
    client.query(sql).map_or_else(|error| error.downcast::<ServerError>().unwrap().code, |_| 0)
}

/// Statements in such a transaction, and whether they need the primary after a read: on both products, on MySQL only, on none.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Needs {
    Primary,
    PrimaryOfMySql,
    Nothing,
}

const STATEMENTS: &[(&str, Needs)] = &[
    (INSERT, Needs::Nothing),
    ("UPDATE visits SET server_id = 1", Needs::Nothing),
    ("DELETE FROM visits", Needs::Nothing),
    ("SELECT id FROM visits FOR UPDATE", Needs::Nothing),
    ("EXPLAIN DELETE FROM visits", Needs::Nothing),
    ("CREATE TEMPORARY TABLE ro_t (a INT)", Needs::Nothing),
    ("SELECT id FROM visits LIMIT 1 LOCK IN SHARE MODE", Needs::Primary),
    ("SELECT GET_LOCK('ro', 0)", Needs::Primary),
    ("CALL ro_reads()", Needs::Primary),
    ("CALL ro_writes()", Needs::Primary),
    ("CALL no_such_procedure()", Needs::Primary),
    ("SELECT ro_function()", Needs::PrimaryOfMySql),
    ("HANDLER visits OPEN", Needs::Primary),
    ("PREPARE p FROM 'SELECT 1'", Needs::Primary),
    ("SET ROLE NONE", Needs::Primary),
    ("SET rand_seed1 = 5", Needs::Primary),
    ("SET sql_auto_is_null = 0", Needs::Nothing),
    ("SELECT COUNT (*) FROM visits", Needs::Nothing),
    ("SELECT LAST_INSERT_ID(5)", Needs::Nothing),
    ("SET identity = 5", Needs::Nothing),
    ("SET insert_id = 5", Needs::Nothing),
    ("SELECT FOUND_ROWS(), ROW_COUNT()", Needs::Nothing),
    ("XA START 'x'", Needs::Primary),
    ("no statement at all", Needs::Primary),
    // These commit first, and are none of the transaction's.
    ("CREATE TABLE IF NOT EXISTS ro_made (a INT)", Needs::Nothing),
    ("DROP TABLE IF EXISTS ro_made", Needs::Nothing),
    ("ANALYZE TABLE visits", Needs::Nothing),
    ("BEGIN", Needs::Nothing),
    ("START TRANSACTION", Needs::Nothing),
    (BEGIN, Needs::Nothing),
    ("LOCK TABLES visits WRITE", Needs::Nothing),
    ("UNLOCK TABLES", Needs::Nothing),
    ("COMMIT", Needs::Nothing),
    ("COMMIT AND CHAIN", Needs::Nothing),
    ("ROLLBACK AND CHAIN", Needs::Nothing),
    ("SAVEPOINT s", Needs::Nothing),
    ("ROLLBACK TO SAVEPOINT no_such", Needs::Nothing),
    ("SET TRANSACTION READ WRITE", Needs::Nothing),
    ("SET SESSION TRANSACTION READ WRITE", Needs::Nothing),
    ("SET @a = 1, NAMES utf8mb4", Needs::Nothing),
    ("SET autocommit = 0", Needs::Nothing),
    ("SELECT @@autocommit", Needs::Nothing),
    ("SHOW WARNINGS", Needs::Nothing),
    ("SHOW VARIABLES LIKE 'sql_mode'", Needs::Nothing),
    ("SELECT no_such_column FROM orders", Needs::Nothing),
    ("KILL 4000000000", Needs::Nothing),
    ("USE app", Needs::Nothing),
];

fn make_routines(stage: &Stage) {
    let primary = &stage.cluster.servers[0];
    for server in &stage.cluster.servers {
        server.query("SET GLOBAL log_bin_trust_function_creators = 1").unwrap();
    }
    for sql in [
        "CREATE PROCEDURE app.ro_reads() SELECT COUNT(*) FROM app.orders",
        "CREATE PROCEDURE app.ro_writes() INSERT INTO app.visits (server_id) VALUES (78)",
        "CREATE FUNCTION app.ro_function() RETURNS INT RETURN (SELECT COUNT(*) FROM app.orders)",
    ] {
        primary.query(sql).unwrap();
    }
    let made = "SELECT COUNT(*) FROM information_schema.ROUTINES WHERE ROUTINE_NAME LIKE 'ro\\_%'";
    for server in &stage.cluster.servers {
        until(Duration::from_secs(30), "the routines", || Ok(server.query(made)?.trim() == "3")).unwrap();
    }
}

/// What a statement answers after `before`, and whether a transaction that cannot write is open behind it.
fn answers(client: &mut Client, before: &[&str], sql: &str) -> (u16, u16) {
    for sql in before {
        run(client, sql);
    }
    (code(client, sql), code(client, INSERT))
}

fn check_statements(stage: &Stage, flavor: Flavor) {
    let direct = stage.primary_address();
    for (sql, needs) in STATEMENTS {
        let wanted = answers(&mut direct.connect().unwrap(), &[BEGIN, READ], sql);
        let needs_primary = match needs {
            Needs::Primary => true,
            Needs::PrimaryOfMySql => flavor == Flavor::MySql,
            Needs::Nothing => false,
        };
        // As its first statement: nobody can tell where it has begun.
        let before_reads = answers(&mut direct.connect().unwrap(), &[BEGIN], sql);
        let found = answers(&mut stage.address.connect().unwrap(), &[BEGIN], sql);
        assert_eq!(found, before_reads, "{sql}, before reads");
        // After a read on a replica.
        let mut client = stage.address.connect().unwrap();
        run(&mut client, BEGIN);
        assert_ne!(place(stage, &mut client, WHO), 0);
        if !needs_primary {
            assert_eq!(answers(&mut client, &[READ], sql), wanted, "{sql}, after reads");
            continue;
        }
        let (first, behind) = answers(&mut client, &[READ], sql);
        assert_eq!((first, behind), (1213, 0), "{sql}, after reads");
        // Tried again, as programs do, it is done.
        assert_eq!(answers(&mut client, &[BEGIN, READ], sql), wanted, "{sql}, tried again");
    }
}

/// Where a transaction of reads runs, what keeps it away from replicas, and what takes it along.
fn check_places(stage: &Stage) {
    let mut client = stage.address.connect().unwrap();
    let mut started = Vec::new();
    for _ in 0..4 {
        run(&mut client, BEGIN);
        // What asks for nothing but the session does not decide where it stays.
        run(&mut client, "SELECT @@autocommit, DATABASE()");
        let here = place(stage, &mut client, WHO);
        let statement = client.prepare("SELECT 1").unwrap();
        client.execute(statement).unwrap();
        assert!(client.prepare(INSERT).is_err(), "servers refuse to prepare it in there");
        run(&mut client, "SAVEPOINT s");
        assert_eq!(code(&mut client, INSERT), 1792);
        assert_eq!(place(stage, &mut client, WHO), here, "errors do not end it");
        run(&mut client, "COMMIT AND CHAIN");
        assert_eq!(place(stage, &mut client, WHO), here);
        run(&mut client, "COMMIT");
        run(&mut client, INSERT);
        started.push(here);
    }
    assert!(started.contains(&1) && started.contains(&2) && !started.contains(&0), "{started:?}");
    for first in [
        "/*+ delphinus(primary) */ SELECT port FROM answered_by",
        "/*+ delphinus(consistency=global) */ SELECT port FROM answered_by",
        "SELECT port FROM answered_by LOCK IN SHARE MODE",
        "SELECT port + 0 * ro_function() FROM answered_by",
    ] {
        run(&mut client, BEGIN);
        assert_eq!(place(stage, &mut client, first), 0, "{first}");
        assert_eq!(place(stage, &mut client, WHO), 0, "{first}");
        assert_eq!(code(&mut client, INSERT), 1792, "{first}");
        run(&mut client, "COMMIT");
    }
    for (at, server) in stage.cluster.servers.iter().enumerate() {
        run(&mut client, BEGIN);
        let hint = format!("/*+ delphinus(backend={}) */ {WHO}", server.name);
        assert_eq!(place(stage, &mut client, &hint), at);
        assert_eq!(place(stage, &mut client, WHO), at);
        run(&mut client, "ROLLBACK");
    }
    for begin in [
        "START TRANSACTION WITH CONSISTENT SNAPSHOT, READ ONLY",
        "START TRANSACTION READ WRITE",
        "SET TRANSACTION READ ONLY",
        "/*master*/ START TRANSACTION READ ONLY",
    ] {
        run(&mut client, begin);
        if begin.starts_with("SET") {
            run(&mut client, "BEGIN");
        }
        assert_eq!(place(stage, &mut client, WHO), 0, "{begin}");
        run(&mut client, "COMMIT");
    }
}

/// Sessions that cannot write at all, as drivers make them; isolation levels.
fn check_sessions(stage: &Stage) {
    let mut client = stage.address.connect().unwrap();
    run(&mut client, "SET SESSION TRANSACTION READ ONLY");
    run(&mut client, "BEGIN");
    assert_ne!(place(stage, &mut client, WHO), 0);
    run(&mut client, "COMMIT");
    run(&mut client, "SET autocommit = 0");
    for _ in 0..3 {
        // It takes a table of InnoDB to open one.
        let here = place(stage, &mut client, VISITS);
        assert!(here > 0);
        assert_eq!(place(stage, &mut client, VISITS), here);
        assert_eq!(code(&mut client, INSERT), 1792);
        run(&mut client, "COMMIT");
        assert_eq!(code(&mut client, INSERT), 1792);
        run(&mut client, "ROLLBACK");
    }
    run(&mut client, "SET SESSION TRANSACTION READ WRITE");
    assert_eq!(place(stage, &mut client, WHO), 0);
    run(&mut client, INSERT);
    run(&mut client, "COMMIT");
    run(&mut client, "SET autocommit = 1");
    // Each statement has a view of its own: the transaction can move whenever it has to.
    run(&mut client, "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED");
    run(&mut client, BEGIN);
    assert_ne!(place(stage, &mut client, WHO), 0);
    assert_eq!(place(stage, &mut client, "SELECT port FROM answered_by LOCK IN SHARE MODE"), 0);
    assert_eq!(place(stage, &mut client, WHO), 0);
    assert_eq!(code(&mut client, INSERT), 1792);
    run(&mut client, "COMMIT");
    // Unless it has set a savepoint, which cannot.
    run(&mut client, BEGIN);
    assert_ne!(place(stage, &mut client, WHO), 0);
    run(&mut client, "SAVEPOINT s");
    assert_eq!(code(&mut client, "SELECT port FROM answered_by LOCK IN SHARE MODE"), 1213);
    // Reads that lock do so where the others write.
    let mut client = stage.address.connect().unwrap();
    run(&mut client, "SET SESSION TRANSACTION ISOLATION LEVEL SERIALIZABLE");
    run(&mut client, BEGIN);
    assert_eq!(place(stage, &mut client, WHO), 0);
    run(&mut client, "COMMIT");
}

/// `completion_type` does not keep a transaction that moves from ending on the replica.
fn check_completion(stage: &Stage) {
    let mut client = stage.address.connect().unwrap();
    run(&mut client, "SET completion_type = 1");
    run(&mut client, BEGIN);
    assert_eq!(place(stage, &mut client, "SELECT port FROM answered_by LOCK IN SHARE MODE"), 0);
    run(&mut client, "COMMIT AND NO CHAIN");
    run(&mut client, "SET completion_type = 0");
    for _ in 0..4 {
        assert_ne!(place(stage, &mut client, WHO), 0);
    }
    run(&mut client, INSERT);
}

/// A cursor that outlives its transaction keeps the session where it is.
fn check_cursor(stage: &Stage) {
    use delphinus_testkit::{Login, Reply};
    let Address { socket, user, password, database, .. } = &stage.address;
    let mut client = Login::new(socket, user, password).schema(database).connect().unwrap();
    let failure = |replies: Vec<Reply>| replies[0].failure().map_or(0, |failure| failure.code);
    client.query(BEGIN).unwrap();
    let cursor = client.prepare("SELECT id, (SELECT port FROM answered_by) FROM customers").unwrap().unwrap();
    let Reply::Rows(rows) = client.open_cursor(cursor.id, &[]).unwrap() else { panic!("no cursor") };
    let Reply::Rows(fetched) = client.fetch(cursor.id, 3, &rows.columns).unwrap() else { panic!("no rows") };
    assert_eq!(fetched.rows.len(), 3);
    assert_eq!(failure(client.query("COMMIT").unwrap()), 0);
    assert_eq!(failure(client.query(INSERT).unwrap()), 1105, "it is held to a replica");
    assert_eq!(failure(client.query(READ).unwrap()), 0);
    let Reply::Rows(fetched) = client.fetch(cursor.id, 3, &rows.columns).unwrap() else { panic!("no rows") };
    assert_eq!(fetched.rows.len(), 3);
    client.close(cursor.id).unwrap();
    assert_eq!(failure(client.query(INSERT).unwrap()), 0);
}

/// What a statement leaves behind, to be asked for in the transaction that follows.
const LEAVE: &[&str] = &[
    "SELECT id FROM customers ORDER BY id LIMIT 3",
    "SELECT SQL_CALC_FOUND_ROWS id FROM customers LIMIT 2",
    "SELECT id INTO @a FROM customers LIMIT 1",
    "SELECT 1/0 FROM customers LIMIT 2",
    "SELECT CAST('12x' AS SIGNED)",
    "SELECT no_such_column FROM customers",
    "SELECT LAST_INSERT_ID(31)",
    "INSERT INTO visits (server_id) VALUES (5), (6)",
    "UPDATE visits SET server_id = 9 ORDER BY id LIMIT 2",
];

const ASK: &[&str] = &[
    "SELECT FOUND_ROWS()",
    "SELECT FOUND_ROWS() AS f, ROW_COUNT() AS r",
    "SELECT ROW_COUNT()",
    "SELECT LAST_INSERT_ID() % 1000000",
    "SHOW WARNINGS",
    "SHOW ERRORS",
    "SHOW COUNT(*) WARNINGS",
    "SELECT @@warning_count",
];

/// Where in the transaction it is asked.
#[derive(Debug, Clone, Copy)]
enum When {
    First,
    AfterRead,
    AfterMove,
    Behind,
}

/// The rows that the question gives, as a text or prepared before everything else.
fn answer_about(
    address: &Address,
    leave: &str,
    ask: &str,
    (when, is_prepared): (When, bool),
) -> Vec<Vec<Option<Vec<u8>>>> {
    use delphinus_testkit::{Login, Reply};
    let Address { socket, user, password, database, .. } = address;
    let mut client = Login::new(socket, user, password).schema(database).connect().unwrap();
    let read_committed = "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED";
    let share = "SELECT COUNT(*) FROM customers LOCK IN SHARE MODE";
    let (before, between): (&[&str], &[&str]) = match when {
        When::First => (&[], &[leave, BEGIN]),
        When::AfterRead => (&[], &[BEGIN, READ, leave, "SET @b = 1"]),
        When::AfterMove => (&[read_committed], &[BEGIN, READ, share, leave, "SAVEPOINT s"]),
        When::Behind => (&[], &[BEGIN, READ, leave, "COMMIT"]),
    };
    // A new session of MariaDB has the FOUND_ROWS() of whoever used the thread before.
    client.query("SELECT 1 FROM customers LIMIT 4").unwrap();
    for sql in before {
        client.query(*sql).unwrap();
    }
    let prepared = is_prepared.then(|| client.prepare(ask).unwrap());
    // MySQL prepares no SHOW of warnings.
    let Ok(statement) = prepared.transpose() else { return Vec::new() };
    for sql in between {
        client.query(*sql).unwrap();
    }
    let reply = match statement {
        Some(statement) => client.execute(statement.id, &[], true).unwrap().remove(0),
        None => client.query(ask).unwrap().remove(0),
    };
    match reply {
        Reply::Rows(rows) => rows.rows,
        other => panic!("{leave}; {when:?}; {ask}: {other:?}"),
    }
}

/// What is asked about the statement before is exact, wherever that has run.
fn check_statement_before(stage: &Stage) {
    let direct = stage.primary_address();
    for leave in LEAVE {
        for ask in ASK {
            for when in [When::First, When::AfterRead, When::AfterMove, When::Behind] {
                for is_prepared in [false, true] {
                    let wanted = answer_about(&direct, leave, ask, (when, is_prepared));
                    let found = answer_about(&stage.address, leave, ask, (when, is_prepared));
                    let is_id = ask.contains("INSERT_ID") && leave.starts_with("INSERT");
                    // Each side has made an id of its own.
                    let is_same = if is_id { wanted.len() == found.len() } else { wanted == found };
                    assert!(is_same, "{leave}; {when:?}; {ask}, {is_prepared}: {wanted:?}, not {found:?}");
                }
            }
        }
    }
}

/// `insert_id` is said where nothing takes it, and goes along to where the next INSERT does.
fn check_insert_id(stage: &Stage) {
    let mut client = stage.address.connect().unwrap();
    run(&mut client, "CREATE TABLE IF NOT EXISTS ro_ids (id INT AUTO_INCREMENT PRIMARY KEY, a INT)");
    for (id, end) in
        [(5000, "COMMIT"), (6000, "ROLLBACK"), (7000, "CREATE TABLE IF NOT EXISTS ro_made (a INT)")]
    {
        run(&mut client, BEGIN);
        assert_ne!(place(stage, &mut client, WHO), 0);
        run(&mut client, &format!("SET insert_id = {id}"));
        assert_eq!(client.value("SELECT @@insert_id").unwrap(), id.to_string());
        assert_eq!(code(&mut client, INSERT), 1792);
        run(&mut client, end);
        run(&mut client, "INSERT INTO ro_ids (a) VALUES (1)");
        assert_eq!(client.value("SELECT LAST_INSERT_ID()").unwrap(), id.to_string(), "{end}");
        assert_eq!(client.value("SELECT MAX(id) FROM ro_ids FOR UPDATE").unwrap(), id.to_string());
        client = stage.address.connect().unwrap();
    }
}

/// A rule for the primary holds in transactions: where it cannot be obeyed any more, they begin again.
fn check_rule(stage: &Stage) {
    let rule = "[[rule]]\nname = \"fresh\"\ntable = [\"app.visits\"]\n";
    for then in ["target = \"primary\"", "consistency = \"global\""] {
        let config = ConfigFile::with_sections(&format!("{EVENTUAL}\n{rule}{then}\n"));
        let (_proxy, address, _port) = stage.another_proxy(&config).unwrap();
        let mut client = address.connect().unwrap();
        run(&mut client, BEGIN);
        assert_eq!(place(stage, &mut client, VISITS), 0);
        run(&mut client, "COMMIT");
        run(&mut client, BEGIN);
        assert_ne!(place(stage, &mut client, WHO), 0);
        assert_eq!(code(&mut client, VISITS), 1213);
        run(&mut client, BEGIN);
        assert_eq!(place(stage, &mut client, WHO), 0);
        assert_eq!(place(stage, &mut client, VISITS), 0);
    }
}

/// The connection on the replica is lost: before a read nobody notices, after one the transaction is to be tried again.
fn check_losses(stage: &Stage) {
    let end_all = || {
        for server in &stage.cluster.servers[1..] {
            let list = format!(
                "SELECT ID FROM information_schema.PROCESSLIST WHERE USER = '{}'",
                stage.cluster.app_user
            );
            for id in server.query(&list).unwrap().split_whitespace() {
                // It may have gone by itself.
                let _ = server.query(&format!("KILL {id}"));
            }
            until(Duration::from_secs(30), "the connections to end", || {
                Ok(server.query(&list)?.trim().is_empty())
            })
            .unwrap();
        }
    };
    let mut client = stage.address.connect().unwrap();
    run(&mut client, BEGIN);
    end_all();
    place(stage, &mut client, WHO);
    assert_eq!(code(&mut client, INSERT), 1792, "it is still the same transaction");
    run(&mut client, "COMMIT");
    let mut client = stage.address.connect().unwrap();
    run(&mut client, BEGIN);
    assert_ne!(place(stage, &mut client, WHO), 0);
    end_all();
    assert_eq!(code(&mut client, WHO), 1213);
    run(&mut client, INSERT);
}

/// A transaction on a replica finds what its session has written, whatever the replicas have.
fn check_own_writes(stage: &Stage, flavor: Flavor) {
    let (_proxy, address, _port) = stage.another_proxy(&ConfigFile::default()).unwrap();
    let mut client = address.connect().unwrap();
    run(&mut client, "CREATE TABLE IF NOT EXISTS ro_own (id INT PRIMARY KEY)");
    let mut on_replicas = 0;
    for id in 0..40 {
        // One, then both, cannot have it.
        if id == 10 || id == 20 {
            delay_replica(flavor, &stage.cluster.servers[id / 10], 600).unwrap();
        }
        run(&mut client, &format!("INSERT INTO ro_own VALUES ({id})"));
        if id % 2 == 0 {
            run(&mut client, BEGIN);
        } else {
            run(&mut client, "SET SESSION TRANSACTION READ ONLY");
            run(&mut client, "SET autocommit = 0");
        }
        let sql = format!("SELECT port, (SELECT COUNT(*) FROM ro_own WHERE id = {id}) FROM answered_by");
        let row = client.rows(&sql).unwrap().remove(0);
        assert_eq!(row[1].as_deref(), Some("1"), "{id}");
        let port = row[0].clone().unwrap();
        on_replicas += usize::from(port != stage.cluster.servers[0].port.to_string());
        assert!(id < 20 || port == stage.cluster.servers[0].port.to_string());
        run(&mut client, "COMMIT");
        run(&mut client, "SET autocommit = 1");
        run(&mut client, "SET SESSION TRANSACTION READ WRITE");
    }
    assert!(on_replicas > 0, "nothing has run on a replica");
    // What another session hands on when the transaction has begun counts, too.
    let token = client.value("SELECT @@delphinus.causality_token").unwrap();
    let mut other = address.connect().unwrap();
    run(&mut other, BEGIN);
    let sql = format!(
        "/*+ delphinus(causality_token='{token}') */ SELECT port, (SELECT COUNT(*) FROM ro_own) FROM answered_by"
    );
    let row = other.rows(&sql).unwrap().remove(0);
    assert_eq!(row[1].as_deref(), Some("40"));
    for replica in &stage.cluster.servers[1..] {
        delay_replica(flavor, replica, 0).unwrap();
    }
}

/// COM_REFRESH leaves a replica as FLUSH does. MySQL 9 does not know the command.
fn check_refresh(stage: &Stage) {
    const STATUS: u8 = 16;
    let flushed = || {
        let text = |server: &Server| server.query("SHOW GLOBAL STATUS LIKE 'Com_flush'").unwrap();
        stage.cluster.servers.iter().map(text).collect::<Vec<_>>()
    };
    let mut client = stage.address.connect().unwrap();
    run(&mut client, BEGIN);
    assert_ne!(place(stage, &mut client, WHO), 0);
    let before = flushed();
    // This user may not, which a server says when it has counted the command.
    assert!(client.command(7, &[STATUS]).unwrap_err().to_string().contains("1227"));
    let after = flushed();
    assert_ne!(before[0], after[0], "the primary has done it");
    assert_eq!(before[1..], after[1..], "no replica has");
    run(&mut client, INSERT);
}

/// Who does not want it turns it off.
fn check_off(stage: &Stage) {
    let off = ConfigFile::with_sections(&format!("{EVENTUAL}replica_read_only_transactions = false\n"));
    let (_proxy, address, _port) = stage.another_proxy(&off).unwrap();
    let mut client = address.connect().unwrap();
    run(&mut client, BEGIN);
    assert_eq!(place(stage, &mut client, WHO), 0);
    run(&mut client, "COMMIT");
    run(&mut client, "SET SESSION TRANSACTION READ ONLY");
    run(&mut client, "SET autocommit = 0");
    assert_eq!(place(stage, &mut client, VISITS), 0);
}

/// A transaction that ends on its replica and can begin nowhere else is told as one that is to be tried again.
fn check_no_primary(stage: &mut Stage) {
    let impatient = ConfigFile::with_sections(&format!("{EVENTUAL}failover_wait_ms = 300\n"));
    let (_proxy, address, _port) = stage.another_proxy(&impatient).unwrap();
    let mut client = address.connect().unwrap();
    run(&mut client, BEGIN);
    stage.cluster.servers[0].kill9();
    assert_eq!(code(&mut client, "SELECT GET_LOCK('ro', 0)"), 1213);
    assert_ne!(place(stage, &mut client, WHO), 0, "the session goes on");
}

fn check_flavor(flavor: Flavor) {
    let mut stage = Stage::with(flavor, &ConfigFile::with_sections(EVENTUAL)).unwrap();
    make_routines(&stage);
    check_places(&stage);
    check_sessions(&stage);
    check_completion(&stage);
    check_cursor(&stage);
    check_rule(&stage);
    check_statement_before(&stage);
    check_insert_id(&stage);
    check_losses(&stage);
    check_statements(&stage, flavor);
    check_off(&stage);
    if flavor == Flavor::MariaDb {
        check_refresh(&stage);
    }
    check_own_writes(&stage, flavor);
    check_no_primary(&mut stage);
}

delphinus_e2e::on_both_flavors!(check_flavor);

/// A refusal is the proxy's own: the replica knows what was counted before.
#[test]
fn rows_counted_on_the_replica_are_known_behind_a_refusal() {
    for flavor in [Flavor::MariaDb, Flavor::MySql] {
        let stage = Stage::with(flavor, &ConfigFile::with_sections(EVENTUAL)).unwrap();
        let mut client = stage.address.connect().unwrap();
        run(&mut client, "SET sql_select_limit = 2");
        run(&mut client, BEGIN);
        assert_ne!(place(&stage, &mut client, WHO), 0, "{flavor}");
        run(&mut client, "SELECT id FROM orders");
        assert_eq!(code(&mut client, "SELECT id FROM orders FOR UPDATE"), 1792, "{flavor}");
        assert_eq!(client.value("SELECT FOUND_ROWS()").unwrap(), "2", "{flavor}");
    }
}
