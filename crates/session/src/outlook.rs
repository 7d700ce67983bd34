//! How the cluster looks to the sessions of one worker, and what they tell the monitor of it. Sessions never change what
//! is thought of a backend: they report, and read what the monitor makes of that.

mod progress;

use std::cell::{Cell, RefCell};
use std::sync::Arc;
use std::time::{Duration, Instant};

use delphinus_net::rt;
use delphinus_route::{Balance, Policy};
use delphinus_topology::{BackendId, Health, ServerFacts, Snapshot, Wish};
use delphinus_view::{SnapshotCache, SnapshotReader};

use crate::client_error::ProxyError;

pub(crate) use progress::Progress;

/// How long a replica that could not be reached is left out, until the monitor has looked.
const AVOID: Duration = Duration::from_secs(2);
/// A backend that has been down for so long will not answer what was sent to it before.
pub(crate) const HUNG: Duration = Duration::from_secs(5);
/// A member that has left its group answers for so long what it had committed before.
const LEFT: Duration = Duration::from_millis(500);

/// One worker's outlook on its cluster.
pub(crate) struct Outlook {
    /// How far each backend is.
    pub(crate) progress: Progress,
    reader: SnapshotReader,
    snapshot: RefCell<SnapshotCache>,
    balance: RefCell<Balance>,
    failed: RefCell<Vec<(BackendId, Instant)>>,
    /// Operators have statements wait.
    paused: Cell<bool>,
    /// None of the two: looked at before each command.
    at_rest: Cell<bool>,
}

impl Outlook {
    /// On the cluster that is read there; reads are spread as `policy` says.
    pub(crate) fn new(reader: SnapshotReader, policy: Policy) -> Self {
        Self {
            progress: Progress::new(reader.positions().clone()),
            snapshot: RefCell::new(reader.cache()),
            reader,
            balance: RefCell::new(Balance::new(policy)),
            failed: RefCell::default(),
            paused: Cell::new(false),
            at_rest: Cell::new(true),
        }
    }

    /// The cluster as it is now, and the balance of this worker.
    #[inline]
    pub(crate) fn with_snapshot<T>(&self, look: impl FnOnce(&Snapshot, &mut Balance) -> T) -> T {
        let mut cache = self.snapshot.borrow_mut();
        look(cache.current(), &mut self.balance.borrow_mut())
    }

    /// By which the cluster is seen from elsewhere.
    pub(crate) fn reader(&self) -> &SnapshotReader {
        &self.reader
    }

    /// What is known of the cluster's servers.
    pub(crate) fn server_facts(&self) -> Option<Arc<ServerFacts>> {
        self.with_snapshot(|snapshot, _| snapshot.facts.clone())
    }

    /// The primary.
    pub(crate) fn primary(&self) -> Option<BackendId> {
        self.with_snapshot(|snapshot, _| snapshot.primary().map(|primary| primary.id))
    }

    /// The primary that statements can be sent to; an error says why there is none.
    pub(crate) fn usable_primary(&self) -> Result<BackendId, ProxyError> {
        self.with_snapshot(|snapshot, _| {
            let primary = snapshot
                .primary()
                .ok_or_else(|| ProxyError::NoBackend(snapshot.why_no_primary().to_string()))?;
            if primary.is_offline() {
                return Err(ProxyError::NoBackend(format!("the primary {} is set OFFLINE", primary.name)));
            }
            if let Health::Down { reason, .. } = &primary.health {
                return Err(ProxyError::NoBackend(format!("the primary {} is down: {reason}", primary.name)));
            }
            Ok(primary.id)
        })
    }

    /// True for a backend that takes no writes.
    pub(crate) fn is_read_only(&self, backend: BackendId) -> bool {
        self.with_snapshot(|snapshot, _| snapshot.backend(backend).is_some_and(|found| found.read_only))
    }

    /// The backend with this name.
    pub(crate) fn named(&self, name: &str) -> Option<BackendId> {
        self.with_snapshot(|snapshot, _| snapshot.named(name).map(|backend| backend.id))
    }

    /// Waits until `is_there` holds of the cluster.
    pub(crate) async fn news(&self, is_there: impl Fn(&Snapshot) -> bool) {
        // None: the monitor has stopped, and with it the proxy.
        let _ = self.reader.clone().wait_for(is_there).await;
    }

    /// Waits until something is known of the servers, which the greeting needs, or why nothing will be.
    pub(crate) async fn facts_known(&self) -> Option<Arc<Snapshot>> {
        let is_told = |snapshot: &Snapshot| snapshot.facts.is_some() || snapshot.why_unknown().is_some();
        self.reader.clone().wait_for(is_told).await
    }

    /// The cluster, if anything is known of its servers.
    pub(crate) fn facts_now(&self) -> Option<Arc<Snapshot>> {
        Some(self.reader.load()).filter(|snapshot| snapshot.facts.is_some())
    }

