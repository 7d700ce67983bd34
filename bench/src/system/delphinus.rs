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
    let mut settings = configuration(site, port.port(), &folder.display().to_string())?;
    let program = |name: &str, settings: &Table| -> Result<Program> {
        let file = folder.join(name);
        fs::write(&file, toml::to_string(settings)?)?;
        let arguments = vec!["run".to_owned(), format!("--config={}", file.display())];
        Ok(Program { path: path.clone(), arguments })
    };
    let as_usual = program("delphinus.toml", &settings)?;
    settings.insert("pool".to_owned(), toml::toml! { hold_ms = 0 }.into());
    let without_hold = program("without-hold.toml", &settings)?;
    Ok(Peer {
        system: System::Delphinus,
        version: version_of(&path, "--version")?,
        program: Some(as_usual),
        without_hold: Some(without_hold),
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
