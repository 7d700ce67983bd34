//! The machines: one with the server and an agent that holds its virtual IP, one with a proxy, one with MySQL Router, etcd's, and a place
//! for sysbench.

use std::fs;
use std::path::Path;
use std::process::Stdio;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use delphinus_sandbox::{
    Cluster, ClusterSpec, Etcd, Flavor, Network, PortLease, Router, RouterPlace, RouterPort, Terminal,
};
use serde_json::{Value, json};
use toml::Table;

use super::{VipOptions, Way};
use crate::meter::process_ns;
use crate::running::{Running, spawn};
use crate::sysbench::{Place, Sysbench};

const SERVER: usize = 0;
const PROXY: usize = 1;
const ROUTER: usize = 2;
const STORE: usize = 3;
/// Delphinus' port.
const PORT: u16 = 6446;
/// Connections of everything: above the most threads.
const MAX_CONNECTIONS: u32 = 500;
/// How long a program may take until it answers.
const LIMIT: Duration = Duration::from_secs(40);

/// Everything that is measured. Dropping it ends all of it.
pub(super) struct Ground {
    pub(super) sysbench: Sysbench,
    places: Vec<(Way, Place)>,
    running: Vec<Running>,
    store: Etcd,
    ports: Vec<PortLease>,
    cluster: Cluster,
    network: Network,
}

impl Ground {
    pub(super) fn prepare(options: &VipOptions) -> Result<Self> {
        ensure!(options.flavor != Flavor::Group, "one server is measured: --flavor mysql or mariadb");
        let network = Network::make(4)?;
        let spec = ClusterSpec {
            flavor: options.flavor,
            replicas: 0,
            machines: vec![network.machine(SERVER)],
            max_connections: MAX_CONNECTIONS,
            // The server answers on the virtual IP, too.
            extra_cnf: vec!["bind_address=0.0.0.0".to_owned()],
            newest: false,
        };
        let cluster = Cluster::start(&spec, &Terminal)?;
        let store = Etcd::start(cluster.dir(), &network.machine(STORE), &Terminal)?;
        let sysbench = Sysbench::find("oltp_read_write", &cluster, network.outside())?;
        let mut ground = Self {
            sysbench,
            places: Vec::new(),
            running: Vec::new(),
            store,
            ports: Vec::new(),
            cluster,
            network,
        };
        ground.start_all(options)?;
        Ok(ground)
    }

    /// Where a way begins; `None` where it is not there.
    pub(super) fn place(&self, way: Way) -> Option<&Place> {
        self.places.iter().find(|(other, _)| *other == way).map(|(_, place)| place)
    }

    /// Processor time that the server and what runs beside it have used so far, in nanoseconds.
    pub(super) fn used_ns(&self) -> Result<u64> {
        let server = process_ns(self.cluster.servers[0].pid)?;
        self.running.iter().try_fold(server, |sum, running| Ok(sum + running.used_ns()?))
    }

    pub(super) fn version(&self) -> Result<String> {
        self.cluster.servers[0].query("SELECT CONCAT(@@version_comment, ' ', @@version)")
    }

    fn start_all(&mut self, options: &VipOptions) -> Result<()> {
        let server = Place { host: self.cluster.servers[0].host.clone(), port: self.cluster.servers[0].port };
        self.add(Way::Direct, server.clone())?;
        self.add(Way::DirectAgain, server.clone())?;
        self.sysbench.prepare(&server).context("sysbench's tables")?;
        let path = fs::canonicalize(&options.delphinus)?;
        self.start(&path, SERVER, ("agent", &self.agent()))?;
        self.add(Way::Vip, Place { host: self.network.virtual_ip().to_string(), ..server })?;
        self.start(&path, PROXY, ("run", &self.proxy()))?;
        self.add(Way::Delphinus, Place { host: self.network.machine(PROXY).host, port: PORT })?;
        if self.cluster.flavor.is_mysql() {
            self.start_router()?;
        }
        Ok(())
    }

