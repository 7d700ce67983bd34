//! What goes wrong, and what an outside tool does about it. Server 0 is the primary before, on `MariaDB` the tool decides who
//! is next.

use std::fmt;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use delphinus_sandbox::{Cluster, ClusterSpec, Flavor, REPL, Server};

use crate::config_file::ConfigFile;
use crate::poll::until;

/// Nothing takes longer on servers that work.
const LIMIT: Duration = Duration::from_mins(1);

/// Which servers, and how they replicate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Servers {
    /// `MariaDB`, asynchronous: a primary that dies may take writes with it.
    MariaDb,
    /// `MariaDB`, semi-synchronous.
    MariaDbSemiSync,
    /// MySQL Group Replication.
    Group,
}

/// What goes wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Fault {
    /// The primary is killed with SIGKILL.
    Kill,
    /// It is stopped with SIGSTOP, and goes on when another has its place.
    Hang,
    /// It is shut down in the regular way.
    Shutdown,
    /// Nothing: the role is moved on purpose.
    Switchover,
}

impl Servers {
    /// All.
    pub const ALL: [Self; 3] = [Self::MariaDb, Self::MariaDbSemiSync, Self::Group];

    /// The word for it on the command line.
    pub fn word(self) -> &'static str {
        match self {
            Self::MariaDb => "mariadb",
            Self::MariaDbSemiSync => "mariadb-semi-sync",
            Self::Group => "group",
        }
    }

    /// True if a lost primary may take acknowledged writes with it.
    pub fn may_lose(self, fault: Fault) -> bool {
        self == Self::MariaDb && matches!(fault, Fault::Kill | Fault::Hang)
    }

    pub(crate) fn flavor(self) -> Flavor {
        if self == Self::Group { Flavor::Group } else { Flavor::MariaDb }
    }

    pub(crate) fn config(self) -> ConfigFile {
        let topology = if self == Self::Group { "group_replication" } else { "read_only" };
        // The proxy's own default: what is measured is what everybody gets.
        ConfigFile {
            topology: Some(topology),
            monitor: vec!["interval_ms = 1000".to_owned()],
            ..ConfigFile::default()
        }
    }

    /// Servers that are ready for the run.
    pub(crate) fn start(self) -> Result<Cluster> {
        // A group lets a member go as soon as it suspects it.
        let lines: &[&str] =
            if self == Self::Group { &["loose_group_replication_member_expel_timeout=0"] } else { &[] };
        let extra_cnf = lines.iter().map(|line| (*line).to_owned()).collect();
        let spec = ClusterSpec { flavor: self.flavor(), extra_cnf, ..ClusterSpec::default() };
        let cluster = Cluster::start(&spec, &delphinus_sandbox::Silent)?;
        if self == Self::MariaDbSemiSync {
            for replica in &cluster.servers[1..] {
                replica.query(
                    "SET GLOBAL rpl_semi_sync_slave_enabled = 1; STOP SLAVE IO_THREAD; START SLAVE IO_THREAD",
                )?;
            }
            cluster.servers[0].query(SEMI_SYNC)?;
            until(LIMIT, "semi-synchronous replicas", || {
                let clients =
                    cluster.servers[0].query("SHOW GLOBAL STATUS LIKE 'Rpl_semi_sync_master_clients'")?;
                Ok(clients.trim().ends_with("\t2"))
            })?;
        }
        Ok(cluster)
    }
}

/// A write waits for a replica for as long as it takes.
const SEMI_SYNC: &str = "SET GLOBAL rpl_semi_sync_master_timeout = 3600000; \
    SET GLOBAL rpl_semi_sync_master_wait_point = 'AFTER_SYNC'; SET GLOBAL rpl_semi_sync_master_enabled = 1";

impl Fault {
    /// All.
    pub const ALL: [Self; 4] = [Self::Kill, Self::Hang, Self::Shutdown, Self::Switchover];

