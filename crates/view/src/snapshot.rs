//! How the snapshot gets from the control thread to everybody else: readers load a pointer and take no lock.

use std::sync::Arc;
use std::time::Instant;

use arc_swap::ArcSwap;
use delphinus_net::rt::watch;
use delphinus_topology::{BackendId, Member, Snapshot, Wish};

use crate::positions::Positions;
use crate::stored_code::StoredCode;
use crate::traffic::TrafficReporter;

/// The writing end; there is one, and the monitor has it.
#[derive(Debug)]
pub struct Publisher {
    current: Arc<ArcSwap<Snapshot>>,
    changed: watch::Sender<u64>,
}

/// The reading end, cheap to clone, for any thread.
#[derive(Debug, Clone)]
pub struct SnapshotReader {
    current: Arc<ArcSwap<Snapshot>>,
    changed: watch::Receiver<u64>,
    reporter: TrafficReporter,
    positions: Arc<Positions>,
    stored_code: Arc<StoredCode>,
}

/// One worker's cache of the pointer: a load costs a comparison while nothing changes.
#[derive(Debug, Clone)]
pub struct SnapshotCache {
    cache: arc_swap::Cache<Arc<ArcSwap<Snapshot>>, Arc<Snapshot>>,
}

/// Both ends of a cluster's view, which begins with this snapshot and can have so many backends.
pub fn channel(
    (first, places): (Snapshot, usize),
    reporter: TrafficReporter,
    stored_code: StoredCode,
) -> (Publisher, SnapshotReader) {
    let (sender, changed) = watch::channel(first.generation);
    let current = Arc::new(ArcSwap::from_pointee(first));
    let positions = Arc::new(Positions::new(places));
    let publisher = Publisher { current: current.clone(), changed: sender };
    let stored_code = Arc::new(stored_code);
    (publisher, SnapshotReader { current, changed, reporter, positions, stored_code })
}

impl Publisher {
    /// Replaces the snapshot, then tells those who wait.
    pub fn publish(&self, snapshot: Snapshot) {
        let generation = snapshot.generation;
        self.current.store(Arc::new(snapshot));
        self.changed.send_replace(generation);
    }
}

impl SnapshotReader {
    /// The snapshot as it is now.
    pub fn load(&self) -> Arc<Snapshot> {
        self.current.load_full()
    }

    /// A cache for one worker.
    pub fn cache(&self) -> SnapshotCache {
        SnapshotCache { cache: arc_swap::Cache::new(self.current.clone()) }
    }

    /// What each backend has executed.
    pub fn positions(&self) -> &Arc<Positions> {
        &self.positions
    }

    /// What is known of the code in the database.
    pub fn stored_code(&self) -> &Arc<StoredCode> {
        &self.stored_code
    }

    /// Where to tell what real traffic sees.
    pub fn reporter(&self) -> &TrafficReporter {
        &self.reporter
    }

    /// Tells the monitor what an operator, or a move, wants of a backend, and waits until everybody can see it, or the backend is removed.
    /// False if there is no such backend, or the proxy stops.
    pub async fn wish(&self, backend: BackendId, at: Instant, wish: Wish) -> bool {
        let obeys = |snapshot: &Snapshot| {
            let is_given_up = |wish: &Wish| matches!(wish, Wish::GivenUp { .. });
            snapshot.backend(backend).is_some_and(|backend| {
                let obeys = backend.is_offline() == wish.is_offline()
                    && (!is_given_up(&wish) || is_given_up(&backend.wish));
                obeys || !backend.origin.is_present()
            })
        };
        self.load().backend(backend).is_some()
            && self.reporter.wish(backend, at, wish).await
            && self.clone().wait_for(obeys).await.is_some()
    }

    /// Tells the monitor that a move wants nothing of a backend any more, and waits until everybody can see it: whether an operator has taken it
    /// out of use. `None` if there is no such backend, or the proxy stops.
    pub async fn release(&self, backend: BackendId, at: Instant) -> Option<bool> {
        let is_released =
            |snapshot: &Snapshot| snapshot.backend(backend).is_some_and(|one| !one.wish.is_of_move());
        self.load().backend(backend)?;
        let is_told = self.reporter.released(backend, at).await;
        let snapshot = self.clone().wait_for(is_released).await.filter(|_| is_told)?;
        Some(snapshot.backend(backend)?.is_offline())
    }

    /// Tells the monitor which backends the configuration names now, by place, and waits until everybody can see them. False if
    /// the proxy stops.
    pub async fn list(&self, members: Vec<(BackendId, Option<Member>)>, at: Instant) -> bool {
        for (backend, member) in &members {
            if !self.reporter.listed(*backend, at, member.clone()).await {
                return false;
            }
        }
        let is_listed = |snapshot: &Snapshot| {
            members.iter().all(|(id, member)| match (snapshot.backend(*id), member) {
                (Some(backend), Some(member)) => {
                    backend.name == member.name
                        && backend.weight == member.weight
                        && backend.origin.is_present()
                }
                (found, None) => found.is_none_or(|backend| !backend.origin.is_present()),
                (None, Some(_)) => false,
            })
        };
        self.clone().wait_for(is_listed).await.is_some()
    }

    /// Waits until `is_there` holds of the snapshot and returns that one; `None` if the monitor has stopped and
    /// it will never hold.
    pub async fn wait_for(&mut self, is_there: impl Fn(&Snapshot) -> bool) -> Option<Arc<Snapshot>> {
        loop {
            // Marked as seen before it is looked at: a change in between is found by the next turn.
            self.changed.mark_unchanged();
            let snapshot = self.load();
            if is_there(&snapshot) {
                return Some(snapshot);
            }
            self.changed.changed().await.ok()?;
        }
    }
}

impl SnapshotCache {
    /// The snapshot as it is now.
    #[inline]
    pub fn current(&mut self) -> &Arc<Snapshot> {
        self.cache.load()
    }
}
