//! Where answers are kept: the set-ups that are measured, what each needs on which host, started and stopped.

use std::fs::{self, File};
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use delphinus_sandbox::{Cluster, PortLease};
use serde_json::{Value, json};
use toml::Table;

use super::hosts::Host;
use crate::load::{Origin, Session, Target};
use crate::workload::SCHEMA;

/// How long something may take until it answers.
const READY_LIMIT: Duration = Duration::from_secs(30);
/// How much of its log an error shows, in lines.
const TAIL: usize = 12;

/// Where answers are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Setup {
    /// Clients talk to the server.
    Direct,
    /// A proxy beside the database that keeps nothing.
    NoCache,
    /// A proxy beside the database.
    BesideDatabase,
    /// A proxy beside each of the clients.
    BesideClients,
    /// One beside each of the clients, and one beside the database.
    TwoLayers,
    /// One beside each of the clients, which keeps nothing and asks one of two others, by what is asked.
    TwoShards,
    /// ProxySQL beside the database.
    Proxysql,
    /// What answers with the same bytes, and looks at none.
    Echo,
    /// GET of as many bytes from Redis, by its own load generator.
    Redis,
}

impl Setup {
    /// All, in the order of the table.
    pub const ALL: [Self; 9] = [
        Self::Direct,
        Self::NoCache,
        Self::BesideDatabase,
        Self::BesideClients,
        Self::TwoLayers,
        Self::TwoShards,
        Self::Proxysql,
        Self::Echo,
        Self::Redis,
    ];

    /// The name on the command line and in the results.
    pub fn name(self) -> &'static str {
        match self {
            Self::Direct => "direct",
            Self::NoCache => "no-cache",
            Self::BesideDatabase => "beside-database",
            Self::BesideClients => "beside-clients",
            Self::TwoLayers => "two-layers",
            Self::TwoShards => "two-shards",
            Self::Proxysql => "proxysql",
            Self::Echo => "echo",
            Self::Redis => "redis",
        }
    }

    /// True if answers are kept somewhere.
    pub(crate) fn keeps(self) -> bool {
        !matches!(self, Self::Direct | Self::NoCache | Self::Echo | Self::Redis)
    }
}

/// What all set-ups stand on.
#[derive(Debug)]
pub(crate) struct Ground {
    /// Where the clients are.
    pub(crate) clients: [Host; 2],
    /// Where the server is.
    pub(crate) database: Host,
    /// The server, and for two shards its replicas.
    pub(crate) cluster: Cluster,
    /// The binary to measure.
    pub(crate) delphinus: PathBuf,
    /// Rows of the table.
    pub(crate) rows: u64,
    /// How long a packet is on its way from host to host.
    pub(crate) delay: Duration,
    /// How many clients there are.
    pub(crate) connections: usize,
}

/// A process that is measured.
#[derive(Debug)]
pub(crate) struct Process {
    /// What it is: processes of one kind are added up.
    pub(crate) kind: Kind,
    child: Child,
}

/// What a process does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// The wire.
    Wire,
    /// The proxy, or what stands in its place.
    Proxy,
}

impl Process {
    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A set-up that answers. Dropping it stops its processes.
#[derive(Debug)]
pub(crate) struct Running {
    pub(crate) processes: Vec<Process>,
    /// What clients connect to on their own host.
    pub(crate) port: u16,
    ports: Vec<PortLease>,
    folder: PathBuf,
}

impl Drop for Running {
    fn drop(&mut self) {
        self.processes.clear();
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// What a proxy does with answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Keeps {
    Nothing,
    Answers,
    /// It asks one of its backends by what is asked.
    NothingAndSpreads,
}

impl Ground {
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

    /// The clients of both hosts.
    pub(crate) fn origins(&self, port: u16) -> Vec<Origin<'_>> {
        let origin = |host| Origin { host, target: self.target(port) };
        self.clients.iter().map(origin).collect()
    }

