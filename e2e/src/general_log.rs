//! Which server ran a statement, as the servers themselves wrote down.

use anyhow::{Context, Result};
use delphinus_sandbox::Cluster;

/// Reads the servers' general logs (`mysql.general_log`).
#[derive(Debug, Clone, Copy)]
pub struct GeneralLog<'a> {
    cluster: &'a Cluster,
}

impl<'a> GeneralLog<'a> {
    /// The logs of these servers.
    pub fn of(cluster: &'a Cluster) -> Self {
        Self { cluster }
    }

    /// For each server, how often it ran statements that contain `marker` for the application: by text or by
    /// executing a prepared statement. What replication repeats on the replicas does not count.
    pub fn runs_of(self, marker: &str) -> Result<Vec<u32>> {
        self.count(marker, "'Query', 'Execute'")
    }

    /// For each server, how often statements that contain `marker` were prepared there.
    pub fn prepares_of(self, marker: &str) -> Result<Vec<u32>> {
        self.count(marker, "'Prepare'")
    }

    fn count(self, marker: &str, kinds: &str) -> Result<Vec<u32>> {
        let user = &self.cluster.app_user;
        // A marker is followed by `*/`, so that m1 is not found in m10.
        let sql = format!(
            "SELECT COUNT(*) FROM mysql.general_log WHERE command_type IN ({kinds}) \
             AND user_host LIKE '{user}[%' AND CONVERT(argument USING utf8mb4) LIKE '%{marker}*/%'"
        );
        let one = |server: &delphinus_sandbox::Server| -> Result<u32> {
            server.query(&sql)?.trim().parse().context("a count that is no number")
        };
        self.cluster.servers.iter().map(one).collect()
    }
}
