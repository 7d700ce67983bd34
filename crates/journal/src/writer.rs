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
    /// The last attempt to write has failed: when it is tried again.
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
            // On a full disk it can be opened: only an append that works ends the row of failures.
            Ok(file) => self.file = Some(file),
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
            self.rests_until = None;
            self.rotate(settings);
        } else {
            add(&counts.failed, batch.lines);
        }
        add(&counts.done, batch.entries);
        if let (Err(error), Some(path)) = (done, &settings.path) {
            self.fails(path, &error);
        }
    }

    /// Begins a new file if this one is full. If that does not work the log goes on with the one that it has: no entry is lost for it.
    fn rotate(&mut self, settings: &Settings) {
        let (now, rotation) = (Instant::now(), &settings.rotation);
        let Some(file) = self.file.as_mut().filter(|file| file.is_full(rotation, now)) else { return };
        match (file.rotate(rotation.keep, now), &settings.path) {
            (Ok(()), _) => self.lines.begin_file(),
            (Err((true, error)), Some(path)) => {
                tracing::error!(path = %path.display(), %error, "this log of statements cannot be moved away: it grows, and is tried again each 10 seconds");
            }
            (Err(_), _) => {}
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

#[cfg(test)]
mod tests {
    use std::fs;
    use std::sync::{Arc, Mutex};

    use delphinus_memory::Account;
    use tracing_subscriber::util::SubscriberInitExt;

    use super::*;
    use crate::format::tests::entry;
    use crate::journal::Rotation;
    use crate::pen::Pen;

    /// What the proxy's log says meanwhile.
    #[derive(Clone, Default)]
    struct Said(Arc<Mutex<Vec<u8>>>);

    impl Said {
        fn count(&self, what: &str) -> usize {
            String::from_utf8_lossy(&self.0.lock().unwrap()).matches(what).count()
        }
    }

    impl std::io::Write for Said {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.lock().unwrap().write(bytes)
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    /// A log without a thread, which `turn` stands for; what is said of it.
    struct Stage {
        journal: Arc<Journal>,
        pen: Pen,
        writer: Writer,
        said: Said,
        _guard: tracing::subscriber::DefaultGuard,
    }

    impl Stage {
        fn new(path: &Path, rotation: Rotation) -> Self {
            let said = Said::default();
            let out = said.clone();
            let subscriber = tracing_subscriber::fmt().with_writer(move || out.clone()).finish();
            let guard = subscriber.set_default();
            let journal = Arc::new(Journal::new(Account::unlimited()));
            journal.follow(Settings { path: Some(path.to_owned()), rotation, ..Settings::off() });
            let pen = journal.pen();
            Self { journal, pen, writer: Writer::default(), said, _guard: guard }
        }

        /// An entry comes, and the thread looks, `REST` after the last time.
        fn turn(&mut self) {
            if let Some(until) = &mut self.writer.rests_until {
                *until = Instant::now();
            }
            self.pen.write(&entry("SELECT 1"));
            self.writer.write(&self.journal);
        }
    }

    #[test]
    fn a_row_of_failures_is_told_once() {
        let never = Rotation { max_bytes: 0, after: Duration::ZERO, keep: 0 };
        let mut stage = Stage::new(Path::new("/dev/full"), never);
        (0..5).for_each(|_| stage.turn());
        assert_eq!((stage.journal.counts().failed, stage.journal.counts().written), (5, 0));
        assert_eq!(stage.said.count("cannot be written"), 1);
        // The next row is another one.
        stage.journal.follow(Settings { path: Some("/dev/null".into()), ..Settings::off() });
        stage.turn();
        stage.journal.follow(Settings { path: Some("/dev/full".into()), ..Settings::off() });
        (0..5).for_each(|_| stage.turn());
        assert_eq!((stage.journal.counts().failed, stage.said.count("cannot be written")), (10, 2));
    }

    #[test]
    fn a_log_that_cannot_be_moved_away_loses_nothing() {
        let folder = std::env::temp_dir().join(format!("delphinus-journal-stuck-{}", std::process::id()));
        fs::create_dir_all(folder.join("slow.log.1/full")).unwrap();
        let path = folder.join("slow.log");
        let mut stage = Stage::new(&path, Rotation { max_bytes: 1, after: Duration::ZERO, keep: 1 });
        (0..5).for_each(|_| stage.turn());
        assert_eq!((stage.journal.counts().failed, stage.journal.counts().written), (0, 5));
        assert_eq!(fs::read_to_string(&path).unwrap().lines().count(), 5);
        assert_eq!((stage.said.count("cannot be moved away"), stage.said.count("ERROR")), (1, 1));
        fs::remove_dir_all(&folder).unwrap();
    }
}
