//! What is published of a cluster's configuration: immutable, replaced as a whole, followed by each worker. Nothing is looked up for a
//! query: a task beside the sessions gives it to the pool and to the worker, and a session sees with its next command that it has
//! changed.

use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use delphinus_net::rt::{self, watch};
use delphinus_pool::Pool;
use delphinus_session::{Pauses, Worker};

/// What workers follow.
#[derive(Debug)]
pub(crate) struct Policy {
    /// Larger each time.
    number: u64,
    pub sessions: delphinus_session::Settings,
    pub pool: delphinus_pool::Settings,
    /// Whose statements wait, as operators want it. No configuration changes that.
    pub pauses: Arc<Pauses>,
}

/// Publishes the policies of one cluster.
pub(crate) struct PolicyPublisher {
    sender: watch::Sender<Arc<Policy>>,
    /// The number that each worker has followed.
    followed: Vec<Arc<AtomicU64>>,
}

/// One worker's end.
#[derive(Clone)]
pub(crate) struct PolicyFollower {
    receiver: watch::Receiver<Arc<Policy>>,
    followed: Arc<AtomicU64>,
}

/// How long workers have to follow. They do at once, unless one is kept busy.
const PATIENCE: Duration = Duration::from_secs(5);

impl PolicyPublisher {
    /// The first policy, for so many workers.
    pub(crate) fn new(
        sessions: delphinus_session::Settings,
        pool: delphinus_pool::Settings,
        workers: usize,
    ) -> (Self, Vec<PolicyFollower>) {
        let (sender, receiver) =
            watch::channel(Arc::new(Policy { number: 0, sessions, pool, pauses: Arc::default() }));
        let followed: Vec<Arc<AtomicU64>> = (0..workers).map(|_| Arc::default()).collect();
        let follower = |followed: &Arc<AtomicU64>| PolicyFollower {
            receiver: receiver.clone(),
            followed: followed.clone(),
        };
        let followers = followed.iter().map(follower).collect();
        (Self { sender, followed }, followers)
    }

    /// What is published now.
    pub(crate) fn current(&self) -> Arc<Policy> {
        self.sender.borrow().clone()
    }

    /// For those who look at what is published.
    pub(crate) fn subscribe(&self) -> watch::Receiver<Arc<Policy>> {
        self.sender.subscribe()
    }

    /// Publishes another one.
    pub(crate) fn publish(&self, sessions: delphinus_session::Settings, pool: delphinus_pool::Settings) {
        let before = self.current();
        let (number, pauses) = (before.number + 1, before.pauses.clone());
        self.sender.send_replace(Arc::new(Policy { number, sessions, pool, pauses }));
    }

    /// Publishes whose statements wait.
    pub(crate) fn pause(&self, pauses: Pauses) {
        let before = self.current();
        let (number, sessions, pool) = (before.number + 1, before.sessions.clone(), before.pool.clone());
        self.sender.send_replace(Arc::new(Policy { number, sessions, pool, pauses: Arc::new(pauses) }));
    }

    /// Waits until all workers follow what is published; false if one does not in time.
    pub(crate) async fn are_followed(&self) -> bool {
        let number = self.current().number;
        let all = async {
            while self.followed.iter().any(|followed| followed.load(Ordering::Acquire) < number) {
                rt::sleep(Duration::from_millis(1)).await;
            }
        };
        rt::timeout(PATIENCE, all).await.is_some()
    }
}

impl PolicyFollower {
    /// What is published now.
    pub(crate) fn current(&self) -> Arc<Policy> {
        self.receiver.borrow().clone()
    }

    /// Gives each new policy to the worker and its pool, until no more can come.
    pub(crate) async fn follow(mut self, worker: Rc<Worker>, pool: Rc<Pool>) {
        while self.receiver.changed().await.is_ok() {
            let policy = self.receiver.borrow_and_update().clone();
            pool.follow(policy.pool.clone());
            worker.follow(policy.sessions.clone());
            worker.pause(policy.pauses.clone());
            self.followed.store(policy.number, Ordering::Release);
        }
    }
}
