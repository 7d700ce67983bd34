//! The machines: one with the primary, one with the copies, and a place for sysbench. A wire between the two machines is a process that
//! passes bytes on later.

use std::fs;
use std::path::PathBuf;
use std::process::Stdio;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use delphinus_sandbox::{Cluster, ClusterSpec, Flavor, Machine, Network, Server, Terminal};
use serde_json::json;
use toml::Table;

use crate::load::Target;
use crate::meter::process_ns;
use crate::running::{Running, spawn};
use crate::sysbench::{Counted, Load, Place, Sysbench};

use super::{Acker, StreamOptions};

const PRIMARY: usize = 0;
const SITE: usize = 1;
/// Where the wire ends on the copies' machine.
const WIRE_PORT: u16 = 4406;
/// Where the relay listens.
const RELAY_PORT: u16 = 4407;
/// The account of all that follow.
const USER: (&str, &str) = ("stream", "streampw");
/// How long a program may take until it does its work.
const LIMIT: Duration = Duration::from_secs(40);

/// Everything that is measured. Dropping it ends all of it.
pub(super) struct Ground {
    pub(super) sysbench: Sysbench,
    delphinus: PathBuf,
    cluster: Cluster,
    network: Network,
}

/// A relay with its wire.
pub(super) struct RelayHere {
    relay: Running,
    wire: Running,
}

impl RelayHere {
    pub(super) fn used_ns(&self) -> Result<u64> {
        self.relay.used_ns()
    }
}

impl Ground {
    pub(super) fn prepare(options: &StreamOptions) -> Result<Self> {
        let network = Network::make(2)?;
        let spec = ClusterSpec {
            flavor: Flavor::MySql,
            replicas: 1,
            machines: vec![network.machine(PRIMARY), network.machine(SITE)],
            max_connections: 200,
            extra_cnf: vec!["sync_binlog=1".to_owned(), "innodb_flush_log_at_trx_commit=1".to_owned()],
            newest: false,
        };
        let cluster = Cluster::start(&spec, &Terminal)?;
        let sysbench = Sysbench::find("oltp_write_only", &cluster, network.outside())?;
        let ground = Self { sysbench, delphinus: fs::canonicalize(&options.delphinus)?, cluster, network };
        ground.stop_replica()?;
        ground.ask_primary(&format!(
            "CREATE USER {0}@'%' IDENTIFIED BY '{1}'; GRANT REPLICATION SLAVE, REPLICATION CLIENT ON *.* TO {0}@'%'; \
             SET GLOBAL rpl_semi_sync_source_timeout = 600000; SET GLOBAL rpl_semi_sync_source_wait_point = 'AFTER_SYNC'",
            USER.0, USER.1
        ))?;
        ground.sysbench.prepare(&ground.primary()).context("sysbench's tables")?;
        Ok(ground)
    }

    pub(super) fn version(&self) -> Result<String> {
        self.ask_primary("SELECT CONCAT(@@version_comment, ' ', @@version)")
    }

    /// The primary's own address.
    pub(super) fn primary(&self) -> Place {
        let server = &self.cluster.servers[PRIMARY];
        Place { host: server.host.clone(), port: server.port }
    }

    /// Processor time of the primary so far, in nanoseconds.
    pub(super) fn primary_ns(&self) -> Result<u64> {
        process_ns(self.cluster.servers[PRIMARY].pid)
    }

    /// Length of the primary's log: there is one file.
    pub(super) fn log_bytes(&self) -> Result<u64> {
        let said = self.ask_primary("SHOW BINARY LOGS")?;
        let lengths = said.lines().map(|line| line.split('\t').nth(1)?.parse::<u64>().ok());
        lengths.sum::<Option<u64>>().with_context(|| format!("SHOW BINARY LOGS: {said}"))
    }

    /// The folder of what is measured.
    pub(super) fn folder(&self) -> &std::path::Path {
        self.cluster.dir()
    }

