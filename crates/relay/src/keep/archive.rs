//! Closed files are handed to a program of the operators, one after the other, oldest first, and each again until it says that it has it.
//!
//! Owns: the order, the pauses after failures, and up to where the archive is, on disk before anything goes by it. A file may be handed
//! over twice: where the process ends after the program and before that is written down. Must not know how programs are run.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use delphinus_net::rt::{self, watch};

use super::state::{first_unarchived, note_archived};
use crate::log::{Anchor, Log, LogFile};

/// After the first failure, and doubled with each further one.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
/// The longest pause.
const LONGEST_PAUSE: Duration = Duration::from_mins(5);
/// Between two looks for a closed file.
const PACE: Duration = Duration::from_millis(500);

/// A file that is handed over.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToArchive {
    /// Where it is.
    pub path: PathBuf,
    /// The name of its folder: the number among all folders, and the source.
    pub folder: String,
    /// Its name, which is the source's.
    pub name: String,
    /// The source's uuid (MariaDB: `server-ID`).
    pub source: String,
}

/// What takes files.
pub trait Archive: std::fmt::Debug + Send + Sync {
    /// Takes a file, on a thread of its own. `is_over`: the process ends, and does not wait long.
    ///
    /// # Errors
    /// Why it was not taken, in words. It is tried again.
    fn take(&self, file: &ToArchive, is_over: &AtomicBool) -> Result<(), String>;
}

/// How far the archive is.
#[derive(Debug)]
pub(super) struct Progress {
    /// All files before this one were taken.
    first_open: AtomicU32,
    pub(super) taken: AtomicU64,
    pub(super) failures: AtomicU64,
    /// Why the oldest file was not taken, and how often in a row.
    error: Mutex<(String, u32)>,
}

impl Progress {
    pub(super) fn read(log: &Log) -> std::io::Result<Self> {
        Ok(Self {
            first_open: AtomicU32::new(first_unarchived(log)?),
            taken: AtomicU64::default(),
            failures: AtomicU64::default(),
            error: Mutex::default(),
        })
    }

    pub(super) fn has(&self, file: &LogFile) -> bool {
        file.ordinal < self.first_open.load(Ordering::Acquire)
    }

    /// Why the oldest file was not taken; empty where that is none.
    pub(super) fn error(&self) -> String {
        self.error.lock().unwrap_or_else(PoisonError::into_inner).0.clone()
    }

    fn tell(&self, error: &str) -> u32 {
        let mut told = self.error.lock().unwrap_or_else(PoisonError::into_inner);
        error.clone_into(&mut told.0);
        told.1 = if error.is_empty() { 0 } else { told.1 + 1 };
        told.1
    }
}

/// How long to wait after so many failures in a row.
fn pause(failures: u32) -> Duration {
    FIRST_PAUSE.saturating_mul(1 << failures.saturating_sub(1).min(16)).min(LONGEST_PAUSE)
}

/// The thread that hands over.
#[derive(Debug)]
pub(super) struct Archiver {
    pub(super) name: String,
    pub(super) log: Arc<Log>,
    pub(super) root: Anchor,
    pub(super) progress: Arc<Progress>,
    pub(super) archive: Arc<dyn Archive>,
    pub(super) is_over: Arc<AtomicBool>,
}

impl Archiver {
    /// Runs until the process ends.
    pub(super) async fn run(self, mut over: watch::Receiver<bool>) {
        loop {
            let wait = match self.oldest() {
                None => PACE,
                Some(file) => match self.hand_over(&file) {
                    Ok(()) => Duration::ZERO,
                    Err(_) if self.is_over.load(Ordering::Relaxed) => return,
                    Err(error) => self.failed(&file, &error),
                },
            };
            let ended = std::pin::pin!(over.wait_for(|is_over| *is_over));
            if rt::timeout(wait, ended).await.is_some() {
                return;
            }
        }
    }

    /// The oldest closed file that was not taken.
    fn oldest(&self) -> Option<Arc<LogFile>> {
        let end = self.log.end()?;
        let files = self.log.files();
        files.iter().find(|file| file.ordinal < end.ordinal && !self.progress.has(file)).cloned()
    }

    fn hand_over(&self, file: &LogFile) -> Result<(), String> {
        let call = ToArchive {
            path: file.path(),
            folder: file.folder.name().into_owned(),
            name: file.name.to_string(),
            source: file.folder.source.identity.clone(),
        };
        let is_there =
            || self.root.check().map_err(|error| format!("{}: {error}", self.root.path().display()));
        is_there()?;
        self.archive.take(&call, &self.is_over)?;
        // It may have taken hours.
        is_there()?;
        note_archived(&self.log, file)
            .map_err(|error| format!("archive_command has taken it, and that cannot be recorded: {error}"))?;
        self.progress.first_open.store(file.ordinal + 1, Ordering::Release);
        self.progress.taken.fetch_add(1, Ordering::Relaxed);
        if !self.progress.error().is_empty() {
            tracing::info!(relay = self.name, file = &*file.name, "archive_command takes files again");
        }
        self.progress.tell("");
        Ok(())
    }

    fn failed(&self, file: &LogFile, error: &str) -> Duration {
        self.progress.failures.fetch_add(1, Ordering::Relaxed);
        let error = format!("{}: {error}", file.name);
        let pause = pause(self.progress.tell(&error));
        tracing::warn!(
            relay = self.name,
            file = &*file.name,
            error,
            again_in_s = pause.as_secs(),
            "archive_command has not taken a file; it stays, and all newer ones"
        );
        pause
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_to_five_minutes() {
        let seconds: Vec<_> = [1, 2, 3, 8, 9, 10, u32::MAX].map(|failures| pause(failures).as_secs()).into();
        assert_eq!(seconds, [1, 2, 4, 128, 256, 300, 300]);
    }
}
