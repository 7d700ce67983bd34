//! What is known before anything is judged.

use std::collections::BTreeMap;

use delphinus_config::{Backend, Cluster, Config, RelaySource, Role, TopologyKind};

/// Everything that is known.
#[derive(Debug)]
pub struct Facts<'a> {
    /// The configuration.
    pub config: &'a Config,
    /// Where the proxy runs.
    pub machine: Machine,
    /// The servers of all clusters, in the order of the file.
    pub servers: Vec<Server>,
    /// The servers that relays replicate from, or may have to.
    pub sources: Vec<Source>,
    /// The relays of other processes that moves of a primary's role count on.
    pub remote_relays: Vec<RemoteRelay>,
}

/// A relay of another process: `[[cluster.failover.remote_relay]]`.
#[derive(Debug, Clone)]
pub struct RemoteRelay {
    /// The place of its cluster in the file.
    pub cluster: usize,
    /// Its place in that cluster's `[cluster.failover]`.
    pub relay: usize,
    /// Its row in `relay_fences` there, by columns, without those that are NULL; or why it could not be asked, and what to do.
    pub answer: Result<BTreeMap<String, String>, String>,
}

/// A server that a relay replicates from: its own, or a backend of the cluster whose primary it follows.
#[derive(Debug, Clone)]
pub struct Source {
    /// The place of the relay in the file.
    pub relay: usize,
    /// The place of the cluster and of the backend in it; `None`: the relay's own `source`.
    pub backend: Option<(usize, usize)>,
    /// What it has said to the relay's user, or why it has not: variables, status, grants.
    pub answer: Result<Answer, String>,
}

/// Where the proxy runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Machine {
    /// Most open files, if there is a limit: the hard one, to which the proxy raises its own.
    pub files: Option<u64>,
    /// The limit is that of the proxy itself. Else another process looks, such as `delphinus doctor` in a shell.
    pub is_proxy: bool,
}

/// One backend.
#[derive(Debug, Clone)]
pub struct Server {
    /// The place of its cluster in the file.
    pub cluster: usize,
    /// The place of the backend in its cluster.
    pub backend: usize,
    /// What it has said to the monitor's user, or why it has not.
    pub answer: Result<Answer, String>,
    /// How users fared who were tried.
    pub users: Vec<UserLogin>,
}

/// A login that was tried.
#[derive(Debug, Clone)]
pub struct UserLogin {
    /// Who.
    pub user: String,
    /// Why it was refused; `None`: it was not.
    pub refused: Option<String>,
}

/// What a server has said.
#[derive(Debug, Clone, Default)]
pub struct Answer {
    /// Its global variables, by their names in small letters.
    pub variables: BTreeMap<String, String>,
    /// Those of its counters that were asked for.
    pub status: BTreeMap<String, String>,
    /// How far its clock is ahead of the proxy's, in milliseconds.
    pub clock_ahead_ms: i64,
    /// How well that is known: half of what the question took.
    pub clock_known_to_ms: u64,
    /// What it replicates from.
    pub replication: Replication,
    /// Its schemas, in small letters; `None`: the monitor's user may not see all of them.
    pub schemas: Option<Vec<String>>,
    /// What the monitor's user was granted, as the server says it.
    pub grants: Vec<String>,
    /// Why the members of its group cannot be read, where the topology needs them.
    pub group_unseen: Option<String>,
    /// Variables of semi-sync that were set while it runs, and not for its next start.
    pub set_by_hand: Vec<String>,
    /// It is a relay, which has few variables and no semi-sync of its own.
    pub is_relay: bool,
    /// The heartbeat's table is there; `None`: there is no heartbeat, or it cannot be seen.
    pub has_heartbeat: Option<bool>,
}

/// What a server replicates from.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Replication {
    /// It was not asked.
    #[default]
    NotAsked,
    /// The monitor's user may not see it.
    Unseen(String),
    /// So many sources; none: it is no replica.
    From(Vec<Channel>),
}

