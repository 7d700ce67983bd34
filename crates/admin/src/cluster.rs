//! One cluster as operators see it: the ends of what it publishes, and lines to its pool in each worker.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use delphinus_net::Place;
use delphinus_net::rt;
use delphinus_pool::{BackendCensus, Budget};
use delphinus_route::Policy;
use delphinus_session::{Pauses, Routing};
use delphinus_topology::BackendId;
use delphinus_view::SnapshotReader;

use crate::switching::Switching;
use crate::worker::WorkerLine;

/// How long workers and sessions have to answer. One that waits for its client, or for a connection, does not.
pub(crate) const PATIENCE: Duration = Duration::from_secs(1);

/// A cluster of the process.
pub struct ClusterView {
    /// Its name.
    pub name: Arc<str>,
    /// The schemas that are in it alone, by now.
    pub schemas: Box<dyn Fn() -> Vec<String>>,
    /// What is known of it, and the way to its monitor.
    pub reader: SnapshotReader,
    /// The backends, with the limits of their connections.
    pub backends: Vec<(Arc<Place>, Arc<Budget>)>,
    /// A line to each worker.
    pub workers: Vec<WorkerLine>,
    /// How statements are routed by now: the rules with their counts, and how reads are spread.
    pub routing: Box<dyn Fn() -> (Routing, Policy)>,
    /// Whose statements wait.
    pub pauses: PauseDoor,
    /// What moves the primary's role.
    pub switching: Box<dyn Switching>,
}

/// Whether all workers follow.
pub type Following = Pin<Box<dyn Future<Output = bool>>>;

/// By which operators have statements of a cluster wait.
pub struct PauseDoor {
    /// Whose do, by now.
    pub now: Box<dyn Fn() -> Arc<Pauses>>,
    /// Has these wait and no others; false if a worker has not followed in time.
    pub set: Box<dyn Fn(Pauses) -> Following>,
}

impl ClusterView {
    /// The names of its backends.
    pub(crate) fn backend_names(&self) -> Vec<Arc<str>> {
        self.reader.load().present().map(|backend| backend.name.clone()).collect()
    }

    /// What each worker's pool has to each backend; `None` for a worker that does not answer.
    pub(crate) async fn census(&self) -> Vec<Option<Vec<BackendCensus>>> {
        census(&self.workers).await
    }

    /// Waits until every worker's pool has followed an operator's wish; false if one has not in time.
    pub(crate) async fn followed(&self, backend: BackendId, is_offline: bool) -> bool {
        followed(&self.workers, backend, is_offline).await
    }
}

async fn census(workers: &[WorkerLine]) -> Vec<Option<Vec<BackendCensus>>> {
    let mut all = Vec::with_capacity(workers.len());
    for worker in workers {
        all.push(worker.census(PATIENCE).await);
    }
    all
}

/// Waits until every worker's pool knows whether a backend is taken out of use; false if one does not in time.
pub async fn followed(workers: &[WorkerLine], backend: BackendId, is_offline: bool) -> bool {
    let follows = |worker: &Option<Vec<BackendCensus>>| {
        let pool = worker.as_ref().and_then(|pools| pools.get(backend.index()));
        pool.is_some_and(|pool| pool.is_draining == is_offline)
    };
    let all_follow = async {
        while !census(workers).await.iter().all(follows) {
            rt::sleep(Duration::from_millis(1)).await;
        }
    };
    rt::timeout(PATIENCE * 5, all_follow).await.is_some()
}
