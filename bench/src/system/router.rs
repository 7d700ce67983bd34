//! MySQL Router, bootstrapped against the cluster as its users do; each of its two ports in a process of its own, so
//! that what each needs can be told apart.

use anyhow::Result;
use delphinus_sandbox::{PortLease, Router, RouterPlace, RouterPort};

use super::{MAX_CONNECTIONS, Peer, Program, Site, System, version_of};

pub(super) fn prepare(site: &Site<'_>, system: System) -> Result<Peer> {
    let port = if system == System::RouterRo { RouterPort::ReadOnly } else { RouterPort::Split };
    let folder = site.folder(system.name())?;
    let lease = PortLease::take()?;
    let place =
        RouterPlace { port: lease.port(), machine: None, socket: None, max_connections: MAX_CONNECTIONS };
    let router = Router::bootstrap(site.cluster, &folder, port, &place)?;
    Ok(Peer {
        system,
        version: version_of(&router.program, "--version")?,
        program: Some(Program { path: router.program.clone(), arguments: router.arguments() }),
        without_hold: None,
        folder,
        read_port: lease.port(),
        write_port: (port == RouterPort::Split).then(|| lease.port()),
        _leases: vec![lease],
    })
}
