//! What workers see of the backends. Real traffic is evidence at once: the monitor counts it and looks for
//! itself without waiting for the next interval.

use std::time::Instant;

use delphinus_net::rt::mpsc;
use delphinus_topology::{BackendId, Member, Observation, Traffic, Wish};

/// A worker's way to tell the monitor. Never waits: when the monitor is behind by this many messages, one more
/// says nothing new and is dropped.
#[derive(Debug, Clone)]
pub struct TrafficReporter {
    sender: mpsc::Sender<Observation>,
}

impl TrafficReporter {
    /// Tells whoever reads from the other end.
    pub fn new(sender: mpsc::Sender<Observation>) -> Self {
        Self { sender }
    }

    /// A new connection to `backend` could not be opened; `reason` as it goes into the log. Not for refusals by
    /// a living backend (1040, 1045).
    pub fn connect_failed(&self, backend: BackendId, at: Instant, reason: &str) {
        self.send(backend, at, Traffic::ConnectFailed(reason.into()));
    }

    /// A connection to `backend` broke while it was in use.
    pub fn connection_lost(&self, backend: BackendId, at: Instant, reason: &str) {
        self.send(backend, at, Traffic::Lost(reason.into()));
    }

    /// `backend` has refused a write because it is read-only (errors 1290 and 1836): its role may have moved.
    pub fn read_only(&self, backend: BackendId, at: Instant) {
        self.send(backend, at, Traffic::ReadOnly);
    }

    /// What an operator wants of `backend`. Waits for room: a wish must not get lost. False if the proxy stops.
    pub async fn wish(&self, backend: BackendId, at: Instant, wish: Wish) -> bool {
        self.sender.send(Observation::Wish { backend, at, wish }).await.is_ok()
    }

    /// A move wants nothing of `backend` any more. Waits for room, too. False if the proxy stops.
    pub(crate) async fn released(&self, backend: BackendId, at: Instant) -> bool {
        self.sender.send(Observation::Released { backend, at }).await.is_ok()
    }

    /// What the configuration names at the place of `backend`. Waits for room, too. False if the proxy stops.
    pub(crate) async fn listed(&self, backend: BackendId, at: Instant, member: Option<Member>) -> bool {
        self.sender.send(Observation::Listed { backend, at, member }).await.is_ok()
    }

    /// `by` has the role of `backend`, as the proxies have agreed; `None`: it counts again. Waits for room. False if the proxy stops.
    pub async fn replaced(&self, backend: BackendId, at: Instant, by: Option<&str>) -> bool {
        let by = by.map(Into::into);
        self.sender.send(Observation::Replaced { backend, at, by }).await.is_ok()
    }

    fn send(&self, backend: BackendId, at: Instant, traffic: Traffic) {
        // A closed channel means that the proxy stops.
        let _ = self.sender.try_send(Observation::Traffic { backend, at, traffic });
    }
}
