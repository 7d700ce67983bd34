//! One file of the log, and a reader of it.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use delphinus_wire::binlog::{FormatDescription, MariaDbGtid};
use delphinus_wire::gtid::GtidSet;

use super::Folder;
use super::lost::remove_lost;

/// In place of the number of readers: the file was purged.
const GONE: u32 = u32::MAX;

/// A file of the log.
#[derive(Debug)]
pub struct LogFile {
    /// Its place among all files.
    pub ordinal: u32,
    /// Its name, which is the source's: `binlog.000042`.
    pub name: Box<str>,
    /// Whose file it is.
    pub folder: Arc<Folder>,
    /// What its FORMAT_DESCRIPTION says.
    pub format: FormatDescription,
    /// All groups before it, as its PREVIOUS_GTIDS or GTID_LIST says, and its source's `gtid_purged` (`Folder::before`).
    pub previous: GtidSet,
    /// MySQL: groups of those that no file before it has.
    pub lost: GtidSet,
    /// MariaDB: of each server in each domain the last group before it, the latest of a domain last.
    pub list: Box<[MariaDbGtid]>,
    /// Bytes from the file's begin to the end of PREVIOUS_GTIDS or GTID_LIST: its head.
    pub head_len: u64,
    /// Seconds since 1970 in its FORMAT_DESCRIPTION's head: when the source began it.
    pub began: u32,
    pub(crate) len: AtomicU64,
    pub(crate) readers: AtomicU32,
    /// When its last byte was written, in seconds since 1970; 0 while it is the last file.
    pub(crate) closed: AtomicU64,
}

/// How far a file may be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Limit {
    /// Up to here now; more may come.
    Open(u64),
    /// Up to here, and the next file follows.
    Closed(u64),
}

impl Limit {
    /// Bytes from the file's begin.
    pub fn offset(self) -> u64 {
        match self {
            Self::Open(offset) | Self::Closed(offset) => offset,
        }
    }
}

impl LogFile {
    /// Where it is.
    pub fn path(&self) -> PathBuf {
        self.folder.path.join(&*self.name)
    }

    /// Bytes, once it is closed; before, what was published last.
    pub fn len(&self) -> u64 {
        self.len.load(Ordering::Acquire)
    }

    /// True if nothing of it is visible yet.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How long ago its last byte was written, once it is closed; before, no time.
    pub fn age(&self) -> Duration {
        match self.closed.load(Ordering::Relaxed) {
            0 => Duration::ZERO,
            closed => Duration::from_secs(now_s().saturating_sub(closed)),
        }
    }

    /// Another file follows from now on.
    pub(super) fn ends(&self) {
        // One that was found at the start has the time of the file system.
        let _ = self.closed.compare_exchange(0, now_s(), Ordering::Relaxed, Ordering::Relaxed);
    }

    /// True while a reader has it open.
    pub fn is_in_use(&self) -> bool {
        !matches!(self.readers.load(Ordering::Acquire), 0 | GONE)
    }

    /// Lets no reader in from now on; false if there is one.
    pub(super) fn close(&self) -> bool {
        self.readers.compare_exchange(0, GONE, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }

    /// Lets readers in again.
    pub(super) fn open_again(&self) {
        let _ = self.readers.compare_exchange(GONE, 0, Ordering::AcqRel, Ordering::Acquire);
    }

    /// Opens it for reading. `NotFound`: it was purged.
    pub fn open(self: &Arc<Self>) -> io::Result<Reader> {
        // Counted first: purging either sees it, or nothing is opened any more.
        let counted = self.readers.fetch_update(Ordering::AcqRel, Ordering::Acquire, |readers| {
            (readers != GONE).then(|| readers + 1)
        });
        if counted.is_err() {
            return Err(io::ErrorKind::NotFound.into());
        }
        match File::open(self.path()) {
            Ok(handle) => Ok(Reader { handle, file: self.clone() }),
            Err(error) => {
                self.readers.fetch_sub(1, Ordering::AcqRel);
                Err(error)
            }
        }
    }

    pub(super) fn remove(&self) -> io::Result<()> {
        match std::fs::remove_file(self.path()) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => remove_lost(&self.path()),
        }
    }
}

fn now_s() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}

/// A file that is open for reading. Where it may be read to is asked with `Log::limit`.
#[derive(Debug)]
pub struct Reader {
    handle: File,
    file: Arc<LogFile>,
}

impl Reader {
    /// The file.
    pub fn file(&self) -> &Arc<LogFile> {
        &self.file
    }

    /// Reads what is at `offset` into `buffer`, as far as there is something; gives the number of bytes. The caller keeps within the
    /// limit.
    pub fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        self.handle.read_at(buffer, offset)
    }

    /// For `sendfile` and its like.
    pub fn handle(&self) -> &File {
        &self.handle
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        self.file.readers.fetch_sub(1, Ordering::AcqRel);
    }
}
