//! SQLAlchemy and Django in ordinary use: right, and hardly ever pinned. `cargo xtask e2e orm` runs more rounds, on both
//! kinds of servers.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use delphinus_e2e::suites::{OrmOutcome, run_orms};
use delphinus_sandbox::Flavor;

#[test]
fn orms_are_not_pinned() {
    let outcomes = run_orms(&[Flavor::MariaDb], 3, |one| println!("{}", one.summary())).unwrap();
    let bad: Vec<String> = outcomes.iter().filter(|one| !one.is_good()).map(OrmOutcome::summary).collect();
    assert!(bad.is_empty(), "{}", bad.join("\n"));
    assert_eq!(outcomes.len(), 4);
}
