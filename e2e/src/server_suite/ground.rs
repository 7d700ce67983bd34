//! What the tests run on: a server as `mariadb-test-run` would start it, and the proxy before it.
//!
//! Each test finds the server as it was at first. What a test has changed is looked for after it; where something was,
//! the server begins anew with a copy of its first data, and so does the proxy, which may remember what is gone.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use delphinus_sandbox::{Cluster, ClusterSpec, Flavor, Machine, PortLease, Silent};

use crate::client::Client;
use crate::config_file::ConfigFile;
use crate::programs::copy_tree;
use crate::proxy::Proxy;
use crate::server_suite::Protocol;
use crate::server_suite::catalogue::Catalogue;
use crate::server_suite::gate::CONNECTIONS;
use crate::server_suite::mtr::{self, Places, Prepared};
use crate::server_suite::trial::{self, Place, Trial, Verdict};
use crate::stage::{Address, start_proxy};

/// Tests show times of this zone, and some compare them.
const ZONE: &str = "TZ=GMT-3";

/// What results depend on, and what makes a server small. The suite's own server has the same.
const OPTIONS: [&str; 28] = [
    "skip_log_bin",
    "log_slave_updates=OFF",
    "gtid_strict_mode=OFF",
    "binlog_format=MIXED",
    "relay_log_recovery=OFF",
    "slave_net_timeout=120",
    // Users that tests make are at `localhost`; the proxy's connections come over TCP.
    "skip_name_resolve=OFF",
    "plugin_maturity=unknown",
    "local_infile=ON",
    "character_set_server=latin1",
    "connect_timeout=60",
    "log_basename=mysqld",
    "log_bin_trust_function_creators=1",
    "sort_buffer_size=256K",
    "max_heap_table_size=1M",
    "binlog_direct_non_transactional_updates=ON",
    "default_storage_engine=myisam",
    "use_stat_tables=preferably",
    "histogram_type=json_hb",
    "innodb_buffer_pool_size=8M",
    "innodb_lru_scan_depth=100",
    "innodb_write_io_threads=2",
    "innodb_read_io_threads=2",
    "innodb_log_buffer_size=2M",
    "innodb_log_file_size=10M",
    "table_open_cache=2000",
    // The suite's folder, as seen from where the server starts: tests write files beside the data, and read others.
    "secure_file_priv=..",
    "open_files_limit=4096",
];

/// What tests leave behind without changing another one's results.
const STATE: &str = "\
SELECT * FROM information_schema.global_variables WHERE variable_name NOT LIKE 'GTID%' \
    AND variable_name NOT IN ('TIMESTAMP', 'LAST_GTID') ORDER BY 1;\
SELECT * FROM information_schema.schemata ORDER BY BINARY schema_name;\
SELECT table_schema, table_name, engine FROM information_schema.tables WHERE table_schema IN ('test', 'mysql') ORDER BY 1, 2;\
SELECT event_schema, event_name FROM information_schema.events ORDER BY 1, 2;\
SELECT trigger_schema, trigger_name FROM information_schema.triggers WHERE trigger_schema <> 'sys' ORDER BY 1, 2;\
SELECT routine_schema, routine_name FROM information_schema.routines WHERE routine_schema <> 'sys' ORDER BY 1, 2;\
SELECT plugin_name, plugin_status FROM information_schema.plugins ORDER BY 1;\
CHECKSUM TABLE mysql.columns_priv, mysql.db, mysql.func, mysql.plugin, mysql.procs_priv, mysql.roles_mapping, \
    mysql.tables_priv, mysql.proxies_priv, mysql.servers, mysql.time_zone, mysql.time_zone_name, \
    mysql.time_zone_transition, mysql.time_zone_transition_type, mysql.help_topic, mysql.global_priv, \
    mysql.table_stats, mysql.column_stats, mysql.index_stats";

/// How long a proxy's client waits for one of its connections. Short, for a test with more waiting sessions than that
/// will not get on.
const CHECKOUT: &str = "checkout_timeout_ms = 3000";

/// Which way a test goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Way {
    Direct,
    /// Through the proxy, with so many connections to the server.
    Through(u32),
}

#[derive(Debug)]
struct Front {
    connections: u32,
    proxy: Proxy,
    address: Address,
    _port: PortLease,
}

/// A server, its first data, and the proxy if it is used.
#[derive(Debug)]
pub(crate) struct Ground {
    front: Option<Front>,
    cluster: Cluster,
    /// What [`STATE`] says of the first data.
    state: String,
    suite: Prepared,
}

