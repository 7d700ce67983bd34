//! Servers, the proxies before them, and what an operator does there.

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use delphinus_sandbox::{Flavor, PortLease, Server, ensure_packages};

use super::VISITORS;
use super::sysbench::{SCHEMA, Sysbench};
use crate::client::Client;
use crate::config_file::ConfigFile;
use crate::operators::Operators;
use crate::poll::until;
use crate::proxy::Proxy;
use crate::stage::{Address, Stage};

const LIMIT: Duration = Duration::from_mins(1);
/// More than the monitor asks for in that time.
const READS: u64 = 500;

/// Where everything happens.
#[derive(Debug)]
pub struct Ground {
    pub(super) stage: Stage,
    pub(super) flavor: Flavor,
    operators: [Operators; 2],
    /// The second proxy.
    other: (Proxy, Address, PortLease),
    file: PathBuf,
}

type Rows = Vec<Vec<Option<String>>>;

impl Ground {
    /// A primary and two replicas of this kind, and two proxies.
    pub fn start(flavor: Flavor) -> Result<Self> {
        ensure_packages(&["sysbench"])?;
        let operators = [Operators::default(), Operators::default()];
        let config = |number: usize| ConfigFile {
            sections: vec![operators[number].section()],
            pool: vec!["max_connections = 100".to_owned()],
            ..ConfigFile::default()
        };
        let stage = Stage::with_servers(flavor, &["general_log=OFF"], &config(0))?;
        let other = stage.another_proxy(&config(1))?;
        let file = stage.address.socket.with_file_name("delphinus.toml");
        let mut setup = stage.address.connect()?;
        setup.query("CREATE TABLE app.changed (client INT PRIMARY KEY, touched BIGINT DEFAULT 0)")?;
        setup.query("CREATE TABLE app.changes (id BIGINT AUTO_INCREMENT PRIMARY KEY, client INT)")?;
        for client in 0..VISITORS {
            setup.query(&format!("INSERT INTO app.changed (client) VALUES ({client})"))?;
        }
        Sysbench::prepare(&stage.address)?;
        stage.wait_for_replicas(&format!("SELECT COUNT(*) FROM {SCHEMA}.sbtest4"))?;
        Ok(Self { stage, flavor, operators, other, file })
    }

    /// How clients reach the two proxies.
    pub(super) fn addresses(&self) -> [Address; 2] {
        [self.stage.address.clone(), self.other.1.clone()]
    }

    /// Runs an operator's command at one of the proxies.
    pub(super) fn tell_at(&self, proxy: usize, command: &str) -> Result<Rows> {
        let mut operator: Client = self.operators[proxy].connect(&self.stage.address)?;
        match operator.query(command).with_context(|| command.to_owned())? {
            crate::client::Answer::Rows(rows) => Ok(rows),
            crate::client::Answer::Done { .. } => Ok(Vec::new()),
        }
    }

    /// Runs an operator's command at the first proxy.
    pub(super) fn tell(&self, command: &str) -> Result<Rows> {
        self.tell_at(0, command)
    }

    /// One of the replicas, in turn.
    pub(super) fn replica(&self, round: u32) -> &Server {
        &self.stage.cluster.servers[1 + round as usize % 2]
    }

    /// Waits until a replica is up, and has answered what no probe asks: so many reads.
    pub(super) fn until_reading(&self, round: u32) -> Result<()> {
        let name = &self.replica(round).name;
        let question = format!("SELECT 1 FROM backends WHERE name = '{name}' AND state = 'up'");
        until(LIMIT, &format!("{name} to be up"), || Ok(!self.tell(&question)?.is_empty()))?;
        let reads = || self.stage.status(1 + round as usize % 2, "Com_select");
        let before = reads()?;
        until(LIMIT, &format!("reads on {name}"), || Ok(reads()? > before + READS))
    }

    /// Changes a line of the file by its beginning, or puts it behind the head of its section.
    pub(super) fn write(&self, section: &str, option: &str, value: &str) -> Result<()> {
        let text = fs::read_to_string(&self.file)?;
        let line = format!("{option} = {value}");
        let mut lines: Vec<_> = text.lines().map(str::to_owned).collect();
        if let Some(found) = lines.iter_mut().find(|found| found.starts_with(&format!("{option} = "))) {
            *found = line;
        } else if let Some(at) = lines.iter().position(|found| *found == format!("[{section}]")) {
            lines.insert(at + 1, line);
        } else {
            lines.extend([format!("[{section}]"), line]);
        }
        Ok(fs::write(&self.file, lines.join("\n") + "\n")?)
    }

    /// Sends SIGHUP to the first proxy.
    pub(super) fn hang_up(&mut self) -> Result<()> {
        self.stage.proxy()?.hang_up()
    }

    /// The value of an option that runs.
    pub(super) fn option(&self, option: &str) -> Result<String> {
        let rows = self.tell(&format!("SELECT value FROM config WHERE option = '{option}'"))?;
        rows.first().and_then(|row| row[0].clone()).with_context(|| format!("there is no {option}"))
    }

    /// Waits until no client is connected to one of the proxies.
    pub(super) fn until_empty(&self, proxy: usize) -> Result<()> {
        until(LIMIT, "no client", || Ok(self.tell_at(proxy, "SELECT 1 FROM sessions")?.is_empty()))
    }

    /// Deadlocks that the primary itself has counted.
    pub(super) fn deadlocks(&self) -> Result<u64> {
        let sql = if self.flavor.is_mysql() {
            "SELECT COUNT FROM information_schema.INNODB_METRICS WHERE NAME = 'lock_deadlocks'"
        } else {
            "SELECT VARIABLE_VALUE FROM information_schema.GLOBAL_STATUS WHERE VARIABLE_NAME = 'INNODB_DEADLOCKS'"
        };
        Ok(self.stage.cluster.servers[0].query(sql)?.trim().parse()?)
    }

    /// Fails if a proxy has ended.
    pub(super) fn check(&mut self) -> Result<()> {
        for proxy in [self.stage.proxy.as_mut().context("no proxy")?, &mut self.other.0] {
            ensure!(proxy.ended()?.is_none(), "a proxy has ended:\n{}", proxy.log());
        }
        Ok(())
    }
}
