//! A primary, a relay behind it, and replicas behind the relay.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use delphinus_sandbox::{Cluster, ClusterSpec, Flavor, PortLease, REPL, Server, Silent};

use crate::poll::{eventually, until};
use crate::proxy::{Proxy, proxy_binary};

/// How long replicas may take to have what the primary has.
const LIMIT: Duration = Duration::from_mins(3);
/// `server_id` of servers that are no part of the cluster.
const FIRST_EXTRA_ID: u32 = 50;

/// A relay as a process. Dropping it kills it.
#[derive(Debug)]
pub struct RelayProcess {
    /// The process.
    pub process: Proxy,
    /// Where replicas connect, on 127.0.0.1.
    pub port: u16,
    /// Its folder.
    pub folder: PathBuf,
    _port: PortLease,
}

impl RelayProcess {
    /// Starts one behind the server at this port; more lines for its section.
    pub fn start(dir: &Path, name: &str, (source, server_id): (u16, u32), lines: &[&str]) -> Result<Self> {
        let source = format!("source = \"127.0.0.1:{source}\"");
        Self::start_behind(dir, name, (&source, server_id), lines)
    }

    /// The same behind what this line of its section says.
    pub fn start_behind(
        dir: &Path,
        name: &str,
        (source, server_id): (&str, u32),
        lines: &[&str],
    ) -> Result<Self> {
        let lease = PortLease::take()?;
        let (port, folder) = (lease.port(), dir.join(name));
        let mut text = format!(
            "[[relay]]\nname = \"{name}\"\nfolder = \"{}\"\n{source}\nsource_user = \"{user}\"\n\
             source_password = \"{password}\"\nserver_id = {server_id}\naddresses = [\"127.0.0.1:{port}\", \"127.0.0.2:{port}\", \"unix:{socket}\"]\nheartbeat_ms = 1000\n\
             retry_ms = 200\n",
            folder.display(),
            socket = dir.join(format!("{name}.sock")).display(),
            user = REPL.user,
            password = REPL.password,
        );
        for line in lines {
            text += line;
            text.push('\n');
        }
        let user = format!("[[relay.user]]\nname = \"{}\"\npassword = \"{}\"\n", REPL.user, REPL.password);
        text.push_str(&user);
        let config = dir.join(format!("{name}.toml"));
        fs::write(&config, text)?;
        let arguments = ["run".to_owned(), "--config".to_owned(), config.display().to_string()];
        let process =
            Proxy::start_program(proxy_binary()?, arguments.to_vec(), config.with_extension("log"))?;
        let mut relay = Self { process, port, folder, _port: lease };
        relay.wait_until_it_listens()?;
        Ok(relay)
    }

    /// Where replicas of this machine may connect.
    pub fn socket(&self) -> PathBuf {
        self.folder.with_extension("sock")
    }

    /// SIGKILL, and again at once.
    pub fn kill_and_start_again(&mut self) -> Result<()> {
        self.process.kill_and_start_again()?;
        self.wait_until_it_listens()
    }

    fn wait_until_it_listens(&mut self) -> Result<()> {
        let port = self.port;
        until(Duration::from_secs(30), "the relay to listen", || {
            ensure!(self.process.ended()?.is_none(), "the relay has ended:\n{}", self.process.log());
            Ok(std::net::TcpStream::connect(("127.0.0.1", port)).is_ok())
        })
    }

    /// Its folders of sources, oldest first.
    pub fn folders(&self) -> Result<Vec<PathBuf>> {
        let mut folders: Vec<_> =
            fs::read_dir(&self.folder)?.filter_map(|entry| Some(entry.ok()?.path())).collect();
        folders.retain(|path| path.is_dir());
        folders.sort();
        Ok(folders)
    }

    /// The log files of a folder, oldest first.
    pub fn files(folder: &Path) -> Result<Vec<PathBuf>> {
        let mut files: Vec<_> = fs::read_dir(folder)?.filter_map(|entry| Some(entry.ok()?.path())).collect();
        let is_log = |path: &PathBuf| {
            let number = path.extension().and_then(|it| it.to_str()).unwrap_or_default();
            !number.is_empty() && number.bytes().all(|digit| digit.is_ascii_digit())
        };
        files.retain(is_log);
        files.sort();
        Ok(files)
    }
}

/// A cluster whose replicas follow a relay. Fields may be used at will.
#[derive(Debug)]
pub struct Ground {
    /// The relay; dropped before its source.
    pub relay: RelayProcess,
    /// The primary and replicas of its kind and version.
    pub cluster: Cluster,
    /// More replicas, each a cluster of one: MariaDB's newest release.
    pub extra: Vec<Cluster>,
}

impl Ground {
    /// Starts all of it, with `replicas` of the primary's own version, and on MariaDB one of the newest release. Replicas have four
    /// workers and follow over TLS; the newest MariaDB verifies the relay's certificate, which the relay has made itself.
    pub fn start(flavor: Flavor, replicas: usize, cnf: &[&str]) -> Result<Self> {
        Self::start_with(flavor, replicas, (cnf, &[]))
    }

