//! One data-plane thread: its pool, its sessions, and its end.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use delphinus_admin::{Questions, answer_questions, drain_as_wished};
use delphinus_monitor::SnapshotReader;
use delphinus_net::rt::{self, Notify, mpsc, watch};
use delphinus_pool::{Budget, Pool, Target};
use delphinus_session::{Arrival, Parts, Registry, Session, Settings, Users, Worker};
use delphinus_telemetry::Counters;
use delphinus_wire::auth::RsaKey;

/// What a worker thread starts with.
pub(crate) struct Seed {
    pub settings: Settings,
    pub pool: delphinus_pool::Settings,
    pub backends: Vec<(Target, Arc<Budget>)>,
    pub bell: Arc<Notify>,
    pub users: Arc<Users>,
    pub registry: Arc<Registry>,
    pub counters: Arc<Counters>,
    pub rsa_key: Option<Arc<RsaKey>>,
    pub reader: SnapshotReader,
    pub questions: Questions,
    pub arrivals: mpsc::Receiver<Arrival>,
    pub sessions: Arc<AtomicU32>,
    pub stopping: watch::Receiver<bool>,
    /// True when there is no more time to wait for sessions.
    pub deadline: watch::Receiver<bool>,
}

/// Serves clients until the acceptor is gone and the last session has ended, or the deadline has come.
pub(crate) async fn serve(seed: Seed) {
    let Seed { mut arrivals, sessions, mut deadline, .. } = seed;
    tracing::debug!(in_batches = rt::sends_in_batches(), "worker is ready");
    let pool = Pool::new(seed.pool, seed.backends, seed.bell, seed.counters.clone());
    let beside = [
        rt::spawn_local(pool.clone().tend()),
        rt::spawn_local(answer_questions(pool.clone(), seed.questions)),
        rt::spawn_local(drain_as_wished(pool.clone(), seed.reader.clone())),
    ];
    let worker = Worker::new(Parts {
        settings: seed.settings,
        users: seed.users,
        pool: pool.clone(),
        registry: seed.registry,
        counters: seed.counters,
        rsa_key: seed.rsa_key,
        stopping: seed.stopping,
        reader: seed.reader,
    });
    let open = Rc::new(Cell::new(0_u32));
    let ended = Rc::new(Notify::new());
    while let Some(arrival) = arrivals.recv().await {
        let (worker, sessions) = (worker.clone(), sessions.clone());
        let (open, ended) = (open.clone(), ended.clone());
        open.set(open.get() + 1);
        rt::spawn_local(async move {
            Session::run(worker, arrival).await;
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
    beside.iter().for_each(rt::JoinHandle::abort);
    pool.close().await;
}
