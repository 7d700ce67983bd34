//! Delphinus and MySQL Router before one Group Replication group at the same time, whose primary is killed: what their clients see.

use std::time::Duration;

use anyhow::{Context, Result};
use delphinus_sandbox::{Cluster, PortLease};

use super::callers::{Callers, Seen};
use super::world::LIMIT;
use crate::client::Login;
use crate::config_file::ConfigFile;
use crate::failover::Servers;
use crate::poll::{eventually, until};
use crate::proxy::Proxy;
use crate::router::start_router;
use crate::stage::{Address, address_of, start_proxy};

const WRITE: &str = "INSERT INTO visits (server_id) VALUES (@@server_id)";
/// A group lets a member go after five seconds at most.
const AFTERWARDS: Duration = Duration::from_secs(2);

pub(super) struct GroupPeers {
    // Dropped in this order.
    processes: [(PortLease, Proxy, Address); 2],
    cluster: Cluster,
}

impl GroupPeers {
    pub(super) fn start() -> Result<Self> {
        let cluster = Servers::Group.start(Vec::new())?;
        let config = ConfigFile {
            topology: Some(Servers::Group.topology()),
            // The proxy's own default: what is measured is what everybody gets.
            monitor: vec!["interval_ms = 1000".to_owned()],
            ..ConfigFile::default()
        };
        let processes = [start_proxy(&cluster, &config)?, start_router(&cluster)?];
        Ok(Self { processes, cluster })
    }

    /// Kills the primary while clients write through both; what those of Delphinus have seen, and those of Router. Both work again then.
    pub(super) fn kill_the_primary(&mut self) -> Result<[Seen; 2]> {
        // A server forgets passwords when it ends, and Router cannot tell it.
        for server in &self.cluster.servers {
            let address = address_of(&self.cluster, server.port, server.socket.clone());
            eventually(LIMIT, "a login", || address.connect().map(Some))?;
        }
        let callers =
            self.processes.each_ref().map(|(_, _, address)| Callers::begin(&Login::new(address), WRITE));
        let all = || callers.iter().all(Callers::are_answered);
        until(LIMIT, "clients that write", || Ok(all())).with_context(|| told(&callers))?;
        let ask = "SELECT MEMBER_PORT FROM performance_schema.replication_group_members WHERE MEMBER_ROLE = 'PRIMARY'";
        let port = self.cluster.servers[0].query(ask)?;
        let primary = self.cluster.servers.iter_mut().find(|server| server.port.to_string() == port.trim());
        let primary = primary.context("the group has no primary")?;
        callers.iter().for_each(Callers::forget);
        primary.kill9();
        let written = until(LIMIT, "clients that write again", || Ok(all()));
        std::thread::sleep(AFTERWARDS);
        let seen = callers.each_ref().map(Callers::seen);
        drop(callers);
        primary.start_again()?;
        written.with_context(|| format!("{seen:?}"))?;
        Ok(seen)
    }
}

/// What clients of both were told.
fn told(callers: &[Callers; 2]) -> String {
    format!("{:?}", callers.each_ref().map(|callers| callers.seen().texts))
}