    /// `mysqlbinlog`, which comes with the client.
    pub(super) fn log_reader(&self) -> PathBuf {
        self.cluster.client_program().with_file_name("mysqlbinlog")
    }

    /// The machine of the copies.
    pub(super) fn site(&self) -> Machine {
        self.network.machine(SITE)
    }

    /// The file of that machine's network namespace.
    pub(super) fn site_namespace(&self) -> Result<PathBuf> {
        let site = self.site();
        let path = site.launcher.iter().find_map(|word| word.strip_prefix("--net="));
        path.map(PathBuf::from).with_context(|| format!("no network namespace in {:?}", site.launcher))
    }

    /// Where a reader of the primary connects, and as whom.
    pub(super) fn direct(&self) -> (Place, (&'static str, &'static str)) {
        (self.primary(), USER)
    }

    /// The same behind the relay.
    pub(super) fn relayed(&self) -> (Place, (&'static str, &'static str)) {
        (Place { host: self.site().host, port: RELAY_PORT }, USER)
    }

    pub(super) fn direct_target(&self) -> Target {
        target(self.direct())
    }

    pub(super) fn relayed_target(&self) -> Target {
        target(self.relayed())
    }

    fn ask_primary(&self, sql: &str) -> Result<String> {
        self.cluster.servers[PRIMARY].query(sql)
    }

    fn replica(&self) -> &Server {
        &self.cluster.servers[SITE]
    }

    /// The log is empty: a copy that begins now has nothing to catch up with.
    pub(super) fn begin_anew(&self) -> Result<()> {
        self.ask_primary("SET GLOBAL rpl_semi_sync_source_enabled = 0; RESET BINARY LOGS AND GTIDS").map(drop)
    }

    /// Transactions a second where each waits for this copy.
    pub(super) fn commits(&self, acker: Acker, round_trip_us: u64, load: Load) -> Result<Counted> {
        self.begin_anew()?;
        let _copy = match acker {
            Acker::None => None,
            Acker::Stock => Some(self.follow(round_trip_us, 10_000)?),
            Acker::StockSynced => Some(self.follow(round_trip_us, 1)?),
            Acker::Relay | Acker::RelayOneByOne => {
                let wire = self.wire(round_trip_us, acker == Acker::RelayOneByOne)?;
                let RelayHere { relay, wire } = self.relay_behind(wire, true)?;
                Some(vec![relay, wire])
            }
        };
        if acker != Acker::None {
            self.ask_primary("SET GLOBAL rpl_semi_sync_source_enabled = 1")?;
            until("a copy that acknowledges", || {
                let said = self.ask_primary("SHOW GLOBAL STATUS LIKE 'Rpl_semi_sync_source_clients'")?;
                Ok(said.trim().ends_with("\t1"))
            })?;
        }
        let counted = self.sysbench.measure(&self.primary(), load)?;
        let acknowledged = self.ask_primary("SHOW GLOBAL STATUS LIKE 'Rpl_semi_sync_source_no_tx'")?;
        ensure!(acknowledged.trim().ends_with("\t0"), "commits did not wait: {acknowledged}");
        self.ask_primary("SET GLOBAL rpl_semi_sync_source_enabled = 0")?;
        self.stop_replica()?;
        Ok(counted)
    }

    fn stop_replica(&self) -> Result<()> {
        let sql =
            "STOP REPLICA; RESET REPLICA ALL; SET GLOBAL super_read_only = 0; RESET BINARY LOGS AND GTIDS";
        self.replica().query(sql).map(drop)
    }

    /// The stock replica receives, and applies nothing: that is cheaper for it than what it does as a rule.
    fn follow(&self, round_trip_us: u64, sync_relay_log: u32) -> Result<Vec<Running>> {
        let wire = self.wire(round_trip_us, false)?;
        let (user, password) = USER;
        self.replica().query(&format!(
            "SET GLOBAL sync_relay_log = {sync_relay_log}; SET GLOBAL rpl_semi_sync_replica_enabled = 1; \
             CHANGE REPLICATION SOURCE TO SOURCE_HOST = '{}', SOURCE_PORT = {WIRE_PORT}, SOURCE_USER = '{user}', \
             SOURCE_PASSWORD = '{password}', SOURCE_AUTO_POSITION = 1, SOURCE_SSL = 0, GET_SOURCE_PUBLIC_KEY = 1; \
             START REPLICA IO_THREAD",
            self.site().host
        ))?;
        Ok(vec![wire])
    }