    /// A way that answers from now on. The first login by each has TLS: a server that caches passwords knows it afterwards.
    fn add(&mut self, way: Way, place: Place) -> Result<()> {
        let began = Instant::now();
        let cluster = &self.cluster;
        loop {
            let mut ask = self.network.outside().command(cluster.client_program());
            ask.args([
                "--no-defaults",
                "--connect-timeout=5",
                "-h",
                &place.host,
                "-P",
                &place.port.to_string(),
            ]);
            ask.args(["-u", &cluster.app_user, "-e", "SELECT 1"]).env("MYSQL_PWD", &cluster.app_password);
            let done = ask.stdin(Stdio::null()).output()?;
            if done.status.success() {
                break;
            }
            let said = String::from_utf8_lossy(&done.stderr).into_owned();
            ensure!(began.elapsed() < LIMIT, "{way}: no answer: {said}\n{}", self.logs());
            thread::sleep(Duration::from_millis(50));
        }
        self.places.push((way, place));
        Ok(())
    }

    fn logs(&self) -> String {
        let read = |name: &str| fs::read_to_string(self.cluster.dir().join(name)).unwrap_or_default();
        ["agent.log", "run.log", "router.log"].map(read).concat()
    }

    fn start(&mut self, path: &Path, machine: usize, (verb, settings): (&str, &Value)) -> Result<()> {
        let dir = self.cluster.dir();
        let file = dir.join(format!("{verb}.toml"));
        fs::write(&file, toml::to_string(&Table::try_from(settings)?)?)?;
        let arguments = [verb.to_owned(), format!("--config={}", file.display())];
        let running =
            spawn(&self.network.machine(machine), path, &arguments, dir.join(format!("{verb}.log")))?;
        self.running.push(running);
        Ok(())
    }

    fn start_router(&mut self) -> Result<()> {
        let machine = self.network.machine(ROUTER);
        let folder = self.cluster.dir().join("router");
        fs::create_dir(&folder)?;
        let port = PortLease::take()?;
        let place = RouterPlace {
            port: port.port(),
            machine: Some(machine.clone()),
            socket: None,
            max_connections: MAX_CONNECTIONS,
        };
        let router = Router::bootstrap(&self.cluster, &folder, RouterPort::ReadWrite, &place)?;
        let log = self.cluster.dir().join("router.log");
        self.running.push(spawn(&machine, &router.program, &router.arguments(), log)?);
        let port_number = port.port();
        self.ports.push(port);
        self.add(Way::Router, Place { host: machine.host, port: port_number })
    }

    /// No system uses TLS to the server: Router is set up so, too.
    fn backend(&self) -> Value {
        let server = &self.cluster.servers[0];
        let address = format!("{}:{}", server.host, server.port);
        json!([{ "name": "db1", "address": address, "tls": "disabled", "get_server_public_key": true }])
    }

    fn agent(&self) -> Value {
        let cluster = &self.cluster;
        json!({
            "proxy": { "data_dir": cluster.dir().join("agent") },
            "cluster": { "topology": "read_only", "backend": self.backend() },
            "monitor": { "user": cluster.monitor_user, "password": cluster.monitor_password },
            "lease": { "store": "etcd", "endpoints": [self.store.endpoint], "member": "db1", "local_backend": "db1" },
            "vip": [{ "name": "write", "addresses": [self.network.virtual_ip().to_string()], "role": "primary" }],
        })
    }

    fn proxy(&self) -> Value {
        let cluster = &self.cluster;
        json!({
            "proxy": { "data_dir": cluster.dir().join("proxy"), "max_connections": MAX_CONNECTIONS },
            "listener": [{ "name": "main", "address": format!("0.0.0.0:{PORT}") }],
            "user": [{ "name": cluster.app_user, "password": cluster.app_password }],
            "cluster": { "topology": "read_only", "backend": self.backend() },
            "monitor": { "user": cluster.monitor_user, "password": cluster.monitor_password },
        })
    }
}
