//! The history of clients that append to lists while they lose their primary: nothing lost that was acknowledged, nothing
//! twice, nothing stale. `cargo xtask e2e failover` does the same at length, with all faults on all servers.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::time::Duration;

use delphinus_e2e::failover::{Case, Fault, Servers, Through, Trial, run_trial};
use delphinus_e2e::{Answer, Client, ConfigFile, ServerError, Stage, until};
use delphinus_sandbox::Flavor;

const LIMIT: Duration = Duration::from_secs(30);

/// Far above what is measured where nothing else runs: a test is no measurement.
const BEYOND_LIMIT_MS: f64 = 5000.0;

fn judge(trial: &Trial) {
    eprintln!("{trial:?}");
    assert!(trial.is_good(), "{:?}", trial.verdict);
    // Nothing is found where nothing was done.
    assert!(trial.acknowledged > 50 && trial.reads > 100, "{trial:?}");
    assert!(trial.read_errors.is_empty(), "reads go on: {:?}", trial.read_errors);
    assert_eq!(trial.disconnects, 0, "sessions stay connected");
    assert!(trial.beyond_ms().is_some_and(|ms| ms < BEYOND_LIMIT_MS), "{trial:?}");
}

fn run(servers: Servers, fault: Fault) -> Trial {
    run_trial(Case { servers, through: Through::Delphinus, fault }).unwrap()
}

/// A primary that was stopped and has been replaced must not acknowledge anything when it goes on.
#[test]
fn a_replaced_primary_on_mariadb_harms_nobody() {
    judge(&run(Servers::MariaDb, Fault::Hang));
}

#[test]
fn nothing_acknowledged_is_lost_with_the_primary_of_a_group() {
    judge(&run(Servers::Group, Fault::Kill));
}

/// Answers do not arrive, but writes do: what the old primary still runs is not where everybody else looks.
#[test]
fn a_network_that_is_cut_on_the_way_back_harms_nobody() {
    judge(&run(Servers::MySqlSemiSync, Fault::CutBack));
}

#[test]
fn connections_that_are_reset_again_and_again_harm_nobody() {
    let trial = run(Servers::MariaDbSemiSync, Fault::Reset);
    assert!(trial.is_good(), "{trial:?}");
    assert!(trial.acknowledged > 50 && trial.reads > 100, "{trial:?}");
    assert!(!trial.read_errors.is_empty(), "nothing was reset in a result: {trial:?}");
}

#[test]
fn nothing_acknowledged_is_lost_with_the_proxy() {
    let trial = run(Servers::MySql, Fault::ProxyKilled);
    assert!(trial.is_good(), "{trial:?}");
    assert!(trial.acknowledged > 50 && trial.reads > 100 && trial.disconnects > 0, "{trial:?}");
}

/// Its clients get a connection again when there is one; nobody takes it for dead meanwhile.
#[test]
fn a_primary_that_is_full_is_not_dead() {
    let trial = run(Servers::MariaDb, Fault::FullPrimary);
    assert!(trial.is_good(), "{trial:?}");
    assert!(trial.acknowledged > 50 && trial.reads > 100, "{trial:?}");
}

fn told(outcome: anyhow::Result<Answer>) -> ServerError {
    outcome.unwrap_err().downcast::<ServerError>().unwrap()
}

/// How the sessions begin. The first three have written when it comes to it, and the last one has read.
const OPENINGS: [&str; 8] = [
    "BEGIN",
    "BEGIN",
    "BEGIN",
    "START TRANSACTION WITH CONSISTENT SNAPSHOT",
    "BEGIN",
    "START TRANSACTION",
    "SET autocommit = 0",
    "BEGIN",
];

/// The words that take the writes from a server, and those that promote a replica.
fn words(flavor: Flavor) -> (&'static str, &'static str) {
    match flavor {
        Flavor::MariaDb => {
            ("SET GLOBAL read_only = 1", "STOP SLAVE; RESET SLAVE ALL; SET GLOBAL read_only = 0")
        }
        _ => (
            "SET GLOBAL super_read_only = 1",
            "STOP REPLICA; RESET REPLICA ALL; SET GLOBAL super_read_only = 0; SET GLOBAL read_only = 0",
        ),
    }
}

