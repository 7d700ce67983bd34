//! Who is connected, how far it is, and what it was sent.
//!
//! Owns: the list, numbers of connections, and the counters that a serving task writes and operators read, without a lock between
//! the two. Must not know sockets.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use delphinus_net::rt::{self, Bell, watch};

use super::course::Counted;
use crate::keep::Seen;
use crate::log::{Log, Position};

/// More replicas than this are not kept between two looks at who has left.
const MOST_LEFT: usize = 1024;
/// So long a replica that begins waits until it is written down that it is there. A disk that hangs, or is full, does not keep it waiting
/// for ever.
const NOTED_WITHIN: Duration = Duration::from_secs(5);

/// All replicas of one relay.
#[derive(Debug, Default)]
pub struct Registry {
    next_id: AtomicU32,
    list: Mutex<BTreeMap<u32, Arc<Replica>>>,
    /// Replicas that have left since `take_seen`, by their keys.
    left: Mutex<BTreeMap<String, Seen>>,
    /// Connections that replicas have begun, ever.
    begun: AtomicU64,
    /// Replicas that were sent error 1236.
    refused: AtomicU64,
    /// Bytes of events that were sent, ever, to replicas that are gone.
    sent: AtomicU64,
    /// Grows with each replica that begins.
    calls: watch::Sender<u64>,
    /// Up to which of these calls all replicas are known to the keeper of files, and written down.
    noted: watch::Sender<u64>,
}

/// A replica that is being served.
#[derive(Debug)]
pub(crate) struct Replica {
    pub(crate) id: u32,
    pub(crate) who: Who,
    pub(crate) since: SystemTime,
    progress: Progress,
    /// Rings when another connection of the same replica takes its place.
    pub(crate) replaced: Arc<Bell>,
}

/// Who a replica is.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Who {
    /// The relay's user.
    pub(crate) user: String,
    /// Where it comes from.
    pub(crate) host: String,
    /// Its `server_id`.
    pub(crate) server_id: u32,
    /// Its `server_uuid`; empty for MariaDB.
    pub(crate) uuid: String,
    /// It has sent COM_REGISTER_SLAVE, as all replicas of servers do.
    pub(crate) is_registered: bool,
    /// `report_host:report_port`, where it has said so.
    pub(crate) reports: String,
    /// The connection is encrypted.
    pub(crate) is_tls: bool,
    /// What it is compressed with, or that it is not.
    pub(crate) compression: &'static str,
}

#[derive(Debug, Default)]
struct Progress {
    /// The file in which it began, plus 1; 0: it has not begun.
    began: AtomicU32,
    ordinal: AtomicU32,
    offset: AtomicU64,
    bytes: AtomicU64,
    events: AtomicU64,
    /// Of the last event that was sent or left out: when its statement began, in seconds since 1970.
    event_s: AtomicU32,
    is_waiting: AtomicBool,
}

/// A replica as operators see it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReplicaRow {
    /// The connection's number.
    pub id: u32,
    /// The relay's user.
    pub user: String,
    /// Where it comes from.
    pub host: String,
    /// Its `server_id`.
    pub server_id: u32,
    /// Its `server_uuid`; empty for MariaDB.
    pub uuid: String,
    /// It is a program such as `mysqlbinlog`, and no server.
    pub is_program: bool,
    /// `report_host:report_port`; empty where it has not said so.
    pub reports: String,
    /// The connection is encrypted.
    pub is_tls: bool,
    /// "zlib", "zstd" or "uncompressed".
    pub compression: &'static str,
    /// "waiting": it was sent everything. "sending": it is behind.
    pub state: &'static str,
    /// The file that it is in.
    pub file: String,
    /// And where.
    pub position: u64,
    /// Bytes of the log that it was not sent yet.
    pub behind_bytes: u64,
    /// Seconds since the last event was written that it was sent; 0 where it was sent everything.
    pub delay_s: u64,
    /// Bytes of events that it was sent on this connection.
    pub sent_bytes: u64,
    /// Events, of these.
    pub sent_events: u64,
    /// How long it has been connected.
    pub connected: Duration,
}

impl Registry {
    /// The number of a new connection.
    pub(crate) fn next_id(&self) -> u32 {
        self.next_id.fetch_add(1, Ordering::Relaxed).wrapping_add(1)
    }

