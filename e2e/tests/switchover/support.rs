//! A cluster whose roles the proxy moves, and what is asked of its servers.

use std::collections::BTreeSet;
use std::time::Duration;

use delphinus_e2e::{
    Client, ConfigFile, Etcd, Operators, ServerError, Stage, failover_account, failover_section, until,
};
use delphinus_sandbox::{Cluster, Flavor, PortLease, REPL, Server};

pub(crate) const LIMIT: Duration = Duration::from_mins(1);

/// The member that may move the cluster's primary, as soon as there is one.
pub(crate) fn actor(etcd: &Etcd) -> String {
    let mut found = String::new();
    until(LIMIT, "a member that may act", || {
        etcd.ask(&["get", "--print-value-only", "/delphinus/main/actor/main"])?.trim().clone_into(&mut found);
        Ok(!found.is_empty())
    })
    .unwrap();
    found
}

pub(crate) struct Scene {
    pub(crate) stage: Stage,
    pub(crate) operators: Operators,
    pub(crate) flavor: Flavor,
    _relay_port: Option<PortLease>,
}

impl Scene {
    /// A primary and two replicas; `more`: lines of `[cluster.failover]`.
    pub(crate) fn start(flavor: Flavor, more: &[&str]) -> Self {
        Self::with(flavor, more, String::new())
    }

    /// The same with whole further sections.
    pub(crate) fn with(flavor: Flavor, more: &[&str], sections: String) -> Self {
        Self::made(flavor, more, |_| sections)
    }

    /// The same with a relay in the proxy, which stands still until an operator starts it.
    pub(crate) fn with_relay(flavor: Flavor, more: &[&str]) -> Self {
        let lease = PortLease::take().unwrap();
        let port = lease.port();
        let scene = Self::made(flavor, more, |cluster| {
            let (folder, user, password) = (cluster.dir().join("relay"), REPL.user, REPL.password);
            format!(
                "[[relay]]\nname = \"main\"\nfolder = \"{}\"\nsource_user = \"{user}\"\nsource_password = \"{password}\"\n\
                 server_id = 999\nstart = false\nheartbeat_ms = 1000\nretry_ms = 200\naddresses = [\"127.0.0.1:{port}\"]\n\
                 [[relay.user]]\nname = \"{user}\"\npassword = \"{password}\"\n",
                folder.display()
            )
        });
        Self { _relay_port: Some(lease), ..scene }
    }

    fn made(flavor: Flavor, more: &[&str], sections: impl FnOnce(&Cluster) -> String) -> Self {
        let operators = Operators::default();
        let failover = failover_section(more);
        let is_group = flavor == Flavor::Group;
        let config = |cluster: &Cluster| {
            let mut sections = sections(cluster);
            // Where no other proxy moves the roles.
            if !sections.contains("[lease]") {
                sections.push_str("[lease]\nstore = \"local\"\n");
            }
            ConfigFile {
                topology: Some(if is_group { "group_replication" } else { "read_only" }),
                sections: vec![failover, operators.section(), sections],
                ..ConfigFile::default()
            }
        };
        let cnf: &[&str] = &["general_log=OFF"];
        let stage = Stage::with_config_for(flavor, cnf, |cluster| Ok(config(cluster))).unwrap();
        let scene = Self { stage, operators, flavor, _relay_port: None };
        let sql = format!("{}; CREATE TABLE app.kept (value BIGINT PRIMARY KEY)", failover_account(flavor));
        scene.stage.cluster.servers[0].query(&sql).unwrap();
        scene.stage.wait_for_replicas("SELECT COUNT(*) FROM app.kept").unwrap();
        scene
    }

    pub(crate) fn operator(&self) -> Client {
        self.operators.connect(&self.stage.address).unwrap()
    }

    /// What an operator's command answers; NULL is empty.
    pub(crate) fn rows(&self, command: &str) -> Vec<Vec<String>> {
        let rows = self.operator().rows(command).unwrap_or_else(|error| panic!("{command}: {error:#}"));
        rows.into_iter().map(|row| row.into_iter().map(Option::unwrap_or_default).collect()).collect()
    }

