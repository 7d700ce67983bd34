//! One data-plane thread: its pools, one for each cluster, its sessions, and its end.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use delphinus_admin::answer_questions;
use delphinus_clients::{Arrival, Clusters, Registry};
use delphinus_journal::{Logs, Pens};
use delphinus_net::BufferPool;
use delphinus_net::rt::{self, Notify, mpsc, watch};
use delphinus_pool::Pool;
use delphinus_route::ClusterChoice;
use delphinus_session::{Parts, Session, Worker, spare_buffers};
use delphinus_telemetry::ThreadCounters;
use delphinus_view::SnapshotReader;
use delphinus_wire::auth::RsaKey;

use crate::cluster::{ClusterSeed, SharedCluster};

/// What a worker thread starts with.
pub(crate) struct Seed {
    pub clusters: Vec<ClusterSeed>,
    pub choice: watch::Receiver<Arc<ClusterChoice>>,
    pub thread: ThreadSeed,
    pub arrivals: mpsc::Receiver<Arrival>,
    pub sessions: Arc<AtomicU32>,
    /// True when there is no more time to wait for sessions.
    pub deadline: watch::Receiver<bool>,
}

/// What is the same for all clusters of a thread.
pub(crate) struct ThreadSeed {
    pub registry: Arc<Registry>,
    pub counters: ThreadCounters,
    pub rsa_key: Option<Arc<RsaKey>>,
    pub stopping: watch::Receiver<bool>,
    pub logs: Logs,
}

/// Serves clients until the acceptor is gone and the last session has ended, or the deadline has come.
pub(crate) async fn serve(seed: Seed) {
    let Seed { mut arrivals, sessions, mut deadline, clusters: seeds, choice, thread } = seed;
    tracing::debug!(in_batches = rt::sends_in_batches(), "worker is ready");
    let (buffers, logs) = (spare_buffers(), Rc::new(thread.logs.pens()));
    let started = seeds.into_iter().map(|cluster| start(cluster, &thread, (&buffers, &logs)));
    let (workers, beside): (Vec<_>, Vec<_>) = started.unzip();
    let pools: Vec<_> = workers.iter().map(|worker| worker.pool.clone()).collect();
    let clusters = Clusters::new(choice.borrow().clone(), workers);
    let choosing = rt::spawn_local(follow_choice(clusters.clone(), choice));
    let open = Rc::new(Cell::new(0_u32));
    let ended = Rc::new(Notify::new());
    while let Some(arrival) = arrivals.recv().await {
        let (clusters, sessions) = (clusters.clone(), sessions.clone());
        let (open, ended) = (open.clone(), ended.clone());
        open.set(open.get() + 1);
        rt::spawn_local(async move {
            Session::run(clusters, arrival).await;
            sessions.fetch_sub(1, Ordering::Relaxed);
            open.set(open.get() - 1);
            ended.notify_one();
        });
    }
    let all_ended = async {
        while open.get() > 0 {
            ended.notified().await;
        }
    };
    rt::either(all_ended, deadline.wait_for(|come| *come)).await;
    choosing.abort();
    beside.iter().flatten().for_each(rt::JoinHandle::abort);
    for pool in pools {
        pool.close().await;
    }
}

/// This thread's worker for one cluster, and what runs beside its sessions.
fn start(
    seed: ClusterSeed,
    thread: &ThreadSeed,
    (buffers, logs): (&BufferPool, &Rc<Pens>),
) -> (Rc<Worker>, [rt::JoinHandle<()>; 4]) {
    let ClusterSeed { shared, policy, bell, questions } = seed;
    let SharedCluster { id, backends, users, reader, waiting, cache, memory, statistics } = shared;
    let current = policy.current();
    let counters = thread.counters.clusters[id.index()].clone();
    let pool = Pool::new(current.pool.clone(), backends, bell, counters.clone());
    let (tended, asked, drained, changed) = (pool.clone(), pool.clone(), pool.clone(), pool.clone());
    let wished = reader.clone();
    let worker = Worker::new(Parts {
        cluster: id,
        settings: current.sessions.clone(),
        users,
        pool,
        registry: thread.registry.clone(),
        counters,
        process: thread.counters.process.clone(),
        rsa_key: thread.rsa_key.clone(),
        stopping: thread.stopping.clone(),
        reader,
        waiting,
        buffers: buffers.clone(),
        cache: Some(cache),
        memory,
        recorder: statistics.recorder(id),
        logs: logs.clone(),
    });
    let beside = [
        rt::spawn_local(tended.tend()),
        rt::spawn_local(answer_questions(asked, questions)),
        rt::spawn_local(follow_snapshots(drained, wished)),
        rt::spawn_local(policy.follow(worker.clone(), changed)),
    ];
    (worker, beside)
}

/// Chooses by what the configuration says by then.
async fn follow_choice(clusters: Rc<Clusters<Worker>>, mut choice: watch::Receiver<Arc<ClusterChoice>>) {
    while choice.changed().await.is_ok() {
        clusters.follow(choice.borrow_and_update().clone());
    }
}

/// Tells a pool what the monitor publishes: which backends are there, and which of them operators have taken out of use.
async fn follow_snapshots(pool: Rc<Pool>, mut reader: SnapshotReader) {
    let mut seen = 0;
    while let Some(snapshot) = reader.wait_for(|snapshot| snapshot.generation > seen).await {
        seen = snapshot.generation;
        for backend in &snapshot.backends {
            pool.set_draining(backend.id, backend.is_offline() || !backend.origin.is_present());
            pool.set_up(backend.id, backend.is_up());
        }
        if snapshot.settled {
            pool.expect_users(snapshot.common_capabilities());
        }
    }
}