/// One source of a replica.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Channel {
    /// Its name; empty: the default one.
    pub name: String,
    /// Changes come in.
    pub receives: bool,
    /// They are applied.
    pub applies: bool,
    /// How long it waits on purpose, in seconds.
    pub delay_s: u64,
    /// The last error.
    pub error: String,
}

impl Facts<'_> {
    pub(crate) fn cluster(&self, server: &Server) -> &Cluster {
        &self.config.clusters[server.cluster]
    }

    pub(crate) fn backend(&self, server: &Server) -> &Backend {
        &self.cluster(server).backends[server.backend]
    }

    /// `backend db1`, with its cluster where there are several.
    pub(crate) fn name(&self, server: &Server) -> String {
        let name = &self.backend(server).name;
        match self.config.clusters.len() {
            1 => format!("backend {name}"),
            _ => format!("backend {name} of {}", self.cluster(server).name),
        }
    }

    /// `source db1:3306`, or `backend db1`.
    pub(crate) fn source_name(&self, source: &Source) -> String {
        match (source.backend, &self.config.relays[source.relay].source) {
            (Some((cluster, backend)), _) => {
                let cluster = &self.config.clusters[cluster];
                format!("backend {}", cluster.backends[backend].name)
            }
            (None, RelaySource::Server(server)) => format!("source {}", server.name),
            (None, RelaySource::Cluster(cluster)) => {
                format!("cluster {}", self.config.clusters[*cluster].name)
            }
        }
    }

    /// How many relays of the file that acknowledge have this source.
    pub(crate) fn relays_of(&self, source: &Source) -> u64 {
        let its = &self.config.relays[source.relay].source;
        let is_same = |other: &RelaySource| match (its, other) {
            (RelaySource::Cluster(one), RelaySource::Cluster(other)) => one == other,
            (RelaySource::Server(one), RelaySource::Server(other)) => one.address == other.address,
            _ => false,
        };
        self.config.relays.iter().filter(|relay| relay.semi_sync && is_same(&relay.source)).count() as u64
    }

    /// True if a relay of the file acknowledges the primary of this cluster.
    pub(crate) fn has_acker(&self, cluster: usize) -> bool {
        self.config
            .relays
            .iter()
            .any(|relay| relay.semi_sync && relay.source == RelaySource::Cluster(cluster))
    }

    /// The servers that have answered, with what they said.
    pub(crate) fn answers(&self) -> impl Iterator<Item = (&Server, &Answer)> {
        self.servers.iter().filter_map(|server| Some((server, server.answer.as_ref().ok()?)))
    }

    /// Those of one cluster.
    pub(crate) fn answers_of(&self, cluster: usize) -> Vec<(&Server, &Answer)> {
        self.answers().filter(|(server, _)| server.cluster == cluster).collect()
    }

    /// True if it is no replica, by the file or by what it says.
    pub(crate) fn is_primary(&self, server: &Server, answer: &Answer) -> bool {
        match self.cluster(server).topology {
            TopologyKind::Static => self.backend(server).role == Some(Role::Primary),
            TopologyKind::ReadOnly | TopologyKind::GroupReplication => !answer.is_on("read_only"),
        }
    }
}

impl Answer {
    /// The value of a variable; of the first of these names that it has.
    pub(crate) fn variable(&self, names: &[&str]) -> Option<&str> {
        names.iter().find_map(|name| self.variables.get(*name)).map(String::as_str)
    }

    pub(crate) fn number(&self, names: &[&str]) -> Option<u64> {
        self.variable(names)?.parse().ok()
    }

    /// True for a variable that is on.
    pub(crate) fn is_on(&self, name: &str) -> bool {
        self.variables.get(name).is_some_and(|value| is_on(value))
    }

    pub(crate) fn is_mariadb(&self) -> bool {
        self.variable(&["version"]).is_some_and(|version| version.to_lowercase().contains("mariadb"))
    }
}

/// `ON`, `1`, and what MariaDB has beside them for `read_only`.
pub(crate) fn is_on(value: &str) -> bool {
    !matches!(value.to_ascii_uppercase().as_str(), "OFF" | "0" | "NO" | "")
}