    /// True if statements have to be timed.
    #[inline]
    pub(crate) fn needs_latency(&self) -> bool {
        self.balance.borrow().needs_latency()
    }

    /// True if reads of the same text go to the same backend.
    #[inline]
    pub(crate) fn needs_text(&self) -> bool {
        self.balance.borrow().needs_text()
    }

    /// Takes in that a statement has ended.
    pub(crate) fn took(&self, backend: BackendId, began: Instant) {
        let now = rt::now();
        self.balance.borrow_mut().took(backend, now.saturating_duration_since(began), now);
    }

    /// True if any backend may be chosen, and no statement has to wait for operators.
    #[inline]
    pub(crate) fn is_at_rest(&self) -> bool {
        self.at_rest.get()
    }

    /// True if operators have statements wait.
    #[inline]
    pub(crate) fn is_paused(&self) -> bool {
        self.paused.get()
    }

    /// Takes in whether they do.
    pub(crate) fn is_paused_now(&self, paused: bool) {
        self.paused.set(paused);
        self.at_rest.set(!paused && self.failed.borrow().is_empty());
    }

    /// Backends that failed a moment ago.
    pub(crate) fn avoided(&self) -> Vec<BackendId> {
        let mut failed = self.failed.borrow_mut();
        if failed.is_empty() {
            return Vec::new();
        }
        let now = rt::now();
        failed.retain(|(_, until)| *until > now);
        self.at_rest.set(failed.is_empty() && !self.paused.get());
        failed.iter().map(|(backend, _)| *backend).collect()
    }

    /// Leaves a backend out of reads for a moment and tells the monitor to look at it.
    pub(crate) fn report_unreachable(&self, backend: BackendId, reason: &str) {
        let now = rt::now();
        let mut failed = self.failed.borrow_mut();
        // Once, however many sessions find it out at the same time: every statement looks at the list.
        failed.retain(|(known, _)| *known != backend);
        failed.push((backend, now + AVOID));
        drop(failed);
        self.at_rest.set(false);
        self.reader.reporter().connect_failed(backend, now, reason);
    }

    /// Tells the monitor that a connection broke in use.
    pub(crate) fn report_lost(&self, backend: BackendId, reason: &str) {
        self.reader.reporter().connection_lost(backend, rt::now(), reason);
    }

    /// Tells the monitor that a backend has refused a write because it is read-only.
    pub(crate) fn report_read_only(&self, backend: BackendId) {
        self.reader.reporter().read_only(backend, rt::now());
    }

    /// True if nobody waits for this backend any more.
    pub(crate) fn is_hung(&self, backend: BackendId) -> bool {
        self.with_snapshot(|snapshot, _| is_hung(snapshot, backend, rt::now()))
    }

    /// True if a write is not waited for any more that was sent to this backend.
    pub(crate) fn is_left(&self, backend: BackendId) -> bool {
        self.with_snapshot(|snapshot, _| is_left(snapshot, backend, rt::now()))
    }

    /// True if another backend has become the primary.
    pub(crate) fn is_deposed(&self, backend: BackendId) -> bool {
        self.with_snapshot(|snapshot, _| {
            snapshot.primary().is_some_and(|primary| primary.id != backend && primary.is_up())
        })
    }

    /// Spreads reads like this from now on.
    pub(crate) fn spread_by(&self, policy: Policy) {
        self.balance.borrow_mut().follow(policy);
    }
}

/// True if a write that was sent there is not waited for any more: the backend was the primary of a group, has left it, and
/// another one has been elected. What it had handed to the group is there or is not; it cannot commit anything else.
fn is_left(snapshot: &Snapshot, backend: BackendId, now: Instant) -> bool {
    snapshot.backend(backend).is_some_and(|found| match found.health {
        Health::Shunned { since, .. } => {
            found.was_primary()
                && snapshot.primary().is_some_and(|primary| primary.id != backend && primary.is_up())
                && now.saturating_duration_since(since) >= LEFT
        }
        _ => false,
    })
}

/// True if what is under way there is not waited for any more: the backend has been down for longer than a pause, or it
/// does not answer, or takes writes on its own account, while another one has its place as the primary. Its word would be
/// worth nothing then: what it still acknowledges is not where everybody looks.
pub fn is_hung(snapshot: &Snapshot, backend: BackendId, now: Instant) -> bool {
    snapshot.backend(backend).is_some_and(|found| match found.health {
        _ if matches!(found.wish, Wish::GivenUp { .. }) => true,
        Health::Down { since, .. } => {
            now.saturating_duration_since(since) >= HUNG
                || (found.was_primary() && snapshot.primary().is_some())
        }
        Health::Fenced { .. } => true,
        _ => false,
    })
}
