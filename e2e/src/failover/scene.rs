//! Servers, a proxy before them, and all that does damage between them.

use anyhow::{Context, Result, ensure};
use delphinus_sandbox::{Cluster, PortLease};

use super::fault::{Case, Fault, Through};
use super::servers::Servers;
use crate::config_file::ConfigFile;
use crate::link::Link;
use crate::machines::{Machines, ensure_own_network};
use crate::proxy::Proxy;
use crate::router::start_router;
use crate::stage::{Address, start_proxy};

/// A replica gets no reads when it is further behind: the default would take too long to see.
const LAG_DOWN_MS: u32 = 3000;

/// What one run takes place in. Fields are dropped in their order.
pub(crate) struct Scene {
    pub(crate) case: Case,
    pub(crate) proxy: Proxy,
    pub(crate) address: Address,
    _port: PortLease,
    pub(crate) cluster: Cluster,
    /// One for each server, if the case needs them.
    pub(crate) links: Vec<Link>,
    /// The same.
    pub(crate) machines: Option<Machines>,
}

impl Scene {
    /// Starts all of it.
    pub(crate) fn set(case: Case) -> Result<Self> {
        let machines = if case.fault.needs_machines() {
            ensure_own_network()?;
            Some(Machines::make(3).context("cannot make network namespaces")?)
        } else {
            None
        };
        let for_servers = machines.as_ref().map(Machines::for_servers).unwrap_or_default();
        let cluster = case.servers.start(for_servers).context("the servers do not start")?;
        let mut links = Vec::new();
        if case.fault.needs_links() {
            for server in &cluster.servers {
                links.push(Link::to(&server.host, server.port)?);
            }
        }
        let (port, proxy, address) = match case.through {
            Through::Delphinus => start_proxy(&cluster, &config(case, &links))?,
            Through::Router => {
                ensure!(links.is_empty(), "Router does not go over relays");
                start_router(&cluster)?
            }
        };
        Ok(Self { case, proxy, address, _port: port, cluster, links, machines })
    }

    pub(crate) fn servers(&self) -> Servers {
        self.case.servers
    }
}

fn config(case: Case, links: &[Link]) -> ConfigFile {
    // The proxy's own default: what is measured is what everybody gets.
    let mut monitor = vec!["interval_ms = 1000".to_owned()];
    if case.fault == Fault::Lag {
        monitor.push(format!("lag_down_ms = {LAG_DOWN_MS}"));
    }
    // Machines have addresses of a network, and certificates that nobody has signed.
    let is_apart = case.fault.needs_machines();
    let backend = if is_apart { vec!["trust_server_certificate = true".to_owned()] } else { Vec::new() };
    ConfigFile {
        backend,
        topology: Some(case.servers.topology()),
        monitor,
        addresses: links.iter().map(|link| format!("127.0.0.1:{}", link.port)).collect(),
        ..ConfigFile::default()
    }
}
