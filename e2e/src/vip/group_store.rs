//! Agents without etcd: the group whose addresses they keep is their lease store, too.

use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use delphinus_sandbox::Server;
use rustix::process::Signal;

use super::agents::{self, Agents, elected, placed, restart};
use super::world::{LIMIT, signal};
use super::{Case, Row, table};
use crate::poll::until;

/// What agents are told of it.
pub(super) const LEASE: &str = "store = \"group\"\nuser = \"lease\"\npassword = \"leasepw\"";

/// The time to live, the pace of looks at the table, and what a busy machine takes.
const WAIT: Duration = Duration::from_millis(7_500);

/// The account, with the rights that docs/ha.md names and no others.
pub(super) fn make_user(primary: &Server) -> Result<()> {
    primary.query("CREATE USER lease@'%' IDENTIFIED BY 'leasepw'")?;
    primary.query("GRANT SELECT, INSERT, UPDATE, DELETE, CREATE ON delphinus.* TO lease@'%'")?;
    primary.query("GRANT SELECT ON performance_schema.replication_group_members TO lease@'%'").map(drop)
}

pub(super) const CASES: &[Case<Agents>] = &[
    Case { name: "group store: each where it belongs", is_short: true, run: placed },
    Case { name: "group store: the table", is_short: true, run: table::holds },
    Case { name: "group store: kill -9 of an agent, started again in time", is_short: false, run: restart },
    Case { name: "group store: kill -9 of a secondary's agent", is_short: true, run: agent_dies },
    Case { name: "group store: a secondary's agent hangs", is_short: false, run: agent_hangs },
    Case { name: "group store: a planned switch", is_short: true, run: switched },
    Case { name: "group store: kill -9 of the primary", is_short: false, run: primary_dies },
    Case { name: "group store: the primary's host is cut off", is_short: false, run: primary_is_cut_off },
];

/// With `on_store_loss = "failsafe"`.
pub(super) const FAILSAFE: &[Case<Agents>] =
    &[Case { name: "group store, failsafe: kill -9 of the primary", is_short: false, run: reads_stay }];

/// A secondary's host and its read VIP.
fn a_secondary(world: &Agents) -> Result<(usize, usize)> {
    until(LIMIT, "all virtual IPs in their places", || Ok(world.is_placed()))?;
    let at = world.watches[1].holder().context("nobody has it")?;
    Ok((1, at))
}

/// Nobody says that the agent is gone: its beat stays as it is.
fn agent_dies(world: &mut Agents) -> Result<Row> {
    let (vip, lost) = a_secondary(world)?;
    let since = Instant::now();
    world.processes[lost] = None;
    until(LIMIT, "the read VIP on another host", || {
        Ok(world.watches[vip].holder().is_some_and(|at| at != lost))
    })?;
    let took = since.elapsed();
    ensure!(took < WAIT, "another host has it after {took:?}");
    let gap = world.watches[vip].gap_since(since);
    ensure!(!gap.is_zero(), "the address was not gone before another host had it");
    world.processes[lost] = Some(world.start_agent(lost)?);
    until(LIMIT, "all virtual IPs in their places", || Ok(world.is_placed()))?;
    Ok(Row { case: "", gap, note: format!("on another host {} ms after the kill", took.as_millis()) })
}

/// It believes that it holds the address when it goes on.
fn agent_hangs(world: &mut Agents) -> Result<Row> {
    let (vip, lost) = a_secondary(world)?;
    let agent = world.processes[lost].as_ref().context("no agent")?;
    let since = Instant::now();
    signal(agent, Signal::STOP)?;
    let moved = until(LIMIT, "the read VIP on another host", || {
        Ok(world.watches[vip].holder().is_some_and(|at| at != lost))
    });
    let took = since.elapsed();
    signal(agent, Signal::CONT)?;
    moved?;
    ensure!(took < WAIT, "another host has it after {took:?}");
    until(LIMIT, "all virtual IPs in their places", || Ok(world.is_placed()))?;
    let gap = world.watches[vip].gap_since(since);
    Ok(Row { case: "", gap, note: format!("on another host {} ms after the signal", took.as_millis()) })
}

/// The group's own switch: no beat is lost, as a renewal looks for the new primary.
fn switched(world: &mut Agents) -> Result<Row> {
    until(LIMIT, "all virtual IPs in their places", || Ok(world.is_placed()))?;
    let (old, new) = (world.primary, (world.primary + 1) % 3);
    let servers = &world.cluster.servers;
    let id = servers[new].query("SELECT @@server_uuid")?;
    let since = Instant::now();
    servers[old].query(&format!("SELECT group_replication_set_as_primary('{}')", id.trim()))?;
    let took = since.elapsed();
    world.primary = new;
    until(LIMIT, "all virtual IPs in their new places", || Ok(world.is_placed()))?;
    ensure!(world.value(0, "SELECT @@super_read_only")? == "0", "the write VIP leads to a secondary");
    Ok(Row {
        case: "",
        gap: world.watches[0].gap_since(since),
        note: format!(
            "the group took {} ms, all placed after {} ms",
            took.as_millis(),
            since.elapsed().as_millis()
        ),
    })
}

