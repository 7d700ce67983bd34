//! What commands know of the proxy: the ends of what the others publish, and lines to the workers.

use std::cell::Cell;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use delphinus_cache::Cache;
use delphinus_monitor::SnapshotReader;
use delphinus_net::rt;
use delphinus_pool::{BackendCensus, Budget, Target};
use delphinus_session::{ClientConnId, Registry, Routing, SessionInfo, Told};
use delphinus_telemetry::CounterSet;
use delphinus_topology::BackendId;
use delphinus_wire::auth::{Plugin, RsaKey};

use crate::users::{AdminUser, AdminUsers};
use crate::worker::WorkerLine;

/// How long workers and sessions have to answer. One that waits for its client, or for a connection, does not.
const PATIENCE: Duration = Duration::from_secs(1);

/// What the operators' side is made from.
pub struct Parts {
    /// Operators.
    pub users: Vec<AdminUser>,
    /// Connections of operators at the same time.
    pub max_connections: u32,
    /// A login must be finished in this time.
    pub connect_timeout: Duration,
    /// An operator who says nothing for so long is disconnected.
    pub wait_timeout: Duration,
    /// The plugin that is offered first.
    pub default_plugin: Plugin,
    /// For logins with a password in RSA.
    pub rsa_key: Option<Arc<RsaKey>>,
    /// All sessions.
    pub registry: Arc<Registry>,
    /// The cluster, and the way to the monitor.
    pub reader: SnapshotReader,
    /// Everything that is counted.
    pub counters: CounterSet,
    /// The backends, with the limits of their connections.
    pub backends: Vec<(Target, Arc<Budget>)>,
    /// A line to each worker.
    pub workers: Vec<WorkerLine>,
    /// How statements are routed: the rules with their counts.
    pub routing: Routing,
    /// Answers that are kept; `None`: none are.
    pub cache: Option<Arc<Cache>>,
    /// Where clients and operators connect.
    pub listeners: Vec<ListenerRow>,
    /// The users of the configuration.
    pub client_users: Vec<ClientUser>,
    /// Every option with its value, secrets hidden.
    pub options: Vec<(String, String)>,
}

/// A listener as operators see it.
#[derive(Debug, Clone)]
pub struct ListenerRow {
    /// Its name.
    pub name: String,
    /// Where it listens.
    pub address: String,
    /// Whether it uses TLS.
    pub tls: &'static str,
    /// For whom: "clients" or "operators".
    pub serves: &'static str,
}

/// A user of the configuration as operators see it.
#[derive(Debug, Clone)]
pub struct ClientUser {
    /// The name.
    pub name: String,
    /// What passwords are compared with, without it.
    pub authentication: &'static str,
    /// The schema of clients that name none.
    pub default_schema: Option<String>,
    /// Most connections at the same time.
    pub max_connections: Option<u32>,
    /// May take what is reserved, and end the sessions of others.
    pub is_connection_admin: bool,
}

/// What all operators' connections share.
pub struct Console {
    pub(crate) parts: Parts,
    pub(crate) users: AdminUsers,
    pub(crate) started: Instant,
    /// Connections that are open.
    pub(crate) open: Cell<u32>,
}

impl Console {
    /// Puts the parts together.
    pub fn new(mut parts: Parts, now: Instant) -> Self {
        let users = AdminUsers::new(std::mem::take(&mut parts.users));
        Self { parts, users, started: now, open: Cell::new(0) }
    }

    /// What those sessions say that have more to say than everybody can see.
    pub(crate) async fn told(&self, sessions: &[Arc<SessionInfo>]) -> HashMap<ClientConnId, Told> {
        let is_busy = |info: &&Arc<SessionInfo>| info.place().is_some() || info.pin().is_some();
        let busy: Vec<_> = sessions.iter().filter(is_busy).cloned().collect();
        self.parts.registry.ask(&busy, PATIENCE).await
    }

    /// What each worker's pool has to each backend; `None` for a worker that does not answer.
    pub(crate) async fn census(&self) -> Vec<Option<Vec<BackendCensus>>> {
        let mut all = Vec::with_capacity(self.parts.workers.len());
        for worker in &self.parts.workers {
            all.push(worker.census(PATIENCE).await);
        }
        all
    }

    /// Waits until every worker's pool has followed an operator's wish; false if one has not in time.
    pub(crate) async fn followed(&self, backend: BackendId, is_offline: bool) -> bool {
        let follows = |worker: &Option<Vec<BackendCensus>>| {
            let pool = worker.as_ref().and_then(|pools| pools.get(backend.index()));
            pool.is_some_and(|pool| pool.is_draining == is_offline)
        };
        let all_follow = async {
            while !self.census().await.iter().all(follows) {
                rt::sleep(Duration::from_millis(1)).await;
            }
        };
        rt::timeout(PATIENCE * 5, all_follow).await.is_some()
    }
}