    /// A way to the primary on which bytes take half a round trip; events go one by one, each with its acknowledgement, if so wished.
    fn wire(&self, round_trip_us: u64, is_one_by_one: bool) -> Result<Running> {
        let (site, primary) = (self.site(), self.primary());
        let mut arguments = vec![
            "relay".to_owned(),
            format!("--listen={}:{WIRE_PORT}", site.host),
            format!("--backend={}:{}", primary.host, primary.port),
            format!("--delay-us={}", round_trip_us / 2),
        ];
        arguments.extend(is_one_by_one.then(|| "--one-by-one".to_owned()));
        let running = spawn(&site, &std::env::current_exe()?, &arguments, self.folder().join("wire.log"))?;
        until("the wire", || self.listens(WIRE_PORT))?;
        Ok(running)
    }

    /// Delphinus as a relay without semi-sync, with an empty folder.
    pub(super) fn relay(&self) -> Result<RelayHere> {
        self.relay_behind(self.wire(0, false)?, false)
    }

    fn relay_behind(&self, wire: Running, semi_sync: bool) -> Result<RelayHere> {
        let (folder, site, (user, password)) = (self.folder().join("relay"), self.site(), USER);
        if folder.exists() {
            fs::remove_dir_all(&folder)?;
        }
        let settings = json!({
            "relay": [{
                "name": "main", "folder": folder, "source": format!("{}:{WIRE_PORT}", site.host), "source_user": user,
                "source_password": password, "source_tls": "disabled", "source_get_server_public_key": true,
                "server_id": 1000, "semi_sync": semi_sync, "tls": "disabled",
                "addresses": [format!("{}:{RELAY_PORT}", site.host)],
                "user": [{ "name": user, "password": password }],
            }],
        });
        let file = self.folder().join("relay.toml");
        fs::write(&file, toml::to_string(&Table::try_from(&settings)?)?)?;
        let (log, arguments) =
            (self.folder().join("relay.log"), ["relay".to_owned(), format!("--config={}", file.display())]);
        let relay = spawn(&site, &self.delphinus, &arguments, log.clone())?;
        let begun = until("the relay", || {
            let files = fs::read_dir(&folder).into_iter().flatten().flatten();
            let has_begun = files.into_iter().any(|entry| entry.path().join("binlog.000001").exists());
            Ok(has_begun && self.listens(RELAY_PORT)?)
        });
        begun.with_context(|| fs::read_to_string(&log).unwrap_or_default())?;
        Ok(RelayHere { relay, wire })
    }

    /// True if something listens there on the copies' machine.
    fn listens(&self, port: u16) -> Result<bool> {
        let mut ask = self.site().command("ss");
        let said = ask.args(["-Hltn", &format!("sport = :{port}")]).stdin(Stdio::null()).output()?;
        Ok(!said.stdout.is_empty())
    }
}

fn target((place, (user, password)): (Place, (&str, &str))) -> Target {
    Target {
        address: format!("{}:{}", place.host, place.port)
            .parse()
            .expect("invariant: a machine has an address"),
        user: user.to_owned(),
        password: password.to_owned(),
        schema: String::new(),
        source: None,
    }
}

fn until(what: &str, mut is_so: impl FnMut() -> Result<bool>) -> Result<()> {
    let began = Instant::now();
    while !is_so()? {
        ensure!(began.elapsed() < LIMIT, "waited {} s for {what}", LIMIT.as_secs());
        thread::sleep(Duration::from_millis(20));
    }
    Ok(())
}