    /// A replica is served from now on. An older connection of the same replica ends: a replica that comes again has lost it.
    pub(crate) fn enter(self: &Arc<Self>, id: u32, who: Who) -> Entry {
        let replica = Arc::new(Replica {
            id,
            who,
            since: SystemTime::now(),
            progress: Progress::default(),
            replaced: Arc::default(),
        });
        self.begun.fetch_add(1, Ordering::Relaxed);
        let mut list = self.list();
        for other in list.values().filter(|other| is_same(&other.who, &replica.who)) {
            other.replaced.ring();
        }
        list.insert(id, replica.clone());
        Entry { registry: self.clone(), replica }
    }

    /// A replica was sent error 1236.
    pub(crate) fn has_refused(&self) {
        self.refused.fetch_add(1, Ordering::Relaxed);
    }

    /// All replicas, by the number of their connection.
    pub fn rows(&self, log: &Log) -> Vec<ReplicaRow> {
        let list: Vec<_> = self.list().values().cloned().collect();
        list.iter().map(|replica| replica.row(log)).collect()
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.list().len()
    }

    /// True if there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Connections begun, refusals with error 1236, and bytes of events sent: since the start of the process.
    pub fn totals(&self) -> (u64, u64, u64) {
        let now: u64 = self.list().values().map(|one| one.progress.bytes.load(Ordering::Relaxed)).sum();
        let load = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        (load(&self.begun), load(&self.refused), load(&self.sent) + now)
    }

    /// All replicas that have begun, those too that have left again since the last call, and which files they are in.
    pub(crate) fn take_seen(&self) -> Vec<Seen> {
        // First those that have left: one that has come again is there with its newest connection.
        let left = std::mem::take(&mut *self.left.lock().unwrap_or_else(PoisonError::into_inner));
        let there: Vec<_> = self.list().values().filter_map(|one| one.seen()).collect();
        left.into_values().chain(there).collect()
    }

    /// For the keeper of files: changes when a replica begins, which then waits for `has_noted`.
    pub(crate) fn calls(&self) -> watch::Receiver<u64> {
        self.calls.subscribe()
    }

    /// All replicas that had begun at this call are written down.
    pub(crate) fn has_noted(&self, call: u64) {
        self.noted.send_replace(call);
    }

    /// Ends the connection of this number; false if there is none. The replica comes again by itself.
    pub fn disconnect(&self, id: u32) -> bool {
        self.list().get(&id).inspect(|replica| replica.replaced.ring()).is_some()
    }

    fn list(&self) -> MutexGuard<'_, BTreeMap<u32, Arc<Replica>>> {
        self.list.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Who {
    /// True for programs such as `mysqlbinlog`: they have 0 or 1 as their `server_id`, and may be there several times. MariaDB's
    /// replicas have 1, too, where nobody has set it, but they register.
    fn is_program(&self) -> bool {
        !self.is_registered && self.uuid.is_empty() && self.server_id <= 1
    }
}

/// MySQL's replicas have a uuid. MariaDB's are known by their `server_id`. Both are the replica's own words: nobody takes the place of one
/// that has logged in as another user.
fn is_same(one: &Who, other: &Who) -> bool {
    if one.user != other.user || one.is_program() || other.is_program() {
        return false;
    }
    if one.uuid.is_empty() || other.uuid.is_empty() {
        return one.uuid == other.uuid && one.server_id == other.server_id && one.host == other.host;
    }
    one.uuid == other.uuid
}

impl Replica {
    /// It was sent, or needed not to be sent, everything up to here. `counted` has been sent since the last call.
    pub(crate) fn reached(&self, at: Position, counted: Counted) {
        let Counted { bytes, events, event_s } = counted;
        let progress = &self.progress;
        progress.ordinal.store(at.ordinal, Ordering::Relaxed);
        if progress.began.load(Ordering::Relaxed) == 0 {
            progress.began.store(at.ordinal + 1, Ordering::Relaxed);
        }
        progress.offset.store(at.offset, Ordering::Relaxed);
        progress.bytes.fetch_add(bytes, Ordering::Relaxed);
        progress.events.fetch_add(events, Ordering::Relaxed);
        if event_s != 0 {
            progress.event_s.store(event_s, Ordering::Relaxed);
        }
    }

    /// Whether it has been sent everything and waits for more.
    pub(crate) fn waits(&self, is_waiting: bool) {
        self.progress.is_waiting.store(is_waiting, Ordering::Relaxed);
    }

