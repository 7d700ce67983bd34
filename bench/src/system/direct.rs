//! No proxy: the primary itself.

use super::{Peer, Site, System};

pub(super) fn prepare(site: &Site<'_>) -> Peer {
    let server = site.primary();
    let said = server.query("SELECT CONCAT(@@version_comment, ' ', @@version)");
    Peer {
        system: System::Direct,
        version: said.unwrap_or_else(|_| "unknown".to_owned()),
        program: None,
        without_hold: None,
        folder: site.cluster.dir().to_owned(),
        read_port: server.port,
        write_port: Some(server.port),
        _leases: Vec::new(),
    }
}
