//! Accepts clients and gives each to the worker with the fewest sessions.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use delphinus_clients::{Arrival, ListenerSettings, Registry};
use delphinus_net::rt::{self, mpsc};
use delphinus_net::{Listener, Peer};
use delphinus_telemetry::{Pace, ProcessCounters};

use crate::doors::CurrentSettings;

/// A worker as the acceptor sees it.
#[derive(Debug, Clone)]
pub(crate) struct Seat {
    pub arrivals: mpsc::Sender<Arrival>,
    pub sessions: Arc<AtomicU32>,
}

/// What all listeners share.
#[derive(Debug)]
pub(crate) struct Acceptor {
    pub workers: Vec<Seat>,
    pub registry: Arc<Registry>,
    pub counters: Arc<ProcessCounters>,
}

/// Where accepting fails, it fails ten times a second.
const TELL_EVERY: Duration = Duration::from_secs(10);

/// The error for a client too many, as servers send it before their greeting: without SQLSTATE.
const TOO_MANY: &[u8] = b"\x17\x00\x00\x00\xff\x10\x04Too many connections";

/// The error for a client while the proxy is set OFFLINE: that of a server's `offline_mode`.
const OFFLINE: &[u8] = b"\x2a\x00\x00\x00\xff\xd8\x0bThe server is currently in offline mode";

impl Acceptor {
    /// Accepts on one listener until the task is ended.
    pub(crate) async fn accept(self: std::rc::Rc<Self>, listener: Arc<Listener>, settings: CurrentSettings) {
        let mut pace = Pace::of(TELL_EVERY);
        loop {
            match listener.accept().await {
                Ok(peer) => {
                    let settings = settings.borrow().clone();
                    self.hand_over(peer, &settings).await;
                }
                // Gone before it was accepted: nothing is wrong here.
                Err(error) if error.kind() == std::io::ErrorKind::ConnectionAborted => {
                    tracing::debug!(listener = %settings.borrow().name, %error, "a client left before it was accepted");
                }
                Err(error) => {
                    // Out of file descriptors, as a rule: some have to be closed first.
                    if let Some(held_back) = pace.step(rt::now()) {
                        tracing::warn!(listener = %settings.borrow().name, %error, held_back, "cannot accept a client");
                    }
                    rt::sleep(Duration::from_millis(100)).await;
                }
            }
        }
    }

    async fn hand_over(&self, peer: Peer, listener: &Arc<ListenerSettings>) {
        if self.registry.is_offline_for(peer.ip) {
            self.counters.refused_clients.increment();
            refuse(peer, OFFLINE).await;
            return;
        }
        let Some(connected) = self.registry.connect(peer.ip) else {
            self.counters.refused_clients.increment();
            refuse(peer, TOO_MANY).await;
            return;
        };
        let Some(worker) = self.workers.iter().min_by_key(|worker| worker.sessions.load(Ordering::Relaxed))
        else {
            return;
        };
        worker.sessions.fetch_add(1, Ordering::Relaxed);
        let arrival = Arrival { peer, listener: listener.clone(), connected };
        if worker.arrivals.send(arrival).await.is_err() {
            tracing::error!("a worker has ended; its client is dropped");
        }
    }
}

async fn refuse(peer: Peer, packet: &'static [u8]) {
    if let Ok(mut stream) = peer.into_stream() {
        // A client that is gone cannot be told.
        let _ = stream.write_bytes(packet).await;
        stream.close().await;
    }
}
