//! What the tests run on: a server as `mariadb-test-run` would start it, and the proxy before it.
//!
//! Each test finds the server as it was at first. What a test has changed is looked for after it; where something was,
//! the server begins anew with a copy of its first data, and so does the proxy, which may remember what is gone.

use std::collections::BTreeMap;
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
use crate::server_suite::first_data;
use crate::server_suite::gate::CONNECTIONS;
use crate::server_suite::mtr::{self, Places, Prepared};
use crate::server_suite::options::Wants;
use crate::server_suite::trial::{self, Place, Trial, Verdict};
use crate::stage::{Address, start_proxy};

/// Tests show times of this zone, and some compare them.
const ZONE: &str = "TZ=GMT-3";

/// Starts the server with what a test wants: files in its folder hold an option in each line, and the zone. The folder's
/// other name is the one that tests expect.
const LAUNCHER: &str = r#"
cd ../mysqld.1 2>/dev/null && set -- "$@" --datadir="$PWD/data" --general-log-file="$PWD/mysqld.log" \
    --slow-query-log-file="$PWD/mysqld-slow.log"
[ ! -e test-options ] || while IFS= read -r option; do set -- "$@" ${option:+"$option"}; done <test-options
[ ! -e test-zone ] || TZ=$(cat test-zone)
exec "$@""#;

/// What results depend on, and what makes a server small. The suite's own server has the same.
const OPTIONS: [&str; 33] = [
    "skip_log_bin",
    "log_slave_updates=OFF",
    "gtid_strict_mode=OFF",
    "binlog_format=MIXED",
    "relay_log_recovery=OFF",
    "max_binlog_size=1G",
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
    "innodb_data_file_path=ibdata1:12M:autoextend",
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
    "log_output=FILE",
    "general_log=ON",
    "slow_query_log=ON",
];

/// Plugins of the server that only tests get who ask for them.
const PLUGINS: [&str; 36] = [
    "feedback",
    "innodb",
    "innodb-buffer-page-lru",
    "innodb-buffer-pool-stats",
    "innodb-cmp",
    "innodb-cmp-per-index",
    "innodb-cmp-per-index-reset",
    "innodb-cmp-reset",
    "innodb-cmpmem",
    "innodb-cmpmem-reset",
    "innodb-ft-being-deleted",
    "innodb-ft-config",
    "innodb-ft-default-stopword",
    "innodb-ft-deleted",
    "innodb-ft-index-cache",
    "innodb-ft-index-table",
    "innodb-sys-columns",
    "innodb-sys-fields",
    "innodb-sys-foreign",
    "innodb-sys-foreign-cols",
    "innodb-sys-indexes",
    "innodb-sys-tables",
    "innodb-sys-tablespaces",
    "innodb-sys-tablestats",
    "innodb-sys-virtual",
    "innodb-tablespaces-encryption",
    "partition",
    "sequence",
    "thread-pool-groups",
    "thread-pool-queues",
    "thread-pool-stats",
    "thread-pool-waits",
    "unix-socket",
    "user-variables",
    "archive",
    "blackhole",
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
    /// What [`STATE`] says of the first data, with the options of now.
    state: String,
    /// What the server was started with; none if it did not start.
    now: Option<Wants>,
    wants: BTreeMap<String, Wants>,
    suite: Prepared,
}

impl Ground {
    /// Starts a server, and asks `mariadb-test-run` how it runs these tests.
    pub(crate) fn start(catalogue: &Catalogue, tests: &[String]) -> Result<Self> {
        let spec = ClusterSpec {
            flavor: Flavor::MariaDb,
            replicas: 0,
            max_connections: 151,
            extra_cnf: lines(catalogue),
            newest: false,
            machines: vec![Machine {
                host: "127.0.0.1".to_owned(),
                launcher: ["env", ZONE, "sh", "-c", LAUNCHER, "launcher"].map(str::to_owned).to_vec(),
            }],
        };
        let mut cluster = Cluster::start(&spec, &Silent)?;
        first_data::make(&mut cluster, &catalogue.folder)?;
        let state = cluster.servers[0].query(STATE)?;
        let server = &cluster.servers[0];
        let (vardir, port) = (cluster.dir(), server.port);
        let suite =
            mtr::calls(Places { suite: &catalogue.folder, vardir, socket: &server.socket, port }, tests)?;
        let now = Some(Wants::default());
        let mut ground = Self { front: None, state, now, wants: BTreeMap::new(), cluster, suite };
        ground.learn(catalogue);
        Ok(ground)
    }

    /// Starts another server for the same tests.
    pub(crate) fn start_another(&self, catalogue: &Catalogue) -> Result<Self> {
        // It takes a tenth of a second for each test, and says of one what there is to know.
        let mut other = Self::start(catalogue, &self.names()[..1])?;
        other.suite = self.suite.moved(&self.vardir(), &other.vardir());
        other.learn(catalogue);
        Ok(other)
    }

