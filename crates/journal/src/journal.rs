//! One log: what is set, what has become of its entries, and what threads ask it.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use arc_swap::ArcSwap;
use delphinus_memory::Account;
use rtrb::Consumer;

use crate::entry::Side;
use crate::pen::{Pen, Tally};
use crate::writer::{LOOK, Writer};

/// How an entry is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// As MySQL's slow log.
    MySql,
    /// One JSON object for each line.
    Json,
    /// One line of `key=value`, as logfmt has it.
    Text,
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

/// Which sides of the proxy are logged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sides {
    /// What clients ask.
    Client,
    /// What backends are asked.
    Backend,
    /// Both.
    All,
}

impl Sides {
    /// What is to be written of a client's statement, which a backend had or not.
    pub fn side(self, had_backend: bool) -> Option<Side> {
        match (self, had_backend) {
            (Self::Backend, false) => None,
            (Self::Backend, true) => Some(Side::Backend),
            (Self::All, true) => Some(Side::Both),
            (Self::Client, _) | (Self::All, false) => Some(Side::Client),
        }
    }
}

/// How lines come into the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Flush {
    /// Each by itself and at once, and not with all that have come meanwhile.
    pub each_line: bool,
    /// What is written is on the disk before more is.
    pub syncs: bool,
}

/// What an operator sets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// The file; `None`: there is no log.
    pub path: Option<PathBuf>,
    /// How entries are written.
    pub format: Format,
    /// Which sides are logged.
    pub sides: Sides,
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
    /// How lines come into the file.
    pub flush: Flush,
    /// When a file is moved away.
    pub rotation: Rotation,
}

impl Settings {
    /// Those of a log that is off.
    pub fn off() -> Self {
        Self {
            path: None,
            format: Format::Json,
            sides: Sides::Client,
            least_us: 0,
            one_of: 1,
            users: Vec::new(),
            digests: Vec::new(),
            shows_literals: false,
            flush: Flush { each_line: false, syncs: false },
            rotation: Rotation { max_bytes: 0, after: Duration::ZERO, keep: 0 },
        }
    }
}

/// What has become of entries since the start.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// Lines written.
    pub written: u64,
    /// Entries dropped because the queue was full.
    pub dropped: u64,
    /// Lines lost because the file could not be written.
    pub failed: u64,
    /// Bytes written.
    pub bytes: u64,
}

/// What the thread that writes counts.
#[derive(Debug, Default)]
pub(crate) struct Written {
    pub(crate) lines: AtomicU64,
    pub(crate) failed: AtomicU64,
    pub(crate) bytes: AtomicU64,
    /// Entries that it is done with, whatever has become of them.
    pub(crate) done: AtomicU64,
}

/// A log.
pub struct Journal {
    /// No statement that is faster is logged; `u64::MAX`: none is.
    least_us: AtomicU64,
    settings: ArcSwap<Settings>,
    /// Counts the times at which settings were set; the file is opened anew then.
    generation: AtomicU64,
    /// Operators want no entries, whatever is set.
    is_stopped: AtomicBool,
    pub(crate) written: Written,
    tallies: Mutex<Vec<Arc<Tally>>>,
    /// Queues that the thread has not got yet.
    queues: Mutex<Vec<Consumer<u8>>>,
    account: Account,
}

impl std::fmt::Debug for Journal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Journal").field("settings", &self.settings).finish_non_exhaustive()
    }
}

impl Journal {
    /// A log that is off, and that no thread writes.
    pub(crate) fn new(account: Account) -> Self {
        Self {
            least_us: AtomicU64::new(u64::MAX),
            settings: ArcSwap::from_pointee(Settings::off()),
            generation: AtomicU64::new(0),
            is_stopped: AtomicBool::new(false),
            written: Written::default(),
            tallies: Mutex::default(),
            queues: Mutex::default(),
            account,
        }
    }

    /// A log, and the thread of this name that writes it until this is gone.
    pub fn start(name: &str, account: Account, settings: Settings) -> Arc<Self> {
        let journal = Arc::new(Self::new(account));
        journal.follow(settings);
        let weak = Arc::downgrade(&journal);
        let write = move || {
            let mut writer = Writer::default();
            while let Some(journal) = weak.upgrade() {
                let next = writer.write(&journal);
                drop(journal);
                thread::sleep(next);
            }
        };
        if let Err(error) = thread::Builder::new().name(name.to_owned()).spawn(write) {
            tracing::error!(%error, name, "the proxy cannot start the thread of this statement log: nothing is logged");
            journal.stop();
        }
        journal
    }

    /// A thread's end of it.
    pub fn pen(self: &Arc<Self>) -> Pen {
        let tally = Arc::<Tally>::default();
        lock(&self.tallies).push(tally.clone());
        Pen::new(self.clone(), tally)
    }

    /// Follows other settings from now on, and opens its file anew: it may have been moved away.
    pub fn follow(&self, settings: Settings) {
        let is_on = settings.path.is_some() && !self.is_stopped();
        let least_us = settings.least_us;
        self.settings.store(Arc::new(settings));
        self.generation.fetch_add(1, Ordering::Release);
        self.least_us.store(if is_on { least_us } else { u64::MAX }, Ordering::Relaxed);
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
        while self.settings().path.is_some()
            && self.written.done.load(Ordering::Relaxed) < self.sum(|tally| &tally.taken)
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
        let get = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Counts {
            written: get(&self.written.lines),
            dropped: self.sum(|tally| &tally.dropped),
            failed: get(&self.written.failed),
            bytes: get(&self.written.bytes),
        }
    }

    /// True if a statement that took so long may be one for the log.
    #[inline]
    pub fn may_want(&self, took_us: u64) -> bool {
        took_us >= self.least_us.load(Ordering::Relaxed)
    }

    /// Which settings hold.
    #[inline]
    pub(crate) fn generation(&self) -> u64 {
        self.generation.load(Ordering::Acquire)
    }

    pub(crate) fn account(&self) -> &Account {
        &self.account
    }

    /// The thread reads this queue, too.
    pub(crate) fn reads(&self, queue: Consumer<u8>) {
        lock(&self.queues).push(queue);
    }

    /// Queues that are new.
    pub(crate) fn new_queues(&self) -> Vec<Consumer<u8>> {
        std::mem::take(&mut lock(&self.queues))
    }

    fn sum(&self, of: impl Fn(&Tally) -> &AtomicU64) -> u64 {
        lock(&self.tallies).iter().map(|tally| of(tally).load(Ordering::Relaxed)).sum()
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests;
