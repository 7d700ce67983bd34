//! The two lease stores, for tests that look into them: who may act, and what is written of a move.

use anyhow::{Context, Result};
use delphinus_e2e::{Etcd, until};
use delphinus_sandbox::Server;

use super::support::LIMIT;

/// A store and what its proxies are told of it.
pub(crate) enum Keys {
    Etcd(Etcd),
    /// The group itself.
    Group,
}

impl Keys {
    /// The section of a member.
    pub(crate) fn section(&self, member: &str) -> String {
        let store = match self {
            Self::Etcd(etcd) => format!("store = \"etcd\"\nendpoints = [\"{}\"]", etcd.endpoint),
            Self::Group => "store = \"group\"\nuser = \"lease\"\npassword = \"leasepw\"".to_owned(),
        };
        format!("[lease]\n{store}\nmember = \"{member}\"\nttl_s = 3\n")
    }

    /// What it needs on the servers, with the rights that docs/ha.md names.
    pub(crate) fn prepare(&self, primary: &Server) {
        if matches!(self, Self::Group) {
            let sql = "CREATE USER lease@'%' IDENTIFIED BY 'leasepw'; \
                 GRANT SELECT, INSERT, UPDATE, DELETE, CREATE ON delphinus.* TO lease@'%'; \
                 GRANT SELECT ON performance_schema.replication_group_members TO lease@'%'";
            primary.query(sql).unwrap();
        }
    }

    /// The member that may move the cluster's primary, as soon as there is one.
    pub(crate) fn actor(&self, servers: &[Server]) -> String {
        let mut found = String::new();
        until(LIMIT, "a member that may act", || {
            found = self.value(servers, "actor/main")?;
            Ok(!found.is_empty())
        })
        .unwrap();
        found
    }

    /// What a move that is under way has written; nothing when there is none.
    pub(crate) fn journal(&self, servers: &[Server]) -> Result<String> {
        self.value(servers, "journal/main/switchover")
    }

    fn value(&self, servers: &[Server], key: &str) -> Result<String> {
        let said = match self {
            Self::Etcd(etcd) => {
                etcd.ask(&["get", "--print-value-only", &format!("/delphinus/main/{key}")])?
            }
            Self::Group => {
                // What others show may be older.
                let takes_writes = |server: &&Server| {
                    server.query("SELECT @@read_only").is_ok_and(|said| said.trim() == "0")
                };
                let primary = servers.iter().find(takes_writes).context("no server takes writes")?;
                primary.query(&format!(
                    "SELECT value FROM delphinus.lease_keys k WHERE name = '{key}' AND value IS NOT NULL AND (lease = 0 OR \
                     EXISTS (SELECT 1 FROM delphinus.leases l WHERE l.scope = k.scope AND l.lease = k.lease))"
                ))?
            }
        };
        Ok(said.trim().to_owned())
    }
}
