//! The thread that stores, its queue, and what is counted of it. Who gives it something never waits.

use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, SyncSender};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use delphinus_memory::{Account, Owner, Permit};

use crate::place::Place;
use crate::sample::Sample;
use crate::snapshot::Snapshot;
use crate::store::{Limits, Store, Trouble};
use crate::tables::Files;

/// What an operator sets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Settings {
    /// Samples are stored. If not, what is there stays as long as it would anyway.
    pub enabled: bool,
    /// How much is stored, and for how long.
    pub limits: Limits,
}

/// Whether samples are stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    /// On disk.
    OnDisk,
    /// In memory.
    InMemory,
    /// Operators do not want it.
    Off,
    /// There is no memory for it.
    NoMemory,
}

impl State {
    /// The word for it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::OnDisk => "on",
            Self::InMemory => "in memory",
            Self::Off => "off",
            Self::NoMemory => "no memory",
        }
    }
}

/// What has become of samples since the start.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Counts {
    /// Samples stored.
    pub samples: u64,
    /// Their rows.
    pub rows: u64,
    /// Samples dropped, because the disk was too slow.
    pub dropped: u64,
    /// Samples and snapshots lost, because they could not be written.
    pub failed: u64,
    /// What all files take, in bytes.
    pub bytes: u64,
    /// Why it cannot be written; `None`: it can.
    pub error: Option<String>,
}

/// The text of a digest.
pub type TextOf = Box<dyn Fn(u64) -> Option<Arc<str>> + Send>;

type Done = Box<dyn FnOnce(Result<i64, String>) + Send>;

enum Message {
    Sample(Sample),
    Snapshot(Box<Snapshot>, Done),
    Follow(Limits),
    Finish(SyncSender<()>),
}

/// So many samples, and other wishes, wait for the thread.
const QUEUE: usize = 256;
/// And so many bytes of them.
const QUEUE_BYTES: u64 = 4 << 20;
/// What SQLite takes for the files that are open, about.
const CACHES: usize = 4 << 20;
/// So many samples get into the files together.
const BATCH: usize = 64;
/// How long nothing is written after a failure.
const REST: Duration = Duration::from_secs(2);

/// What has been, and the thread that stores it until this is gone.
pub struct History {
    shared: Arc<Shared>,
    sender: SyncSender<Message>,
    is_on_disk: bool,
    /// For the files that are open, and for the queue while samples are wanted.
    room: Mutex<Permit>,
    wanted: AtomicBool,
    /// What the files take in memory, about.
    bytes_open: usize,
}

#[derive(Default)]
struct Shared {
    queued: AtomicU64,
    samples: AtomicU64,
    rows: AtomicU64,
    dropped: AtomicU64,
    failed: AtomicU64,
    seen: Mutex<Seen>,
}

#[derive(Default)]
struct Seen {
    files: Files,
    bytes: u64,
    error: Option<String>,
}

impl Shared {
    fn seen(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for History {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("History").field("state", &self.state()).finish_non_exhaustive()
    }
}

impl History {
    /// Starts the thread.
    pub fn start(account: &Account, place: Place, settings: Settings, text_of: TextOf) -> Arc<Self> {
        let (sender, receiver) = mpsc::sync_channel(QUEUE);
        let shared = Arc::<Shared>::default();
        let is_on_disk = matches!(place, Place::Dir(_));
        let bytes_open = CACHES + if is_on_disk { 0 } else { settings.limits.max_bytes as usize };
        let history = Arc::new(Self {
            shared: shared.clone(),
            sender,
            is_on_disk,
            room: Mutex::new(account.open(Owner::History)),
            wanted: AtomicBool::new(false),
            bytes_open,
        });
        history.want(settings.enabled);
        let serve =
            move || Writer::new(Store::open(place, settings.limits), shared, text_of).serve(&receiver);
        if let Err(error) = thread::Builder::new().name("activity-history".to_owned()).spawn(serve) {
            tracing::error!(%error, "the proxy cannot start the thread of the activity history: samples are \
             dropped, and counted");
        }
        history
    }

    /// Follows other settings from now on.
    pub fn follow(&self, settings: Settings) {
        self.want(settings.enabled);
        if self.is_on_disk {
            // A queue that is full has a disk that is too slow: it follows with the next change.
            let _ = self.sender.try_send(Message::Follow(settings.limits));
        }
    }

    fn want(&self, enabled: bool) {
        let mut room = self.room.lock().unwrap_or_else(PoisonError::into_inner);
        if !enabled {
            // What is there can still be read.
            room.shrink_to(self.bytes_open);
        } else if !room.grow_to(self.bytes_open + QUEUE_BYTES as usize) {
            tracing::warn!("memory_limit leaves no room for the activity history: nothing is sampled");
        }
        self.wanted.store(enabled, Ordering::Relaxed);
    }

