//! From what is on disk to a log: what a process that ended has left is cut back to the last whole group.
//!
//! Only the last file of the last folder can have a torn end: every other file was synced before the next one had a name. There is no
//! file of positions that could say something else than the logs.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64};
use std::time::{SystemTime, UNIX_EPOCH};

use delphinus_wire::gtid::GtidSet;
use thiserror::Error;

use super::aside;
use super::folder::sync_folder;
use super::head::{Head, read_head_of};
use super::lost::{lacks, read_lost};
use super::scan::{Scanned, scan};
use super::{Executed, Folder, Log, LogFile, Position};

/// Why a log cannot be opened.
#[derive(Debug, Error)]
pub enum RecoverError {
    /// The disk.
    #[error("{}: {error}", .path.display())]
    Io {
        /// Where.
        path: PathBuf,
        /// The system's word.
        error: io::Error,
    },
    /// Another process has it.
    #[error("{}: another process uses this folder; give each relay a folder of its own", .0.display())]
    InUse(PathBuf),
    /// A file before the last one cannot be read.
    #[error("{}: {what}; it was whole once, so that something else has changed it: restore it, or move it and all older ones away", .path.display())]
    Damaged {
        /// Which.
        path: PathBuf,
        /// What is wrong.
        what: &'static str,
    },
}

/// A log that is open for one writer.
#[derive(Debug)]
pub struct Recovered {
    /// The log.
    pub log: Arc<Log>,
    /// Bytes that were cut off.
    pub cut: u64,
    /// Held as long as the log is.
    pub lock: File,
}

fn at<T>(path: &Path, result: io::Result<T>) -> Result<T, RecoverError> {
    result.map_err(|error| RecoverError::Io { path: path.to_owned(), error })
}

/// Opens the log in the folder `root`, which is made where it is not there.
pub fn recover(root: &Path) -> Result<Recovered, RecoverError> {
    at(root, DirBuilder::new().recursive(true).mode(0o700).create(root))?;
    let lock = lock(root)?;
    let log = Log::new(root);
    let folders = folders(root)?;
    let mut course = Course::default();
    for (number, folder) in folders.iter().enumerate() {
        course.read(&log, folder, number + 1 == folders.len())?;
    }
    // Now that all can be read.
    let mut cut = 0;
    for (file, scanned) in course.cuts {
        at(&file.path(), aside::cut(&file.path(), scanned.whole, scanned.is_damaged))?;
        cut += file.len() - scanned.whole;
        file.len.store(scanned.whole, std::sync::atomic::Ordering::Release);
    }
    log.learn(|set| *set = course.executed);
    if let Some(end) = course.end {
        // Read back, and so of this machine's memory at least: what was not synced is now.
        if let Some(file) = log.file(end.ordinal) {
            let path = file.path();
            at(&path, File::open(&path).and_then(|file| file.sync_all()))?;
            at(&path, sync_folder(&file.folder.path).and_then(|()| sync_folder(root)))?;
        }
        log.publish(end);
    }
    Ok(Recovered { log: Arc::new(log), cut, lock })
}

/// What was read so far, folder by folder, oldest first.
#[derive(Default)]
struct Course {
    executed: Executed,
    /// Last files of folders with an end that is no whole group.
    cuts: Vec<(Arc<LogFile>, Scanned)>,
    /// The last file of the folder before, and the state of its end.
    before: Option<(PathBuf, Ending)>,
    /// Where the log ends.
    end: Option<Position>,
}

/// How the last file of a folder ends.
#[derive(Clone, Copy)]
enum Ending {
    Whole,
    /// With an event that is not whole.
    Torn,
    /// With something that is no event.
    Damaged,
}

impl Course {
    fn read(&mut self, log: &Log, folder: &Arc<Folder>, is_last: bool) -> Result<(), RecoverError> {
        if self.end.is_none() {
            // Older folders were purged: what they had is written down in this one. A source may name it that has it by them alone.
            let past = folder.past();
            let list = past.list();
            self.executed.merge(&GtidSet::MariaDb(past.position), &list);
        }
        let files = files(log, folder, is_last, &|head| self.lost_before(log, head))?;
        let Some(last) = files.last() else { return Ok(()) };
        let path = last.path();
        self.executed.begins_folder();
        for file in &files {
            self.executed.knows(&file.list);
        }
        self.executed.merge(&last.previous, &last.list);
        let scanned = at(&path, scan(&path, &last.format, &mut self.executed))?;
        let ending = match (scanned.whole < last.len(), scanned.is_damaged) {
            (false, _) => Ending::Whole,
            (true, false) => Ending::Torn,
            (true, true) => Ending::Damaged,
        };
        if scanned.whole < last.len() {
            self.cuts.push((last.clone(), scanned));
        }
        self.before = Some((path, ending));
        self.end = Some(Position { ordinal: last.ordinal, offset: scanned.whole.min(last.len()) });
        Ok(())
    }

