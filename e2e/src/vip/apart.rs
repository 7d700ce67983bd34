//! A virtual IP with an interface of its own, apart from the way to the store: the interface goes down, and addresses are added by hand.

use std::net::IpAddr;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

use super::proxies::Proxies;
use super::watch::has;
use super::world::{LIMIT, virtual_ip};
use super::{Case, Row};
use crate::machines::Machines;
use crate::poll::until;
use crate::programs::run;

pub(super) const CASES: &[Case<Proxies>] = &[
    Case { name: "the address's interface goes down", is_short: false, run: goes_down },
    Case { name: "an address that was added by hand", is_short: false, run: by_hand },
];

/// The line of `[[vip]]`. Linux answers for an address of any interface on all of them.
pub(super) const OPTION: &str = "interface = \"apart0\"\n";

pub(super) fn add_interfaces(machines: &Machines) -> Result<()> {
    for at in 0..2 {
        ip(machines, at, "link add apart0 type veth peer name apart1")?;
        for end in ["apart0", "apart1"] {
            ip(machines, at, &format!("link set {end} up"))?;
        }
    }
    Ok(())
}

fn ip(machines: &Machines, at: usize, words: &str) -> Result<()> {
    let mut command = machines.enter(at);
    command.arg("ip").args(words.split(' '));
    run(&mut command, LIMIT)?.success().map(drop)
}

/// The store is reached, and the lease goes on: the other host has to have the address all the same.
fn goes_down(world: &mut Proxies) -> Result<Row> {
    let holder = world.holder()?;
    let since = Instant::now();
    ip(world.machines(), holder, "link set apart0 down")?;
    let moved = until(LIMIT, "the address on the other machine", || {
        Ok(world.watches.iter().all(|watch| watch.holder() == Some(1 - holder)))
    });
    let took = world.watch().taken_from(holder, since);
    let shown = world.ask(holder, "SELECT error FROM vips");
    ip(world.machines(), holder, "link set apart0 up")?;
    moved?;
    // Announcements go out where the address is, and no cable leads from there to the clients: some kernel would take up to 50 s to ask again.
    let mut flush = Command::new("ip");
    flush.args(["neigh", "flush", "to", &virtual_ip(world.machines(), 100).to_string()]);
    run(&mut flush, LIMIT)?.success()?;
    ensure!(shown?.contains("apart0 is down"), "the holder does not say why");
    let took = took.context("the move was not seen")?;
    ensure!(took < Duration::from_secs(5), "it took {took:?}");
    let gap = world.watch().gap_since(since);
    Ok(Row { case: "", gap, note: format!("on the other machine after {} ms", took.as_millis()) })
}

/// On another interface, before the process is there; and with the prefix of a network, as one of the host's own.
fn by_hand(world: &mut Proxies) -> Result<Row> {
    let address = virtual_ip(world.machines(), 100);
    world.kill(0);
    world.kill(1);
    until(LIMIT, "the address nowhere", || Ok(world.watch().holder().is_none()))?;
    ip(world.machines(), 0, &format!("addr add {address}/32 dev lo"))?;
    world.start_proxy(0)?;
    let own = world.machines().process(0);
    // It goes at once, and comes back where it belongs: then it has a lifetime.
    let mut said = String::new();
    let alone = until(LIMIT, "the address on its own interface alone", || {
        let mut command = world.machines().enter(0);
        command.args(["ip", "-o", "-4", "addr", "show", "to", &address.to_string()]);
        said = run(&mut command, LIMIT)?.success()?;
        Ok(said.lines().count() == 1 && said.contains("apart0") && !said.contains("valid_lft forever"))
    });
    alone.with_context(|| format!("{said}\n{:?}", world.ask(0, "SHOW VIPS")))?;
    world.kill(0);
    until(LIMIT, "the address nowhere", || Ok(!has(own, IpAddr::V4(address))))?;
    ip(world.machines(), 0, &format!("addr add {address}/24 dev apart0"))?;
    world.start_proxy(0)?;
    until(LIMIT, "an error that says what to do", || {
        Ok(world
            .ask(0, "SELECT error FROM vips")?
            .contains(&format!("ip address del {address}/24 dev apart0")))
    })?;
    until(LIMIT, "peers to hear of it", || {
        Ok(world.ask(0, "SELECT fitness FROM members")?.contains("cannot:apps"))
    })?;
    let since = Instant::now();
    ip(world.machines(), 0, &format!("addr del {address}/24 dev apart0"))?;
    until(LIMIT, "the address as a virtual one", || Ok(world.watch().holder() == Some(0)))?;
    let note = format!(
        "one of the host's own is refused, and comes {} ms after it was taken away",
        since.elapsed().as_millis()
    );
    Ok(Row { case: "", gap: Duration::ZERO, note })
}
