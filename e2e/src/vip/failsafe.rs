//! `on_store_loss = "failsafe"`: a holder that has lost the store stays as long as the other members promise to take nothing over.

use std::net::Ipv4Addr;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use rustix::process::Signal;

use super::proxies::{ETCD, Proxies};
use super::world::LIMIT;
use super::{Case, Row};
use crate::certificates::Authority;
use crate::poll::until;

pub(super) const CASES: &[Case<Proxies>] = &[
    Case { name: "failsafe: etcd hangs", is_short: true, run: store_hangs },
    Case { name: "failsafe: the holder alone loses etcd", is_short: false, run: holder_loses_store },
    Case { name: "failsafe: etcd hangs and a member is killed", is_short: true, run: member_is_missing },
    Case {
        name: "failsafe: a member comes back when the holder is dead",
        is_short: false,
        run: comes_back_alone,
    },
];

/// The HTTP door of each member.
const HTTP: u16 = 6_480;

/// Lines of `[lease]`, and the door by which the members ask each other, as docs/ha.md has it: by TLS, and each verifies the other.
pub(super) fn options(members: &Authority, folder: &Path, address: Ipv4Addr) -> Result<(String, String)> {
    let token = "a-token-of-the-members-0123456789";
    let own = members.certify(folder, (&format!("member-{address}"), &address.to_string()), None)?;
    let lease = format!(
        "on_store_loss = \"failsafe\"\nfailsafe_address = \"https://{address}:{HTTP}\"\nfailsafe_token = \"{token}\"\nfailsafe_ca = \"{}\"\n",
        members.file.display()
    );
    let door = format!(
        "[http]\naddresses = [\"{address}:{HTTP}\"]\ntls_cert = \"{}\"\ntls_key = \"{}\"\n\
         [[http.token]]\nname = \"members\"\ntoken = \"{token}\"\nrole = \"operator\"\n",
        own.cert.display(),
        own.key.display()
    );
    Ok((lease, door))
}

/// Longer than any lease.
const LONG: Duration = Duration::from_secs(14);

/// It stays where it is, and works, for long.
fn stays(world: &Proxies, holder: usize, since: Instant) -> Result<()> {
    while since.elapsed() < LONG {
        ensure!(world.holder()? == holder, "the address has moved after {:?}", since.elapsed());
        world.connect()?.query("SELECT 1")?;
        thread::sleep(Duration::from_millis(200));
    }
    let gap = world.watches[0].gap_since(since);
    ensure!(gap.is_zero(), "the address was nowhere for {gap:?}");
    Ok(())
}

fn store_hangs(world: &mut Proxies) -> Result<Row> {
    let holder = world.holder()?;
    let since = Instant::now();
    world.etcd.signal(Signal::STOP)?;
    let stayed = stays(world, holder, since);
    world.etcd.signal(Signal::CONT)?;
    stayed?;
    // Its lease is gone there, too: it takes its keys again before anybody else does.
    stays(world, holder, Instant::now()).context("after etcd went on")?;
    Ok(Row { case: "", gap: Duration::ZERO, note: "it stayed, also when etcd went on".to_owned() })
}

fn holder_loses_store(world: &mut Proxies) -> Result<Row> {
    let holder = world.holder()?;
    let since = Instant::now();
    world.machines.cut(holder, ETCD)?;
    let stayed = stays(world, holder, since);
    world.machines.mend(holder)?;
    stayed?;
    stays(world, holder, Instant::now()).context("when it saw etcd again")?;
    Ok(Row {
        case: "",
        gap: Duration::ZERO,
        note: "it stayed, although the other one saw that it was free".to_owned(),
    })
}

fn member_is_missing(world: &mut Proxies) -> Result<Row> {
    let holder = world.holder()?;
    world.kill(1 - holder);
    let since = Instant::now();
    world.etcd.signal(Signal::STOP)?;
    let gone = until(LIMIT, "the address nowhere", || Ok(world.watches[0].holder().is_none()));
    let took = since.elapsed();
    world.etcd.signal(Signal::CONT)?;
    gone?;
    ensure!(took < Duration::from_secs(8), "it took {took:?}");
    until(LIMIT, "a holder again", || Ok(world.watches[0].holder().is_some()))?;
    let note = format!("it was given up after {} ms, and came back with etcd", took.as_millis());
    Ok(Row { case: "", gap: world.watches[0].gap_since(since), note })
}

/// It was away for longer than its lease. When it is back there is nobody who could let it in again.
fn comes_back_alone(world: &mut Proxies) -> Result<Row> {
    let holder = world.holder()?;
    let other = 1 - holder;
    world.kill(other);
    thread::sleep(Duration::from_secs(8));
    ensure!(world.holder()? == holder, "the address has moved");
    let since = Instant::now();
    world.kill(holder);
    world.start_proxy(other)?;
    until(LIMIT, "the address with the one that came back", || Ok(world.watches[0].holder() == Some(other)))?;
    let took = since.elapsed();
    ensure!(took < Duration::from_secs(20), "it took {took:?}");
    let note = format!("with the one that came back, {} ms after the kill", took.as_millis());
    Ok(Row { case: "", gap: world.watches[0].gap_since(since), note })
}
