//! One log: what workers ask it and give it, and the thread that writes.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{self, Receiver, SyncSender};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use arc_swap::ArcSwap;
use delphinus_memory::{Account, Owner, Permit};

use crate::entry::Entry;
use crate::file::LogFile;
use crate::format::{put_json, put_mysql};

/// How an entry is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// As MySQL's slow log.
    MySql,
    /// One JSON object for each line.
    Json,
}

/// When a file is moved away.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rotation {
    /// When it has so many bytes; 0: never.
    pub max_bytes: u64,
    /// When it is so old; zero: never.
    pub after: Duration,
    /// So many old files stay.
    pub keep: u32,
}

/// What an operator sets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// The file; `None`: there is no log.
    pub path: Option<PathBuf>,
    /// How entries are written.
    pub format: Format,
    /// Statements that took at least so long, in microseconds.
    pub least_us: u64,
    /// One of so many of these; at least 1.
    pub one_of: u64,
    /// Only statements of these users; empty: of all.
    pub users: Vec<String>,
    /// Only statements with these digests; empty: with any.
    pub digests: Vec<u64>,
    /// Texts have their literals.
    pub shows_literals: bool,
    /// What is written is on the disk before more is.
    pub syncs: bool,
    /// When a file is moved away.
    pub rotation: Rotation,
}

/// What has become of entries since the start.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// Written.
    pub written: u64,
    /// Dropped because the queue was full.
    pub dropped: u64,
    /// Lost because the file could not be written.
    pub failed: u64,
    /// Bytes written.
    pub bytes: u64,
}

/// So many entries wait for the thread.
const QUEUE: usize = 65_536;
/// And so many bytes of them.
const QUEUE_BYTES: u64 = 8 << 20;
/// How often the thread looks.
const LOOK: Duration = Duration::from_millis(50);
/// So much is written at once.
const BATCH: usize = 256 << 10;
/// How long a file that cannot be opened or written is left alone.
const REST: Duration = Duration::from_secs(1);

/// A log.
pub struct Journal {
    /// No statement that is faster is logged; `u64::MAX`: none is.
    least_us: AtomicU64,
    settings: ArcSwap<Settings>,
    /// Operators want no entries, whatever is set.
    is_stopped: AtomicBool,
    seen: AtomicU64,
    queued: AtomicU64,
    /// Entries that were taken into the queue.
    taken: AtomicU64,
    sender: SyncSender<Entry>,
    counts: [AtomicU64; 4],
    /// Counts the times at which the file is to be opened anew.
    reopened: AtomicU64,
    account: Account,
    /// For the queue, while there is a log.
    room: Mutex<Option<Permit>>,
}

impl std::fmt::Debug for Journal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Journal").field("settings", &self.settings).finish_non_exhaustive()
    }
}

impl Journal {
    /// A log, and the thread that writes it until this is gone.
    pub fn start(account: Account, settings: Settings) -> Arc<Self> {
        let (sender, entries) = mpsc::sync_channel(QUEUE);
        let journal = Arc::new(Self {
            least_us: AtomicU64::new(u64::MAX),
            settings: ArcSwap::from_pointee(Settings { path: None, ..settings.clone() }),
            is_stopped: AtomicBool::new(false),
            seen: AtomicU64::new(0),
            queued: AtomicU64::new(0),
            taken: AtomicU64::new(0),
            sender,
            counts: Default::default(),
            reopened: AtomicU64::new(0),
            account,
            room: Mutex::default(),
        });
        journal.follow(settings);
        let weak = Arc::downgrade(&journal);
        let write = move || {
            let mut writer = Writer::default();
            while let Some(journal) = weak.upgrade() {
                let is_idle = writer.write(&journal, &entries);
                let is_on = journal.settings().path.is_some();
                drop(journal);
                if is_idle {
                    thread::sleep(if is_on { LOOK } else { REST });
                }
            }
        };
        if let Err(error) = thread::Builder::new().name("statement-log".to_owned()).spawn(write) {
            tracing::error!(%error, "there is no thread for the log of statements: none are logged");
            journal.stop();
        }
        journal
    }

    /// Follows other settings from now on, and opens its file anew: it may have been moved away.
    pub fn follow(&self, settings: Settings) {
        let mut room = self.room.lock().unwrap_or_else(PoisonError::into_inner);
        match (&settings.path, room.is_some()) {
            (Some(_), false) => {
                *room = self.account.take(Owner::Logs, QUEUE_BYTES as usize);
                if room.is_none() {
                    tracing::warn!("memory_limit leaves no room for a log of statements: none are logged");
                }
            }
            (None, _) => *room = None,
            _ => {}
        }
        let is_on = room.is_some() && !self.is_stopped();
        self.least_us.store(if is_on { settings.least_us } else { u64::MAX }, Ordering::Relaxed);
        self.settings.store(Arc::new(settings));
        self.reopened.fetch_add(1, Ordering::Relaxed);
    }

    /// Logs nothing from now on, until [`Journal::resume`].
    pub fn stop(&self) {
        self.is_stopped.store(true, Ordering::Relaxed);
        self.least_us.store(u64::MAX, Ordering::Relaxed);
    }

    /// Logs again what its settings say.
    pub fn resume(&self) {
        self.is_stopped.store(false, Ordering::Relaxed);
        self.follow((**self.settings.load()).clone());
    }

