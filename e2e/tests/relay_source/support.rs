//! A real source, a relay behind it as a process, and what is asked of both.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use delphinus_e2e::{Address, Client, Operators, Proxy, eventually, proxy_binary, run, until};
use delphinus_sandbox::{
    APP, Cluster, ClusterSpec, Flavor, MONITOR, MySqlPrefix, PortLease, REPL, Server, Silent, cache_dir,
};
use delphinus_wire::gtid::GtidSet;

pub(crate) const LIMIT: Duration = Duration::from_mins(1);

/// A relay behind a source.
pub(crate) struct Scene {
    pub(crate) relay: Proxy,
    pub(crate) cluster: Cluster,
    pub(crate) folder: PathBuf,
    pub(crate) config: PathBuf,
    operators: Operators,
    port: PortLease,
    disk: Option<Disk>,
}

/// A disk of a relay's own, in a mount namespace.
pub(crate) struct Disk {
    /// The process that holds the namespace.
    pub(crate) holder: Child,
    /// The folder with the next two.
    pub(crate) place: PathBuf,
    /// Where the disk is mounted.
    pub(crate) mounted: PathBuf,
    /// Where the relay's part of it is mounted.
    pub(crate) folder: PathBuf,
}

impl Scene {
    /// Starts `replicas` beside the primary, and a relay behind the primary. More lines for the servers and for the relay's section.
    pub(crate) fn start(flavor: Flavor, replicas: usize, (cnf, lines): (&[&str], &[&str])) -> Self {
        let extra_cnf = cnf.iter().map(|line| (*line).to_owned()).collect();
        let spec = ClusterSpec { flavor, replicas, extra_cnf, ..ClusterSpec::default() };
        let cluster = Cluster::start(&spec, &Silent).unwrap();
        let source = format!("source = \"127.0.0.1:{}\"\n", cluster.servers[0].port);
        Self::with(cluster, &source, ("", lines), None)
    }

    /// MariaDB's newest release as the source.
    pub(crate) fn newest_mariadb(cnf: &[&str]) -> Self {
        let extra_cnf = cnf.iter().map(|line| (*line).to_owned()).collect();
        let spec = ClusterSpec {
            flavor: Flavor::MariaDb,
            replicas: 0,
            newest: true,
            extra_cnf,
            ..ClusterSpec::default()
        };
        let cluster = Cluster::start(&spec, &Silent).unwrap();
        let source = format!("source = \"127.0.0.1:{}\"\n", cluster.servers[0].port);
        Self::with(cluster, &source, ("", &[]), None)
    }

    /// A source and a relay whose folder is on a disk of its own.
    pub(crate) fn on_disk(flavor: Flavor, disk: Disk) -> Self {
        Self::on_disk_with(flavor, disk, (0, &[]))
    }

    /// The same with so many replicas beside the source, and more lines for the relay's section.
    pub(crate) fn on_disk_with(flavor: Flavor, disk: Disk, (replicas, lines): (usize, &[&str])) -> Self {
        let spec = ClusterSpec { flavor, replicas, ..ClusterSpec::default() };
        let cluster = Cluster::start(&spec, &Silent).unwrap();
        let source = format!("source = \"127.0.0.1:{}\"\n", cluster.servers[0].port);
        Self::with(cluster, &source, ("", lines), Some(disk))
    }

    pub(crate) fn disk(&self) -> &Disk {
        self.disk.as_ref().unwrap()
    }

    /// The same with a relay that follows the cluster's primary.
    pub(crate) fn following(flavor: Flavor, replicas: usize, lines: &[&str]) -> Self {
        let spec = ClusterSpec { flavor, replicas, ..ClusterSpec::default() };
        let cluster = Cluster::start(&spec, &Silent).unwrap();
        let mut text = format!(
            "[cluster]\ntopology = \"read_only\"\n[monitor]\nuser = \"{}\"\npassword = \"{}\"\ninterval_ms = 100\n",
            MONITOR.user, MONITOR.password
        );
        for server in &cluster.servers {
            let (name, port) = (&server.name, server.port);
            let row = format!("[[cluster.backend]]\nname = \"{name}\"\naddress = \"127.0.0.1:{port}\"\n");
            text.push_str(&row);
        }
        Self::with(cluster, "cluster = \"main\"\n", (&text, lines), None)
    }

