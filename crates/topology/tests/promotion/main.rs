//! Random histories of moves of the primary's role: servers that crash, networks that break, actors that die between two steps and
//! leave statements behind. Never do two servers acknowledge writes in turn, nothing that was acknowledged is lost, and in the end
//! there is one primary. A failure names its seed; `DELPHINUS_SIM_SEED=n` runs that history alone, `DELPHINUS_SIM_HISTORIES=n` that
//! many others of each style (a million: `DELPHINUS_SIM_HISTORIES=500000`). That the properties can fail is shown by planted faults.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod actor;
mod fault;
mod history;
mod relay;
#[path = "../simulation/rng.rs"]
mod rng;
mod server;
mod world;

use fault::Fault;
use world::Style;

/// How many of each style.
const HISTORIES: u64 = 10_000;

type Play = fn(Style, u64) -> Result<(), String>;

fn run(style: Style, seeds: std::ops::Range<u64>, play: Play) -> Result<(), String> {
    let threads = std::thread::available_parallelism().map_or(1, |count| count.get() as u64);
    std::thread::scope(|scope| {
        let part = |number: u64| {
            let seeds = seeds.clone();
            move || {
                seeds.skip(number as usize).step_by(threads as usize).try_for_each(|seed| {
                    play(style, seed).map_err(|what| format!("{style:?}, seed {seed}: {what}"))
                })
            }
        };
        let threads: Vec<_> = (0..threads).map(|number| scope.spawn(part(number))).collect();
        threads.into_iter().try_for_each(|thread| thread.join().unwrap())
    })
}

fn hold(style: Style) {
    hold_in(style, HISTORIES, |style, seed| history::play(style, seed, None));
}

fn hold_in(style: Style, histories: u64, play: Play) {
    let number = |name| std::env::var(name).ok().map(|number| number.parse::<u64>().unwrap());
    let seeds = match (number("DELPHINUS_SIM_SEED"), number("DELPHINUS_SIM_HISTORIES")) {
        (Some(first), count) => first..first + count.unwrap_or(1),
        (None, Some(count)) => histories..histories + count,
        (None, None) => 0..histories,
    };
    if let Err(what) = run(style, seeds, play) {
        panic!("{what}");
    }
}

#[test]
fn moves_under_semi_sync_hold() {
    hold(Style::SemiSync);
}

#[test]
fn moves_under_asynchronous_replication_hold() {
    hold(Style::Async);
}

#[test]
fn moves_with_relays_that_acknowledge_hold() {
    hold(Style::Relayed);
}

#[test]
fn moves_hold_whose_old_primary_stays_dead() {
    for style in [Style::SemiSync, Style::Async, Style::Relayed] {
        hold_in(style, HISTORIES / 5, history::stay_dead);
    }
}

#[test]
fn planted_faults_are_found() {
    for fault in Fault::ALL {
        let mut failures =
            (0..20_000).filter_map(|seed| history::play(fault.style(), seed, Some(*fault)).err());
        let found = failures.find(|what| fault.says().iter().any(|text| what.contains(text)));
        assert!(found.is_some(), "{fault:?} was not found");
    }
}
