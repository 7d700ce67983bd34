//! The thread that removes files, and what else may remove them: one rule for all.

use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use delphinus_net::rt::{self, Either, Manner, watch};

use super::archive::{Archive, Archiver, Progress};
use super::memory::Memory;
use super::rules::{Candidate, Fate, Hold, Rules};
use super::state;
use crate::at_disk::AtDisk;
use crate::log::{Anchor, Log, LogFile};
use crate::relay::Relay;
use crate::replica::Registry;

/// Between two looks.
const PACE: Duration = Duration::from_secs(1);
/// So many files go at a time: each costs the disk a little, and the source waits for that disk.
const AT_ONCE: usize = 16;
/// So long an operator's word waits for the disk.
const DISK: Duration = Duration::from_secs(30);

/// What keeps a relay's files, and removes them.
#[derive(Debug)]
pub struct Keeper {
    keep: Arc<Keep>,
    disk: AtDisk,
    is_over: Arc<AtomicBool>,
    over: watch::Sender<bool>,
    threads: Mutex<Vec<JoinHandle<io::Result<()>>>>,
}

/// What threads and commands share.
#[derive(Debug)]
struct Keep {
    name: String,
    log: Arc<Log>,
    root: Anchor,
    registry: Arc<Registry>,
    rules: Rules,
    /// `None`: there is no archive.
    archived: Option<Arc<Progress>>,
    memory: Mutex<Memory>,
    /// Rings when a replica begins.
    calls: watch::Receiver<u64>,
    /// One at a time removes files.
    removing: Mutex<()>,
    removed: AtomicU64,
}

/// What there is to tell.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct KeptTotals {
    /// Files that were removed since the start.
    pub removed: u64,
    /// Files that the archive has taken since the start; `None`: there is none.
    pub archived: Option<u64>,
    /// Times that it has not.
    pub archive_failures: u64,
    /// Closed files that it has not taken yet.
    pub unarchived: u64,
    /// Why it does not take the oldest one; empty: it does.
    pub archive_error: String,
}

/// What keeps a file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct KeptFile {
    /// The archive has taken it; `None`: there is none.
    pub is_archived: Option<bool>,
    /// A rule wants it gone, and this holds it; empty: none does, or nothing.
    pub held: String,
}

impl Keeper {
    /// Begins to keep the files of a relay whose replicas are in `registry`.
    ///
    /// # Errors
    /// The disk, or no thread.
    pub fn start(
        relay: &Relay,
        registry: &Arc<Registry>,
        rules: Rules,
        archive: Option<Arc<dyn Archive>>,
    ) -> io::Result<Self> {
        let (name, log) = (relay.settings().name.clone(), relay.log().clone());
        let mut memory = Memory::default();
        if let Err(error) = state::recall(&log, &mut memory, now_s()) {
            tracing::warn!(relay = name, %error, "the list of replicas cannot be read; files stay for a while");
        }
        let archived = match &archive {
            Some(_) => Some(Arc::new(Progress::read(&log)?)),
            None => None,
        };
        let keep = Arc::new(Keep {
            name,
            root: Anchor::of(log.root())?,
            log,
            registry: registry.clone(),
            rules,
            archived,
            memory: Mutex::new(memory),
            calls: registry.calls(),
            removing: Mutex::default(),
            removed: AtomicU64::default(),
        });
        let (over, told) = watch::channel(false);
        let (own, seen) = (keep.clone(), told.clone());
        let mut threads =
            vec![rt::spawn_worker(format!("relay-keep-{}", keep.name), Manner::default(), move || {
                own.run(seen)
            })?];
        let is_over = Arc::<AtomicBool>::default();
        if let (Some(archive), Some(progress)) = (archive, &keep.archived) {
            let (name, log, root) = (keep.name.clone(), keep.log.clone(), keep.root.clone());
            let archiver =
                Archiver { name, log, root, progress: progress.clone(), archive, is_over: is_over.clone() };
            let name = format!("relay-arch-{}", keep.name);
            threads.push(rt::spawn_worker(name, Manner::default(), move || archiver.run(told))?);
        }
        Ok(Self { keep, disk: AtDisk::default(), is_over, over, threads: Mutex::new(threads) })
    }

    /// Removes all files before this one, by an operator's word: what replicas lack goes, too. What is read, and what the archive has
    /// not taken, stays, and all behind it. Gives the number of files.
    ///
    /// # Errors
    /// Why not all of them went, in words. Where the disk takes too long it is still done when that answers.
    pub async fn purge_before(&self, file: &Arc<LogFile>) -> Result<usize, String> {
        let (keep, file) = (self.keep.clone(), file.clone());
        let done = rt::timeout(DISK, self.disk.run(move || keep.purge_before(&file))).await;
        let late = || {
            let limit = DISK.as_secs();
            format!("its disk has not done all of it within {limit} s, and goes on; see SHOW RELAY FILES")
        };
        done.ok_or_else(late)?.map_err(|error| error.to_string())?
    }

