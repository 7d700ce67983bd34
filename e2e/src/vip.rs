//! Virtual IPs in network namespaces: which machine has an address is read from the kernels, while processes are killed, hang, are cut off
//! and stop in order. `cargo xtask e2e vip`.

mod agents;
mod apart;
mod callers;
mod clock;
mod failsafe;
mod group_peers;
mod group_store;
mod keepalived;
mod kept_sessions;
mod own_moves;
mod peers;
mod proxies;
mod settings;
mod table;
mod watch;
mod world;
mod writers;

use std::time::Duration;

use anyhow::{Result, ensure};
use delphinus_sandbox::Flavor;
use proxies::{Kind, Proxies};

pub use peers::compare;

/// How one case went.
#[derive(Debug)]
pub struct Row {
    /// What was done.
    pub case: &'static str,
    /// How long the address was nowhere.
    pub gap: Duration,
    /// What else is worth saying.
    pub note: String,
}

/// A case: what is done to a world, in its order.
struct Case<W> {
    name: &'static str,
    /// It is done in the short run, too.
    is_short: bool,
    run: fn(&mut W) -> Result<Row>,
}

/// Everything, or the short part. The process has to be in a network of its own.
pub fn run(is_short: bool, only: &[String], mut say: impl FnMut(&str)) -> Result<(u32, u32)> {
    crate::machines::ensure_own_network()?;
    let wants = |name: &str, short: bool| {
        if only.is_empty() { short || !is_short } else { only.iter().any(|one| one == name) }
    };
    let (mut passed, mut failed) = (0, 0);
    let mut done = |name: &str, row: Result<Row>| match row {
        Ok(row) => {
            passed += 1;
            say(&format!("{name}: nowhere for {} ms; {}", row.gap.as_millis(), row.note));
        }
        Err(error) => {
            failed += 1;
            say(&format!("{name}: FAILED: {error:#}"));
        }
    };
    let kinds: [(Kind, &[&[Case<Proxies>]]); 3] = [
        (Kind::Plain, &[proxies::CASES, settings::CASES, kept_sessions::CASES]),
        (Kind::Failsafe, &[failsafe::CASES]),
        (Kind::Apart, &[apart::CASES]),
    ];
    for (kind, cases) in kinds {
        let cases: Vec<_> =
            cases.iter().copied().flatten().filter(|case| wants(case.name, case.is_short)).collect();
        if cases.is_empty() {
            continue;
        }
        let mut world = Proxies::start(kind)?;
        for case in cases {
            let row = world.settle().and_then(|()| (case.run)(&mut world));
            done(case.name, row.and_then(|row| world.was_never_double().map(|()| row)));
        }
    }
    let with_etcd: fn(Flavor) -> Result<agents::Agents> = agents::Agents::start;
    let alone: fn(Flavor) -> Result<agents::Agents> = |_| agents::Agents::start_alone(false);
    let failsafe: fn(Flavor) -> Result<agents::Agents> = |_| agents::Agents::start_alone(true);
    let worlds = [
        (with_etcd, Flavor::MariaDb, agents::CASES),
        (with_etcd, Flavor::MySql, agents::MYSQL),
        (with_etcd, Flavor::Group, agents::GROUP),
        (alone, Flavor::Group, group_store::CASES),
        (failsafe, Flavor::Group, group_store::FAILSAFE),
    ];
    for (start, flavor, cases) in worlds {
        if !cases.iter().any(|case| wants(case.name, case.is_short)) {
            continue;
        }
        let mut world = start(flavor)?;
        for case in cases.iter().filter(|case| wants(case.name, case.is_short)) {
            let row = (case.run)(&mut world);
            done(case.name, row.and_then(|row| world.was_never_double().map(|()| row)));
        }
    }
    ensure!(passed + failed > 0, "no case has one of these names: {}", only.join(", "));
    Ok((passed, failed))
}