    /// The same with more lines for the relay's section.
    pub fn start_with(flavor: Flavor, replicas: usize, (cnf, lines): (&[&str], &[&str])) -> Result<Self> {
        let mut extra_cnf: Vec<_> = cnf.iter().map(|line| (*line).to_owned()).collect();
        extra_cnf.push("max_allowed_packet=1G".to_owned());
        let mariadb =
            ["slave_parallel_threads=4", "slave_parallel_mode=optimistic", "slave_max_allowed_packet=1G"];
        let mysql = ["replica_parallel_workers=4", "replica_max_allowed_packet=1G", "secure_file_priv="];
        let own: &[&str] = if flavor.is_mysql() { &mysql } else { &mariadb };
        extra_cnf.extend(own.iter().map(|line| (*line).to_owned()));
        let spec = ClusterSpec { flavor, replicas, extra_cnf: extra_cnf.clone(), ..ClusterSpec::default() };
        let cluster = Cluster::start(&spec, &Silent)?;
        let mut extra = Vec::new();
        if flavor == Flavor::MariaDb {
            let spec = ClusterSpec { replicas: 0, newest: true, ..spec };
            extra.push(Cluster::start(&spec, &Silent)?);
        }
        let source = cluster.servers[0].port;
        let relay = RelayProcess::start(cluster.dir(), "relay", (source, 999), lines)?;
        let ground = Self { relay, cluster, extra };
        for replica in &ground.cluster.servers[1..] {
            // They ask for semi-sync, which a relay does not give.
            let asks = if ground.is_mysql() {
                "rpl_semi_sync_replica_enabled"
            } else {
                "rpl_semi_sync_slave_enabled"
            };
            replica.query(&format!("SET GLOBAL {asks} = ON"))?;
            ground.follow(replica, ground.relay.port)?;
        }
        for (number, cluster) in ground.extra.iter().enumerate() {
            let server = &cluster.servers[0];
            server.query(&format!("SET GLOBAL server_id={}", FIRST_EXTRA_ID + number as u32))?;
            // It has made its schema itself, as the primary has: only what comes later is replicated.
            server.query("RESET MASTER; SET GLOBAL gtid_slave_pos=''; SET GLOBAL read_only=ON")?;
            ground.follow_newest_mariadb(server)?;
        }
        Ok(ground)
    }

    /// The primary.
    pub fn primary(&self) -> &Server {
        &self.cluster.servers[0]
    }

    /// All replicas.
    pub fn replicas(&self) -> Vec<&Server> {
        self.cluster.servers[1..].iter().chain(self.extra.iter().map(|cluster| &cluster.servers[0])).collect()
    }

    /// True on MySQL.
    pub fn is_mysql(&self) -> bool {
        self.cluster.flavor.is_mysql()
    }

    /// Has a replica follow what listens at this port, by GTID, over TLS.
    pub fn follow(&self, replica: &Server, port: u16) -> Result<()> {
        let (user, password) = (REPL.user, REPL.password);
        let text = if self.is_mysql() {
            format!(
                "STOP REPLICA; CHANGE REPLICATION SOURCE TO SOURCE_HOST='127.0.0.1', SOURCE_PORT={port}, SOURCE_USER='{user}', \
                 SOURCE_PASSWORD='{password}', SOURCE_AUTO_POSITION=1, SOURCE_SSL=1, SOURCE_CONNECT_RETRY=1, \
                 SOURCE_HEARTBEAT_PERIOD=1; START REPLICA"
            )
        } else {
            format!(
                "STOP SLAVE; CHANGE MASTER TO MASTER_HOST='127.0.0.1', MASTER_PORT={port}, MASTER_USER='{user}', \
                 MASTER_PASSWORD='{password}', MASTER_USE_GTID=slave_pos, MASTER_SSL=1, MASTER_CONNECT_RETRY=1, \
                 MASTER_HEARTBEAT_PERIOD=1; START SLAVE"
            )
        };
        replica.query(&text).map(drop)
    }

    /// The defaults of 11.8: TLS, and a certificate that is verified; without an authority, by the password. To 127.0.0.1 it would not be
    /// verified.
    fn follow_newest_mariadb(&self, replica: &Server) -> Result<()> {
        let text = format!(
            "CHANGE MASTER TO MASTER_HOST='127.0.0.2', MASTER_PORT={}, MASTER_USER='{}', MASTER_PASSWORD='{}', \
             MASTER_USE_GTID=slave_pos, MASTER_SSL=1, MASTER_SSL_VERIFY_SERVER_CERT=1, MASTER_CONNECT_RETRY=1, \
             MASTER_HEARTBEAT_PERIOD=1; START SLAVE",
            self.relay.port, REPL.user, REPL.password
        );
        replica.query(&text).map(drop)
    }

