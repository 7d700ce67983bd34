//! The history of clients that append to lists while they lose their primary: nothing lost that was acknowledged, nothing
//! twice, nothing stale. `cargo xtask e2e failover` does the same at length, with more faults.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use delphinus_e2e::failover::{Fault, Servers, Trial, run_trial};

/// Far above what is measured where nothing else runs: a test is no measurement.
const BEYOND_LIMIT_MS: f64 = 5000.0;

fn judge(trial: &Trial) {
    eprintln!("{trial:?}");
    assert!(trial.is_good(), "{:?}", trial.verdict);
    // Nothing is found where nothing was done.
    assert!(trial.acknowledged > 50 && trial.reads > 100, "{trial:?}");
    assert!(trial.read_errors.is_empty(), "reads go on: {:?}", trial.read_errors);
    assert_eq!(trial.disconnects, 0, "sessions stay connected");
    assert!(trial.beyond_ms() < BEYOND_LIMIT_MS, "{trial:?}");
}

/// A primary that was stopped and has been replaced must not acknowledge anything when it goes on.
#[test]
fn a_replaced_primary_on_mariadb_harms_nobody() {
    judge(&run_trial(Servers::MariaDb, Fault::Hang).unwrap());
}

#[test]
fn nothing_acknowledged_is_lost_with_the_primary_of_a_group() {
    judge(&run_trial(Servers::Group, Fault::Kill).unwrap());
}
