//! The bare relay of this program itself: what passing on bytes costs here.

use anyhow::{Context, Result};
use delphinus_kernel::Sender;
use delphinus_sandbox::PortLease;

use super::{Peer, Program, Site, System};

pub(super) fn prepare(site: &Site<'_>) -> Result<Peer> {
    Sender::new().context("the kernel has no io_uring, or does not let this process use it")?;
    let port = PortLease::take()?;
    let mut arguments = vec!["relay".to_owned(), format!("--listen=127.0.0.1:{}", port.port())];
    arguments
        .extend(site.readers().iter().map(|server| format!("--backend={}:{}", server.host, server.port)));
    Ok(Peer {
        system: System::Relay,
        version: "no proxy, but what passing on bytes costs: bench/src/relay.rs".to_owned(),
        program: Some(Program { path: std::env::current_exe()?, arguments }),
        without_hold: None,
        folder: site.folder("relay")?,
        read_port: port.port(),
        write_port: None,
        _leases: vec![port],
    })
}
