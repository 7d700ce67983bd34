//! MySQL Router before a cluster, in the place of Delphinus.

use std::fs;
use std::time::Duration;

use anyhow::{Context, Result};
use delphinus_sandbox::{Cluster, PortLease, Router, RouterPlace, RouterPort};

use crate::poll::eventually;
use crate::proxy::Proxy;
use crate::stage::{Address, address_of};

const LIMIT: Duration = Duration::from_secs(30);

/// Starts Router with its splitting port and waits until it answers.
pub(crate) fn start_router(cluster: &Cluster) -> Result<(PortLease, Proxy, Address)> {
    let folder = cluster.dir().join("router");
    fs::create_dir(&folder)?;
    let lease = PortLease::take()?;
    let socket = folder.join("split.sock");
    let place = RouterPlace {
        port: lease.port(),
        machine: None,
        socket: Some(socket.clone()),
        max_connections: 1000,
    };
    let router = Router::bootstrap(cluster, &folder, RouterPort::Split, &place)?;
    let proxy = Proxy::start_program(router.program.clone(), router.arguments(), folder.join("router.log"))?;
    let address = address_of(cluster, lease.port(), socket);
    // It cannot log in for a client where a server does not know the client's password in its cache yet.
    for server in &cluster.servers {
        address_of(cluster, server.port, server.socket.clone()).connect()?;
    }
    let ready = eventually(LIMIT, "MySQL Router to answer", || {
        address.connect()?.rows("SELECT 1")?;
        Ok(Some(()))
    });
    ready.with_context(|| format!("its log:\n{}", proxy.log()))?;
    Ok((lease, proxy, address))
}
