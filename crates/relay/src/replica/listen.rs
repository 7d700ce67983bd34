//! Where replicas connect: listeners, the threads that serve, and places.
//!
//! Owns: accepting, handing over to the thread with the fewest connections, and the end of all of it. Must not know what is said.

use std::cell::RefCell;
use std::io;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use delphinus_clients::FailedLogins;
use delphinus_memory::Account;
use delphinus_net::rt::{self, Manner, mpsc};
use delphinus_net::tls::ServerTls;
use delphinus_net::{ListenAddress, Listener, Peer};
use delphinus_telemetry::Pace;
use delphinus_wire::Capabilities;
use delphinus_wire::auth::RsaKey;
use delphinus_wire::handshake::TlsMode;
use delphinus_wire::handshake::server::{Decoys, UserRecord};

use super::conversation;
use super::dump::Ground;
use super::registry::Registry;
use super::{Identity, ReplicaUser};
use crate::log::Log;

/// Where accepting fails, it fails ten times a second.
const TELL_EVERY: Duration = Duration::from_secs(10);
/// Connections on their way to a thread.
const ARRIVALS: usize = 64;
/// The error for a connection too many, as servers send it before their greeting: replicas try again.
const TOO_MANY: &[u8] = b"\x17\x00\x00\x00\xff\x10\x04Too many connections";

/// How replicas come in.
#[derive(Debug, Clone)]
pub struct Door {
    /// Where to listen.
    pub addresses: Vec<ListenAddress>,
    /// Whether replicas may or must use TLS.
    pub tls_mode: TlsMode,
    /// With which certificate; needed unless TLS is disabled.
    pub tls: Option<ServerTls>,
    /// Which compression replicas may ask for: `COMPRESS` (zlib), `ZSTD_COMPRESSION`, both or none.
    pub compression: Capabilities,
    /// A replica that asks for no compression is refused.
    pub must_compress: bool,
    /// For logins of `caching_sha2_password` without TLS.
    pub rsa_key: Option<Arc<RsaKey>>,
    /// Who may log in.
    pub users: Vec<ReplicaUser>,
    /// Connections at the same time.
    pub max_connections: u32,
    /// Threads that serve; at least one.
    pub threads: usize,
}

/// What all connections of a relay share.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) name: String,
    pub(super) log: Arc<Log>,
    pub(super) identity: Identity,
    pub(super) door: Door,
    pub(super) registry: Arc<Registry>,
    pub(super) memory: Account,
    pub(super) failed_logins: FailedLogins,
    records: Vec<(String, UserRecord)>,
    decoys: Decoys,
    connections: AtomicU32,
}

impl Shared {
    /// What a login is compared with. For a name that nobody has, it takes the course of one with a wrong password.
    pub(super) fn record(&self, name: &str) -> UserRecord {
        let known = self.records.iter().find(|(known, _)| known == name);
        known.map_or_else(|| self.decoys.record(name), |(_, record)| record.clone())
    }
}

/// The place of a connection, for as long as it lives.
struct Place {
    shared: Arc<Shared>,
    at_thread: Arc<AtomicU32>,
}

impl Drop for Place {
    fn drop(&mut self) {
        self.shared.connections.fetch_sub(1, Ordering::Relaxed);
        self.at_thread.fetch_sub(1, Ordering::Relaxed);
    }
}

type Arrival = (Peer, Place);

#[derive(Clone)]
struct Seat {
    arrivals: mpsc::Sender<Arrival>,
    connections: Arc<AtomicU32>,
}

/// A relay that serves replicas. Dropped, it goes on; see `stop`.
#[derive(Debug)]
pub struct Serving {
    /// Where it listens: with the ports that it has really got.
    pub addresses: Vec<ListenAddress>,
    stop: rt::watch::Sender<bool>,
    threads: Vec<JoinHandle<io::Result<()>>>,
}

impl Serving {
    /// Ends all connections and all threads. Replicas come again by themselves when there is a relay again.
    pub fn stop(self) {
        // All receivers may be gone.
        let _ = self.stop.send(true);
        for thread in self.threads {
            let _ = thread.join();
        }
    }
}

