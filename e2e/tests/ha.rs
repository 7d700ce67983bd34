//! The short part of `cargo xtask e2e ha`: the proxy moves the primary's role, and replaces a primary that is killed, each once under
//! clients whose history is judged.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use delphinus_e2e::failover::Servers;
use delphinus_e2e::ha::{Part, run};

/// One after the other: servers that die and come back under load are enough for two processors.
#[test]
fn moves_and_kills_lose_nothing_and_cost_the_errors_that_they_may() {
    for (part, servers, rounds) in
        [(Part::Switchover, Servers::MariaDbSemiSync, 1), (Part::Kill, Servers::MySqlSemiSync, 1)]
    {
        let row = run(part, servers, rounds).unwrap();
        println!("{}", row.summary());
        assert!(row.is_good() && row.until_writes.len() == rounds, "{}", row.summary());
        // One who hears nothing would be content with everything.
        assert!(row.work[0] > 50, "{}", row.summary());
    }
}
