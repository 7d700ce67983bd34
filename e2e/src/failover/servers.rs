//! On which servers a run takes place: how they are started, and how the proxy finds their roles.

use std::fmt;
use std::time::Duration;

use anyhow::Result;
use delphinus_sandbox::{Cluster, ClusterSpec, Flavor, Machine, Server, Silent};
use serde::{Deserialize, Serialize};

use super::fault::Fault;
use crate::poll::until;

/// Nothing takes longer on servers that work.
const LIMIT: Duration = Duration::from_mins(1);

/// Which servers, and how they replicate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Servers {
    /// `MariaDB`, asynchronous: a primary that dies may take writes with it.
    #[serde(rename = "mariadb")]
    MariaDb,
    /// `MariaDB`, semi-synchronous.
    #[serde(rename = "mariadb-semi-sync")]
    MariaDbSemiSync,
    /// MySQL, asynchronous.
    #[serde(rename = "mysql")]
    MySql,
    /// MySQL, semi-synchronous.
    #[serde(rename = "mysql-semi-sync")]
    MySqlSemiSync,
    /// MySQL Group Replication.
    Group,
}

impl Servers {
    /// All.
    pub const ALL: [Self; 5] =
        [Self::MariaDb, Self::MariaDbSemiSync, Self::MySql, Self::MySqlSemiSync, Self::Group];

    /// The word for it on the command line.
    pub fn word(self) -> &'static str {
        match self {
            Self::MariaDb => "mariadb",
            Self::MariaDbSemiSync => "mariadb-semi-sync",
            Self::MySql => "mysql",
            Self::MySqlSemiSync => "mysql-semi-sync",
            Self::Group => "group",
        }
    }

    /// True if a lost primary may take acknowledged writes with it.
    pub fn may_lose(self, fault: Fault) -> bool {
        matches!(self, Self::MariaDb | Self::MySql) && matches!(fault, Fault::Kill | Fault::Hang)
    }

    /// True if the servers choose a primary by themselves.
    pub(crate) fn is_group(self) -> bool {
        self == Self::Group
    }

    pub(crate) fn is_mariadb(self) -> bool {
        matches!(self, Self::MariaDb | Self::MariaDbSemiSync)
    }

    /// The same kind of servers, asynchronous.
    pub(crate) fn without_semi_sync(self) -> Self {
        match self {
            Self::MariaDbSemiSync => Self::MariaDb,
            Self::MySqlSemiSync => Self::MySql,
            other => other,
        }
    }

    pub(crate) fn flavor(self) -> Flavor {
        match self {
            Self::MariaDb | Self::MariaDbSemiSync => Flavor::MariaDb,
            Self::MySql | Self::MySqlSemiSync => Flavor::MySql,
            Self::Group => Flavor::Group,
        }
    }

    pub(crate) fn topology(self) -> &'static str {
        if self.is_group() { "group_replication" } else { "read_only" }
    }

    /// What makes a server wait for a replica with each write, for as long as it takes; nothing if it does not.
    pub(crate) fn semi_sync_source(self) -> &'static str {
        match self {
            Self::MariaDbSemiSync => {
                "SET GLOBAL rpl_semi_sync_master_timeout = 3600000; \
                 SET GLOBAL rpl_semi_sync_master_wait_point = 'AFTER_SYNC'; \
                 SET GLOBAL rpl_semi_sync_master_enabled = 1"
            }
            Self::MySqlSemiSync => {
                "SET GLOBAL rpl_semi_sync_source_timeout = 3600000; \
                 SET GLOBAL rpl_semi_sync_source_wait_point = 'AFTER_SYNC'; \
                 SET GLOBAL rpl_semi_sync_source_enabled = 1"
            }
            _ => "DO 1",
        }
    }

    fn semi_sync_replica(self) -> Option<&'static str> {
        match self {
            Self::MariaDbSemiSync => Some(
                "SET GLOBAL rpl_semi_sync_slave_enabled = 1; STOP SLAVE IO_THREAD; START SLAVE IO_THREAD",
            ),
            Self::MySqlSemiSync => Some(
                "SET GLOBAL rpl_semi_sync_replica_enabled = 1; STOP REPLICA IO_THREAD; START REPLICA IO_THREAD",
            ),
            _ => None,
        }
    }

    /// Makes a server read-only, for administrators too where it has that, or writable.
    pub(crate) fn set_read_only(self, server: &Server, is_read_only: bool) -> Result<()> {
        let sql = match (self.is_mariadb(), is_read_only) {
            (true, true) => "SET GLOBAL read_only = 1",
            (false, true) => "SET GLOBAL super_read_only = 1",
            // MySQL takes `super_read_only` back with it.
            (_, false) => "SET GLOBAL read_only = 0",
        };
        server.query(sql).map(drop)
    }

    /// Servers that are ready for the run.
    pub(crate) fn start(self, machines: Vec<Machine>) -> Result<Cluster> {
        // A group lets a member go as soon as it suspects it.
        let lines: &[&str] =
            if self.is_group() { &["loose_group_replication_member_expel_timeout=0"] } else { &[] };
        let extra_cnf = lines.iter().map(|line| (*line).to_owned()).collect();
        let spec = ClusterSpec { flavor: self.flavor(), extra_cnf, machines, ..ClusterSpec::default() };
        let cluster = Cluster::start(&spec, &Silent)?;
        self.enable_semi_sync(&cluster.servers, 0)?;
        Ok(cluster)
    }

    /// Has a primary wait for its two replicas, where that is so on these servers.
    pub(crate) fn enable_semi_sync(self, servers: &[Server], primary: usize) -> Result<()> {
        let Some(sql) = self.semi_sync_replica() else { return Ok(()) };
        let replicas = servers.iter().enumerate().filter(|(at, _)| *at != primary);
        for (_, replica) in replicas {
            replica.query(sql)?;
        }
        servers[primary].query(self.semi_sync_source())?;
        until(LIMIT, "semi-synchronous replicas", || {
            let clients = servers[primary].query("SHOW GLOBAL STATUS LIKE 'Rpl_semi_sync_%_clients'")?;
            Ok(clients.trim().ends_with("\t2"))
        })
    }
}

impl fmt::Display for Servers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::MariaDb => "MariaDB 10.11, asynchronous",
            Self::MariaDbSemiSync => "MariaDB 10.11, semi-sync",
            Self::MySql => "MySQL 9.7, asynchronous",
            Self::MySqlSemiSync => "MySQL 9.7, semi-sync",
            Self::Group => "MySQL 9.7 Group Replication",
        })
    }
}