    /// What is before a folder's first file and in none of the files of other folders, of MySQL. When that file was begun the log had
    /// all of it (`BeginsLate`): what lacks now was there once. A start that goes on would have replicas take a log with a hole for a
    /// whole one. Files that were purged may have had it, too. Then replicas that lack it are refused, as those that lack what was purged.
    fn lost_before(&self, log: &Log, head: &Head) -> Result<GtidSet, RecoverError> {
        let Some((path, ending)) = &self.before else { return Ok(GtidSet::default()) };
        if self.executed.has_all(&head.previous, &head.list) {
            return Ok(GtidSet::default());
        }
        let what = match ending {
            Ending::Damaged => {
                "it has an event that cannot be read, and the files of the next source begin behind it"
            }
            Ending::Torn => "its last event is not whole, and the files of the next source begin behind it",
            Ending::Whole if has_first_file(log) => {
                "it ends too early: the files of the next source begin behind what it has"
            }
            Ending::Whole => return Ok(lacks(self.executed.set(), &head.previous)),
        };
        Err(RecoverError::Damaged { path: path.clone(), what })
    }
}

/// True if no file was purged.
fn has_first_file(log: &Log) -> bool {
    let files = log.files();
    files.first().is_some_and(|file| file.folder.number == 1 && *file.name == *file.folder.source.first_file)
}

fn lock(root: &Path) -> Result<File, RecoverError> {
    let path = root.join("lock");
    let file =
        at(&path, OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(&path))?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(fs::TryLockError::WouldBlock) => Err(RecoverError::InUse(root.to_owned())),
        Err(fs::TryLockError::Error(error)) => at(&path, Err(error)),
    }
}

/// Folders that have a file, oldest first.
fn folders(root: &Path) -> Result<Vec<Arc<Folder>>, RecoverError> {
    let mut folders = Vec::new();
    for entry in at(root, fs::read_dir(root))? {
        let path = at(root, entry)?.path();
        if let Some(folder) = at(&path, Folder::read(&path))? {
            folders.push(Arc::new(folder));
        }
    }
    folders.sort_by_key(|folder| folder.number);
    while let Some(last) = folders.last() {
        if names(&last.path)?.is_empty() || !has_head(&last.path)? {
            // Made, and the process ended before its first file was durable.
            let folder = folders.pop().expect("invariant: there is a last one");
            at(&folder.path, aside::take_out(&folder.path))?;
        } else {
            break;
        }
    }
    Ok(folders)
}

fn has_head(folder: &Path) -> Result<bool, RecoverError> {
    for name in names(folder)? {
        let path = folder.join(&*name);
        if at(&path, read_head_of(&path))?.is_ok() {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Names of log files in a folder, in their order.
fn names(folder: &Path) -> Result<Vec<Box<str>>, RecoverError> {
    let mut names = Vec::new();
    for entry in at(folder, fs::read_dir(folder))? {
        let name = at(folder, entry)?.file_name();
        let Some(name) = name.to_str() else { continue };
        if let Some(number) = number_of(name) {
            names.push((number, Box::from(name)));
        }
    }
    names.sort();
    Ok(names.into_iter().map(|(_, name)| name).collect())
}

/// The number at the end of a log file's name: files follow one another by it.
pub(crate) fn number_of(name: &str) -> Option<u64> {
    let (_, number) = name.rsplit_once('.')?;
    if number.bytes().all(|digit| digit.is_ascii_digit()) { number.parse().ok() } else { None }
}

fn is_blank(path: &Path) -> io::Result<bool> {
    aside::is_blank(File::open(path)?)
}

/// Brings the files of a folder into the log. A last file without a whole head is taken out: as long as the disk is sound, nothing of it
/// was ever acknowledged. `lost_before` is asked what no file has that is before the first one.
fn files(
    log: &Log,
    folder: &Arc<Folder>,
    is_last: bool,
    lost_before: &dyn Fn(&Head) -> Result<GtidSet, RecoverError>,
) -> Result<Vec<Arc<LogFile>>, RecoverError> {
    let mut files = Vec::new();
    let names = names(&folder.path)?;
    for (number, name) in names.iter().enumerate() {
        let path = folder.path.join(&**name);
        let head = match at(&path, read_head_of(&path))? {
            Ok(head) => Head { previous: folder.before(head.previous), ..head },
            Err(_) if number + 1 == names.len() && (is_last || at(&path, is_blank(&path))?) => {
                at(&path, aside::take_out(&path))?;
                break;
            }
            Err(malformed) => return Err(RecoverError::Damaged { path, what: malformed.0 }),
        };
        let mut lost = at(&path, read_lost(&path))?;
        if number == 0 {
            lost.merge(&lost_before(&head)?);
        }
        let found = at(&path, fs::metadata(&path))?;
        let written = found.modified().unwrap_or_else(|_| SystemTime::now());
        let written_s = written.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
        let file = Arc::new(LogFile {
            ordinal: log.next_ordinal(),
            name: name.clone(),
            folder: folder.clone(),
            format: head.format,
            previous: head.previous,
            lost,
            list: head.list.into(),
            head_len: head.len,
            began: head.began,
            len: AtomicU64::new(found.len()),
            readers: AtomicU32::new(0),
            // The very last one is open again.
            closed: AtomicU64::new(if is_last && number + 1 == names.len() { 0 } else { written_s }),
        });
        log.push(&file);
        files.push(file);
    }
    Ok(files)
}
