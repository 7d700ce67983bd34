//! The configuration of one of the two proxies: that of docs/ha.md and docs/switchover.md.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use serde_json::json;
use toml::Table;

use super::Site;
use crate::accounts::REPL;
use crate::demo::settings::{OPERATOR, lay_over};
use crate::flavor::Flavor;
use crate::server::Server;

/// Where clients come; nothing else is on the machines.
pub(super) const PORT: u16 = 6446;
pub(super) const ADMIN_PORT: u16 = 6447;
/// The virtual IP's name.
pub(super) const VIP: &str = "apps";

/// A configuration file in the cluster's folder.
pub(super) struct Settings {
    path: PathBuf,
    log: PathBuf,
}

impl Settings {
    /// Writes it for the proxy of this number and name, with the user's own lines over it.
    pub(super) fn write(site: &Site<'_>, which: (usize, &str), overlay: Option<Table>) -> Result<Self> {
        let mut table = own(site, which)?;
        if let Some(overlay) = overlay {
            lay_over(&mut table, overlay);
        }
        let dir = site.cluster.dir();
        let path = dir.join(format!("{}.toml", which.1));
        let text = toml::to_string(&table).context("cannot write the configuration as TOML")?;
        fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))?;
        Ok(Self { path, log: dir.join(format!("{}.log", which.1)) })
    }

    /// The configuration, and the file for the log.
    pub(super) fn files(&self) -> (&Path, &Path) {
        (&self.path, &self.log)
    }
}

/// What the configurations call a server: its role may move, and a server called `primary` that is none confuses.
pub(super) fn backend_name(index: usize) -> String {
    format!("db{}", index + 1)
}

fn own(site: &Site<'_>, (index, name): (usize, &str)) -> Result<Table> {
    let cluster = site.cluster;
    let dir = cluster.dir().display();
    let is_group = cluster.flavor == Flavor::Group;
    let backend = |(index, server): (usize, &Server)| {
        let address = format!("{}:{}", server.host, server.port);
        // The machines are no more than parts of this demo: there is nobody between them.
        json!({ "name": backend_name(index), "address": address, "trust_server_certificate": true })
    };
    let backends: Vec<_> = cluster.servers.iter().enumerate().map(backend).collect();
    let own = site.network.machine(index).host;
    let settings = json!({
        "proxy": { "data_dir": format!("{dir}/{name}"), "shutdown_timeout_ms": 1000 },
        "listener": [{ "name": "main", "address": format!("0.0.0.0:{PORT}") }],
        "user": [{ "name": cluster.app_user, "password": cluster.app_password }],
        "cluster": {
            "topology": if is_group { "group_replication" } else { "read_only" },
            "backend": backends,
            "failover": {
                "user": cluster.admin_user,
                "password": cluster.admin_password,
                "replication_user": REPL.user,
                "replication_password": REPL.password,
                // A group chooses its primary itself.
                "auto_failover": !is_group,
                // Whoever plays with it kills more than one in an hour.
                "pause_s": 10,
            },
        },
        "monitor": { "user": cluster.monitor_user, "password": cluster.monitor_password },
        "admin": {
            "addresses": [format!("unix:{dir}/{name}.sock"), format!("{own}:{ADMIN_PORT}")],
            "tls": "required",
            "user": [{ "name": OPERATOR, "password": cluster.app_password, "role": "admin" }],
        },
        "lease": { "store": "etcd", "endpoints": [site.store.endpoint], "member": name },
        "vip": [{ "name": VIP, "addresses": [site.network.virtual_ip().to_string()] }],
    });
    Table::try_from(settings).context("cannot write the configuration as TOML")
}