    /// Whether samples are stored.
    pub fn state(&self) -> State {
        let room = self.room.lock().unwrap_or_else(PoisonError::into_inner).bytes();
        let has_room = room >= self.bytes_open + QUEUE_BYTES as usize;
        match (self.wanted.load(Ordering::Relaxed), has_room) {
            (false, _) => State::Off,
            (true, false) => State::NoMemory,
            (true, true) if self.is_on_disk => State::OnDisk,
            (true, true) => State::InMemory,
        }
    }

    /// True if samples are stored.
    pub fn wants_samples(&self) -> bool {
        matches!(self.state(), State::OnDisk | State::InMemory)
    }

    /// Takes a sample in, or counts it as dropped. One without rows only tells the time.
    pub fn push(&self, sample: Sample) {
        let (size, has_rows) = (sample.size() as u64, !sample.rows.is_empty());
        if self.shared.queued.fetch_add(size, Ordering::Relaxed) + size <= QUEUE_BYTES
            && self.sender.try_send(Message::Sample(sample)).is_ok()
        {
            return;
        }
        self.shared.queued.fetch_sub(size, Ordering::Relaxed);
        if has_rows {
            self.shared.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Stores a snapshot. `done` is told its number, or why it is not stored.
    pub fn take(&self, snapshot: Snapshot, done: impl FnOnce(Result<i64, String>) + Send + 'static) {
        let message = Message::Snapshot(Box::new(snapshot), Box::new(done));
        if let Err(mpsc::TrySendError::Full(message) | mpsc::TrySendError::Disconnected(message)) =
            self.sender.try_send(message)
            && let Message::Snapshot(_, done) = message
        {
            self.shared.failed.fetch_add(1, Ordering::Relaxed);
            done(Err("the disk is too slow".to_owned()));
        }
    }

    /// Waits until what was taken in is stored, but not beyond `limit`: for the end of the process.
    pub fn finish(&self, limit: Duration) {
        let (sender, finished) = mpsc::sync_channel(1);
        if self.sender.try_send(Message::Finish(sender)).is_ok() {
            let _ = finished.recv_timeout(limit);
        }
    }

    /// The files that can be read.
    pub fn files(&self) -> Files {
        self.shared.seen().files.clone()
    }

    /// What has become of samples.
    pub fn counts(&self) -> Counts {
        let number = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let seen = self.shared.seen();
        Counts {
            samples: number(&self.shared.samples),
            rows: number(&self.shared.rows),
            dropped: number(&self.shared.dropped),
            failed: number(&self.shared.failed),
            bytes: seen.bytes,
            error: seen.error.clone(),
        }
    }
}

/// What the thread has.
struct Writer {
    store: Store,
    shared: Arc<Shared>,
    text_of: TextOf,
    /// The last minute that was looked after.
    minute: i64,
    has_more_to_do: bool,
    rests_until: Option<Instant>,
}

impl Writer {
    fn new(store: Store, shared: Arc<Shared>, text_of: TextOf) -> Self {
        let writer = Self { store, shared, text_of, minute: 0, has_more_to_do: true, rests_until: None };
        writer.publish();
        writer
    }

    fn serve(mut self, messages: &Receiver<Message>) {
        let mut samples = Vec::new();
        loop {
            let mut message = match messages.recv_timeout(Duration::from_secs(1)) {
                Ok(message) => Some(message),
                Err(RecvTimeoutError::Timeout) => None,
                Err(RecvTimeoutError::Disconnected) => return,
            };
            while let Some(Message::Sample(sample)) = message {
                self.shared.queued.fetch_sub(sample.size() as u64, Ordering::Relaxed);
                samples.push(sample);
                message = if samples.len() < BATCH { messages.try_recv().ok() } else { None };
            }
            self.store_samples(&mut samples);
            match message {
                Some(Message::Snapshot(snapshot, done)) => done(self.store_snapshot(&snapshot)),
                Some(Message::Follow(limits)) => {
                    self.store.follow(limits);
                    self.has_more_to_do = true;
                }
                Some(Message::Finish(finished)) => _ = finished.try_send(()),
                Some(Message::Sample(_)) | None => {}
            }
        }
    }

    fn store_samples(&mut self, samples: &mut Vec<Sample>) {
        let Some(now) = samples.last().map(|sample| sample.at) else { return };
        let rows: usize = samples.iter().map(|sample| sample.rows.len()).sum();
        samples.retain(|sample| !sample.rows.is_empty());
        let count = samples.len() as u64;
        if self.rests_until.is_some_and(|until| Instant::now() < until) {
            self.shared.failed.fetch_add(count, Ordering::Relaxed);
        } else if let Err(trouble) = self.store.add(samples, &self.text_of) {
            self.shared.failed.fetch_add(count, Ordering::Relaxed);
            self.store.upkeep_after_failure(now);
            self.fails(&trouble);
        } else {
            self.shared.samples.fetch_add(count, Ordering::Relaxed);
            self.shared.rows.fetch_add(rows as u64, Ordering::Relaxed);
            self.look_after(now, count > 0);
        }
        samples.clear();
        self.publish();
    }

    /// Once a minute, and while there is more to do: what has ended is added up, what is too old goes.
    fn look_after(&mut self, now: i64, has_written: bool) {
        if now / 60 != self.minute || self.has_more_to_do {
            match self.store.upkeep(now) {
                Ok(more) => (self.minute, self.has_more_to_do) = (now / 60, more),
                Err(trouble) => {
                    self.store.upkeep_after_failure(now);
                    return self.fails(&trouble);
                }
            }
        }
        if has_written && self.rests_until.take().is_some() {
            tracing::info!("the activity history is written again");
            self.shared.seen().error = None;
        }
    }

    fn store_snapshot(&mut self, snapshot: &Snapshot) -> Result<i64, String> {
        let stored = self.store.add_snapshot(snapshot);
        self.publish();
        stored.map_err(|trouble| {
            self.shared.failed.fetch_add(1, Ordering::Relaxed);
            self.fails(&trouble);
            trouble.why
        })
    }

    /// Nothing is written for a while. The log says so once for each row of failures.
    fn fails(&mut self, Trouble { file, why }: &Trouble) {
        if self.rests_until.is_none() {
            tracing::error!(
                file,
                why,
                "the activity history cannot be written: samples are lost, and counted"
            );
        }
        self.shared.seen().error = Some(format!("{file}: {why}"));
        self.rests_until = Some(Instant::now() + REST);
    }

    fn publish(&self) {
        let (files, bytes) = (self.store.files(), self.store.bytes());
        let mut seen = self.shared.seen();
        (seen.files, seen.bytes) = (files, bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::Row;

    fn settings(enabled: bool) -> Settings {
        let limits = Limits {
            max_bytes: 4 << 20,
            raw_days: 1,
            minute_days: 1,
            hour_days: 1,
            snapshot_days: 1,
            most_groups: 5,
        };
        Settings { enabled, limits }
    }

    fn sample(at: i64, rows: u32) -> Sample {
        let row = |session| Row { session: Some(session), sessions: 1, state: "running", ..Row::default() };
        Sample { at, rows: (0..rows).map(row).collect() }
    }

    #[test]
    fn what_is_taken_in_is_stored_and_counted() {
        let account = Account::new(64 << 20);
        let history = History::start(&account, Place::memory(), settings(true), Box::new(|_| None));
        assert_eq!(history.state(), State::InMemory);
        assert_eq!(account.used_by(Owner::History), QUEUE_BYTES + CACHES as u64 + (4 << 20));
        for at in 0..100 {
            history.push(sample(1_800_000_000 + at, 3));
            history.push(sample(1_800_000_000 + at, 0));
        }
        let (sender, stored) = mpsc::channel();
        history.take(Snapshot::default(), move |number| sender.send(number).unwrap());
        assert_eq!(stored.recv(), Ok(Ok(1)));
        history.finish(Duration::from_secs(10));
        let counts = history.counts();
        assert_eq!((counts.samples, counts.rows, counts.dropped, counts.failed), (100, 300, 0, 0));
        assert!(counts.bytes > 0 && counts.error.is_none() && history.files().raw.len() == 1);
        // Without samples there is no queue; what is there can be read.
        history.follow(settings(false));
        assert_eq!(
            (history.state(), account.used_by(Owner::History)),
            (State::Off, CACHES as u64 + (4 << 20))
        );
        let others = account.take(Owner::Cache, 54 << 20);
        history.follow(settings(true));
        assert_eq!((history.state(), history.wants_samples()), (State::NoMemory, false));
        drop(others);
        history.follow(settings(true));
        assert!(history.wants_samples());
    }

    #[test]
    fn what_cannot_be_stored_is_counted_and_tried_again() {
        let dir = std::env::temp_dir().join(format!("delphinus-history-none-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&dir);
        std::fs::write(&dir, "a file in the place of the directory").unwrap();
        let history = History::start(
            &Account::unlimited(),
            Place::Dir(dir.clone()),
            settings(true),
            Box::new(|_| None),
        );
        history.push(sample(1_800_000_000, 1));
        history.finish(Duration::from_secs(10));
        assert_eq!((history.counts().samples, history.counts().failed), (0, 1));
        assert!(history.counts().error.is_some());
        std::fs::remove_file(&dir).unwrap();
        let began = Instant::now();
        let mut at = 1_800_000_001;
        while history.counts().samples == 0 && began.elapsed() < Duration::from_secs(30) {
            history.push(sample(at, 1));
            history.finish(Duration::from_secs(10));
            at += 1;
            thread::sleep(Duration::from_millis(20));
        }
        assert!(history.counts().samples > 0 && history.counts().error.is_none());
        let _ = std::fs::remove_dir_all(&dir);
    }
}
