//! Random histories of members that share virtual IPs by a lease store, which is etcd in one half of them and a table of a group in the
//! other: processes die, hang, stop and come back, messages are late or lost, the store forgets and is out of reach. In one half of them
//! members stay without the store by promises of the others. No address is ever on two hosts, and when the world has settled each is on the
//! right one.
//! A failure names its seed; `DELPHINUS_SIM_SEED=n` runs that history alone, `DELPHINUS_SIM_HISTORIES=n` that many.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod host;
#[path = "../simulation/rng.rs"]
mod rng;
mod stay;
mod store;
mod world;

use world::{Fault, play};

/// How many in the ordinary run.
const HISTORIES: u64 = 700;

#[test]
fn no_address_is_on_two_hosts() {
    let number = |name| std::env::var(name).ok().map(|number| number.parse::<u64>().unwrap());
    let seeds = match (number("DELPHINUS_SIM_SEED"), number("DELPHINUS_SIM_HISTORIES")) {
        (Some(first), count) => first..first + count.unwrap_or(1),
        (None, count) => 0..count.unwrap_or(HISTORIES),
    };
    let threads = std::thread::available_parallelism().map_or(1, |count| count.get() as u64);
    let part = |number: u64| {
        let mut seeds = seeds.clone().skip(number as usize).step_by(threads as usize);
        move || seeds.find_map(|seed| play(seed, None).err().map(|what| format!("seed {seed}: {what}")))
    };
    let failed = std::thread::scope(|scope| {
        let all: Vec<_> = (0..threads).map(|number| scope.spawn(part(number))).collect();
        all.into_iter().find_map(|thread| thread.join().unwrap())
    });
    assert_eq!(failed, None);
}

#[test]
fn planted_faults_are_found() {
    for fault in Fault::ALL {
        let found = (0..3_000).find_map(|seed| play(seed, Some(fault)).err());
        assert!(found.is_some_and(|what| what.contains("on two hosts")), "{fault:?} was not found");
    }
}
