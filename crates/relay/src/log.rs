//! The log of one relay: folders of sources, their files in order, and how far all of it is durable.
//!
//! Owns: the list of files, the published end, the set of what is in the log. Must not know sockets, sources or replicas.
//!
//! What readers may rely on:
//! - **Order.** `files()` has all files, oldest first, through all folders. `ordinal` grows by one from file to file and is never used
//!   again while the process lives; after purging, the first ordinal is larger. A file is followed by the one with the next ordinal
//!   (`next()`), whether it is of the same source or of another.
//! - **Published end.** `end()` is one atomic load. All bytes before it are on disk (after fdatasync), end at a border of groups, and never
//!   change: a reader may read any file with a smaller ordinal up to its `len()`, and the file with the end's ordinal up to its offset.
//!   The end never goes back. Bytes of a file beyond the end may be there; they may be cut off again, and must not be read.
//! - **Files** begin with the magic, FORMAT_DESCRIPTION and PREVIOUS_GTIDS (MariaDB: GTID_LIST), which are visible as soon as the file is
//!   in the list. Both together are `head_len` bytes. All is byte for byte what is in the source's file,
//!   checksums included; where the source has checksums off there are none (`format`). The "in use" flag is never set.
//! - **Closed files** end with ROTATE, STOP, or just so (`is_closed` says so: after a change of source, or where the source itself crashed): a reader
//!   goes on with the next file whatever the last event was.
//! - **A new folder** (change of primary, or other history of the same server) begins with the whole source file that holds the first
//!   group that was missing: groups in it may have been in earlier files. A reader skips by GTID what its replica has.
//! - **What a replica needs**: `start_for(set)` is the file to begin with, and none if it was purged, or is in no file (`lost`).
//! - **Wake-up.** `register()` gives a bell that rings at most once for each synced batch. A serving thread takes one bell and wakes
//!   its own tasks: each bell costs the writer one hand-over, and none while no task waits for it. After a ring, and before the
//!   first wait, look at `end()`. A bell that is dropped is forgotten.
//! - **Purging** takes files from the front of the list, and never one that a `Reader` has open, unless it is told to. An open reader can
//!   read on even then: the kernel keeps the file.

mod anchor;
mod aside;
mod end;
mod executed;
mod file;
mod folder;
mod head;
mod lost;
mod recover;
mod scan;
mod tail;

use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, Weak};

use arc_swap::{ArcSwap, ArcSwapOption};
use delphinus_net::rt::Bell;
use delphinus_wire::binlog::MariaDbGtid;
use delphinus_wire::gtid::{GtidSet, GtidState};

pub(crate) use anchor::Anchor;
use end::EndCell;
pub use end::Position;
pub(crate) use executed::{Executed, Past};
pub use file::{Limit, LogFile, Reader};
pub use folder::{Flavor, Folder, SourceId};
pub(crate) use folder::{Origin, sync_folder};
pub(crate) use head::read_head;
pub(crate) use lost::{lacks, lost_path};
pub(crate) use recover::number_of;
pub use recover::{RecoverError, Recovered, recover};
pub(crate) use scan::scan;
pub(crate) use tail::is_closed;

/// The log of one relay.
#[derive(Debug)]
pub struct Log {
    root: PathBuf,
    files: ArcSwap<Vec<Arc<LogFile>>>,
    end: EndCell,
    executed: Mutex<Executed>,
    goal: ArcSwapOption<Goal>,
    bells: ArcSwap<Vec<Weak<Bell>>>,
}

/// How far the log is to come: a set of groups, and of MariaDB its state.
pub(crate) type Goal = (GtidSet, Vec<MariaDbGtid>);

impl Log {
    /// An empty log in the folder `root`. What is on disk is brought in by recovery.
    pub fn new(root: &Path) -> Self {
        Self {
            root: root.to_owned(),
            files: ArcSwap::default(),
            end: EndCell::default(),
            executed: Mutex::default(),
            goal: ArcSwapOption::default(),
            bells: ArcSwap::default(),
        }
    }

    /// The folder that the folders of sources are in.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Up to where everything is durable and whole; `None` while there is no file.
    pub fn end(&self) -> Option<Position> {
        self.end.load()
    }

    /// All files, oldest first.
    pub fn files(&self) -> Arc<Vec<Arc<LogFile>>> {
        self.files.load_full()
    }