    fn with(cluster: Cluster, source: &str, (more, lines): (&str, &[&str]), disk: Option<Disk>) -> Self {
        let (dir, operators) = (cluster.dir().to_owned(), Operators::default());
        let folder = disk.as_ref().map_or_else(|| dir.join("relayed"), |disk| disk.folder.clone());
        let port = PortLease::take().unwrap();
        let text = format!(
            "[[relay]]\nname = \"r\"\nfolder = \"{}\"\n{source}source_user = \"{}\"\nsource_password = \"{}\"\nserver_id = 777\n\
             heartbeat_ms = 1000\nretry_ms = 100\n{}\n{more}{}",
            folder.display(),
            REPL.user,
            REPL.password,
            lines.join("\n").replace("PORT", &port.port().to_string()),
            operators.section(),
        );
        let config = dir.join("relay.toml");
        fs::write(&config, text).unwrap();
        let mut arguments = vec!["relay".to_owned(), "--config".to_owned(), config.display().to_string()];
        let mut program = proxy_binary().unwrap();
        if let Some(disk) = &disk {
            let namespace = format!("--mount=/proc/{}/ns/mnt", disk.holder.id());
            arguments.splice(0..0, [namespace, program.display().to_string()]);
            program = PathBuf::from("nsenter");
        }
        let relay = Proxy::start_program(program, arguments, config.with_extension("log")).unwrap();
        let folder = disk.as_ref().map_or(folder, |disk| disk.seen(&disk.folder));
        let scene = Self { relay, cluster, folder, config, operators, port, disk };
        scene.is("receiving");
        scene
    }

    pub(crate) fn primary(&self) -> &Server {
        &self.cluster.servers[0]
    }

    /// Where replicas connect, if `addresses` says so.
    pub(crate) fn port(&self) -> u16 {
        self.port.port()
    }

    fn operator(&self) -> Client {
        let like = address(self.primary());
        self.operators.connect(&like).unwrap()
    }

    pub(crate) fn command(&self, sql: &str) -> Result<(), String> {
        self.operator().query(sql).map(drop).map_err(|error| format!("{error:#}"))
    }

    /// A column of the relay's row.
    pub(crate) fn column(&self, name: &str) -> String {
        let like = address(self.primary());
        let value = eventually(LIMIT, "the relay's operators", || {
            Ok(Some(self.operators.connect(&like)?.rows(&format!("SELECT {name} FROM relays"))?))
        });
        value.unwrap()[0][0].clone().unwrap_or_default()
    }

    pub(crate) fn is(&self, state: &str) {
        let what = format!("the relay to be {state}");
        let like = address(self.primary());
        let reached = until(LIMIT, &what, || {
            let rows = self.operators.connect(&like)?.rows("SELECT state FROM relays")?;
            Ok(rows[0][0].as_deref() == Some(state))
        });
        assert!(reached.is_ok(), "{reached:?}: {}\n{}", self.column("error"), self.relay.log());
    }

    /// Waits until the relay has all that this server has.
    pub(crate) fn has_all_of(&self, server: &Server) {
        let sql = if self.cluster.flavor.is_mysql() {
            "SELECT REPLACE(@@gtid_executed, '\\n', '')"
        } else {
            "SELECT @@gtid_binlog_pos"
        };
        let all = server.query(sql).unwrap();
        let reached = until(LIMIT, &format!("the relay to have {all}"), || {
            Ok(set(&self.column("gtid_executed")) == set(&all))
        });
        let (has, error) = (self.column("gtid_executed"), self.column("error"));
        assert!(reached.is_ok(), "{has}, not {all}: {error}\n{}", self.relay.log());
    }

    /// The folders of sources, oldest first.
    pub(crate) fn folders(&self) -> Vec<PathBuf> {
        let entries = fs::read_dir(&self.folder).unwrap().map(|entry| entry.unwrap().path());
        let mut folders: Vec<_> = entries.filter(|path| path.is_dir()).collect();
        folders.sort();
        folders
    }

    /// All files of a folder are those of the server, byte by byte; but for the mark of the file that is open there.
    pub(crate) fn same_files(folder: &Path, server: &Server) -> usize {
        let files = log_files(folder);
        for (at, file) in files.iter().enumerate() {
            let own = fs::read(file).unwrap();
            let mut source = fs::read(server.datadir.join(file.file_name().unwrap())).unwrap();
            if at + 1 == files.len() {
                // LOG_EVENT_BINLOG_IN_USE_F of the first event.
                source[4 + 17] &= !1;
            }
            let differs = own.iter().zip(&source).position(|(one, other)| one != other);
            assert_eq!((differs, own.len()), (None, source.len()), "{}", file.display());
        }
        files.len()
    }