impl Ground {
    /// Starts a server, and asks `mariadb-test-run` how it runs these tests.
    pub(crate) fn start(catalogue: &Catalogue, tests: &[String]) -> Result<Self> {
        let spec = ClusterSpec {
            flavor: Flavor::MariaDb,
            replicas: 0,
            max_connections: 151,
            extra_cnf: OPTIONS.iter().map(|line| (*line).to_owned()).chain(certificates(catalogue)).collect(),
            machines: vec![Machine {
                host: "127.0.0.1".to_owned(),
                launcher: vec!["env".to_owned(), ZONE.to_owned()],
            }],
        };
        let mut cluster = Cluster::start(&spec, &Silent)?;
        prepare(&mut cluster)?;
        let state = cluster.servers[0].query(STATE)?;
        let server = &cluster.servers[0];
        let (vardir, port) = (cluster.dir(), server.port);
        let suite =
            mtr::calls(Places { suite: &catalogue.folder, vardir, socket: &server.socket, port }, tests)?;
        Ok(Self { front: None, cluster, state, suite })
    }

    /// Starts another server for the same tests.
    pub(crate) fn start_another(&self, catalogue: &Catalogue) -> Result<Self> {
        // It takes a tenth of a second for each test, and says of one what there is to know.
        let mut other = Self::start(catalogue, &self.names()[..1])?;
        other.suite = self.suite.moved(&self.vardir(), &other.vardir());
        Ok(other)
    }

    /// The tests that `mariadb-test-run` would run.
    pub(crate) fn names(&self) -> Vec<String> {
        self.suite.calls.iter().map(|call| call.name.clone()).collect()
    }

    /// Runs a test, and makes the server again what it was.
    pub(crate) fn run(
        &mut self,
        (name, protocol): (&str, Protocol),
        way: Way,
        limit: Duration,
    ) -> Result<Trial> {
        self.go(way)?;
        let address = self.address();
        point_clients_to(&self.vardir().join("my.cnf"), &address)?;
        let call = self.suite.calls.iter().find(|call| call.name == name);
        let call = call.with_context(|| format!("mariadb-test-run does not run {name}"))?;
        let place = Place { protocol, vardir: &self.vardir(), address: &address, limit };
        let mut trial = trial::run(&self.suite, call, place)?;
        if let Some(front) = &mut self.front {
            if let Some(status) = front.proxy.ended()? {
                trial.verdict = Verdict::Failed;
                let log = front.proxy.log();
                let _ = writeln!(trial.said, "\nDelphinus ended with {status}:\n{log}");
            } else if !trial.has_passed() {
                let log = front.proxy.log();
                let grave = log.lines().filter(|line| line.contains("ERROR") || line.contains("panic"));
                trial.said.extend(grave.take(10).map(|line| format!("delphinus: {line}\n")));
            }
        }
        let is_same = self.cluster.servers[0].query(STATE).is_ok_and(|state| state == self.state);
        let is_quiet = matches!(trial.verdict, Verdict::Passed | Verdict::Skipped);
        if !is_same || !is_quiet {
            self.begin_anew()?;
        }
        Ok(trial)
    }

    /// Starts or stops the proxy.
    fn go(&mut self, way: Way) -> Result<()> {
        let now = self.front.as_ref().map_or(Way::Direct, |front| Way::Through(front.connections));
        if now == way {
            return Ok(());
        }
        self.front = None;
        if let Way::Through(connections) = way {
            let config = ConfigFile {
                pool: vec![format!("max_connections = {connections}"), CHECKOUT.to_owned()],
                // As the server does.
                unix_listener: vec!["compression_algorithms = [\"zlib\", \"uncompressed\"]".to_owned()],
                // Tests make users of their own.
                sections: vec!["[authentication]\nauth = \"backend\"\n".to_owned()],
                ..ConfigFile::default()
            };
            let (port, proxy, address) = start_proxy(&self.cluster, &config)?;
            fill(&address)?;
            self.front = Some(Front { connections, proxy, address, _port: port });
        }
        Ok(())
    }

    fn begin_anew(&mut self) -> Result<()> {
        let way = self.front.as_ref().map_or(Way::Direct, |front| Way::Through(front.connections));
        self.front = None;
        let (data, first, vardir) = (self.data(), first_data(&self.cluster), self.vardir());
        let server = &mut self.cluster.servers[0];
        server.kill9();
        fs::remove_dir_all(&data)?;
        copy_tree(&first, &data)?;
        for folder in [vardir.join("tmp"), data.with_file_name("tmp")] {
            fs::remove_dir_all(&folder)?;
            fs::create_dir_all(&folder)?;
        }
        server.start_again()?;
        self.go(way)
    }

