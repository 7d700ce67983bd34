//! The thread that writes one log: reads the queues of all threads, makes lines of their records, and appends these to the file.

use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use rtrb::Consumer;

use crate::file::LogFile;
use crate::format::Lines;
use crate::journal::{Journal, Settings};
use crate::record::{LENGTH, entry};

/// How often the thread looks into the queues.
pub(crate) const LOOK: Duration = Duration::from_millis(50);
/// The same where each line is written at once.
const LOOK_SOON: Duration = Duration::from_millis(1);
/// So much is written at once.
const BATCH: usize = 256 << 10;
/// How long a file that cannot be opened or written is left alone; how often the thread of a log that is off looks.
const REST: Duration = Duration::from_secs(1);

/// What the thread has.
#[derive(Default)]
pub(crate) struct Writer {
    queues: Vec<Consumer<u8>>,
    file: Option<LogFile>,
    /// Which settings the file was opened with.
    generation: u64,
    /// When it is tried again to write.
    rests_until: Option<Instant>,
    lines: Lines,
    record: Vec<u8>,
}

/// How many entries and lines wait to be written.
#[derive(Default, Clone, Copy)]
struct Batch {
    entries: u64,
    lines: u64,
}

impl Writer {
    /// Writes what waits. Returns how long it is until the next look.
    pub(crate) fn write(&mut self, journal: &Journal) -> Duration {
        self.queues.append(&mut journal.new_queues());
        let settings = journal.settings();
        self.open(journal, &settings);
        let mut is_idle = true;
        let mut queues = std::mem::take(&mut self.queues);
        for queue in &mut queues {
            is_idle &= self.empty(queue, journal, &settings);
        }
        queues.retain(|queue| !queue.is_abandoned() || !queue.is_empty());
        self.queues = queues;
        self.record.shrink_to(BATCH);
        self.lines.text.shrink_to(2 * BATCH);
        match () {
            () if !is_idle => Duration::ZERO,
            () if settings.path.is_none() => REST,
            () if settings.flush.each_line => LOOK_SOON,
            () => LOOK,
        }
    }

    /// Writes what is in a queue, but not beyond a batch. True if that was all.
    fn empty(&mut self, queue: &mut Consumer<u8>, journal: &Journal, settings: &Settings) -> bool {
        let mut batch = Batch::default();
        let mut bytes = 0;
        while bytes < BATCH {
            if !self.next(queue) {
                self.append(journal, settings, batch);
                return true;
            }
            bytes += self.record.len();
            batch.entries += 1;
            batch.lines += entry(&self.record).map_or(0, |entry| self.lines.put(&entry, settings.format));
            if settings.flush.each_line {
                self.append(journal, settings, std::mem::take(&mut batch));
            }
        }
        self.append(journal, settings, batch);
        false
    }

    /// Takes the next record out of a queue.
    fn next(&mut self, queue: &mut Consumer<u8>) -> bool {
        let mut len = [0; LENGTH];
        // Records come into the queue whole.
        if queue.pop_entire_slice(&mut len).is_err() {
            return false;
        }
        self.record.resize(u32::from_le_bytes(len) as usize, 0);
        queue.pop_entire_slice(&mut self.record).is_ok()
    }

    fn open(&mut self, journal: &Journal, settings: &Settings) {
        let generation = journal.generation();
        if std::mem::replace(&mut self.generation, generation) != generation {
            (self.file, self.rests_until) = (None, None);
        }
        let Some(path) = settings.path.as_ref().filter(|_| self.file.is_none()) else { return };
        if self.rests_until.is_some_and(|until| Instant::now() < until) {
            return;
        }
        self.lines.begin_file();
        match LogFile::open(path) {
            Ok(file) => (self.file, self.rests_until) = (Some(file), None),
            Err(error) => self.fails(path, &error),
        }
    }

    fn append(&mut self, journal: &Journal, settings: &Settings, batch: Batch) {
        if batch.entries == 0 {
            return;
        }
        let add = |counter: &AtomicU64, amount: u64| counter.fetch_add(amount, Ordering::Relaxed);
        let counts = &journal.written;
        let bytes = self.lines.text.len() as u64;
        let done = match &mut self.file {
            Some(file) => file.append(&self.lines.text, settings.flush.syncs).map(|()| true),
            None => Ok(false),
        };
        self.lines.text.clear();
        if matches!(done, Ok(true)) {
            add(&counts.lines, batch.lines);
            add(&counts.bytes, bytes);
        } else {
            add(&counts.failed, batch.lines);
        }
        add(&counts.done, batch.entries);
        let rotated = match (done, &mut self.file) {
            (Ok(_), Some(file)) if file.is_full(&settings.rotation) => {
                self.lines.begin_file();
                file.rotate(settings.rotation.keep)
            }
            (done, _) => done.map(|_| ()),
        };
        if let (Err(error), Some(path)) = (rotated, &settings.path) {
            self.fails(path, &error);
        }
    }

    /// Nothing is written for a while. The log says so once for each row of failures.
    fn fails(&mut self, path: &Path, error: &std::io::Error) {
        self.file = None;
        if self.rests_until.is_none() {
            tracing::error!(path = %path.display(), %error, "this log of statements cannot be written: its entries are lost, and counted");
        }
        self.rests_until = Some(Instant::now() + REST);
    }
}