    /// What there is to tell of all.
    pub fn totals(&self) -> KeptTotals {
        self.keep.totals()
    }

    /// What there is to tell of these files, in their order: all of the log.
    pub fn files(&self, files: &[Arc<LogFile>]) -> Vec<KeptFile> {
        self.keep.files(files)
    }

    /// Ends its threads. Blocks for a moment.
    pub fn end(&self) {
        self.is_over.store(true, Ordering::Relaxed);
        // All receivers may be gone.
        let _ = self.over.send(true);
        let threads = std::mem::take(&mut *lock(&self.threads));
        for thread in threads {
            let _ = thread.join();
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn now_s() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}

/// What was said last, so that it is said once.
#[derive(Default)]
struct Told {
    held: Option<Hold>,
    /// Why nothing is removed.
    error: String,
    /// Why it is not written down which replicas there are.
    unwritten: String,
    /// What was written down last.
    written: String,
}

impl Keep {
    async fn run(self: Arc<Self>, mut over: watch::Receiver<bool>) {
        let mut told = Told::default();
        if let Err(error) = self.log.remove_old_folders() {
            self.warn(&mut told.error, "a folder of an old source cannot be removed", &error);
        }
        let mut calls = self.calls.clone();
        loop {
            let round = *calls.borrow_and_update();
            // Where the disk is full, replicas that begin wait: removing files may make room, and the next look writes them down.
            if self.look(&mut told) {
                self.registry.has_noted(round);
            }
            self.tidy(&mut told);
            let ended = std::pin::pin!(over.wait_for(|is_over| *is_over));
            let called = std::pin::pin!(calls.changed());
            if let Some(Either::First(_)) = rt::timeout(PACE, rt::either(ended, called)).await {
                return;
            }
        }
    }

    /// Sees which replicas there are, and writes that down; false if the disk does not take it.
    fn look(&self, told: &mut Told) -> bool {
        let text = {
            let (mut memory, now_s) = (lock(&self.memory), now_s());
            memory.see(&self.registry.take_seen(), now_s, &self.rules);
            state::text_of(&self.log, &memory, now_s)
        };
        let is_remembered = match text {
            Ok(text) if text == told.written => Ok(()),
            Ok(text) => self
                .root
                .check()
                .and_then(|()| state::remember(&self.log, &text))
                .map(|()| told.written = text),
            Err(error) => Err(error),
        };
        match is_remembered {
            Ok(()) => {
                told.unwritten.clear();
                true
            }
            // The disk may be full: files go all the same, by what this process knows. Else it would stay full.
            Err(error) => {
                self.warn(&mut told.unwritten, "the list of replicas cannot be written", &error);
                false
            }
        }
    }

    /// Removes what may go.
    fn tidy(&self, told: &mut Told) {
        let _one = lock(&self.removing);
        for _ in 0..AT_ONCE {
            match self.step() {
                Ok(Step::Removed) => told.held = None,
                Ok(Step::Nothing) => {
                    told.held = None;
                    told.error.clear();
                    return;
                }
                Ok(Step::Held(file, hold)) => {
                    if told.held.as_ref() != Some(&hold) {
                        tracing::warn!(relay = self.name, file, "an old file stays: {hold}");
                        told.held = Some(hold);
                    }
                    return;
                }
                Err(error) => return self.warn(&mut told.error, "an old file cannot be removed", &error),
            }
        }
    }

    /// Once for each reason.
    fn warn(&self, told: &mut String, what: &str, error: &io::Error) {
        let text = error.to_string();
        if *told != text {
            tracing::warn!(relay = self.name, folder = %self.log.root().display(), error = text, "{what}");
            *told = text;
        }
    }

    /// Removes the oldest file, if a rule says so.
    fn step(&self) -> io::Result<Step> {
        self.root.check()?;
        let files = self.log.files();
        let (Some(first), Some(end)) = (files.first(), self.log.end()) else { return Ok(Step::Nothing) };
        if first.ordinal >= end.ordinal {
            return Ok(Step::Nothing);
        }
        let total = files.iter().map(|file| file.len()).sum();
        let needs = lock(&self.memory).needs();
        match self.rules.judge(&self.candidate(first, total), &needs) {
            Fate::Stays => Ok(Step::Nothing),
            Fate::Held(hold) => Ok(Step::Held(first.name.to_string(), hold)),
            Fate::Goes(why) => {
                let (removed, result) = self.log.purge(first.ordinal + 1, false);
                self.removed.fetch_add(removed.len() as u64, Ordering::Relaxed);
                for file in &removed {
                    tracing::info!(
                        relay = self.name,
                        file = %file.path().display(),
                        bytes = file.len(),
                        by = why.option(),
                        "an old file was removed"
                    );
                }
                result.map(|()| if removed.is_empty() { Step::Nothing } else { Step::Removed })
            }
        }
    }

    fn candidate(&self, file: &LogFile, total: u64) -> Candidate {
        Candidate {
            ordinal: file.ordinal,
            age: file.age(),
            total,
            is_in_use: file.is_in_use(),
            is_archived: self.is_archived(file).unwrap_or(true),
        }
    }

    fn is_archived(&self, file: &LogFile) -> Option<bool> {
        self.archived.as_ref().map(|archived| archived.has(file))
    }

    fn purge_before(&self, file: &LogFile) -> Result<usize, String> {
        let _one = lock(&self.removing);
        let mut count = 0;
        loop {
            let files = self.log.files();
            let (Some(first), Some(end)) = (files.first(), self.log.end()) else { return Ok(count) };
            if first.ordinal >= file.ordinal || first.ordinal >= end.ordinal {
                return Ok(count);
            }
            let stays = |why: &dyn std::fmt::Display| {
                format!("{count} files were removed; {} stays, and all newer ones: {why}", first.name)
            };
            self.root.check().map_err(|error| stays(&error))?;
            if let Some(hold) = self.candidate(first, 0).held() {
                return Err(stays(&hold));
            }
            let (removed, result) = self.log.purge(first.ordinal + 1, false);
            result.map_err(|error| stays(&error))?;
            if removed.is_empty() {
                return Err(stays(&Hold::Reader));
            }
            count += removed.len();
            self.removed.fetch_add(removed.len() as u64, Ordering::Relaxed);
        }
    }

    fn totals(&self) -> KeptTotals {
        let removed = self.removed.load(Ordering::Relaxed);
        let Some(archived) = &self.archived else { return KeptTotals { removed, ..KeptTotals::default() } };
        let end = self.log.end().map_or(0, |end| end.ordinal);
        let files = self.log.files();
        let is_waiting = |file: &&Arc<LogFile>| file.ordinal < end && !archived.has(file);
        KeptTotals {
            removed,
            archived: Some(archived.taken.load(Ordering::Relaxed)),
            archive_failures: archived.failures.load(Ordering::Relaxed),
            unarchived: files.iter().filter(is_waiting).count() as u64,
            archive_error: archived.error(),
        }
    }

    fn files(&self, files: &[Arc<LogFile>]) -> Vec<KeptFile> {
        let needs = lock(&self.memory).needs();
        let end = self.log.end().map_or(0, |end| end.ordinal);
        let mut total: u64 = files.iter().map(|file| file.len()).sum();
        let mut rows = Vec::with_capacity(files.len());
        for file in files {
            let is_closed = file.ordinal < end;
            let fate =
                if is_closed { self.rules.judge(&self.candidate(file, total), &needs) } else { Fate::Stays };
            let held = match fate {
                Fate::Held(hold) => hold.to_string(),
                _ => String::new(),
            };
            rows.push(KeptFile { is_archived: self.is_archived(file).map(|it| it && is_closed), held });
            total = total.saturating_sub(file.len());
        }
        rows
    }
}

enum Step {
    Removed,
    Nothing,
    Held(String, Hold),
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::intake::tests::Place;
    use crate::keep::Seen;

    #[test]
    fn a_look_that_cannot_be_written_down_says_so_and_is_done_again() {
        let place = Place::new();
        let log = Arc::new(Log::new(&place.0));
        let registry = Arc::<Registry>::default();
        let keep = Keep {
            name: "r".to_owned(),
            root: Anchor::of(&place.0).unwrap(),
            log,
            calls: registry.calls(),
            registry,
            rules: Rules { remember: Duration::from_hours(1), ..Rules::default() },
            archived: None,
            memory: Mutex::default(),
            removing: Mutex::default(),
            removed: AtomicU64::default(),
        };
        let (key, name) = ("k".to_owned(), "n".to_owned());
        let seen = Seen { key, name, connection: 1, began: 0, now_in: 0, comes_again: true };
        lock(&keep.memory).see(&[seen], now_s(), &keep.rules);
        // Something that nothing can be written into, whoever asks.
        let obstacle = place.0.join("replicas.toml.new");
        std::fs::create_dir(&obstacle).unwrap();
        let mut told = Told::default();
        assert!(!keep.look(&mut told) && !told.unwritten.is_empty());
        std::fs::remove_dir(&obstacle).unwrap();
        assert!(keep.look(&mut told) && told.unwritten.is_empty());
        assert!(std::fs::read_to_string(place.0.join("replicas.toml")).unwrap().contains("key = \"k\""));
    }
}