    /// Starts a set-up and waits until it answers. The error says why it cannot be had.
    pub(crate) fn start(&self, setup: Setup) -> Result<Running> {
        let folder = self.cluster.dir().join(setup.name());
        fs::create_dir(&folder)?;
        let mut running = Running { processes: Vec::new(), port: 0, ports: Vec::new(), folder };
        let server = self.cluster.servers[0].port;
        let [one, other] = &self.clients;
        match setup {
            Setup::Direct => running.port = self.wires(&mut running, server)?,
            Setup::NoCache => {
                let port = self.proxy(&mut running, &self.database, Keeps::Nothing, &[server])?;
                running.port = self.wires(&mut running, port)?;
            }
            Setup::BesideDatabase => {
                let port = self.proxy(&mut running, &self.database, Keeps::Answers, &[server])?;
                running.port = self.wires(&mut running, port)?;
            }
            Setup::BesideClients => {
                self.wires(&mut running, server)?;
                self.beside_clients(&mut running, Keeps::Answers, &[server])?;
            }
            Setup::TwoLayers => {
                let inner = self.proxy(&mut running, &self.database, Keeps::Answers, &[server])?;
                self.wires(&mut running, inner)?;
                self.beside_clients(&mut running, Keeps::Answers, &[inner])?;
            }
            Setup::TwoShards => {
                // Reads go to the two as to replicas; what writes would go straight to the server.
                let mut backends = vec![self.wires(&mut running, server)?];
                for replica in &self.cluster.servers[1..] {
                    let port = self.proxy(&mut running, &self.database, Keeps::Answers, &[replica.port])?;
                    backends.push(self.wires(&mut running, port)?);
                }
                self.beside_clients(&mut running, Keeps::NothingAndSpreads, &backends)?;
            }
            Setup::Proxysql => {
                let port = super::peers::proxysql(self, &mut running, server)?;
                running.port = self.wires(&mut running, port)?;
            }
            Setup::Echo => {
                let port = super::peers::echo(self, &mut running)?;
                running.port = self.wires(&mut running, port)?;
            }
            Setup::Redis => super::peers::redis(self, &mut running)?,
        }
        if setup != Setup::Redis {
            for host in [one, other] {
                running.wait_for(host, &self.target(running.port))?;
            }
        }
        Ok(running)
    }

    /// A proxy on each of the clients' hosts, at the same port.
    fn beside_clients(&self, running: &mut Running, keeps: Keeps, backends: &[u16]) -> Result<()> {
        let port = running.lease()?;
        for host in &self.clients {
            self.proxy_at(running, (host, port), keeps, backends)?;
        }
        running.port = port;
        Ok(())
    }

    fn proxy(&self, running: &mut Running, host: &Host, keeps: Keeps, backends: &[u16]) -> Result<u16> {
        let port = running.lease()?;
        self.proxy_at(running, (host, port), keeps, backends)?;
        running.wait_for(host, &self.target(port))?;
        Ok(port)
    }

    fn proxy_at(
        &self,
        running: &mut Running,
        (host, port): (&Host, u16),
        keeps: Keeps,
        backends: &[u16],
    ) -> Result<()> {
        let folder = running.folder.join(format!("delphinus-{}", running.processes.len()));
        fs::create_dir(&folder)?;
        let file = folder.join("delphinus.toml");
        let settings = self.configuration(port, keeps, backends, &folder.display().to_string())?;
        fs::write(&file, toml::to_string(&settings)?)?;
        let check = Command::new(&self.delphinus).arg("check").arg(&file).output()?;
        ensure!(
            check.status.success(),
            "this build cannot do it: {}",
            String::from_utf8_lossy(&[check.stdout, check.stderr].concat()).trim()
        );
        let mut command = host.command(&self.delphinus.display().to_string());
        command.arg("run").arg(format!("--config={}", file.display()));
        running.spawn(&command, Kind::Proxy)
    }

