//! The kinds of cluster the sandbox can start, and the part a server plays in one.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// What kind of servers a cluster is made of, and how they replicate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Flavor {
    /// MariaDB with asynchronous GTID replication.
    MariaDb,
    /// MySQL with asynchronous GTID replication.
    MySql,
    /// MySQL Group Replication with a single primary.
    Group,
}

impl Flavor {
    /// The name that [`Flavor::from_str`] reads back.
    pub fn name(self) -> &'static str {
        match self {
            Self::MariaDb => "mariadb",
            Self::MySql => "mysql",
            Self::Group => "group",
        }
    }

    /// True for the flavors that run MySQL's own server.
    pub fn is_mysql(self) -> bool {
        self != Self::MariaDb
    }
}

impl fmt::Display for Flavor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Flavor {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text.to_ascii_lowercase().as_str() {
            "mariadb" => Ok(Self::MariaDb),
            "mysql" => Ok(Self::MySql),
            "group" => Ok(Self::Group),
            _ => anyhow::bail!("unknown flavor {text:?}: it is mariadb, mysql or group"),
        }
    }
}

/// The part a server plays when its cluster starts; a failover does not change it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// Accepts writes.
    Primary,
    /// Read-only, follows the primary.
    Replica,
}

impl Role {
    /// `primary` or `replica`, as the proxy's configuration has it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Primary => "primary",
            Self::Replica => "replica",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_reads_back() {
        for flavor in [Flavor::MariaDb, Flavor::MySql, Flavor::Group] {
            assert_eq!(flavor.name().parse::<Flavor>().unwrap(), flavor);
        }
        assert!("postgres".parse::<Flavor>().is_err());
    }
}
