//! Two proxies with one lease store before the same servers. Clients work through one of them; the other one acts. It is killed at a step of
//! each failover, and the one with the clients ends what was begun.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use delphinus_sandbox::PortLease;

use super::scene::{LIMIT, Scene};
use crate::client::Client;
use crate::config_file::ConfigFile;
use crate::etcd::Etcd;
use crate::failover::Servers;
use crate::failover_account::{failover_account, failover_section};
use crate::operators::Operators;
use crate::poll::until;
use crate::proxy::Proxy;
use crate::stage::start_proxy;

/// The names of the two, as the store has them.
const ACTS: &str = "acts";
const SERVES: &str = "serves";

/// When it is killed: as soon as its log says this, or that the move is at its end. Each failover has another moment.
const MOMENTS: [&str; 9] = [
    "a move begins",
    "step=\"end earlier connections\"",
    "step=\"give up the primary\"",
    "step=\"stop receiving\"",
    "step=\"stop following\"",
    "step=\"set semi-sync\"",
    "step=\"follow\"",
    "step=\"take writes\"",
    "step=\"release held transactions\"",
];
const END: &str = "the move is";
/// Whose turn it is, also where the servers had to be built anew.
static TURN: AtomicUsize = AtomicUsize::new(0);

/// Between two looks at the log: a step takes a few milliseconds.
const SOON: Duration = Duration::from_millis(1);

/// The proxy that acts, and the store.
pub(super) struct Actor {
    proxy: Proxy,
    _port: PortLease,
    etcd: Etcd,
    is_dead: bool,
}

/// Starts all of it, with more lines of `[cluster.failover]`.
pub(super) fn set(servers: Servers, more: &[&str]) -> Result<Scene> {
    let cluster = servers.start(Vec::new()).context("the servers do not start")?;
    cluster.servers[0].query(&failover_account(servers.flavor()))?;
    let etcd = Etcd::start()?;
    let endpoint = etcd.endpoint.clone();
    let config = |member: &str, operators: &Operators| {
        let lease = format!(
            "[lease]\nstore = \"etcd\"\nendpoints = [\"{endpoint}\"]\nmember = \"{member}\"\nttl_s = 3\n"
        );
        ConfigFile {
            topology: Some(servers.topology()),
            monitor: vec!["interval_ms = 1000".to_owned()],
            sections: vec![failover_section(more), operators.section(), lease],
            ..ConfigFile::default()
        }
    };
    let (port, proxy, _) = start_proxy(&cluster, &config(ACTS, &Operators::default()))?;
    let actor = Actor { proxy, _port: port, etcd, is_dead: false };
    actor.until_it_acts()?;
    let operators = Operators::default();
    let serving = start_proxy(&cluster, &config(SERVES, &operators))?;
    Ok(Scene { actor: Some(actor), ..Scene::from_parts(serving, cluster, operators) })
}

impl Actor {
    /// The primary is dead: it begins a failover, and is killed at the next of the moments.
    pub(super) fn dies(&mut self) -> Result<()> {
        let moment = MOMENTS[TURN.fetch_add(1, Ordering::Relaxed) % MOMENTS.len()];
        let mark = self.proxy.log().len();
        let deadline = Instant::now() + LIMIT;
        let told = loop {
            let log = self.proxy.log();
            let told = log.get(mark..).unwrap_or_default();
            if told.contains(moment) || told.contains(END) {
                break told.to_owned();
            }
            ensure!(Instant::now() < deadline, "no \"{moment}\" within {LIMIT:?}:\n{told}");
            thread::sleep(SOON);
        };
        self.proxy.kill();
        self.is_dead = true;
        let missed = if told.contains(moment) { "" } else { ", which there was not" };
        eprintln!("the proxy that acts is killed after: {moment}{missed}");
        Ok(())
    }

    /// The other one has ended what was begun. Nothing of it is left for a third one.
    pub(super) fn until_it_is_ended(&self) -> Result<()> {
        let key = "/delphinus/main/journal/main/switchover";
        let is_over = || Ok(self.etcd.ask(&["get", "--keys-only", key])?.trim().is_empty());
        until(LIMIT, "the end of the failover", is_over)
    }

    fn until_it_acts(&self) -> Result<()> {
        until(LIMIT, "the proxy that is to act", || Ok(self.who()? == ACTS))
    }

    /// The name of the one that acts; empty while none does.
    fn who(&self) -> Result<String> {
        Ok(self.etcd.ask(&["get", "--print-value-only", "/delphinus/main/actor/main"])?.trim().to_owned())
    }

    fn start_again(&mut self) -> Result<()> {
        let ready = |proxy: &Proxy| proxy.log().matches("ready backends=").count();
        let before = ready(&self.proxy);
        self.proxy.start_again()?;
        self.is_dead = false;
        until(LIMIT, "the proxy that was killed", || Ok(ready(&self.proxy) > before))
    }

    /// Takes the role's key back from the other proxy, whose operator this is: that one agrees with nobody for a moment. Its sessions go on.
    fn act_again(&self, operator: &mut Client) -> Result<()> {
        operator.query("SET lease.prefix = '/apart'")?;
        self.until_it_acts()?;
        operator.query("SET lease.prefix = '/delphinus'").map(drop)
    }
}

impl Scene {
    /// The proxy that was killed runs again, and acts.
    pub(super) fn has_actor_again(&mut self) -> Result<()> {
        let mut operator = self.operator()?;
        let Some(actor) = &mut self.actor else { return Ok(()) };
        if !actor.is_dead {
            return Ok(());
        }
        actor.start_again()?;
        actor.act_again(&mut operator)
    }
}
