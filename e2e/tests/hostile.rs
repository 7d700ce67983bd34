//! The attacks of `cargo xtask e2e hostile`, with fewer clients: memory stays within its limit, and others are served.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use delphinus_e2e::hostile::{ATTACKS, Arena, Scale, run_attack};
use delphinus_sandbox::Flavor;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

#[test]
fn hostile_clients_take_no_more_than_there_is() {
    let limit = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum }).unwrap();
    let mut arena = Arena::start(Flavor::MariaDb, Scale::SHORT).unwrap();
    let mut wrong = Vec::new();
    for attack in ATTACKS {
        let row = run_attack(&mut arena, attack, attack.few).unwrap();
        println!("{row:?}");
        wrong.extend(row.fault().map(|fault| format!("{}: {fault}", attack.name)));
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
