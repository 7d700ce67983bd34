//! The systems that are measured: what each needs, how it is configured, started and stopped.
//!
//! Each peer brings a [`Peer`]: its program, its configuration, and the ports to use. A peer that cannot be had is left
//! out with a reason that says what to do.

mod delphinus;
mod direct;
mod haproxy;
mod process;
mod proxysql;
mod relay;
mod router;

use std::fmt;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::str::FromStr;

use anyhow::{Context, Result, bail};
use delphinus_sandbox::{Cluster, PortLease, Server, ensure_packages};
use serde::{Deserialize, Serialize};

use crate::load::Target;
use crate::workload::{SCHEMA, Workload};

pub(crate) use process::Running;

/// Busy and idle connections, and some to spare: the limit of every proxy and server.
pub(crate) const MAX_CONNECTIONS: u32 = 11_000;

/// A system by its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum System {
    /// No proxy: the client talks to the server.
    Direct,
    /// What only passes on bytes.
    Relay,
    /// HAProxy in TCP mode.
    Haproxy,
    /// MySQL Router's read-only port.
    RouterRo,
    /// MySQL Router's splitting port.
    RouterSplit,
    /// ProxySQL with its documentation's rules for splitting.
    Proxysql,
    /// Delphinus.
    Delphinus,
}

impl System {
    /// All, in the order of the tables.
    pub const ALL: [Self; 7] = [
        Self::Direct,
        Self::Relay,
        Self::Haproxy,
        Self::RouterRo,
        Self::RouterSplit,
        Self::Proxysql,
        Self::Delphinus,
    ];

    /// The name on the command line and in the results.
    pub fn name(self) -> &'static str {
        match self {
            Self::Direct => "direct",
            Self::Relay => "relay",
            Self::Haproxy => "haproxy",
            Self::RouterRo => "router-ro",
            Self::RouterSplit => "router-split",
            Self::Proxysql => "proxysql",
            Self::Delphinus => "delphinus",
        }
    }

    /// True where each client has a server's connection of its own, if only at first, so that idle clients cost the
    /// server.
    pub(crate) fn is_one_to_one(self) -> bool {
        matches!(self, Self::Direct | Self::Relay | Self::Haproxy | Self::RouterRo | Self::RouterSplit)
    }
}

impl fmt::Display for System {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for System {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<Self> {
        let found = Self::ALL.into_iter().find(|system| system.name() == text);
        let Some(found) = found else {
            bail!("no system {text:?}; there are: {}", Self::ALL.map(Self::name).join(", "));
        };
        Ok(found)
    }
}

/// Where the systems run.
#[derive(Debug)]
pub(crate) struct Site<'a> {
    /// The servers behind all of them.
    pub cluster: &'a Cluster,
    /// The binary to measure.
    pub delphinus: PathBuf,
    /// The machine's cores: threads of every proxy.
    pub cores: usize,
    /// How many files a process may have open.
    pub open_files: u64,
    /// Idle connections that may have a server's connection each.
    pub idle_pairs: usize,
}

impl Site<'_> {
    fn primary(&self) -> &Server {
        &self.cluster.servers[0]
    }

    /// The servers for reading: the replicas, or the primary where it is alone.
    fn readers(&self) -> &[Server] {
        let servers = &self.cluster.servers;
        if servers.len() > 1 { &servers[1..] } else { servers }
    }

    /// Clients that a proxy can take which has a connection to a server for each of them: two files for each, and some
    /// for itself.
    pub(crate) fn most_pairs(&self) -> u64 {
        (self.open_files.saturating_sub(500) / 2).min(u64::from(MAX_CONNECTIONS))
    }

    /// A new folder for a system's files; it goes with the cluster.
    fn folder(&self, name: &str) -> Result<PathBuf> {
        let folder = self.cluster.dir().join(name);
        std::fs::create_dir(&folder)?;
        Ok(folder)
    }

    /// The application's account at this port.
    pub(crate) fn target(&self, port: u16) -> Target {
        Target {
            address: SocketAddr::from((Ipv4Addr::LOCALHOST, port)),
            user: self.cluster.app_user.clone(),
            password: self.cluster.app_password.clone(),
            schema: SCHEMA.to_owned(),
            source: None,
        }
    }
}

/// A program with its arguments.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Program {
    path: PathBuf,
    arguments: Vec<String>,
}

/// A system that is configured and can be started as often as wanted.
#[derive(Debug)]
pub(crate) struct Peer {
    /// Which one.
    pub system: System,
    /// What it says of itself.
    pub version: String,
    program: Option<Program>,
    /// The same without a hold, where there is one.
    without_hold: Option<Program>,
    folder: PathBuf,
    read_port: u16,
    write_port: Option<u16>,
    _leases: Vec<PortLease>,
}

impl Peer {
    /// Brings and configures a system; the error says what to do to have it.
    pub(crate) fn prepare(system: System, site: &Site<'_>) -> Result<Self> {
        match system {
            System::Direct => Ok(direct::prepare(site)),
            System::Relay => relay::prepare(site),
            System::Haproxy => haproxy::prepare(site),
            System::RouterRo | System::RouterSplit => router::prepare(site, system),
            System::Proxysql => proxysql::prepare(site),
            System::Delphinus => delphinus::prepare(site),
        }
    }

    /// Starts it and waits until it answers.
    pub(crate) fn start(&self, site: &Site<'_>, workload: Workload) -> Result<Running> {
        let program = if workload.is_for_all() { &self.program } else { &self.without_hold };
        Running::start(self, program.as_ref(), site)
    }

    /// True if the workload says something about this system.
    pub(crate) fn is_concerned(&self, workload: Workload) -> bool {
        match self.system {
            // Elsewhere it is not small answers, or not the passing on of bytes, that is looked at.
            System::Relay => matches!(workload, Workload::PointSelect(_) | Workload::Sysbench(_)),
            _ => workload.is_for_all() || self.without_hold.is_some(),
        }
    }

    /// The port for a workload; the error says why there is none.
    pub(crate) fn port(&self, workload: Workload) -> Result<u16> {
        if !workload.writes() {
            return Ok(self.read_port);
        }
        match self.write_port {
            Some(port) => Ok(port),
            None => bail!("{} takes no writes", self.system),
        }
    }
}

/// The first line that a program prints, as its version.
fn version_of(program: &Path, argument: &str) -> Result<String> {
    let done = std::process::Command::new(program).arg(argument).output()?;
    let text = [done.stdout, done.stderr].concat();
    let text = String::from_utf8_lossy(&text).into_owned();
    Ok(text.lines().map(str::trim).find(|line| !line.is_empty()).unwrap_or("unknown").to_owned())
}

/// A program of the Debian package of the same name, which is installed where it is missing.
pub(crate) fn debian_program(name: &'static str) -> Result<PathBuf> {
    if find_program(name).is_none() {
        ensure_packages(&[name])?;
    }
    find_program(name).with_context(|| format!("the package {name} is installed, but brings no such program"))
}

/// The full path of a program in PATH or in the folders for system programs.
fn find_program(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let system = ["/usr/local/sbin", "/usr/sbin", "/sbin"].map(PathBuf::from);
    std::env::split_paths(&path).chain(system).map(|dir| dir.join(name)).find(|program| program.is_file())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_reads_back() {
        for system in System::ALL {
            assert_eq!(system.name().parse::<System>().unwrap(), system);
            assert_eq!(serde_json::to_value(system).unwrap(), system.name());
        }
        assert!("router".parse::<System>().unwrap_err().to_string().contains("router-split"));
    }
}
