//! A virtual IP with several addresses: settings change while it is there, and a host cannot have one of them.

use std::net::IpAddr;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};

use super::proxies::Proxies;
use super::watch::has;
use super::world::{LIMIT, virtual_ip};
use super::{Case, Row};
use crate::poll::until;
use crate::programs::run;

pub(super) const CASES: &[Case<Proxies>] = &[
    Case { name: "an address is added and taken away", is_short: true, run: grows },
    Case { name: "an address that is added later is announced", is_short: false, run: announces },
    Case { name: "a machine cannot have one of the addresses", is_short: false, run: lacks_one },
];

/// The last of the addresses in the settings.
const LAST: &str = "\"fd77::100\"]";

/// Where a third machine believes an address to be.
const FORMER: &str = "02:00:00:00:00:07";
/// The machine that has etcd, and no proxy.
const THIRD: usize = 2;

/// Sessions on the other addresses notice nothing.
fn grows(world: &mut Proxies) -> Result<Row> {
    let (holder, more) = (world.holder()?, virtual_ip(world.machines(), 101));
    let process = world.machines().process(holder);
    let before = world.config(holder)?;
    let mut session = world.connect()?;
    session.query("SET @kept = 'still here'")?;
    let since = Instant::now();
    world.change(holder, &before.replace(LAST, &format!("\"fd77::100\", \"{more}\"]")))?;
    until(LIMIT, "the third address", || Ok(has(process, IpAddr::V4(more))))?;
    world.change(holder, &before)?;
    until(LIMIT, "the third address nowhere", || Ok(!has(process, IpAddr::V4(more))))?;
    ensure!(session.value("SELECT @kept")? == "still here", "the session has lost its state");
    let gap = world.watches.iter().map(|watch| watch.gap_since(since)).max().unwrap_or_default();
    ensure!(gap.is_zero(), "the other addresses were nowhere for {gap:?}");
    Ok(Row { case: "", gap, note: "a session on another address went on".to_owned() })
}

/// What `ip neigh` says, or does, on the machine of etcd.
fn neighbours(world: &Proxies, words: &str) -> Result<String> {
    let mut command = world.machines().enter(THIRD);
    command.args(["ip", "neigh"]).args(words.split(' '));
    run(&mut command, LIMIT)?.success()
}

/// Also when all that is said of the virtual IP itself has been said.
fn announces(world: &mut Proxies) -> Result<Row> {
    let (holder, more) = (world.holder()?, virtual_ip(world.machines(), 101));
    let before = world.config(holder)?;
    until(LIMIT, "the last announcement of the others", || {
        let since = world.ask(holder, "SELECT MIN(state_s) FROM vips")?;
        Ok(since.trim().parse::<u64>()? > 21)
    })?;
    // A third machine knows it at another one, as after a move.
    neighbours(world, &format!("replace {more} lladdr {FORMER} dev eth0 nud stale"))?;
    let since = Instant::now();
    world.change(holder, &before.replace(LAST, &format!("\"fd77::100\", \"{more}\"]")))?;
    until(LIMIT, "a third machine that knows where it is", || {
        Ok(!neighbours(world, &format!("show {more}"))?.contains(FORMER))
    })?;
    let took = since.elapsed();
    world.change(holder, &before)?;
    Ok(Row { case: "", gap: Duration::ZERO, note: format!("known after {} ms", took.as_millis()) })
}

/// None of them stays there: another machine may have them all at any time.
fn lacks_one(world: &mut Proxies) -> Result<Row> {
    let (one, other) = (world.holder()?, 1 - world.holder()?);
    world.kill(one);
    until(LIMIT, "all on the other machine", || {
        Ok(world.watches.iter().all(|watch| watch.holder() == Some(other)))
    })?;
    // No interface of the machine is in that network.
    let config = world.config(one)?.replace(LAST, "\"fd77::100\", \"198.51.100.7\"]");
    world.start_with(one, &config)?;
    until(LIMIT, "the proxy to answer", || Ok(world.ask(one, "SHOW VIPS").is_ok()))?;
    world.kill(other);
    until(LIMIT, "an error that names the address", || {
        Ok(world.ask(one, "SELECT error FROM vips")?.contains("198.51.100.7"))
    })?;
    thread::sleep(Duration::from_secs(1));
    ensure!(world.watches.iter().all(|watch| watch.holder() != Some(one)), "a part of it has stayed");
    let since = Instant::now();
    world.start_proxy(other)?;
    until(LIMIT, "all on the machine that can have them", || {
        Ok(world.watches.iter().all(|watch| watch.holder() == Some(other)))
    })?;
    let gap = world.watches[0].gap_since(since);
    world.kill(one);
    Ok(Row { case: "", gap, note: "no part of it stayed there".to_owned() })
}
