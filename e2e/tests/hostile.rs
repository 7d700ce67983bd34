//! The attacks of `cargo xtask e2e hostile`, with fewer clients: memory stays within its limit, and others are served. All of them on
//! MariaDB; on MySQL those on what the proxy keeps for sessions.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::sync::{Mutex, PoisonError};

use delphinus_e2e::hostile::{ATTACKS, Arena, Attack, Scale, run_attack};
use delphinus_sandbox::Flavor;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// What the proxy keeps of user variables, of prepared texts, and of texts whose end does not come.
const ON_MYSQL: [&str; 3] = ["many_variables", "many_prepares", "unfinished_prepares"];

/// One arena at a time: ordinary clients of one are not to wait for the attacks in another.
static ARENA: Mutex<()> = Mutex::new(());

#[test]
fn hostile_clients_take_no_more_than_there_is() {
    attack(Flavor::MariaDb, |_| true);
}

#[test]
fn hostile_clients_of_mysql_take_no_more_than_there_is() {
    assert!(ON_MYSQL.iter().all(|name| ATTACKS.iter().any(|attack| attack.name == *name)), "a name is gone");
    attack(Flavor::MySql, |attack| ON_MYSQL.contains(&attack.name));
}

fn attack(flavor: Flavor, is_wanted: fn(&Attack) -> bool) {
    let _alone = ARENA.lock().unwrap_or_else(PoisonError::into_inner);
    let limit = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum }).unwrap();
    let mut arena = Arena::start(flavor, Scale::SHORT).unwrap();
    let mut wrong = Vec::new();
    for attack in ATTACKS.iter().filter(|attack| is_wanted(attack)) {
        let row = run_attack(&mut arena, attack, attack.few).unwrap();
        eprintln!("{row:?}");
        wrong.extend(row.fault().map(|fault| format!("{}: {fault}", attack.name)));
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
