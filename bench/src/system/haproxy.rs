//! HAProxy in TCP mode: one port for the primary, one that balances over the replicas.

use std::fmt::Write;
use std::fs;

use anyhow::Result;
use delphinus_sandbox::{PortLease, Server};

use super::{Peer, Program, Site, System, debian_program, version_of};

pub(super) fn prepare(site: &Site<'_>) -> Result<Peer> {
    let path = debian_program("haproxy")?;
    let folder = site.folder("haproxy")?;
    let (reads, writes) = (PortLease::take()?, PortLease::take()?);
    let file = folder.join("haproxy.cfg");
    fs::write(&file, configuration(site, reads.port(), writes.port())?)?;
    let arguments = ["-db", "-f"].map(str::to_owned).into_iter().chain([file.display().to_string()]);
    Ok(Peer {
        system: System::Haproxy,
        version: version_of(&path, "-v")?,
        program: Some(Program { path, arguments: arguments.collect() }),
        without_hold: None,
        folder,
        read_port: reads.port(),
        write_port: Some(writes.port()),
        _leases: vec![reads, writes],
    })
}

fn configuration(site: &Site<'_>, reads: u16, writes: u16) -> Result<String> {
    let mut text = format!(
        "global\n    nbthread {}\n    maxconn {}\n\n\
         defaults\n    mode tcp\n    timeout connect 10s\n    timeout client 1h\n    timeout server 1h\n",
        site.cores,
        site.most_pairs(),
    );
    for (name, port, servers) in
        [("reads", reads, site.readers()), ("writes", writes, &site.cluster.servers[..1])]
    {
        write!(text, "\nlisten {name}\n    bind 127.0.0.1:{port}\n    balance leastconn\n")?;
        servers.iter().try_for_each(|server: &Server| {
            writeln!(text, "    server {} {}:{}", server.name, server.host, server.port)
        })?;
    }
    Ok(text)
}
