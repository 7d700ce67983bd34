//! What most tests stand on: a cluster with the proxy before it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use delphinus_sandbox::{Cluster, ClusterSpec, Flavor, PortLease, Silent};

use crate::client::{Client, Login};
use crate::config_file::ConfigFile;
use crate::poll::eventually;
use crate::proxy::Proxy;

/// How long the proxy may take to be ready.
const READY_LIMIT: Duration = Duration::from_secs(30);

/// How long replicas may take to have what the primary has.
const REPLICAS_LIMIT: Duration = Duration::from_secs(30);

/// If set, stages have no proxy and their address is the primary's: to see whether a check fails because of the proxy
/// or because of itself. Tests of the proxy alone fail then.
const DIRECT: &str = "DELPHINUS_E2E_DIRECT";

/// Where and as whom to log in.
#[derive(Debug, Clone)]
pub struct Address {
    /// Host for TCP.
    pub host: String,
    /// Port for TCP.
    pub port: u16,
    /// The Unix socket.
    pub socket: PathBuf,
    /// The application's user.
    pub user: String,
    /// Its password.
    pub password: String,
    /// The schema to start in.
    pub database: String,
}

impl Address {
    /// What the driver programs read.
    pub(crate) fn environment(&self) -> Vec<(&'static str, String)> {
        vec![
            ("DELPHINUS_HOST", self.host.clone()),
            ("DELPHINUS_PORT", self.port.to_string()),
            ("DELPHINUS_SOCKET", self.socket.display().to_string()),
            ("DELPHINUS_USER", self.user.clone()),
            ("DELPHINUS_PASSWORD", self.password.clone()),
            ("DELPHINUS_DATABASE", self.database.clone()),
        ]
    }

    /// Gives a driver program what it reads.
    pub fn give_to<'a>(&self, command: &'a mut Command) -> &'a mut Command {
        command.envs(self.environment())
    }

    /// A login of the kit's client, which shows whole answers, over the Unix socket.
    pub fn login(&self) -> delphinus_testkit::Login {
        delphinus_testkit::Login::new(&self.socket, &self.user, &self.password).schema(&self.database)
    }

    /// A session of our own client, over the Unix socket.
    pub fn connect(&self) -> Result<Client> {
        Client::connect(&Login::new(self))
    }
}

/// A cluster and a proxy before it. Fields may be used and changed at will: a stage belongs to its test.
#[derive(Debug)]
pub struct Stage {
    /// The proxy.
    pub proxy: Option<Proxy>,
    /// How the application reaches the proxy.
    pub address: Address,
    /// The servers.
    pub cluster: Cluster,
    _port: PortLease,
}

impl Stage {
    /// A primary and two replicas, and the proxy with its defaults.
    pub fn start(flavor: Flavor) -> Result<Self> {
        Self::with(flavor, &ConfigFile::default())
    }

    /// A primary and two replicas, and the proxy with these settings.
    pub fn with(flavor: Flavor, config: &ConfigFile) -> Result<Self> {
        Self::with_servers(flavor, &[], config)
    }

    /// The same with more lines for the servers' option files.
    pub fn with_servers(flavor: Flavor, cnf: &[&str], config: &ConfigFile) -> Result<Self> {
        Self::with_config_for(flavor, cnf, |_| Ok(config.clone()))
    }

    /// The same with settings that depend on the servers, which run already.
    pub fn with_config_for(
        flavor: Flavor,
        cnf: &[&str],
        config: impl FnOnce(&Cluster) -> Result<ConfigFile>,
    ) -> Result<Self> {
        let extra_cnf = [
            // Room for the drivers' values of 17 MiB, and LOAD DATA LOCAL, which MySQL refuses unless told otherwise.
            "max_allowed_packet=64M",
            "local_infile=ON",
            // Says which server ran which statement for whom; a table, because its columns can be queried.
            "general_log=ON",
            "log_output=TABLE",
        ];
        let extra_cnf = extra_cnf.iter().chain(cnf).map(|line| (*line).to_owned()).collect();
        let cluster = Cluster::start(&ClusterSpec { flavor, extra_cnf, ..ClusterSpec::default() }, &Silent)?;
        if std::env::var_os(DIRECT).is_some() {
            let address = straight_to_primary(&cluster);
            return Ok(Self { proxy: None, address, cluster, _port: PortLease::take()? });
        }
        let (lease, proxy, address) = start_proxy(&cluster, &config(&cluster)?)?;
        Ok(Self { proxy: Some(proxy), address, cluster, _port: lease })
    }