    /// The file with this ordinal, if it was not purged.
    pub fn file(&self, ordinal: u32) -> Option<Arc<LogFile>> {
        let files = self.files.load();
        let first = files.first()?.ordinal;
        files.get(ordinal.checked_sub(first)? as usize).cloned()
    }

    /// The file after this one, once it is there.
    pub fn next(&self, file: &LogFile) -> Option<Arc<LogFile>> {
        self.file(file.ordinal + 1)
    }

    /// All files of this name, oldest first: names come again with another source. `FOLDER/NAME` is the one in that folder.
    pub fn named(&self, name: &str) -> Vec<Arc<LogFile>> {
        let (folder, name) = match name.rsplit_once('/') {
            Some((folder, name)) => (Some(folder), name),
            None => (None, name),
        };
        let is_meant = |file: &&Arc<LogFile>| {
            &*file.name == name && folder.is_none_or(|folder| file.folder.name() == folder)
        };
        self.files.load().iter().filter(is_meant).cloned().collect()
    }

    /// The one file of this name.
    ///
    /// # Errors
    /// In words: there is none, or there are several, and in which folders.
    pub fn only_named(&self, name: &str) -> Result<Arc<LogFile>, String> {
        let named = self.named(name);
        match &named[..] {
            [] => Err(format!("there is no file '{name}'; SHOW RELAY FILES has them")),
            [file] => Ok(file.clone()),
            several => {
                let names: Vec<_> =
                    several.iter().map(|file| format!("'{}/{name}'", file.folder.name())).collect();
                Err(format!(
                    "there are several files '{name}', of several sources; name one of {}",
                    names.join(", ")
                ))
            }
        }
    }

    /// All groups up to `end`, those in files that were purged too.
    pub fn executed(&self) -> GtidSet {
        self.executed.lock().expect("invariant: no panic under this lock").set().clone()
    }

    /// MariaDB: of each server in each domain the last group in the log or before it.
    pub fn state(&self) -> GtidState {
        self.executed.lock().expect("invariant: no panic under this lock").state().clone()
    }

    /// Both: all groups up to `end`, and MariaDB's last ones by server. Nothing is copied, and the writer waits meanwhile.
    pub(crate) fn look<T>(&self, look: impl FnOnce(&GtidSet, &GtidState) -> T) -> T {
        let executed = self.executed.lock().expect("invariant: no panic under this lock");
        look(executed.set(), executed.state())
    }

    /// The log comes as far as this at least, by what is being received; `None`: nothing is.
    pub(crate) fn expect(&self, goal: Option<Goal>) {
        self.goal.store(goal.map(Arc::new));
    }

    /// True if it is not as far yet, or nothing is received: what is missing may be there soon.
    pub(crate) fn is_behind(&self) -> bool {
        self.goal.load().as_ref().is_none_or(|goal| !self.has_all(&goal.0, &goal.1))
    }

    /// True if all is in the log that is before a file.
    pub(crate) fn has_all(&self, previous: &GtidSet, list: &[MariaDbGtid]) -> bool {
        self.executed.lock().expect("invariant: no panic under this lock").has_all(previous, list)
    }

    /// All groups that were purged, or that were never there: what is before the first file, and what was lost between files.
    pub fn purged(&self) -> GtidSet {
        let files = self.files.load();
        let Some((first, rest)) = files.split_first() else { return GtidSet::default() };
        let mut purged = first.previous.clone();
        for file in rest {
            purged.merge(&file.lost);
        }
        purged
    }

    /// The file from which a replica that has `executed` must be sent: the last one before which it needs nothing. `None` if what it
    /// needs was purged or is in no file behind that, or if there is no file.
    pub fn start_for(&self, executed: &GtidSet) -> Option<Arc<LogFile>> {
        let files = self.files.load();
        let at = files.iter().rposition(|file| executed.contains(&file.previous))?;
        files[at + 1..].iter().all(|file| executed.contains(&file.lost)).then(|| files[at].clone())
    }

    /// A bell for one serving thread.
    pub fn register(&self) -> Arc<Bell> {
        let bell = Arc::new(Bell::default());
        self.bells.rcu(|bells| {
            let alive = bells.iter().filter(|bell| bell.strong_count() > 0).cloned();
            alive.chain([Arc::downgrade(&bell)]).collect::<Vec<_>>()
        });
        bell
    }

