//! Upstream test suites of three drivers, those that are done quickly: nothing fails through Delphinus that passes
//! straight. `cargo xtask e2e drivers` runs all of them, in all variants, on both kinds of servers.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use delphinus_e2e::suites::{Selection, run, summary};
use delphinus_sandbox::Flavor;

#[test]
fn nothing_fails_through_delphinus_that_passes_straight() {
    let suites = ["mysqlclient", "pymysql", "go-sql-driver"].map(str::to_owned).to_vec();
    let selection = Selection { suites, flavors: vec![Flavor::MariaDb], is_plain: true, variants: vec![] };
    let outcomes = run(&selection, |outcome| println!("{}", summary(outcome))).unwrap();
    let bad: Vec<String> = outcomes.iter().filter(|outcome| !outcome.is_good()).map(summary).collect();
    assert!(bad.is_empty(), "{}", bad.join("\n"));
    let not_run: Vec<_> = outcomes.iter().filter_map(|outcome| outcome.not_run).collect();
    assert!(not_run.is_empty(), "{not_run:?}");
}
