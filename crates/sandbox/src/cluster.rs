//! A primary with its replicas: started together, and gone together.

use std::sync::Arc;

use anyhow::{Result, ensure};
use serde_json::{Value, json};

use crate::accounts::{ADMIN, APP, Account, DATABASE, MONITOR};
use crate::cnf::{Cnf, GroupAddresses};
use crate::flavor::{Flavor, Role};
use crate::ports::PortLease;
use crate::programs::Programs;
use crate::progress::{Progress, step};
use crate::server::Server;
use crate::watched_dir::{WatchedDir, temp_parent};
use crate::{process, replication, template};

/// How often a start is tried when another program takes a port in the moment before a server does.
const TRIES: u32 = 3;

/// What servers say when their port is taken.
const PORT_TAKEN: [&str; 3] = ["Address already in use", "Port already in use?", "Bind on TCP/IP port"];

/// Where a server runs, if not beside all others: an address of its own, and what starts a program that has it.
#[derive(Debug, Clone)]
pub struct Machine {
    /// The address that the server listens on.
    pub host: String,
    /// The words before the server's own on the command line, for example those that enter a network namespace. What they
    /// start has to become the server itself.
    pub launcher: Vec<String>,
}

impl Machine {
    fn loopback() -> Self {
        Self { host: "127.0.0.1".to_owned(), launcher: Vec::new() }
    }
}

/// What to start.
#[derive(Debug, Clone)]
pub struct ClusterSpec {
    /// Which servers, and how they replicate.
    pub flavor: Flavor,
    /// How many servers beside the primary; 2 unless told otherwise.
    pub replicas: usize,
    /// Lines for every server's option file, after our own, so that they win; for example
    /// `performance_schema=ON`.
    pub extra_cnf: Vec<String>,
    /// Each server's `max_connections`; 500 unless told otherwise.
    pub max_connections: u32,
    /// Where the servers run, in their order; those that have no machine here are on 127.0.0.1.
    pub machines: Vec<Machine>,
    /// MariaDB: the newest release that Debian has, in a private folder, instead of the machine's own.
    pub newest: bool,
}

impl Default for ClusterSpec {
    fn default() -> Self {
        Self {
            flavor: Flavor::MariaDb,
            replicas: 2,
            extra_cnf: Vec::new(),
            max_connections: 500,
            machines: Vec::new(),
            newest: false,
        }
    }
}

/// Running servers that replicate, in a private folder.
///
/// Dropping it kills the servers and removes the folder. When the owning process ends without that,
/// by SIGKILL for example, a watchdog process does the same.
#[derive(Debug)]
pub struct Cluster {
    /// Which servers these are.
    pub flavor: Flavor,
    /// The servers; the first is the primary at the start.
    pub servers: Vec<Server>,
    /// The application's account: everything on the schemas `app` and `sbtest`, from anywhere.
    pub app_user: String,
    /// Its password.
    pub app_password: String,
    /// The schema with the sample tables.
    pub database: String,
    /// The account for a monitor: it sees replication, and `performance_schema` on MySQL.
    pub monitor_user: String,
    /// Its password.
    pub monitor_password: String,
    /// An account with all rights, from anywhere.
    pub admin_user: String,
    /// Its password.
    pub admin_password: String,
    programs: Arc<Programs>,
    _ports: Vec<PortLease>,
    // After the servers, because fields are dropped in this order.
    dir: WatchedDir,
}

impl Cluster {
    /// Starts a cluster and returns when replication runs and has caught up. Installs the servers'
    /// programs first if they are missing, which needs root or sudo for MariaDB.
    pub fn start(spec: &ClusterSpec, progress: &dyn Progress) -> Result<Self> {
        ensure!(spec.replicas <= 8, "at most 8 replicas, not {}", spec.replicas);
        let programs = Arc::new(Programs::ensure(spec.flavor, spec.newest, progress)?);
        let mut tries = TRIES;
        loop {
            tries -= 1;
            match Self::start_once(spec, &programs, progress) {
                Err(error) if tries > 0 && is_port_taken(&error) => {
                    progress.note("another program took a port; once more with others");
                }
                outcome => return outcome,
            }
        }
    }

    /// Kills the servers and removes their data, as dropping does.
    pub fn stop(self) {
        drop(self);
    }

    /// The folder of this cluster: one folder for each server, named like it. More files may be put
    /// there; they go when the cluster goes.
    pub fn dir(&self) -> &std::path::Path {
        self.dir.path()
    }

    /// The client program that belongs to these servers (`mariadb` or `mysql`).
    pub fn client_program(&self) -> &std::path::Path {
        &self.programs.client
    }

    /// The server program (`mariadbd` or `mysqld`).
    pub(crate) fn server_program(&self) -> &std::path::Path {
        &self.programs.server
    }