/// A transaction that is open when its server becomes read-only cannot be committed: it is gone, and its session is told to
/// try it again, whichever statement it is that is refused. One that has only begun goes on where writes go on.
fn transactions_on_a_server_that_becomes_read_only(flavor: Flavor) {
    let config = ConfigFile {
        topology: Some("read_only"),
        ..ConfigFile::with_sections("[routing]\nfailover_wait_ms = 60000")
    };
    let stage = Stage::with(flavor, &config).unwrap();
    let [old, next, _] = &stage.cluster.servers[..] else { panic!("three servers") };
    let mut sessions: Vec<Client> = (0..8).map(|_| stage.address.connect().unwrap()).collect();
    until(LIMIT, "a primary", || {
        Ok(sessions[0].query("CREATE TABLE IF NOT EXISTS moved (id INT PRIMARY KEY)").is_ok())
    })
    .unwrap();
    let prepared = sessions[1].prepare("INSERT INTO moved VALUES (11)").unwrap();
    let just_begun = sessions[5].prepare("INSERT INTO moved VALUES (15)").unwrap();
    for (number, (session, opening)) in sessions.iter_mut().zip(OPENINGS).enumerate() {
        session.query("SET @own = 'kept'").unwrap();
        session.query(opening).unwrap();
        if number < 3 {
            session.query(&format!("INSERT INTO moved VALUES ({number})")).unwrap();
        }
    }
    // It has read: what it reads next must fit.
    sessions[7].query("SELECT * FROM moved").unwrap();
    let (stop, go) = words(flavor);
    old.query(stop).unwrap();
    let errors = [
        told(sessions[0].query("INSERT INTO moved VALUES (10)")),
        told(sessions[1].execute(prepared)),
        told(sessions[2].query("COMMIT")),
        told(sessions[3].query("INSERT INTO moved VALUES (13)")),
        told(sessions[7].query("INSERT INTO moved VALUES (17)")),
    ];
    for error in errors {
        assert_eq!((error.code, &*error.sqlstate), (1213, "40001"), "{error}");
        assert!(error.message.contains("has become read-only"), "{error}");
    }
    std::thread::scope(|scope| {
        let [.., by_text, by_statement, without_autocommit, _] = &mut sessions[..] else { unreachable!() };
        let running = [
            scope.spawn(move || by_text.query("INSERT INTO moved VALUES (14)").map(drop)),
            scope.spawn(move || by_statement.execute(just_begun).map(drop)),
            scope.spawn(move || without_autocommit.query("INSERT INTO moved VALUES (16)").map(drop)),
        ];
        until(LIMIT, "the replica to have everything", || {
            Ok(next.query("SELECT COUNT(*) FROM app.moved").is_ok())
        })
        .unwrap();
        next.query(go).unwrap();
        for one in running {
            one.join().unwrap().unwrap();
        }
    });
    let ids = "SELECT IFNULL(GROUP_CONCAT(id ORDER BY id), '') FROM app.moved";
    assert_eq!(next.query(ids).unwrap().trim(), "", "they are in transactions");
    for (number, session) in sessions.iter_mut().enumerate() {
        if !(4..7).contains(&number) {
            session.query("BEGIN").unwrap();
        }
        session.query(&format!("INSERT INTO moved VALUES (10{number})")).unwrap();
        session.query("COMMIT").unwrap();
        assert_eq!(session.value("SELECT @own").unwrap(), "kept");
    }
    assert_eq!(next.query(ids).unwrap().trim(), "14,15,16,100,101,102,103,104,105,106,107");
    assert_eq!(old.query("SELECT COUNT(*) FROM app.moved").unwrap().trim(), "0", "it was rolled back");
}

#[test]
fn transactions_on_a_mariadb_server_that_becomes_read_only() {
    transactions_on_a_server_that_becomes_read_only(Flavor::MariaDb);
}

#[test]
fn transactions_on_a_mysql_server_that_becomes_read_only() {
    transactions_on_a_server_that_becomes_read_only(Flavor::MySql);
}

/// A transaction whose connection is closed before its first statement begins on another one.
#[test]
fn a_transaction_that_has_only_begun_outlives_its_connection() {
    let stage = Stage::with(Flavor::MariaDb, &ConfigFile::default()).unwrap();
    let primary = &stage.cluster.servers[0];
    let mut session = stage.address.connect().unwrap();
    session.query("CREATE TABLE moved (id INT PRIMARY KEY)").unwrap();
    let kill = "SELECT id FROM information_schema.processlist WHERE user = 'app' AND command = 'Sleep'";
    let kill_all = || {
        for server in &stage.cluster.servers {
            for id in server.query(kill).unwrap().split_whitespace() {
                let _ = server.query(&format!("KILL {id}"));
            }
            until(LIMIT, "the end of it", || Ok(server.query(kill)?.trim().is_empty())).unwrap();
        }
    };
    session.query("BEGIN").unwrap();
    kill_all();
    session.query("INSERT INTO moved VALUES (1)").unwrap();
    assert_eq!(
        primary.query("SELECT COUNT(*) FROM app.moved").unwrap().trim(),
        "0",
        "it is in a transaction"
    );
    session.query("COMMIT").unwrap();
    // Also if its first statement fails.
    session.query("BEGIN").unwrap();
    kill_all();
    assert_eq!(told(session.query("INSERT INTO nowhere VALUES (4)")).code, 1146);
    session.query("INSERT INTO moved VALUES (4)").unwrap();
    session.query("ROLLBACK").unwrap();
    // As it was begun.
    session.query("START TRANSACTION READ ONLY").unwrap();
    kill_all();
    session.query("SELECT id FROM moved").unwrap();
    assert_eq!(told(session.query("INSERT INTO moved VALUES (5)")).code, 1792);
    session.query("ROLLBACK").unwrap();
    // One that has written cannot.
    session.query("BEGIN").unwrap();
    session.query("INSERT INTO moved VALUES (2)").unwrap();
    kill_all();
    assert_eq!(told(session.query("INSERT INTO moved VALUES (3)")).code, 1213);
    // Nor one that is more than it says.
    session.query("SET TRANSACTION ISOLATION LEVEL SERIALIZABLE").unwrap();
    session.query("BEGIN").unwrap();
    kill_all();
    let error = told(session.query("INSERT INTO moved VALUES (6)"));
    assert!(error.message.contains("and with it this session's"), "{error}");
    assert_eq!(primary.query("SELECT GROUP_CONCAT(id) FROM app.moved").unwrap().trim(), "1");
}