    fn seen(&self) -> Option<Seen> {
        let began = self.progress.began.load(Ordering::Relaxed).checked_sub(1)?;
        let Who { user, host, server_id, uuid, .. } = &self.who;
        let is_program = self.who.is_program();
        let key = match (is_program, uuid.is_empty()) {
            (true, _) => format!("connection {}", self.id),
            (false, true) => format!("{user:?} {server_id}@{host}"),
            (false, false) => format!("{user:?} {uuid}"),
        };
        Some(Seen {
            key,
            name: format!("{host} (server_id {server_id})"),
            connection: self.id,
            began,
            now_in: self.progress.ordinal.load(Ordering::Relaxed),
            comes_again: !is_program,
        })
    }

    fn row(&self, log: &Log) -> ReplicaRow {
        let load = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let (ordinal, offset) = (self.progress.ordinal.load(Ordering::Relaxed), load(&self.progress.offset));
        let is_waiting = self.progress.is_waiting.load(Ordering::Relaxed);
        let behind_bytes = behind(log, Position { ordinal, offset });
        let now_s = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs();
        let event_s = u64::from(self.progress.event_s.load(Ordering::Relaxed));
        let is_behind = behind_bytes > 0 && event_s > 0;
        ReplicaRow {
            id: self.id,
            user: self.who.user.clone(),
            host: self.who.host.clone(),
            server_id: self.who.server_id,
            uuid: self.who.uuid.clone(),
            is_program: self.who.is_program(),
            reports: self.who.reports.clone(),
            is_tls: self.who.is_tls,
            compression: self.who.compression,
            state: if is_waiting { "waiting" } else { "sending" },
            file: log.file(ordinal).map(|file| file.name.to_string()).unwrap_or_default(),
            position: offset,
            behind_bytes,
            delay_s: if is_behind { now_s.saturating_sub(event_s) } else { 0 },
            sent_bytes: load(&self.progress.bytes),
            sent_events: load(&self.progress.events),
            connected: self.since.elapsed().unwrap_or_default(),
        }
    }
}

/// Bytes of the log behind a place.
fn behind(log: &Log, at: Position) -> u64 {
    let Some(end) = log.end() else { return 0 };
    let files = log.files();
    let between = files.iter().filter(|file| (at.ordinal..end.ordinal).contains(&file.ordinal));
    (between.map(|file| file.len()).sum::<u64>() + end.offset).saturating_sub(at.offset)
}

/// The place of a replica in the list, for as long as it is served.
#[derive(Debug)]
pub(crate) struct Entry {
    registry: Arc<Registry>,
    pub(crate) replica: Arc<Replica>,
}

impl Entry {
    /// It begins in this file. Returns when that is written down: a relay that is killed in the next moment knows what this replica may
    /// need.
    pub(crate) async fn begins(&self, ordinal: u32) {
        self.replica.progress.ordinal.store(ordinal, Ordering::Relaxed);
        self.replica.progress.began.store(ordinal + 1, Ordering::Relaxed);
        let calls = &self.registry.calls;
        if calls.receiver_count() == 0 {
            return;
        }
        let mut noted = self.registry.noted.subscribe();
        let mut own = 0;
        calls.send_modify(|call| {
            *call += 1;
            own = *call;
        });
        let written = std::pin::pin!(noted.wait_for(|noted| *noted >= own));
        if rt::timeout(NOTED_WITHIN, written).await.is_none() {
            tracing::warn!(
                replica.host = %self.replica.who.host, replica.server_id = self.replica.who.server_id,
                "the relay has not recorded this replica yet: the disk takes very long, or refuses it"
            );
        }
    }
}

impl Drop for Entry {
    fn drop(&mut self) {
        let bytes = self.replica.progress.bytes.load(Ordering::Relaxed);
        self.registry.list().remove(&self.replica.id);
        if let Some(seen) = self.replica.seen().filter(|seen| seen.comes_again) {
            let mut left = self.registry.left.lock().unwrap_or_else(PoisonError::into_inner);
            if left.len() < MOST_LEFT {
                left.insert(seen.key.clone(), seen);
            }
        }
        self.registry.sent.fetch_add(bytes, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FOUR_EVENTS: Counted = Counted { bytes: 100, events: 4, event_s: 7 };

    fn who(server_id: u32, uuid: &str, host: &str) -> Who {
        let (uuid, host) = (uuid.to_owned(), host.to_owned());
        Who { server_id, uuid, host, is_registered: true, ..Who::default() }
    }

    fn program(server_id: u32, host: &str) -> Who {
        Who { is_registered: false, ..who(server_id, "", host) }
    }

    #[test]
    fn a_replica_that_comes_again_takes_its_own_place_and_no_other() {
        let same = |one: Who, other: Who| is_same(&one, &other);
        assert!(same(who(5, "a-b", "h1"), who(6, "a-b", "h2")));
        assert!(!same(who(5, "a-b", "h1"), who(5, "a-c", "h1")));
        assert!(same(who(5, "", "h1"), who(5, "", "h1")));
        assert!(!same(who(5, "", "h1"), who(5, "", "h2")));
        assert!(same(who(1, "", "h1"), who(1, "", "h1")), "MariaDB's server_id is 1 where nobody has set it");
        for server_id in [0, 1] {
            assert!(!same(program(server_id, "h1"), program(server_id, "h1")), "mysqlbinlog");
            assert!(!same(program(server_id, "h1"), who(server_id, "", "h1")));
        }
        assert!(!same(who(5, "", "h1"), who(5, "a-b", "h1")));
        for uuid in ["a-b", ""] {
            let other = Who { user: "other".to_owned(), ..who(5, uuid, "h1") };
            assert!(!same(who(5, uuid, "h1"), other.clone()), "it says so, and is somebody else");
            let key = |who| {
                let registry = Arc::new(Registry::default());
                let entry = registry.enter(registry.next_id(), who);
                entry.replica.reached(Position { ordinal: 3, offset: 400 }, FOUR_EVENTS);
                entry.replica.seen().unwrap().key
            };
            assert_ne!(key(who(5, uuid, "h1")), key(other));
        }
    }

    #[test]
    fn what_was_sent_stays_counted_when_a_replica_leaves() {
        let registry = Arc::new(Registry::default());
        let entry = registry.enter(registry.next_id(), who(5, "", "h1"));
        assert_eq!(registry.take_seen().len(), 0, "it has not begun, and may be refused");
        entry.replica.reached(Position { ordinal: 3, offset: 400 }, FOUR_EVENTS);
        let nothing = Counted { event_s: 7, ..Counted::default() };
        entry.replica.reached(Position { ordinal: 5, offset: 4 }, nothing);
        assert_eq!((registry.len(), registry.totals()), (1, (1, 0, 100)));
        let seen = registry.take_seen();
        let [seen] = &seen[..] else { panic!("{seen:?}") };
        assert_eq!((&*seen.key, seen.began, seen.now_in, seen.comes_again), ("\"\" 5@h1", 3, 5, true));
        drop(entry);
        assert_eq!((registry.len(), registry.totals()), (0, (1, 0, 100)));
        assert_eq!(registry.take_seen().len(), 1, "it was there between two looks");
        assert_eq!(registry.take_seen().len(), 0);
        assert!(!registry.disconnect(1));
    }

    #[test]
    fn a_replica_begins_when_it_is_written_down() {
        rt::block_on(async {
            let registry = Arc::new(Registry::default());
            let entry = registry.enter(registry.next_id(), who(5, "", "h1"));
            // Without a keeper of files.
            entry.begins(3).await;
            let mut calls = registry.calls();
            let mut begins = std::pin::pin!(entry.begins(4));
            let soon = Duration::from_millis(50);
            assert!(rt::timeout(soon, &mut begins).await.is_none());
            assert!(calls.has_changed().unwrap());
            let call = *calls.borrow_and_update();
            assert_eq!(registry.take_seen().first().map(|seen| (seen.began, seen.now_in)), Some((4, 4)));
            registry.has_noted(call - 1);
            assert!(rt::timeout(soon, &mut begins).await.is_none(), "that was the call before");
            registry.has_noted(call);
            begins.await;
        })
        .unwrap();
    }

    #[test]
    fn a_program_that_reads_the_log_is_no_replica_that_comes_again() {
        for (one, expected) in [
            (program(1, "h1"), ("connection 1", false)),
            // Programs of others that keep a number of their own come again.
            (program(5400, "h1"), ("\"\" 5400@h1", true)),
            (who(1, "", "h1"), ("\"\" 1@h1", true)),
        ] {
            let registry = Arc::new(Registry::default());
            let entry = registry.enter(registry.next_id(), one);
            entry.replica.reached(Position { ordinal: 0, offset: 4 }, Counted::default());
            let seen = registry.take_seen();
            assert_eq!((&*seen[0].key, seen[0].comes_again), expected);
        }
    }
}
