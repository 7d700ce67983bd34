//! A hundred thousand random histories of simulated clusters: never two writers, no write to a fenced backend, reads outlive
//! the primary, and it all settles when the world has settled. A failure names its seed; `DELPHINUS_SIM_SEED=n` runs that
//! history alone, and `DELPHINUS_SIM_HISTORIES=n` that many others of each kind. That the properties can fail is shown by
//! planted faults.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod fault;
mod group;
mod history;
mod oracle;
mod rng;
mod server;
mod world;

use fault::Fault;
use world::Style;

/// How many in all.
const HISTORIES: u64 = 100_000;

/// Histories with these seeds, on all processors; the first failure.
fn run(style: Style, seeds: std::ops::Range<u64>) -> Result<(), String> {
    let threads = std::thread::available_parallelism().map_or(1, |count| count.get() as u64);
    std::thread::scope(|scope| {
        let part = |number: u64| {
            let seeds = seeds.clone();
            move || {
                seeds.skip(number as usize).step_by(threads as usize).try_for_each(|seed| {
                    history::play(style, seed, None).map_err(|what| format!("{style:?}, seed {seed}: {what}"))
                })
            }
        };
        let threads: Vec<_> = (0..threads).map(|number| scope.spawn(part(number))).collect();
        threads.into_iter().try_for_each(|thread| thread.join().unwrap())
    })
}

fn hold(style: Style, share: u64) {
    let number = |name| std::env::var(name).ok().map(|number| number.parse::<u64>().unwrap());
    let seeds = match (number("DELPHINUS_SIM_SEED"), number("DELPHINUS_SIM_HISTORIES")) {
        (Some(first), count) => first..first + count.unwrap_or(1),
        (None, Some(count)) => HISTORIES..HISTORIES + count,
        (None, None) => 0..HISTORIES * share / 100,
    };
    if let Err(what) = run(style, seeds) {
        panic!("{what}");
    }
}

#[test]
fn roles_by_read_only_hold() {
    hold(Style::ReadOnly, 55);
}

#[test]
fn roles_by_election_hold() {
    hold(Style::Group, 35);
}

#[test]
fn static_roles_hold() {
    hold(Style::Static, 10);
}

#[test]
fn planted_faults_are_found() {
    for fault in Fault::ALL {
        let failures = (0..2_000).filter_map(|seed| history::play(fault.style(), seed, Some(*fault)).err());
        // A mistake may show as something else first.
        let mut failures = failures.peekable();
        let first = failures.peek().cloned();
        let is_it = |what: &String| fault.says().iter().any(|text| what.contains(text));
        assert!(failures.any(|what| is_it(&what)), "{fault:?} was not found; but {first:?}");
    }
}