    /// What an operator's command is refused with.
    pub(crate) fn refused(&self, command: &str) -> ServerError {
        self.operator().error(command).unwrap()
    }

    pub(crate) fn server(&self, name: &str) -> &Server {
        self.stage.cluster.servers.iter().find(|server| server.name == name).unwrap()
    }

    pub(crate) fn server_mut(&mut self, name: &str) -> &mut Server {
        self.stage.cluster.servers.iter_mut().find(|server| server.name == name).unwrap()
    }

    /// A session of an administrator on one of the servers.
    pub(crate) fn client_of(&self, name: &str) -> Client {
        let server = self.server(name);
        let mut address = self.stage.address.clone();
        (address.socket, address.port) = (server.socket.clone(), server.port);
        (address.user, address.password) =
            (self.stage.cluster.admin_user.clone(), self.stage.cluster.admin_password.clone());
        address.connect().unwrap()
    }

    pub(crate) fn until_down(&self, name: &str) {
        let is_down = || Ok(self.operators.backend(&self.stage.address, name)?.state == "down");
        until(LIMIT, &format!("{name} to be down"), is_down).unwrap();
    }

    /// Who has the role by the proxy's view; the other, if nobody has.
    pub(crate) fn primary_or(&self, other: &str) -> String {
        let rows = self.rows("SELECT name FROM backends WHERE role = 'primary'");
        rows.first().map_or_else(|| other.to_owned(), |row| row[0].clone())
    }

    pub(crate) fn primary(&self) -> String {
        let primary = self.primary_or("");
        assert!(!primary.is_empty(), "there is no primary");
        primary
    }

    /// It takes writes and follows no server; the others are read-only, follow it, and replicate.
    pub(crate) fn assert_primary(&self, name: &str) {
        let primary = self.server(name);
        let is_mariadb = self.flavor == Flavor::MariaDb;
        assert_eq!(primary.query("SELECT @@read_only").unwrap().trim(), "0", "{name}");
        let status = if is_mariadb { "SHOW SLAVE STATUS" } else { "SHOW REPLICA STATUS" };
        if self.flavor != Flavor::Group {
            assert_eq!(primary.query_vertical(status).unwrap().trim(), "", "{name}");
        }
        for other in self.stage.cluster.servers.iter().filter(|other| other.name != name) {
            let guard = if is_mariadb { "SELECT @@read_only" } else { "SELECT @@super_read_only" };
            until(
                LIMIT,
                &format!("{} to be read-only", other.name),
                || Ok(other.query(guard)?.trim() == "1"),
            )
            .unwrap();
            if self.flavor == Flavor::Group {
                continue;
            }
            until(LIMIT, &format!("{} to replicate from {name}", other.name), || {
                let said = other.query_vertical(status)?;
                let port = format!("_Port: {}", primary.port);
                Ok(said.contains(&port)
                    && said.contains("_IO_Running: Yes")
                    && said.contains("_SQL_Running: Yes"))
            })
            .unwrap();
        }
        until(LIMIT, &format!("the proxy to show {name} as the primary"), || {
            let row = self.operators.backend(&self.stage.address, name)?;
            Ok((row.role.as_str(), row.state.as_str()) == ("primary", "up"))
        })
        .unwrap();
    }

    /// Every server but this one has it, in the end.
    pub(crate) fn assert_has(&self, acknowledged: &BTreeSet<u64>, but: Option<&str>) {
        assert!(!acknowledged.is_empty());
        for server in self.stage.cluster.servers.iter().filter(|server| but != Some(&*server.name)) {
            let mut missing = acknowledged.clone();
            let complete = until(LIMIT, "everything acknowledged", || {
                let found = server.query("SELECT value FROM app.kept")?;
                missing.clone_from(acknowledged);
                for line in found.lines() {
                    let value: i64 = line.trim().parse()?;
                    missing.remove(&value.unsigned_abs());
                }
                Ok(missing.is_empty())
            });
            assert!(complete.is_ok(), "{}: {} lost: {missing:?}", server.name, missing.len());
        }
    }
}
