//! A hundred thousand random histories of simulated clusters: never two writers, no write to a fenced backend, reads outlive
//! the primary, and it all settles when the world has settled. A failure names its seed; `DELPHINUS_SIM_SEED=n` runs that
//! history alone. That the properties can fail is shown by planted faults.

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
fn run(style: Style, seeds: std::ops::Range<u64>, fault: Option<Fault>) -> Result<(), String> {
    let threads = std::thread::available_parallelism().map_or(1, |count| count.get() as u64);
    std::thread::scope(|scope| {
        let part = |number: u64| {
            let seeds = seeds.clone();
            move || {
                seeds.skip(number as usize).step_by(threads as usize).try_for_each(|seed| {
                    history::play(style, seed, fault)
                        .map_err(|what| format!("{style:?}, seed {seed}: {what}"))
                })
            }
        };
        let threads: Vec<_> = (0..threads).map(|number| scope.spawn(part(number))).collect();
        threads.into_iter().try_for_each(|thread| thread.join().unwrap())
    })
}

fn hold(style: Style, share: u64) {
    let alone = std::env::var("DELPHINUS_SIM_SEED").ok().map(|seed| seed.parse::<u64>().unwrap());
    let seeds = alone.map_or(0..HISTORIES * share / 100, |seed| seed..seed + 1);
    if let Err(what) = run(style, seeds, None) {
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
        let found = run(fault.style(), 0..2_000, Some(*fault));
        let what = found.expect_err(&format!("{fault:?} was not found"));
        assert!(
            fault.says().iter().any(|text| what.contains(text)),
            "{fault:?} was found as something else: {what}"
        );
    }
}