    /// True after [`Journal::stop`].
    pub fn is_stopped(&self) -> bool {
        self.is_stopped.load(Ordering::Relaxed)
    }

    /// Waits until what was taken in is written, but not beyond `limit`: for the end of the process.
    pub fn finish(&self, limit: Duration) {
        let began = Instant::now();
        let all = |counts: Counts| counts.written + counts.failed;
        while self.settings().path.is_some()
            && all(self.counts()) < self.taken.load(Ordering::Relaxed)
            && began.elapsed() < limit
        {
            thread::sleep(LOOK / 5);
        }
    }

    /// What is set.
    pub fn settings(&self) -> Arc<Settings> {
        self.settings.load_full()
    }

    /// What has become of entries.
    pub fn counts(&self) -> Counts {
        let [written, dropped, failed, bytes] = self.counts.each_ref().map(|one| one.load(Ordering::Relaxed));
        Counts { written, dropped, failed, bytes }
    }

    /// True if a statement that took so long may be one for the log.
    #[inline]
    pub fn may_want(&self, took_us: u64) -> bool {
        took_us >= self.least_us.load(Ordering::Relaxed)
    }

    /// What is set, if this statement, which took long enough, is one for the log.
    pub fn wants(&self, user: &str, digest: Option<u64>) -> Option<Arc<Settings>> {
        let settings = self.settings.load_full();
        let fits = (settings.users.is_empty() || settings.users.iter().any(|one| one == user))
            && (settings.digests.is_empty()
                || digest.is_some_and(|digest| settings.digests.contains(&digest)));
        if !fits {
            return None;
        }
        let number = if settings.one_of > 1 { self.seen.fetch_add(1, Ordering::Relaxed) } else { 0 };
        number.is_multiple_of(settings.one_of.max(1)).then_some(settings)
    }

    /// Takes an entry in, or counts it as dropped.
    pub fn push(&self, entry: Entry) {
        let size = entry.size() as u64;
        if self.queued.fetch_add(size, Ordering::Relaxed) + size <= QUEUE_BYTES
            && self.sender.try_send(entry).is_ok()
        {
            self.taken.fetch_add(1, Ordering::Relaxed);
            return;
        }
        self.queued.fetch_sub(size, Ordering::Relaxed);
        self.count(1, 1);
    }

    fn count(&self, which: usize, amount: u64) {
        self.counts[which].fetch_add(amount, Ordering::Relaxed);
    }
}

/// What the thread has.
#[derive(Default)]
struct Writer {
    file: Option<LogFile>,
    /// Which opening this is.
    reopened: u64,
    /// The schema of the last entry in this file.
    schema: Option<String>,
    /// When it is tried again to write.
    rests_until: Option<Instant>,
    text: String,
}

impl Writer {
    /// Writes what waits. True if that was all.
    fn write(&mut self, journal: &Journal, entries: &Receiver<Entry>) -> bool {
        let settings = journal.settings();
        self.text.clear();
        self.open(journal, &settings);
        let mut count = 0;
        while self.text.len() < BATCH {
            let Ok(entry) = entries.try_recv() else { break };
            journal.queued.fetch_sub(entry.size() as u64, Ordering::Relaxed);
            count += 1;
            match settings.format {
                Format::MySql => put_mysql(&entry, &mut self.schema, &mut self.text),
                Format::Json => put_json(&entry, &mut self.text),
            }
        }
        if count > 0 {
            self.append(journal, &settings, count);
        }
        let is_idle = self.text.len() < BATCH;
        if self.text.capacity() > 2 * BATCH {
            self.text = String::new();
        }
        is_idle
    }

    fn open(&mut self, journal: &Journal, settings: &Settings) {
        let reopened = journal.reopened.load(Ordering::Relaxed);
        if std::mem::replace(&mut self.reopened, reopened) != reopened {
            (self.file, self.rests_until) = (None, None);
        }
        let Some(path) = settings.path.as_ref().filter(|_| self.file.is_none()) else { return };
        if self.rests_until.is_some_and(|until| Instant::now() < until) {
            return;
        }
        self.schema = None;
        match LogFile::open(path) {
            Ok(file) => (self.file, self.rests_until) = (Some(file), None),
            Err(error) => self.fails(path, &error),
        }
    }

    fn append(&mut self, journal: &Journal, settings: &Settings, count: u64) {
        let Some(file) = &mut self.file else { return journal.count(2, count) };
        let done = file.append(self.text.as_bytes(), settings.syncs);
        match &done {
            Ok(()) => {
                journal.count(0, count);
                journal.count(3, self.text.len() as u64);
            }
            Err(_) => journal.count(2, count),
        }
        let done = done.and_then(|()| {
            if file.is_full(&settings.rotation) {
                self.schema = None;
                return file.rotate(settings.rotation.keep);
            }
            Ok(())
        });
        if let (Err(error), Some(path)) = (done, &settings.path) {
            self.fails(path, &error);
        }
    }

    /// Nothing is written for a while. The log says so once for each row of failures.
    fn fails(&mut self, path: &std::path::Path, error: &std::io::Error) {
        self.file = None;
        if self.rests_until.is_none() {
            tracing::error!(path = %path.display(), %error, "the log of statements cannot be written: its entries are lost, and counted");
        }
        self.rests_until = Some(Instant::now() + REST);
    }
}

#[cfg(test)]
mod tests;