    /// A second proxy before the same servers.
    pub fn another_proxy(&self, config: &ConfigFile) -> Result<(Proxy, Address, PortLease)> {
        let (lease, proxy, address) = start_proxy(&self.cluster, config)?;
        Ok((proxy, address, lease))
    }

    /// The running proxy.
    pub fn proxy(&mut self) -> Result<&mut Proxy> {
        self.proxy.as_mut().context("the proxy was stopped")
    }

    /// Straight to the primary, for what must be compared with the proxy.
    pub fn primary_address(&self) -> Address {
        straight_to_primary(&self.cluster)
    }

    /// Waits until all servers answer a question the same; that there is nothing to ask is an answer, too.
    pub fn wait_for_replicas(&self, question: &str) -> Result<()> {
        eventually(REPLICAS_LIMIT, "the replicas to follow", || {
            let answers: Vec<_> = self.cluster.servers.iter().map(|one| one.query(question).ok()).collect();
            Ok(answers.iter().all(|answer| *answer == answers[0]).then_some(()))
        })
    }

    /// A number that a server counts, such as `Aborted_clients`.
    pub fn status(&self, server: usize, name: &str) -> Result<u64> {
        let row = self.cluster.servers[server].query(&format!("SHOW GLOBAL STATUS LIKE '{name}'"))?;
        let value = row.split('\t').nth(1).with_context(|| format!("no status {name}"))?;
        Ok(value.trim().parse()?)
    }
}

pub(crate) fn straight_to_primary(cluster: &Cluster) -> Address {
    let primary = &cluster.servers[0];
    address_of(cluster, primary.port, primary.socket.clone())
}

pub(crate) fn address_of(cluster: &Cluster, port: u16, socket: PathBuf) -> Address {
    Address {
        host: "127.0.0.1".to_owned(),
        port,
        socket,
        user: cluster.app_user.clone(),
        password: cluster.app_password.clone(),
        database: cluster.database.clone(),
    }
}

/// Starts a proxy before these servers and waits until it answers.
pub(crate) fn start_proxy(cluster: &Cluster, config: &ConfigFile) -> Result<(PortLease, Proxy, Address)> {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    let dir = cluster.dir().join(format!("proxy{number}"));
    fs::create_dir(&dir)?;
    let lease = config.port_below.map_or_else(PortLease::take, PortLease::take_below)?;
    let socket = dir.join("sock");
    let file = config.write(cluster, &dir, (lease.port(), &socket))?;
    let mut proxy = match (&config.hosts, config.small_disk) {
        (Some(hosts), _) => Proxy::start_with_hosts(&file, hosts)?,
        (None, Some((name, size))) => Proxy::start_with_disk(&file, &dir.join(name), size)?,
        (None, None) => Proxy::start_with(&file, config.planted)?,
    };
    let address = address_of(cluster, lease.port(), socket);
    wait_until_ready(&mut proxy, &address, &file)?;
    Ok((lease, proxy, address))
}

/// Ready is: a client can log in and every backend has answered the monitor, that is, reads are answered.
fn wait_until_ready(proxy: &mut Proxy, address: &Address, file: &Path) -> Result<()> {
    let mut ended = None;
    let ready = eventually(READY_LIMIT, "the proxy to answer", || {
        ended = proxy.ended()?;
        if ended.is_some() {
            return Ok(Some(()));
        }
        address.connect()?.rows("SELECT 1")?;
        // Until then a replica may be one that nothing is known of yet, and reads go elsewhere.
        let log = proxy.log();
        Ok((log.contains("ready backends=") || log.contains("\"ready\"")).then_some(()))
    });
    if let Some(status) = ended {
        bail!("the proxy ended at its start ({status}), {}:\n{}", file.display(), proxy.log());
    }
    ready.with_context(|| format!("the proxy's log:\n{}", proxy.log()))
}
