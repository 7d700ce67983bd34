//! Delphinus, as its users run it: splitting, pooling, digests and metrics are on.

use std::fs;

use anyhow::{Context, Result};
use delphinus_sandbox::{PortLease, Server};
use serde_json::json;
use toml::Table;

use super::{MAX_CONNECTIONS, Peer, Program, Site, System, version_of};

pub(super) fn prepare(site: &Site<'_>) -> Result<Peer> {
    let path = fs::canonicalize(&site.delphinus)
        .with_context(|| format!("no program at {}", site.delphinus.display()))?;
    let folder = site.folder("delphinus")?;
    let port = PortLease::take()?;
    let file = folder.join("delphinus.toml");
    let text = toml::to_string(&configuration(site, port.port(), &folder.display().to_string())?)?;
    fs::write(&file, text)?;
    let arguments = vec!["run".to_owned(), format!("--config={}", file.display())];
    Ok(Peer {
        system: System::Delphinus,
        version: version_of(&path, "--version")?,
        program: Some(Program { path, arguments }),
        folder,
        read_port: port.port(),
        write_port: Some(port.port()),
        _leases: vec![port],
    })
}

fn configuration(site: &Site<'_>, port: u16, folder: &str) -> Result<Table> {
    let backend = |server: &Server| {
        let address = format!("{}:{}", server.host, server.port);
        // No system uses TLS here: HAProxy could not look inside, and the others would measure the cipher.
        json!({ "name": server.name, "address": address, "role": server.role, "tls": "disabled" })
    };
    let cluster = site.cluster;
    let backends: Vec<_> = cluster.servers.iter().map(backend).collect();
    let settings = json!({
        "proxy": {
            "data_dir": format!("{folder}/data"),
            "shutdown_timeout_ms": 1000,
            "max_connections": MAX_CONNECTIONS,
        },
        "listener": [{ "name": "main", "address": format!("127.0.0.1:{port}") }],
        "user": [{ "name": cluster.app_user, "password": cluster.app_password }],
        "cluster": { "topology": "static", "flavor": "auto", "backend": backends },
        "monitor": { "user": cluster.monitor_user, "password": cluster.monitor_password },
    });
    Table::try_from(settings).context("cannot write the configuration as TOML")
}
