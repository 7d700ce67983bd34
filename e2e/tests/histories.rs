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

/// A transaction that is open when its server becomes read-only cannot be committed: it is gone, and its session is told to
/// try it again, whichever statement it is that is refused.
#[test]
fn a_transaction_on_a_server_that_becomes_read_only_can_be_tried_again() {
    let config = ConfigFile { topology: Some("read_only"), ..ConfigFile::default() };
    let stage = Stage::with(Flavor::MariaDb, &config).unwrap();
    let [old, next, _] = &stage.cluster.servers[..] else { panic!("three servers") };
    let mut sessions: Vec<Client> = (0..4).map(|_| stage.address.connect().unwrap()).collect();
    until(LIMIT, "a primary", || {
        Ok(sessions[0].query("CREATE TABLE IF NOT EXISTS moved (id INT PRIMARY KEY)").is_ok())
    })
    .unwrap();
    let prepared = sessions[1].prepare("INSERT INTO moved VALUES (11)").unwrap();
    for (number, session) in sessions.iter_mut().enumerate() {
        session.query("SET @own = 'kept'").unwrap();
        session.query("BEGIN").unwrap();
        if number != 3 {
            session.query(&format!("INSERT INTO moved VALUES ({number})")).unwrap();
        }
    }
    old.query("SET GLOBAL read_only = 1").unwrap();
    let told = |outcome: anyhow::Result<Answer>| outcome.unwrap_err().downcast::<ServerError>().unwrap();
    let errors = [
        told(sessions[0].query("INSERT INTO moved VALUES (10)")),
        told(sessions[1].execute(prepared)),
        told(sessions[2].query("COMMIT")),
        told(sessions[3].query("INSERT INTO moved VALUES (13)")),
    ];
    for error in errors {
        assert_eq!((error.code, &*error.sqlstate), (1213, "40001"), "{error}");
        assert!(error.message.contains("takes no writes any more"), "{error}");
    }
    next.query("STOP SLAVE; RESET SLAVE ALL; SET GLOBAL read_only = 0").unwrap();
    for (number, session) in sessions.iter_mut().enumerate() {
        session.query("BEGIN").unwrap();
        session.query(&format!("INSERT INTO moved VALUES (10{number})")).unwrap();
        session.query("COMMIT").unwrap();
        assert_eq!(session.value("SELECT @own").unwrap(), "kept");
    }
    assert_eq!(
        next.query("SELECT GROUP_CONCAT(id ORDER BY id) FROM app.moved").unwrap().trim(),
        "100,101,102,103"
    );
    assert_eq!(old.query("SELECT COUNT(*) FROM app.moved").unwrap().trim(), "0", "it was rolled back");
}
