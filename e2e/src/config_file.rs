//! Writes the proxy's configuration file for a cluster.

use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use delphinus_sandbox::{APP2, Cluster, NOPW, Role};

/// What a test changes: lines for the sections that it cares about; the rest is the same for all.
#[derive(Debug, Clone, Default)]
pub struct ConfigFile {
    /// Lines of `[proxy]`, for example `workers = 1`.
    pub proxy: Vec<String>,
    /// Lines of `[pool]`, for example `max_connections = 4`.
    pub pool: Vec<String>,
    /// Lines of the TCP listener, for example `compression_algorithms = ["zlib"]`.
    pub listener: Vec<String>,
    /// Lines of the listener on a Unix socket.
    pub unix_listener: Vec<String>,
    /// Lines of each backend, for example `compression = "zlib"`.
    pub backend: Vec<String>,
    /// Lines of single backends, in the order of the servers, for example `weight = 300`.
    pub each_backend: Vec<String>,
    /// Lines of the cluster, which is one of several then: the others are among the sections.
    pub cluster: Vec<String>,
    /// How roles are known, if not as the servers have begun: "read_only" or "group_replication".
    pub topology: Option<&'static str>,
    /// Lines of `[monitor]`; without any, probes come every 200 ms.
    pub monitor: Vec<String>,
    /// The primary alone, reached over this Unix socket.
    pub only_primary_at: Option<PathBuf>,
    /// The proxy's port is a smaller one.
    pub port_below: Option<u16>,
    /// What the proxy takes for `/etc/hosts`.
    pub hosts: Option<PathBuf>,
    /// A directory below the proxy's that is a disk of its own, and the size of that.
    pub small_disk: Option<(&'static str, &'static str)>,
    /// A fault that is planted in the proxy (`DELPHINUS_PLANT`): a debug build does that wrong.
    pub planted: Option<&'static str>,
    /// How many of the servers are listed, if not all.
    pub seeds: Option<usize>,
    /// Where single backends are reached, in the order of the servers, if not where they are.
    pub addresses: Vec<String>,
    /// Names and passwords of users beside those that every server of the sandbox has.
    pub users: Vec<(String, String)>,
    /// Whole further sections, for example `[authentication]` and what belongs to it.
    pub sections: Vec<String>,
}

impl ConfigFile {
    /// Lines for `[pool]` and the defaults for the rest.
    pub fn with_pool(lines: &[&str]) -> Self {
        Self { pool: owned(lines), ..Self::default() }
    }

    /// Lines for `[proxy]` and the defaults for the rest.
    pub fn with_proxy(lines: &[&str]) -> Self {
        Self { proxy: owned(lines), ..Self::default() }
    }

    /// Whole further sections and the defaults for the rest.
    pub fn with_sections(sections: &str) -> Self {
        Self { sections: vec![sections.to_owned()], ..Self::default() }
    }

    /// Writes the file into `dir`, with a TCP and a Unix-socket listener.
    pub(crate) fn write(&self, cluster: &Cluster, dir: &Path, at: (u16, &Path)) -> Result<PathBuf> {
        let path = dir.join("delphinus.toml");
        let text = self.text(cluster, dir, at).context("cannot write the configuration")?;
        fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))?;
        Ok(path)
    }

    fn text(&self, cluster: &Cluster, dir: &Path, (port, socket): (u16, &Path)) -> Result<String> {
        let mut text = format!("[proxy]\ndata_dir = \"{}\"\n{}\n", dir.display(), self.proxy.join("\n"));
        if !self.proxy.iter().any(|line| line.starts_with("workers")) {
            // On a machine of two cores the default is 1, and what workers do to each other would not be seen.
            text.push_str("workers = 2\n");
        }
        write!(text, "\n[[listener]]\naddress = \"127.0.0.1:{port}\"\n{}\n", self.listener.join("\n"))?;
        write!(text, "\n[[listener]]\naddress = \"unix:{}\"\n", socket.display())?;
        writeln!(text, "{}", self.unix_listener.join("\n"))?;
        let app = (cluster.app_user.as_str(), cluster.app_password.as_str());
        let others = [APP2, NOPW].map(|account| (account.user, account.password));
        let own = self.users.iter().map(|(name, password)| (name.as_str(), password.as_str()));
        for (name, password) in [app].into_iter().chain(others).chain(own) {
            write!(text, "\n[[user]]\nname = \"{name}\"\npassword = \"{password}\"\n")?;
        }
        let head = if self.cluster.is_empty() { "[cluster]" } else { "[[cluster]]" };
        write!(text, "\n{head}\n{}\n", self.cluster.join("\n"))?;
        if let Some(topology) = self.topology {
            writeln!(text, "topology = \"{topology}\"")?;
        }
        let seeds = self.seeds.unwrap_or(cluster.servers.len());
        for (index, server) in cluster.servers.iter().enumerate().take(seeds) {
            let role = if server.role == Role::Primary { "primary" } else { "replica" };
            write!(text, "\n[[cluster.backend]]\nname = \"{}\"\n", server.name)?;
            if self.topology.is_none() {
                writeln!(text, "role = \"{role}\"")?;
            }
            if let Some(socket) = &self.only_primary_at {
                writeln!(text, "address = \"unix:{}\"", socket.display())?;
                break;
            }
            let own = format!("{}:{}", server.host, server.port);
            let address = self.addresses.get(index).unwrap_or(&own);
            writeln!(text, "address = \"{address}\"\n{}", self.backend.join("\n"))?;
            writeln!(text, "{}", self.each_backend.get(index).map_or("", String::as_str))?;
        }
        let monitor = if self.monitor.is_empty() { "interval_ms = 200" } else { &self.monitor.join("\n") };
        let (user, password) = (&cluster.monitor_user, &cluster.monitor_password);
        write!(text, "\n[monitor]\nuser = \"{user}\"\npassword = \"{password}\"\n{monitor}\n")?;
        write!(text, "\n[pool]\n{}\n", self.pool.join("\n"))?;
        write!(text, "\n{}\n", self.sections.join("\n"))?;
        Ok(text)
    }
}

fn owned(lines: &[&str]) -> Vec<String> {
    lines.iter().map(|line| (*line).to_owned()).collect()
}