/// Begins to serve the log `log` under the name `name`. Fails if an address cannot be had.
pub fn serve(
    name: &str,
    log: &Arc<Log>,
    (identity, registry): (Identity, &Arc<Registry>),
    door: Door,
    memory: &Account,
) -> io::Result<Serving> {
    let record = |user: &ReplicaUser| (user.name.clone(), UserRecord::new(user.credential.clone()));
    let records: Vec<_> = door.users.iter().map(record).collect();
    let decoys = Decoys::new(records.iter().map(|(name, record)| (name.as_str(), record)));
    let shared = Arc::new(Shared {
        name: name.to_owned(),
        log: log.clone(),
        identity,
        door,
        registry: registry.clone(),
        memory: memory.clone(),
        failed_logins: FailedLogins::default(),
        records,
        decoys,
        connections: AtomicU32::new(0),
    });
    let (stop, stopped) = rt::watch::channel(false);
    let (mut threads, mut seats) = (Vec::new(), Vec::new());
    for number in 0..shared.door.threads.max(1) {
        let (arrivals, inbox) = mpsc::channel(ARRIVALS);
        seats.push(Seat { arrivals, connections: Arc::default() });
        let (shared, stopped) = (shared.clone(), stopped.clone());
        let main = move || work(shared, inbox, stopped);
        threads.push(rt::spawn_worker(format!("relay-out-{number}"), Manner::default(), main)?);
    }
    let (told, bound) = std::sync::mpsc::channel();
    let door = shared.clone();
    let main = move || accept_all(door, seats, (told, stopped));
    threads.push(rt::spawn_worker("relay-accept".to_owned(), Manner::default(), main)?);
    let addresses = bound.recv().unwrap_or_else(|_| Err(io::Error::other("the accepting thread has ended")));
    match addresses {
        Ok(addresses) => Ok(Serving { addresses, stop, threads }),
        Err(error) => {
            Serving { addresses: Vec::new(), stop, threads }.stop();
            Err(error)
        }
    }
}

/// A serving thread: one bell of the log wakes all of its tasks.
async fn work(
    shared: Arc<Shared>,
    mut inbox: mpsc::Receiver<Arrival>,
    mut stopped: rt::watch::Receiver<bool>,
) {
    let ground = Rc::new(Ground::new(shared.log.clone(), shared.memory.clone()));
    let (bell, grown) = (shared.log.register(), ground.grown.clone());
    rt::spawn_local(async move {
        loop {
            bell.rung().await;
            grown.notify_waiters();
        }
    });
    let serve = async {
        while let Some((peer, place)) = inbox.recv().await {
            let (shared, ground) = (shared.clone(), ground.clone());
            rt::spawn_local(async move {
                conversation::run(shared, ground, peer).await;
                drop(place);
            });
        }
        std::future::pending::<()>().await;
    };
    rt::either(serve, stopped.wait_for(|is_over| *is_over)).await;
}

type Told = std::sync::mpsc::Sender<io::Result<Vec<ListenAddress>>>;

async fn accept_all(
    shared: Arc<Shared>,
    seats: Vec<Seat>,
    (told, mut stopped): (Told, rt::watch::Receiver<bool>),
) {
    let listeners: io::Result<Vec<_>> = shared.door.addresses.iter().map(bind).collect();
    let listeners = match listeners {
        Ok(listeners) => listeners,
        Err(error) => {
            let _ = told.send(Err(error));
            return;
        }
    };
    let addresses = listeners.iter().map(Listener::local_address).collect();
    let _ = told.send(addresses);
    let pace = Rc::new(RefCell::new(Pace::of(TELL_EVERY)));
    for listener in listeners {
        rt::spawn_local(accept(listener, shared.clone(), (seats.clone(), pace.clone())));
    }
    let _ = stopped.wait_for(|is_over| *is_over).await;
}

fn bind(address: &ListenAddress) -> io::Result<Listener> {
    Listener::bind(address).map_err(|error| io::Error::new(error.kind(), format!("{address}: {error}")))
}

async fn accept(listener: Listener, shared: Arc<Shared>, (seats, pace): (Vec<Seat>, Rc<RefCell<Pace>>)) {
    loop {
        match listener.accept().await {
            Ok(peer) => {
                let taken = shared.connections.fetch_add(1, Ordering::Relaxed);
                if taken >= shared.door.max_connections {
                    shared.connections.fetch_sub(1, Ordering::Relaxed);
                    rt::spawn_local(refuse(peer));
                    continue;
                }
                let seat = seats.iter().min_by_key(|seat| seat.connections.load(Ordering::Relaxed));
                let Some(seat) = seat else { return };
                seat.connections.fetch_add(1, Ordering::Relaxed);
                let place = Place { shared: shared.clone(), at_thread: seat.connections.clone() };
                if seat.arrivals.send((peer, place)).await.is_err() {
                    return;
                }
            }
            Err(error) => {
                if let Some(held_back) = pace.borrow_mut().step(rt::now()) {
                    tracing::warn!(relay = %shared.name, %error, held_back, "cannot accept a replica");
                }
                rt::sleep(Duration::from_millis(100)).await;
            }
        }
    }
}

async fn refuse(peer: Peer) {
    if let Ok(mut stream) = peer.into_stream() {
        // A client that is gone cannot be told.
        let _ = rt::timeout(Duration::from_secs(1), stream.write_bytes(TOO_MANY)).await;
        stream.close().await;
    }
}