    /// How far `file` may be read now.
    pub fn limit(&self, file: &LogFile) -> Limit {
        match self.end() {
            Some(end) if end.ordinal > file.ordinal => Limit::Closed(file.len()),
            Some(end) if end.ordinal == file.ordinal => Limit::Open(end.offset),
            _ => Limit::Open(0),
        }
    }

    /// Takes in a file behind all others. It becomes visible when the end is in it.
    pub(crate) fn push(&self, file: &Arc<LogFile>) {
        debug_assert!(self.files.load().last().is_none_or(|last| last.ordinal + 1 == file.ordinal));
        if let Some(last) = self.files.load().last() {
            last.ends();
        }
        self.files.rcu(|files| {
            let mut files = Vec::clone(files);
            files.push(file.clone());
            files
        });
    }

    /// The ordinal of the file that comes next.
    pub(crate) fn next_ordinal(&self) -> u32 {
        self.files.load().last().map_or(0, |last| last.ordinal + 1)
    }

    /// The end, and all groups up to it, those in files that were purged too. `None` while there is no file.
    pub fn now(&self) -> Option<(Position, GtidSet)> {
        let executed = self.executed.lock().expect("invariant: no panic under this lock");
        Some((self.end()?, executed.set().clone()))
    }

    /// Takes in what is durable from now on: what is in the log then, a file that begins with it, and the end.
    pub(crate) fn advance(
        &self,
        end: Position,
        file: Option<&Arc<LogFile>>,
        change: impl FnOnce(&mut Executed),
    ) {
        let mut executed = self.executed.lock().expect("invariant: no panic under this lock");
        change(&mut executed);
        if let Some(file) = file {
            self.push(file);
        }
        // Under the lock: who asks for both finds what belongs together.
        self.publish(end);
    }

    /// Changes the set of what is in the log: called by recovery before it publishes.
    pub(crate) fn learn(&self, change: impl FnOnce(&mut Executed)) {
        change(&mut self.executed.lock().expect("invariant: no panic under this lock"));
    }

    /// Moves the end, once everything before it is durable, and wakes readers.
    pub(crate) fn publish(&self, end: Position) {
        debug_assert!(self.end().is_none_or(|old| old <= end), "the end goes back");
        self.end.store(end);
        for bell in self.bells.load().iter() {
            if let Some(bell) = bell.upgrade() {
                bell.ring();
            }
        }
    }

    /// Removes files from the front: those before `ordinal`, as long as none of them is being read, if that matters. The last file
    /// always stays. Gives the files that were removed; an error stops it, and what was removed until then stays removed.
    pub fn purge(&self, ordinal: u32, even_in_use: bool) -> (Vec<Arc<LogFile>>, io::Result<()>) {
        let mut removed = Vec::new();
        loop {
            let files = self.files.load();
            let [first, next, ..] = &files[..] else { break };
            let is_published = self.end().is_some_and(|end| first.ordinal < end.ordinal);
            // From here on a reader that comes does not get it.
            if first.ordinal >= ordinal || !is_published || !(first.close() || even_in_use) {
                break;
            }
            if let Err(error) = first.remove() {
                // It is still the first one, and nothing behind it goes before it does: a log with a hole would be served as a whole one
                // after a restart.
                first.open_again();
                return (removed, Err(error));
            }
            self.files.rcu(|files| {
                files.iter().filter(|file| file.ordinal != first.ordinal).cloned().collect::<Vec<_>>()
            });
            removed.push(first.clone());
            // Name by name: no file is missing between two others, whatever a power failure leaves.
            if let Err(error) = sync_folder(&first.folder.path) {
                return (removed, Err(error));
            }
            if first.folder.number != next.folder.number
                && let Err(error) = self.remove_old_folders()
            {
                return (removed, Err(error));
            }
        }
        (removed, Ok(()))
    }

    /// Removes folders of sources that were before the first file's, and have no files any more.
    pub(crate) fn remove_old_folders(&self) -> io::Result<()> {
        let Some(first) = self.files.load().first().map(|file| file.folder.number) else { return Ok(()) };
        for entry in std::fs::read_dir(&self.root)? {
            let path = entry?.path();
            if let Some(folder) = Folder::read(&path)?
                && folder.number < first
            {
                folder.remove()?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