    /// What tests want, and an order in which the server begins anew seldom.
    fn learn(&mut self, catalogue: &Catalogue) {
        let suite = &self.suite;
        let filled = |wants: &Wants| wants.filled(|name| suite.variable(name));
        self.wants = catalogue.tests.iter().map(|(name, wants)| (name.clone(), filled(wants))).collect();
        self.suite.calls.sort_by_key(|call| self.wants.get(&call.name).cloned().unwrap_or_default());
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
        let wants = self.wants.get(name).cloned().unwrap_or_default();
        let zone = wants.zone.clone();
        if self.way() != way {
            // The same test may have run the other way just now, and left files that it wants to make.
            self.now = None;
        }
        if let Err(error) = self.change_to(wants).and_then(|()| self.go(way)) {
            self.now = None;
            return Ok(Trial::not_begun(name, &format!("{error:#}")));
        }
        let address = self.address();
        if let Err(error) = self.front.as_ref().map_or(Ok(()), |front| fill(&front.address)) {
            self.now = None;
            return Ok(Trial::not_begun(name, &format!("{error:#}")));
        }
        point_clients_to(&self.vardir().join("my.cnf"), &address)?;
        let call = self.suite.calls.iter().find(|call| call.name == name);
        let call = call.with_context(|| format!("mariadb-test-run does not run {name}"))?;
        let place =
            Place { protocol, vardir: &self.vardir(), address: &address, limit, zone: zone.as_deref() };
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
            // The next test starts it.
            self.now = None;
        }
        Ok(trial)
    }

    /// Starts the server with its first data and these options, unless it is just that.
    fn change_to(&mut self, wants: Wants) -> Result<()> {
        if self.now.as_ref() == Some(&wants) {
            return Ok(());
        }
        self.now = None;
        self.begin_anew(&wants)?;
        self.state = self.cluster.servers[0].query(STATE)?;
        self.now = Some(wants);
        Ok(())
    }

    /// Which way tests go now.
    fn way(&self) -> Way {
        self.front.as_ref().map_or(Way::Direct, |front| Way::Through(front.connections))
    }

    /// Starts or stops the proxy.
    fn go(&mut self, way: Way) -> Result<()> {
        if self.way() == way {
            return Ok(());
        }
        self.front = None;
        if let Way::Through(connections) = way {
            let config = ConfigFile {
                pool: vec![format!("max_connections = {connections}"), CHECKOUT.to_owned()],
                // As the server does.
                listener: self.listener(),
                unix_listener: self.listener(),
                // Tests make users of their own.
                sections: vec!["[authentication]\nauth = \"backend\"\n".to_owned()],
                // Some tests subtract the port that they connect to from `@@port`, without a sign.
                port_below: Some(self.cluster.servers[0].port),
                ..ConfigFile::default()
            };
            let (port, proxy, address) = start_proxy(&self.cluster, &config)?;
            self.front = Some(Front { connections, proxy, address, _port: port });
        }
        Ok(())
    }

    /// What the server offers its clients, too: compression, and TLS with the certificate that the test knows.
    fn listener(&self) -> Vec<String> {
        let own = |what: &str| {
            let name = format!("ssl-{what}=");
            let mut options = self.now.iter().flat_map(|wants| &wants.options).rev();
            options.find_map(|option| Some(option.split_once(&name)?.1.to_owned()))
        };
        let file = |what: &str, usual: &str| {
            let usual = || self.suite.folder.join("std_data").join(usual).display().to_string();
            format!("tls_{what} = \"{}\"", own(what).unwrap_or_else(usual))
        };
        vec![
            "compression_algorithms = [\"zlib\", \"uncompressed\"]".to_owned(),
            "tls = \"optional\"".to_owned(),
            file("cert", "server-cert.pem"),
            file("key", "server-key.pem"),
        ]
    }

    fn begin_anew(&mut self, wants: &Wants) -> Result<()> {
        self.front = None;
        let (data, first, vardir) = (self.data(), first_data::folder(&self.cluster), self.vardir());
        let server = &mut self.cluster.servers[0];
        server.kill9();
        fs::remove_dir_all(&data)?;
        copy_tree(&first, &data)?;
        for folder in [vardir.join("tmp"), data.with_file_name("tmp")] {
            fs::remove_dir_all(&folder)?;
            fs::create_dir_all(&folder)?;
        }
        for log in ["mysqld.log", "mysqld-slow.log"] {
            let _ = fs::remove_file(data.with_file_name(log));
        }
        let options = wants.options.join("\n") + "\n";
        fs::write(data.with_file_name(first_data::OPTIONS), options)?;
        let zone = wants.zone.as_deref().or(ZONE.split_once('=').map(|(_, zone)| zone));
        fs::write(data.with_file_name("test-zone"), zone.unwrap_or_default())?;
        server.start_again()
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

/// For the server's option file: what all tests have, and the suite's own certificates, so that tests with TLS can run.
fn lines(catalogue: &Catalogue) -> Vec<String> {
    let files = [("ca", "cacert.pem"), ("cert", "server-cert.pem"), ("key", "server-key.pem")];
    let certificate =
        |(what, file)| format!("ssl_{what}={}", catalogue.folder.join("std_data").join(file).display());
    let options = OPTIONS.iter().map(|line| (*line).to_owned());
    let plugins = PLUGINS.iter().map(|name| format!("loose-skip-plugin-{name}"));
    options.chain(plugins).chain(files.map(certificate)).collect()
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