    fn configuration(&self, port: u16, keeps: Keeps, backends: &[u16], folder: &str) -> Result<Table> {
        let cluster = &self.cluster;
        let backend = |(at, port): (usize, &u16)| {
            let role = if at == 0 { "primary" } else { "replica" };
            json!({ "name": format!("b{at}"), "address": format!("127.0.0.1:{port}"), "role": role, "tls": "disabled" })
        };
        let backends: Vec<Value> = backends.iter().enumerate().map(backend).collect();
        let room = (self.rows * 1536).max(256 << 20);
        let mut settings = json!({
            "proxy": {
                "data_dir": format!("{folder}/data"),
                "shutdown_timeout_ms": 1000,
                "max_connections": 2 * self.connections + 100,
                "memory_limit": 4 * room,
            },
            "listener": [{ "name": "main", "address": format!("127.0.0.1:{port}") }],
            // The monitor of a proxy in front of this one asks here, too.
            "user": [
                { "name": cluster.app_user, "password": cluster.app_password },
                { "name": cluster.monitor_user, "password": cluster.monitor_password },
            ],
            "cluster": { "topology": "static", "flavor": "auto", "backend": backends },
            "monitor": { "user": cluster.monitor_user, "password": cluster.monitor_password },
        });
        match keeps {
            Keeps::Nothing => {}
            Keeps::Answers => {
                settings["cache"] = json!({ "max_bytes": room });
                // Answers end with the rights that they were given for: as late as those of the others here.
                settings["pool"] = json!({ "rights_max_age_ms": 3_600_000 });
                settings["rule"] = json!([{
                    "name": "point selects",
                    "table": ["sbtest1"],
                    "class": ["select"],
                    "cache_ttl_ms": 3_600_000,
                }]);
            }
            Keeps::NothingAndSpreads => {
                settings["routing"] = json!({ "read_balance": "hash" });
                settings["cache"] = json!({ "max_bytes": 0 });
            }
        }
        Table::try_from(settings).context("cannot write the configuration as TOML")
    }

    /// From each of the clients' hosts to this port of the database's, at the same port.
    pub(super) fn wires(&self, running: &mut Running, port: u16) -> Result<u16> {
        for host in &self.clients {
            let mut command = Command::new(std::env::current_exe()?);
            command.args(["relay".to_owned(), format!("--listen=127.0.0.1:{port}")]);
            command.arg(format!("--backend=127.0.0.1:{port}"));
            command.arg(format!("--delay-us={}", self.delay.as_micros()));
            command.arg(format!("--listen-in={}", host.path().display()));
            command.arg(format!("--backend-in={}", self.database.path().display()));
            running.spawn(&command, Kind::Wire)?;
        }
        Ok(port)
    }
}

impl Running {
    /// A port that is free on all hosts.
    pub(crate) fn lease(&mut self) -> Result<u16> {
        let lease = PortLease::take()?;
        let port = lease.port();
        self.ports.push(lease);
        Ok(port)
    }

    /// A folder for files of this set-up.
    pub(crate) fn folder(&self) -> &std::path::Path {
        &self.folder
    }

    /// Starts a process; the kernel kills it when this thread ends.
    pub(crate) fn spawn(&mut self, command: &Command, kind: Kind) -> Result<()> {
        let log = File::create(self.log(self.processes.len()))?;
        let mut guarded = Command::new("setpriv");
        guarded.args(["--pdeathsig", "KILL"]).arg(command.get_program()).args(command.get_args());
        guarded.current_dir(&self.folder).stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
        let child = guarded.spawn().context("cannot start setpriv (Debian package util-linux)")?;
        self.processes.push(Process { kind, child });
        Ok(())
    }

    fn log(&self, number: usize) -> PathBuf {
        self.folder.join(format!("output-{number}.log"))
    }

    /// Waits until the target can be asked from this host.
    pub(crate) fn wait_for(&mut self, host: &Host, target: &Target) -> Result<()> {
        let began = Instant::now();
        loop {
            let asked = host.run(|| {
                let mut session = Session::open(target)?;
                session.query("SELECT c FROM sbtest1 WHERE id=1")?;
                session.quit();
                Ok(())
            });
            let Err(error) = asked else { return Ok(()) };
            self.all_run()?;
            if began.elapsed() > READY_LIMIT {
                let last = self.processes.len().saturating_sub(1);
                let what = format!(
                    "no answer on the host {:?}; the last process says:\n{}",
                    host.name,
                    self.tail(last)
                );
                return Err(error.context(what));
            }
            thread::sleep(Duration::from_millis(20));
        }
    }

    /// No process has ended.
    ///
    /// # Errors
    ///
    /// One has; what it said last is in the error.
    pub(crate) fn all_run(&mut self) -> Result<()> {
        for at in 0..self.processes.len() {
            if let Some(status) = self.processes[at].child.try_wait()? {
                bail!("a process ended with {status}; it says:\n{}", self.tail(at));
            }
        }
        Ok(())
    }

    fn tail(&self, number: usize) -> String {
        let said = fs::read_to_string(self.log(number)).unwrap_or_default();
        let lines: Vec<&str> = said.lines().collect();
        lines[lines.len().saturating_sub(TAIL)..].join("\n")
    }
}
