//! One cluster of the process: its monitor, and what all threads share of it.

use std::sync::Arc;
use std::time::Duration;

use delphinus_admin::{ClusterView, Questions, WorkerLine, worker_line};
use delphinus_clients::{Registry, Users};
use delphinus_config::{Cluster, Compression, Config};
use delphinus_monitor::Monitor;
use delphinus_net::rt::{self, Notify, watch};
use delphinus_pool::{Budget, Target};
use delphinus_route::Policy;
use delphinus_session::{WaitingRoom, is_hung};
use delphinus_topology::{ClusterId, Snapshot};
use delphinus_view::SnapshotReader;
use delphinus_wire::Capabilities;

use crate::error::Error;
use crate::memory::Kept;
use crate::reload::Hot;
use crate::{limits, settings};

/// A cluster that is about to run.
pub(crate) struct RunningCluster {
    pub name: Arc<str>,
    monitor: Monitor,
    pub shared: SharedCluster,
    /// How reads are spread, which may change while it runs.
    /// What of its options may change while it runs.
    pub hot: Hot,
    lines: Vec<WorkerLine>,
    schemas: Vec<String>,
    compression: Vec<Compression>,
}

/// What its tasks and threads share.
#[derive(Clone)]
pub(crate) struct SharedCluster {
    pub id: ClusterId,
    pub settings: delphinus_session::Settings,
    pub pool: delphinus_pool::Settings,
    pub backends: Vec<(Target, Arc<Budget>)>,
    pub users: Arc<Users>,
    pub reader: SnapshotReader,
    pub waiting: WaitingRoom,
    pub policy: watch::Receiver<Policy>,
    /// How long rights may be taken for the same.
    pub rights_max_age: Duration,
}

/// What one thread gets of a cluster.
pub(crate) struct ClusterSeed {
    pub shared: SharedCluster,
    /// This thread's bell in all budgets of the cluster.
    pub bell: Arc<Notify>,
    pub questions: Questions,
}

impl RunningCluster {
    /// The cluster, and what each of the threads gets of it.
    pub(crate) fn build(
        config: &Config,
        (id, cluster): (ClusterId, &Cluster),
        threads: usize,
        kept: &Kept,
    ) -> Result<(Self, Vec<ClusterSeed>), Error> {
        let targets = settings::targets(config, cluster)?;
        let (hot, policy, lag) = Hot::new(cluster);
        let (monitor, reader) = Monitor::new(settings::monitor(cluster, &targets, lag, kept));
        let bells: Vec<Arc<Notify>> = (0..threads).map(|_| Arc::default()).collect();
        let users = settings::users(config);
        let shared = SharedCluster {
            id,
            // Once: the threads share the counts of the rules.
            settings: settings::sessions(config, id, cluster, kept),
            pool: settings::pool(config, (id, cluster), &users, (threads, &kept.memory)),
            backends: limits::budgets(config, cluster, &targets, &bells),
            users,
            reader,
            waiting: WaitingRoom::default(),
            policy,
            rights_max_age: Duration::from_millis(cluster.pool.rights_max_age_ms),
        };
        let (lines, questions): (Vec<_>, Vec<_>) = bells.iter().map(|_| worker_line()).unzip();
        let seed = |(bell, questions)| ClusterSeed { shared: shared.clone(), bell, questions };
        let seeds = bells.into_iter().zip(questions).map(seed).collect();
        let name = cluster.name.as_str().into();
        let schemas = cluster.schemas.clone();
        let compression =
            cluster.backends.iter().chain(settings::spares(cluster)).map(|one| one.compression).collect();
        Ok((Self { name, monitor, shared, hot, lines, schemas, compression }, seeds))
    }

    /// As operators see it.
    pub(crate) fn view(&self) -> ClusterView {
        ClusterView {
            name: self.name.clone(),
            schemas: self.schemas.clone(),
            reader: self.shared.reader.clone(),
            backends: self.shared.backends.clone(),
            workers: self.lines.clone(),
            routing: self.shared.settings.routing.clone(),
            policy: self.shared.policy.clone(),
        }
    }

