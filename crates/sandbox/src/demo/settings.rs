//! The proxy's configuration file for the demo, and the user's own lines over it.

use std::fmt::Write;
use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use serde_json::json;
use toml::{Table, Value};

use crate::accounts::REPL;
use crate::cluster::Cluster;
use crate::flavor::Flavor;
use crate::ports::PortLease;
use crate::server::Server;

/// A configuration file in the cluster's folder.
pub(super) struct Settings {
    /// What is in the file.
    pub(super) table: Table,
    pub(super) path: PathBuf,
    /// Where the proxy writes its log.
    pub(super) log: PathBuf,
    /// Where the relay listens, if there is one.
    pub(super) relay_port: Option<u16>,
    /// Keep the listeners' ports for the proxy.
    _ports: [PortLease; 4],
}

/// The demo's operator.
pub(super) const OPERATOR: &str = "operator";

impl Settings {
    /// Writes the demo's configuration, with a relay if there is to be one, and with the overlay laid over it.
    pub(super) fn write(cluster: &Cluster, overlay: Option<Table>, has_relay: bool) -> Result<Self> {
        let ports = [PortLease::take()?, PortLease::take()?, PortLease::take()?, PortLease::take()?];
        let topology = topology(cluster.flavor, overlay.as_ref());
        let [port, admin, http, relay] = ports.each_ref().map(PortLease::port);
        let mut table = own(cluster, topology, [port, admin, http])?;
        let relay_port = has_relay.then_some(relay);
        if let Some(port) = relay_port {
            lay_over(&mut table, self::relay(cluster, port)?);
        }
        if let Some(overlay) = overlay {
            lay_over(&mut table, overlay);
        }
        let path = cluster.dir().join("delphinus.toml");
        let text = toml::to_string(&table).context("cannot write the configuration as TOML")?;
        fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))?;
        Ok(Self { table, path, log: cluster.dir().join("delphinus.log"), relay_port, _ports: ports })
    }
}

/// Reads the file that is laid over the demo's configuration.
pub(super) fn read_overlay(path: &Path) -> Result<Table> {
    let text = fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
    text.parse().with_context(|| format!("{} is not TOML", path.display()))
}

/// How roles are known: as the user's own lines say, or else so that the proxy follows what the servers do by themselves.
fn topology(flavor: Flavor, overlay: Option<&Table>) -> &str {
    let own = match flavor {
        Flavor::Group => "group_replication",
        Flavor::MariaDb | Flavor::MySql => "static",
    };
    let wanted = overlay.and_then(|table| table.get("cluster")?.get("topology")?.as_str());
    wanted.unwrap_or(own)
}

fn own(cluster: &Cluster, topology: &str, [port, admin_port, http_port]: [u16; 3]) -> Result<Table> {
    let dir = cluster.dir().display();
    let backend = |server: &Server| {
        let address = format!("{}:{}", server.host, server.port);
        // Elsewhere roles move, and are not configured.
        if topology == "static" {
            json!({ "name": server.name, "address": address, "role": server.role })
        } else {
            json!({ "name": server.name, "address": address })
        }
    };
    let backends: Vec<_> = cluster.servers.iter().map(backend).collect();
    let settings = json!({
        // The demo must not make anybody wait at its end.
        "proxy": { "data_dir": format!("{dir}/delphinus"), "shutdown_timeout_ms": 1000 },
        "listener": [
            { "name": "main", "address": format!("127.0.0.1:{port}") },
            { "name": "socket", "address": format!("unix:{dir}/delphinus.sock") },
        ],
        "user": [{ "name": cluster.app_user, "password": cluster.app_password }],
        "cluster": { "topology": topology, "flavor": "auto", "backend": backends },
        "admin": {
            "addresses": [format!("127.0.0.1:{admin_port}"), format!("unix:{dir}/admin.sock")],
            // As secret as the application's, which is in the same file.
            "user": [{ "name": OPERATOR, "password": cluster.app_password, "role": "admin" }],
        },
        "http": {
            "addresses": [format!("127.0.0.1:{http_port}")],
            "token": [{ "name": "demo", "token": random_token()?, "role": "admin" }],
        },
        "monitor": { "user": cluster.monitor_user, "password": cluster.monitor_password },
    });
    Table::try_from(settings).context("cannot write the configuration as TOML")
}

/// A relay behind the primary.
fn relay(cluster: &Cluster, port: u16) -> Result<Table> {
    let primary = cluster.servers.first().context("a cluster has a primary")?;
    let settings = json!({
        "relay": [{
            "name": "demo",
            "folder": format!("{}/relay", cluster.dir().display()),
            "source": format!("{}:{}", primary.host, primary.port),
            "source_user": REPL.user,
            "source_password": REPL.password,
            "server_id": 1000,
            "addresses": [format!("127.0.0.1:{port}")],
            "user": [{ "name": REPL.user, "password": REPL.password }],
        }],
    });
    Table::try_from(settings).context("cannot write the relay's configuration as TOML")
}

/// 64 hexadecimal digits.
fn random_token() -> Result<String> {
    let mut bytes = [0; 32];
    fs::File::open("/dev/urandom")
        .and_then(|mut random| random.read_exact(&mut bytes))
        .context("/dev/urandom")?;
    let mut token = String::new();
    for byte in bytes {
        write!(token, "{byte:02x}")?;
    }
    Ok(token)
}

/// Tables are merged, at every depth; everything else is replaced, arrays as a whole.
pub(super) fn lay_over(below: &mut Table, above: Table) {
    for (key, value) in above {
        match (below.get_mut(&key), value) {
            (Some(Value::Table(below)), Value::Table(above)) => lay_over(below, above),
            (_, value) => {
                below.insert(key, value);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_are_merged_and_arrays_replaced() {
        let mut below: Table =
            "a = 1\n[t]\nx = 1\ny = [1, 2]\n[t.deep]\nk = 1\n[[l]]\nn = 1".parse().unwrap();
        let above: Table = "[t]\ny = [3]\n[t.deep]\nj = 2\n[[l]]\nn = 2\n[new]\nz = 0".parse().unwrap();
        lay_over(&mut below, above);
        let expected = "a = 1\n[t]\nx = 1\ny = [3]\n[t.deep]\nk = 1\nj = 2\n[[l]]\nn = 2\n[new]\nz = 0";
        assert_eq!(below, expected.parse::<Table>().unwrap());
    }

    #[test]
    fn a_group_is_followed_unless_the_user_wants_it_otherwise() {
        assert_eq!(topology(Flavor::Group, None), "group_replication");
        assert_eq!(topology(Flavor::MariaDb, Some(&Table::new())), "static");
        let overlay: Table = "[cluster]\ntopology = 'static'".parse().unwrap();
        assert_eq!(topology(Flavor::Group, Some(&overlay)), "static");
    }

    #[test]
    fn a_value_replaces_a_table_and_the_other_way_round() {
        let mut below: Table = "a = 1\n[t]\nx = 1".parse().unwrap();
        lay_over(&mut below, "t = 2\n[a]\nx = 3".parse().unwrap());
        assert_eq!(below, "t = 2\n[a]\nx = 3".parse::<Table>().unwrap());
    }
}