    fn address(&self) -> Address {
        self.front
            .as_ref()
            .map_or_else(|| crate::stage::straight_to_primary(&self.cluster), |front| front.address.clone())
    }

    fn data(&self) -> PathBuf {
        self.cluster.servers[0].datadir.clone()
    }

    /// The suite's folder. Tests expect the server's data in it, two steps down.
    fn vardir(&self) -> PathBuf {
        self.cluster.dir().to_owned()
    }
}

/// Has the proxy open all connections of the gate's pool: tests wait until the server has as few as at their beginning.
fn fill(address: &Address) -> Result<()> {
    let mut clients = Vec::new();
    for _ in 0..CONNECTIONS {
        let mut client = address.connect()?;
        client.query("START TRANSACTION")?;
        client.rows("SELECT COUNT(*) FROM mysql.time_zone")?;
        clients.push(client);
    }
    for client in &mut clients {
        // The connection of a session that ends in a transaction is closed.
        client.query("ROLLBACK")?;
    }
    clients.into_iter().try_for_each(Client::quit)
}

fn first_data(cluster: &Cluster) -> PathBuf {
    cluster.dir().join("first-data")
}

/// Makes the sandbox's server the suite's: `root` without a password, its schemas, its time zones; and keeps a copy.
fn prepare(cluster: &mut Cluster) -> Result<()> {
    let first = first_data(cluster);
    let server = &mut cluster.servers[0];
    for sql in [
        "DROP DATABASE app; DROP DATABASE sbtest",
        "CREATE DATABASE test CHARACTER SET latin1 COLLATE latin1_swedish_ci",
        // Tests say which warnings of the log they expect; only the suite's own server is looked at for them.
        "CREATE DATABASE mtr CHARACTER SET latin1",
        "CREATE TABLE mtr.test_suppressions (pattern VARCHAR(255)) ENGINE=MyISAM",
        "CREATE PROCEDURE mtr.add_suppression(pattern VARCHAR(255)) INSERT INTO mtr.test_suppressions VALUES (pattern)",
        // A command of the client stands on a line of its own.
        "USE mysql\nsource /usr/share/mysql/mysql_test_data_timezone.sql",
        "ALTER TABLE mysql.gtid_slave_pos ENGINE=Aria TRANSACTIONAL=0",
    ] {
        server.query(sql)?;
    }
    let users = server.query("SELECT CONCAT(QUOTE(user), '@', QUOTE(host)) FROM mysql.global_priv")?;
    for user in
        users.lines().filter(|user| !["'root'@'localhost'", "'mariadb.sys'@'localhost'"].contains(user))
    {
        server.query(&format!("DROP USER {user}"))?;
    }
    let _ = server.query("UNINSTALL SONAME 'auth_ed25519'");
    server.query("ALTER USER root@localhost IDENTIFIED BY ''")?;
    let client = server.datadir.with_file_name("client.cnf");
    fs::write(client, format!("[client]\nuser=root\nsocket={}\n", server.socket.display()))?;
    server.root_password = String::new();
    // What tests know the server's folder by.
    std::os::unix::fs::symlink(server.datadir.with_file_name(""), first.with_file_name("mysqld.1"))?;
    server.stop_graceful()?;
    copy_tree(&server.datadir, &first)?;
    server.start_again()?;
    for (user, password) in [
        (&mut cluster.app_user, &mut cluster.app_password),
        (&mut cluster.monitor_user, &mut cluster.monitor_password),
    ] {
        "root".clone_into(user);
        password.clear();
    }
    "test".clone_into(&mut cluster.database);
    Ok(())
}

/// The suite's own, so that tests with TLS can run.
fn certificates(catalogue: &Catalogue) -> Vec<String> {
    let files = [("ca", "cacert.pem"), ("cert", "server-cert.pem"), ("key", "server-key.pem")];
    let line =
        |(what, file)| format!("ssl_{what}={}", catalogue.folder.join("std_data").join(file).display());
    files.into_iter().map(line).collect()
}

/// The file that all programs of the suite read.
fn point_clients_to(file: &Path, address: &Address) -> Result<()> {
    let text = fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))?;
    let mut found = 0;
    let lines = text.lines().map(|line| {
        let (name, _) = line.split_once('=').unwrap_or((line, ""));
        match name.trim() {
            "socket" => {
                found += 1;
                format!("socket={}\n", address.socket.display())
            }
            "port" => {
                found += 1;
                format!("port={}\n", address.port)
            }
            _ => format!("{line}\n"),
        }
    });
    let text: String = lines.collect();
    ensure!(found == 2, "{} has no line for the socket and the port", file.display());
    fs::write(file, text)?;
    Ok(())
}