    /// A field of SHOW REPLICA STATUS (MariaDB: SHOW SLAVE STATUS), by its two names.
    pub fn status(&self, replica: &Server, (mysql, mariadb): (&str, &str)) -> Result<String> {
        let (sql, name) =
            if self.is_mysql() { ("SHOW REPLICA STATUS", mysql) } else { ("SHOW SLAVE STATUS", mariadb) };
        let text = replica.query_vertical(sql)?;
        let line = text.lines().find_map(|line| line.trim().strip_prefix(name)?.strip_prefix(':'));
        Ok(line.with_context(|| format!("no {name} in:\n{text}"))?.trim().to_owned())
    }

    /// Waits until each replica has all that the primary has now.
    pub fn catch_up(&self) -> Result<()> {
        let sql = if self.is_mysql() {
            "SELECT REPLACE(@@gtid_executed, '\\n', '')"
        } else {
            "SELECT @@gtid_binlog_pos"
        };
        let all = self.primary().query(sql)?;
        for replica in self.replicas() {
            self.reaches(replica, &all)?;
        }
        Ok(())
    }

    /// Waits until a replica has this set, or position.
    pub fn reaches(&self, replica: &Server, all: &str) -> Result<()> {
        let what = format!("{} to have {all}", replica.name);
        let reached = eventually(LIMIT, &what, || {
            self.runs(replica)?;
            let seconds = 2;
            let sql = if self.is_mysql() {
                format!("SELECT WAIT_FOR_EXECUTED_GTID_SET('{all}', {seconds})")
            } else {
                format!("SELECT MASTER_GTID_WAIT('{all}', {seconds})")
            };
            Ok((replica.query(&sql)? == "0").then_some(()))
        });
        reached.with_context(|| {
            let sql = if self.is_mysql() { "SHOW REPLICA STATUS" } else { "SHOW SLAVE STATUS" };
            format!(
                "{}\nrelay:\n{}",
                replica.query_vertical(sql).unwrap_or_default(),
                self.relay.process.log()
            )
        })
    }

    /// Fails if a replica has stopped for a reason that does not go away by itself.
    pub fn runs(&self, replica: &Server) -> Result<()> {
        let sql_runs = self.status(replica, ("Replica_SQL_Running", "Slave_SQL_Running"))?;
        let io_runs = self.status(replica, ("Replica_IO_Running", "Slave_IO_Running"))?;
        let error = self.status(replica, ("Last_IO_Error", "Last_IO_Error"))?;
        let sql_error = self.status(replica, ("Last_SQL_Error", "Last_SQL_Error"))?;
        ensure!(
            sql_runs == "Yes" && io_runs != "No",
            "{} has stopped: {io_runs}/{sql_runs} {error} {sql_error}",
            replica.name
        );
        Ok(())
    }

    /// Checksums of all tables of these schemas are the same everywhere; how many tables there are.
    pub fn same_data(&self, schemas: &[&str]) -> Result<usize> {
        let list = schemas.iter().map(|schema| format!("'{schema}'")).collect::<Vec<_>>().join(",");
        let sql = format!(
            "SELECT CONCAT(table_schema, '.', table_name) FROM information_schema.tables \
             WHERE table_schema IN ({list}) AND table_type='BASE TABLE' ORDER BY 1"
        );
        let tables = self.primary().query(&sql)?;
        let names: Vec<&str> = tables.lines().collect();
        ensure!(!names.is_empty(), "there are no tables");
        let checksums = format!("CHECKSUM TABLE {}", names.join(", "));
        let expected = self.primary().query(&checksums)?;
        for replica in self.replicas() {
            ensure!(replica.query(&sql)? == tables, "{} has other tables", replica.name);
            let found = replica.query(&checksums)?;
            let differing: Vec<_> =
                expected.lines().zip(found.lines()).filter(|(one, other)| one != other).collect();
            ensure!(differing.is_empty(), "{}: {differing:?}", replica.name);
        }
        Ok(names.len())
    }

    /// The relay's files are the source's byte by byte, but for the mark of a file that is open or was when the source was killed. How
    /// many there are.
    pub fn same_files(&self) -> Result<usize> {
        let folders = self.relay.folders()?;
        let files = RelayProcess::files(folders.last().context("the relay has no folder")?)?;
        for (at, file) in files.iter().enumerate() {
            let name = file.file_name().context("a file has a name")?;
            let (own, mut source) = (fs::read(file)?, fs::read(self.primary().datadir.join(name))?);
            // LOG_EVENT_BINLOG_IN_USE_F of the first event.
            source[4 + 17] &= !1;
            let is_last = at + 1 == files.len();
            ensure!(source.starts_with(&own), "{} is no front part of the source's", name.display());
            ensure!(is_last || own.len() == source.len(), "{} is shorter than the source's", name.display());
        }
        Ok(files.len())
    }
}