    /// The servers as a JSON list of objects: name, role, host, port, socket, datadir, pid, root_user,
    /// root_password, server_id. What `DELPHINUS_BACKENDS` holds.
    pub fn backends_json(&self) -> Value {
        self.servers.iter().map(backend_json).collect()
    }

    fn start_once(spec: &ClusterSpec, programs: &Arc<Programs>, progress: &dyn Progress) -> Result<Self> {
        let template = template::ensure(spec.flavor, programs, progress)?;
        let dir = WatchedDir::create(&temp_parent())?;
        let is_group = spec.flavor == Flavor::Group;
        let count = spec.replicas + 1;
        let ports = (0..if is_group { count * 2 } else { count })
            .map(|_| PortLease::take())
            .collect::<Result<Vec<_>>>()?;
        let numbers: Vec<u16> = ports.iter().map(PortLease::port).collect();
        let cnfs = option_files(spec, &dir, &numbers);
        let what =
            format!("starting {count} {} servers", if spec.flavor.is_mysql() { "MySQL" } else { "MariaDB" });
        let servers = step(progress, &what, || launch(&cnfs, (programs, &template), progress))?;
        let what = if is_group { "forming the group" } else { "connecting the replicas" };
        step(progress, what, || {
            replication::connect(spec.flavor, &servers, progress).map_err(|error| with_logs(error, &servers))
        })?;
        Ok(Self::new(spec.flavor, servers, Arc::clone(programs), ports, dir))
    }

    fn new(
        flavor: Flavor,
        servers: Vec<Server>,
        programs: Arc<Programs>,
        ports: Vec<PortLease>,
        dir: WatchedDir,
    ) -> Self {
        let owned = |account: Account| (account.user.to_owned(), account.password.to_owned());
        let (app_user, app_password) = owned(APP);
        let (monitor_user, monitor_password) = owned(MONITOR);
        let (admin_user, admin_password) = owned(ADMIN);
        Self {
            flavor,
            servers,
            app_user,
            app_password,
            database: DATABASE.to_owned(),
            monitor_user,
            monitor_password,
            admin_user,
            admin_password,
            programs,
            _ports: ports,
            dir,
        }
    }
}

/// The first `count` ports are for clients, the others, if any, for the group.
fn option_files(spec: &ClusterSpec, dir: &WatchedDir, ports: &[u16]) -> Vec<(String, Cnf, Machine)> {
    let count = spec.replicas + 1;
    let (clients, group) = ports.split_at(count);
    let machine = |index: usize| spec.machines.get(index).cloned().unwrap_or_else(Machine::loopback);
    let group: Vec<String> =
        group.iter().enumerate().map(|(index, port)| format!("{}:{port}", machine(index).host)).collect();
    let one = |index: usize| {
        let name = if index == 0 { "primary".to_owned() } else { format!("replica{index}") };
        let cnf = Cnf {
            flavor: spec.flavor,
            role: if index == 0 { Role::Primary } else { Role::Replica },
            dir: dir.path().join(&name),
            host: machine(index).host,
            port: clients[index],
            server_id: u32::try_from(index + 1).expect("invariant: at most 8 replicas"),
            max_connections: spec.max_connections,
            group: group.get(index).map(|own| GroupAddresses { own: own.clone(), all: group.clone() }),
            extra: spec.extra_cnf.clone(),
        };
        (name, cnf, machine(index))
    };
    (0..count).map(one).collect()
}

/// Starts all servers at once. When one fails, the others are killed.
fn launch(
    cnfs: &[(String, Cnf, Machine)],
    from: (&Arc<Programs>, &std::path::Path),
    progress: &dyn Progress,
) -> Result<Vec<Server>> {
    std::thread::scope(|scope| {
        let threads: Vec<_> = cnfs
            .iter()
            .map(|(name, cnf, machine)| {
                scope.spawn(move || Server::launch((name, machine), cnf, from, progress))
            })
            .collect();
        threads
            .into_iter()
            .map(|thread| thread.join().expect("invariant: no panic in a start thread"))
            .collect()
    })
}

fn with_logs(error: anyhow::Error, servers: &[Server]) -> anyhow::Error {
    let log = |server: &Server| format!("\n{}:\n{}", server.name, process::tail(&server.error_log()));
    let logs: String = servers.iter().map(log).collect::<Vec<_>>().concat();
    error.context(format!("the servers do not form a cluster{logs}"))
}

fn is_port_taken(error: &anyhow::Error) -> bool {
    let text = format!("{error:#}");
    PORT_TAKEN.iter().any(|said| text.contains(said))
}

fn backend_json(server: &Server) -> Value {
    json!({
        "name": server.name, "role": server.role, "host": server.host, "port": server.port,
        "socket": server.socket, "datadir": server.datadir, "pid": server.pid,
        "root_user": server.root_user, "root_password": server.root_password, "server_id": server.server_id,
    })
}