    /// The word for it on the command line.
    pub fn word(self) -> &'static str {
        match self {
            Self::Kill => "kill",
            Self::Hang => "hang",
            Self::Shutdown => "shutdown",
            Self::Switchover => "switchover",
        }
    }

    /// How long the outside tool takes to be sure that the primary is dead.
    fn tool_delay(self) -> Duration {
        match self {
            Self::Kill | Self::Shutdown => Duration::from_secs(1),
            Self::Hang => Duration::from_secs(5),
            Self::Switchover => Duration::ZERO,
        }
    }

    /// Does it, and what a tool does then. Returns when another server has been told to be the primary, if anybody has to tell.
    pub(crate) fn strike(self, servers: Servers, cluster: &mut Cluster) -> Result<()> {
        let began = Instant::now();
        match self {
            Self::Kill => cluster.servers[0].kill9(),
            Self::Hang => cluster.servers[0].pause()?,
            Self::Shutdown => cluster.servers[0].stop_graceful()?,
            Self::Switchover => {}
        }
        match (servers, self) {
            (Servers::Group, Self::Switchover) => {
                let uuid = cluster.servers[1].query("SELECT @@server_uuid")?;
                let sql = format!("SELECT group_replication_set_as_primary('{}')", uuid.trim());
                cluster.servers[0].query(&sql).map(drop)
            }
            (Servers::Group, _) => Ok(()),
            (_, Self::Switchover) => switch(servers, &cluster.servers),
            _ => {
                std::thread::sleep(self.tool_delay().saturating_sub(began.elapsed()));
                fail_over(servers, &cluster.servers)
            }
        }
    }

    /// Lets a stopped server go on.
    pub(crate) fn relent(self, cluster: &Cluster) -> Result<()> {
        if self == Self::Hang { cluster.servers[0].resume() } else { Ok(()) }
    }
}

/// A planned switch, in the order of docs/health.md.
fn switch(servers: Servers, all: &[Server]) -> Result<()> {
    let position = all[0].query("SET GLOBAL read_only = 1; SELECT @@gtid_binlog_pos")?;
    wait_for(&all[1], position.trim())?;
    promote(servers, &all[1])?;
    all[0].query("SET GLOBAL gtid_slave_pos = @@global.gtid_binlog_pos")?;
    follow(&all[0], &all[1])?;
    follow(&all[2], &all[1])
}

/// The replica that has received most takes the place.
fn fail_over(servers: Servers, all: &[Server]) -> Result<()> {
    let (first, second) = (received(&all[1])?, received(&all[2])?);
    let ((next, position), other) = if sequence(&second)? > sequence(&first)? {
        ((&all[2], second), &all[1])
    } else {
        ((&all[1], first), &all[2])
    };
    wait_for(next, &position)?;
    promote(servers, next)?;
    follow(other, next)
}

fn received(replica: &Server) -> Result<String> {
    let status = replica.query_vertical("SHOW SLAVE STATUS")?;
    let position = status.lines().find_map(|line| line.trim().strip_prefix("Gtid_IO_Pos:"));
    Ok(position.context("no Gtid_IO_Pos")?.trim().to_owned())
}

fn sequence(position: &str) -> Result<u64> {
    Ok(position.rsplit('-').next().context("an empty position")?.parse()?)
}

fn wait_for(replica: &Server, position: &str) -> Result<()> {
    let told = replica.query(&format!("SELECT MASTER_GTID_WAIT('{position}', {})", LIMIT.as_secs()))?;
    if told.trim() != "0" {
        bail!("{} does not reach {position}: {told}", replica.name);
    }
    Ok(())
}

fn promote(servers: Servers, next: &Server) -> Result<()> {
    let semi_sync = if servers == Servers::MariaDbSemiSync { SEMI_SYNC } else { "DO 1" };
    let sql = format!("STOP SLAVE; RESET SLAVE ALL; {semi_sync}; SET GLOBAL read_only = 0");
    next.query(&sql).map(drop)
}

fn follow(replica: &Server, primary: &Server) -> Result<()> {
    let sql = format!(
        "STOP SLAVE; CHANGE MASTER TO MASTER_HOST='{}', MASTER_PORT={}, MASTER_USER='{}', MASTER_PASSWORD='{}', \
         MASTER_USE_GTID=slave_pos, MASTER_CONNECT_RETRY=1, MASTER_HEARTBEAT_PERIOD=1; START SLAVE",
        primary.host, primary.port, REPL.user, REPL.password
    );
    replica.query(&sql).map(drop)
}

impl fmt::Display for Servers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::MariaDb => "MariaDB 10.11, asynchronous",
            Self::MariaDbSemiSync => "MariaDB 10.11, semi-sync",
            Self::Group => "MySQL 9.7 Group Replication",
        })
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Kill => "kill -9",
            Self::Hang => "SIGSTOP, later SIGCONT",
            Self::Shutdown => "clean shutdown",
            Self::Switchover => "planned switchover",
        })
    }
}