/// Epochs grow over a change of the primary.
fn epoch(world: &Agents) -> Result<u64> {
    let server = &world.cluster.servers[world.primary];
    let text = server.query("SELECT epoch FROM delphinus.lease_keys WHERE name = 'vips/v100'")?;
    text.trim().parse().context("no epoch of the write VIP")
}

fn primary_dies(world: &mut Agents) -> Result<Row> {
    until(LIMIT, "all virtual IPs in their places", || Ok(world.is_placed()))?;
    let before = epoch(world)?;
    let since = Instant::now();
    let mut row = agents::primary_dies(world)?;
    let after = epoch(world)?;
    ensure!(after > before, "the epoch was {before}, and is {after}");
    let reads = world.watches[1].gap_since(since);
    row.note = format!("{}; a read VIP was nowhere for {} ms", row.note, reads.as_millis());
    Ok(row)
}

/// No lease is renewed while the group elects; the agents promise each other to take nothing over.
fn reads_stay(world: &mut Agents) -> Result<Row> {
    until(LIMIT, "all virtual IPs in their places", || Ok(world.is_placed()))?;
    // Longer than the members take to let each other into the list.
    thread::sleep(Duration::from_secs(3));
    let lost = world.primary;
    let holders: Vec<_> = world.watches.iter().map(super::watch::Watch::holder).collect();
    let since = Instant::now();
    world.cluster.servers[lost].kill9();
    let primary = crate::poll::eventually(LIMIT, "another primary", || elected(world, lost).map(Some))?;
    let elected_after = since.elapsed();
    for reads in [1, 2] {
        let gap = world.watches[reads].gap_since(since);
        ensure!(
            world.watches[reads].holder() == holders[reads] && gap.is_zero(),
            "a read VIP was nowhere for {gap:?}"
        );
    }
    world.primary = primary;
    until(LIMIT, "the write VIP on its host", || Ok(world.watches[0].holder() == Some(primary)))?;
    let moved_after = since.elapsed();
    let after_election = moved_after.saturating_sub(elected_after);
    ensure!(after_election < WAIT, "{after_election:?} after the election");
    let gap = world.watches[0].gap_since(since);
    world.cluster.servers[lost].start_again()?;
    until(LIMIT, "all virtual IPs in their places", || Ok(world.is_placed()))?;
    Ok(Row {
        case: "",
        gap,
        note: format!(
            "elected after {} ms, the write VIP is there after {} ms; the read VIPs stayed",
            elected_after.as_millis(),
            moved_after.as_millis()
        ),
    })
}

/// The old primary's COMMIT hangs: its address goes by itself, long before the group has elected another.
fn primary_is_cut_off(world: &mut Agents) -> Result<Row> {
    until(LIMIT, "all virtual IPs in their places", || Ok(world.is_placed()))?;
    let lost = world.primary;
    let since = Instant::now();
    world.machines.cut_off(lost)?;
    let gone = until(LIMIT, "the write VIP nowhere", || Ok(world.watches[0].holder().is_none()));
    let took = since.elapsed();
    let is_early = elected(world, lost).is_err();
    if gone.is_err() || took > WAIT {
        world.machines.join(lost)?;
        gone?;
        ensure!(took < WAIT, "the address was still there after {took:?}");
    }
    // Its sessions hang in COMMIT; they must not become many.
    thread::sleep(Duration::from_secs(3));
    let hanging = world.cluster.servers[lost]
        .query("SELECT COUNT(*) FROM information_schema.processlist WHERE user = 'lease'");
    let primary = crate::poll::eventually(LIMIT, "another primary", || elected(world, lost).map(Some));
    let elected_after = since.elapsed();
    let moved = primary.and_then(|primary| {
        world.primary = primary;
        until(LIMIT, "the write VIP on its host", || Ok(world.watches[0].holder() == Some(primary)))
    });
    let moved_after = since.elapsed();
    let gap = world.watches[0].gap_since(since);
    let answer = world.value(0, "SELECT @@super_read_only");
    world.machines.join(lost)?;
    moved?;
    ensure!(answer? == "0", "the write VIP leads to a secondary");
    let hanging: u32 = hanging?.trim().parse()?;
    ensure!(hanging <= 5, "{hanging} sessions hang on the old primary");
    let after_election = moved_after.saturating_sub(elected_after);
    ensure!(after_election < WAIT, "{after_election:?} after the election");
    Ok(Row {
        case: "",
        gap,
        note: format!(
            "gone after {} ms ({} the election), elected after {} ms, there after {} ms; {hanging} sessions of agents on the old \
             primary",
            took.as_millis(),
            if is_early { "before" } else { "after" },
            elected_after.as_millis(),
            moved_after.as_millis()
        ),
    })
}