    /// Starts its monitor, which runs until `ends`, and what follows it.
    pub(crate) fn start(self, registry: &Arc<Registry>, mut ends: watch::Receiver<bool>) -> StartedCluster {
        let Self { monitor, shared, compression, .. } = self;
        let monitoring = rt::spawn_local(monitor.run(async move {
            // An error means that the sender is gone, which is a stop too.
            let _ = ends.wait_for(|end| *end).await;
        }));
        let SharedCluster { id, backends, users, reader, rights_max_age, .. } = shared;
        rt::spawn_local(users.rights().clone().age(rights_max_age));
        let following = rt::spawn_local(follow(registry.clone(), id, reader.clone()));
        rt::spawn_local(limits::follow(reader.clone(), backends));
        StartedCluster { id, users, reader, compression, monitoring, following }
    }
}

/// A cluster that runs.
pub(crate) struct StartedCluster {
    pub id: ClusterId,
    pub users: Arc<Users>,
    pub reader: SnapshotReader,
    compression: Vec<Compression>,
    pub monitoring: rt::JoinHandle<()>,
    pub following: rt::JoinHandle<()>,
}

impl StartedCluster {
    /// What `announce` needs of it.
    pub(crate) fn wanted(&self) -> (SnapshotReader, Vec<Compression>) {
        (self.reader.clone(), self.compression.clone())
    }
}

/// Says once when every backend of every cluster has been looked at, and what they cannot do.
pub(crate) async fn announce(clusters: Vec<(SnapshotReader, Vec<Compression>)>) {
    let (mut backends, mut up) = (0, 0);
    for (mut reader, wanted) in clusters {
        let Some(mut snapshot) = reader.wait_for(|snapshot| snapshot.settled).await else { return };
        if let Some(reason) = snapshot.why_unknown() {
            tracing::error!(
                reason,
                "not ready: clients are refused until the monitor's user can log in to a backend"
            );
            let Some(known) = reader.wait_for(|snapshot| snapshot.why_unknown().is_none()).await else {
                return;
            };
            snapshot = known;
        }
        warn_of_compression(&snapshot, wanted);
        backends += snapshot.present().count();
        up += snapshot.backends.iter().filter(|backend| backend.is_up()).count();
    }
    tracing::info!(backends, up, "ready");
}

fn warn_of_compression(snapshot: &Snapshot, wanted: Vec<Compression>) {
    for (backend, wanted) in snapshot.backends.iter().zip(wanted) {
        let flag = match wanted {
            Compression::Uncompressed => continue,
            Compression::Zlib => Capabilities::COMPRESS,
            Compression::Zstd => Capabilities::ZSTD_COMPRESSION,
        };
        if backend.capabilities.is_some_and(|offered| !offered.contains(flag)) {
            tracing::warn!(
                backend = %backend.name,
                "does not offer compression = \"{wanted}\": connections to it are not compressed"
            );
        }
    }
}

/// Wakes those who wait for a backend from which nothing is expected any more, as soon as that is known.
async fn follow(registry: Arc<Registry>, cluster: ClusterId, mut reader: SnapshotReader) {
    let mut seen = reader.load().generation;
    // None: the monitor has stopped.
    while let Some(snapshot) = reader.wait_for(|snapshot| snapshot.generation != seen).await {
        seen = snapshot.generation;
        disturb_waiting(&registry, cluster, &snapshot);
    }
}

/// Wakes those who wait for a hung backend.
pub(crate) fn disturb_waiting(registry: &Registry, cluster: ClusterId, snapshot: &Snapshot) {
    let now = rt::now();
    if snapshot.backends.iter().any(|backend| is_hung(snapshot, backend.id, now)) {
        registry.disturb_those_on(cluster, |backend| is_hung(snapshot, backend, now));
    }
}