    /// `mysqlbinlog` reads all files of a folder, and their checksums are right.
    pub(crate) fn mysqlbinlog_reads(&self, folder: &Path) {
        let program = if self.cluster.flavor.is_mysql() {
            MySqlPrefix::ensure_in(&cache_dir().unwrap().join("mysql-9.7"), &Silent)
                .unwrap()
                .program("mysqlbinlog")
        } else {
            PathBuf::from("mariadb-binlog")
        };
        let mut command = Command::new(program);
        command.arg("--verify-binlog-checksum").args(log_files(folder));
        let said = run(&mut command, LIMIT).unwrap().success().unwrap();
        assert!(!said.is_empty());
    }

    pub(crate) fn semi_sync(&self, server: &Server) {
        wait_for_relay(server, self.cluster.flavor);
    }
}

/// Has the commits of a server wait for its relay.
pub(crate) fn wait_for_relay(server: &Server, flavor: Flavor) {
    let (sql, clients) = if flavor.is_mysql() {
        (
            "SET GLOBAL rpl_semi_sync_source_timeout = 3600000, rpl_semi_sync_source_wait_no_replica = ON, \
             rpl_semi_sync_source_enabled = ON",
            "Rpl_semi_sync_source_clients",
        )
    } else {
        (
            "SET GLOBAL rpl_semi_sync_master_timeout = 3600000, rpl_semi_sync_master_wait_no_slave = ON, \
             rpl_semi_sync_master_wait_point = 'AFTER_SYNC', rpl_semi_sync_master_enabled = ON",
            "Rpl_semi_sync_master_clients",
        )
    };
    server.query(sql).unwrap();
    until(LIMIT, "the source to know the relay", || Ok(status(server, clients) == 1)).unwrap();
}

impl Drop for Scene {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("{}", fs::read_to_string(&self.config).unwrap_or_default());
        }
    }
}

/// One set has several texts: MySQL writes tags behind the numbers of their uuid.
fn set(text: &str) -> GtidSet {
    GtidSet::parse(text).unwrap_or_default()
}

pub(crate) fn log_files(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let is_log = |path: &PathBuf| {
        path.extension().is_some_and(|it| it.to_string_lossy().bytes().all(|digit| digit.is_ascii_digit()))
    };
    let mut files: Vec<_> = entries.filter(is_log).collect();
    files.sort();
    files
}

/// A number of SHOW GLOBAL STATUS.
pub(crate) fn status(server: &Server, name: &str) -> u64 {
    let line = server.query(&format!("SHOW GLOBAL STATUS LIKE '{name}'")).unwrap();
    line.split_whitespace().last().and_then(|number| number.parse().ok()).unwrap_or(u64::MAX)
}

pub(crate) fn address(server: &Server) -> Address {
    Address {
        host: server.host.clone(),
        port: server.port,
        socket: server.socket.clone(),
        user: APP.user.to_owned(),
        password: APP.password.to_owned(),
        database: "app".to_owned(),
    }
}

/// Clients that write one row after the other, each in a transaction of its own.
pub(crate) struct Load {
    stop: Arc<AtomicBool>,
    done: Arc<AtomicU64>,
    threads: Vec<JoinHandle<Vec<u64>>>,
}

impl Load {
    /// Begins; the table `app.relayed` is made.
    pub(crate) fn start(server: &Server, threads: u64) -> Self {
        server
            .query("CREATE TABLE IF NOT EXISTS app.relayed (id BIGINT PRIMARY KEY, t VARCHAR(200))")
            .unwrap();
        let (stop, done) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let one = |number: u64| {
            let (stop, done, address) = (stop.clone(), done.clone(), address(server));
            std::thread::spawn(move || write(&address, number << 32, &stop, &done))
        };
        let threads = (0..threads).map(one).collect();
        Self { stop, done, threads }
    }

    pub(crate) fn done(&self) -> u64 {
        self.done.load(Ordering::Relaxed)
    }

    /// Waits until so many more are acknowledged.
    pub(crate) fn go_on(&self, more: u64) {
        let wanted = self.done() + more;
        until(LIMIT, "writes to go on", || Ok(self.done() >= wanted)).unwrap();
    }

    /// Ends; the ids that were acknowledged.
    pub(crate) fn end(self) -> Vec<u64> {
        self.stop.store(true, Ordering::Relaxed);
        self.threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
    }
}

fn write(address: &Address, first: u64, stop: &AtomicBool, done: &AtomicU64) -> Vec<u64> {
    let mut ids = Vec::new();
    let Ok(mut client) = address.connect() else { return ids };
    for id in first.. {
        if stop.load(Ordering::Relaxed)
            || client.query(&format!("INSERT INTO relayed VALUES ({id}, 'row {id}')")).is_err()
        {
            break;
        }
        ids.push(id);
        done.fetch_add(1, Ordering::Relaxed);
    }
    ids
}
