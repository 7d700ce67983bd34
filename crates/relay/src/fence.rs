//! Which source may be acknowledged: what makes it safe to promote another server once a relay has cut its primary off.
//!
//! Owns: the file `epoch.toml` in the relay's folder, and the word that each acknowledgement asks. A restarted relay knows from the file
//! whom it has cut off. The file is durable before a cut is reported.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard};

use serde::{Deserialize, Serialize};

use crate::log::{Anchor, sync_folder};

const FILE: &str = "epoch.toml";
/// More sources that were cut off than this are not kept: the oldest have long been built anew.
const MOST_REFUSED: usize = 64;

/// What the file says.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Epoch {
    /// Grows with each cut and each change of source.
    pub epoch: u64,
    /// The source that may be acknowledged, by its uuid or server id; none after a cut, or before the first connection.
    pub source: Option<String>,
    /// A cut: no source is connected to until one is admitted.
    pub is_cut: bool,
    /// A move of the primary's role has cut, and not an operator: whoever moves roles ends that again, also after a restart.
    #[serde(default)]
    pub is_by_move: bool,
    /// Sources that were cut off.
    pub refused: Vec<String>,
    /// A source that was named when a cut ended, and that no connection has come to since: a restart, or a cut, may come before. Who has
    /// named it counts on its being acknowledged, so that it is cut off as `source` is.
    #[serde(default)]
    pub admitted: Option<String>,
    /// Where a move has turned the relay to, in the place of the source of its section: a restarted relay goes on there.
    #[serde(default)]
    pub turned: Option<Turned>,
}

/// Whom a relay was told to follow that has a source in its section.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Turned {
    /// The server's name, for operators.
    pub name: String,
    /// Where it listens.
    pub address: String,
    /// The source that the section had then: with another one there, that one is followed.
    pub instead_of: String,
}

/// Who cuts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CutBy {
    /// An operator, who ends it, too.
    Operator,
    /// A move of the primary's role.
    Move,
}

/// The fence of one relay. What counts changes at once; the disk, which may hang, is asked by threads that may wait for it.
#[derive(Debug)]
pub(crate) struct Fence {
    root: Anchor,
    /// Never held while the disk is asked.
    state: Mutex<Counts>,
    /// Held by whoever writes the file. Taken before `state`.
    disk: Mutex<()>,
    /// The epoch in which acknowledgements may leave; changes before the file does.
    open: AtomicU64,
}

/// What counts in this process.
#[derive(Debug)]
struct Counts {
    epoch: Epoch,
    /// Grows with each change.
    version: u64,
    /// The version that is on disk; `None`: nobody knows what is there.
    on_disk: Option<u64>,
}

/// No acknowledgement leaves.
const CLOSED: u64 = u64::MAX;

/// Why a source may not be connected to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// The relay was cut off from its source.
    Cut(u64),
    /// This source was cut off.
    WasCutOff(u64),
}

impl Fence {
    /// Reads what is on disk.
    pub(crate) fn open(root: &Path) -> io::Result<Self> {
        let epoch = match fs::read_to_string(root.join(FILE)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Epoch::default(),
            text => toml::from_str(&text?).map_err(io::Error::other)?,
        };
        let state = Mutex::new(Counts { epoch, version: 0, on_disk: Some(0) });
        Ok(Self { root: Anchor::of(root)?, state, disk: Mutex::new(()), open: AtomicU64::new(CLOSED) })
    }

    /// What counts now: what is on disk, or a cut that the disk has not taken.
    pub(crate) fn epoch(&self) -> Epoch {
        self.lock().epoch.clone()
    }

    /// True if the disk has what counts now; else a restarted relay may not know of a cut.
    pub(crate) fn is_on_disk(&self) -> bool {
        let state = self.lock();
        state.on_disk == Some(state.version)
    }

    fn lock(&self) -> MutexGuard<'_, Counts> {
        self.state.lock().expect("invariant: no panic under this lock")
    }

    fn writing(&self) -> MutexGuard<'_, ()> {
        self.disk.lock().expect("invariant: no panic under this lock")
    }

    /// A connection to this source may be acknowledged on from now on, in the epoch that is given. Another source than the last one
    /// ends the last one's epoch: it is refused from then on.
    pub(crate) fn enter(&self, identity: &str) -> io::Result<Result<u64, Refusal>> {
        let _writing = self.writing();
        loop {
            let state = self.lock();
            let (epoch, version) = (&state.epoch, state.version);
            if epoch.is_cut {
                return Ok(Err(Refusal::Cut(epoch.epoch)));
            }
            if epoch.source.as_deref() == Some(identity) {
                self.open.store(epoch.epoch, Ordering::SeqCst);
                return Ok(Ok(epoch.epoch));
            }
            if epoch.refused.iter().any(|refused| refused == identity) {
                return Ok(Err(Refusal::WasCutOff(epoch.epoch)));
            }
            let next = epoch.with_source(identity);
            drop(state);
            // A cut may come meanwhile: it is looked at anew.
            self.write_and_count(next, version, || {})?;
        }
    }

    /// True if an acknowledgement of a connection of this epoch may leave.
    pub(crate) fn is_open(&self, epoch: u64) -> bool {
        self.open.load(Ordering::SeqCst) == epoch
    }

    /// The connection has ended.
    pub(crate) fn leave(&self) {
        self.open.store(CLOSED, Ordering::SeqCst);
    }

    #[cfg(test)]
    pub(crate) fn cut(&self) -> io::Result<u64> {
        self.close(CutBy::Operator, None, || {});
        self.keep()
    }

    /// Cuts the source off: no acknowledgement leaves from now on. It counts for as long as the process lives; `keep` has it count longer.
    /// With an epoch only if it is still this one; false: it is not. `then` is called before anything else can change.
    pub(crate) fn close(&self, by: CutBy, epoch: Option<u64>, then: impl FnOnce()) -> bool {
        let mut state = self.lock();
        if epoch.is_some_and(|epoch| epoch != state.epoch.epoch) {
            return false;
        }
        self.open.store(CLOSED, Ordering::SeqCst);
        let next = &mut state.epoch;
        let old = [next.source.take(), next.admitted.take()];
        next.refuse_all(old);
        (next.is_cut, next.is_by_move) = (true, by == CutBy::Move);
        next.epoch += 1;
        state.version += 1;
        then();
        true
    }

    /// Has the disk take what counts; gives its epoch. Waits for the disk.
    pub(crate) fn keep(&self) -> io::Result<u64> {
        let _writing = self.writing();
        let (epoch, version) = {
            let state = self.lock();
            (state.epoch.clone(), state.version)
        };
        self.write(&epoch)?;
        self.lock().on_disk = Some(version);
        Ok(epoch.epoch)
    }

    /// Ends a cut, if the epoch is still this one; `None`: it is not. With the identity of a source, that source may be acknowledged even
    /// if it was cut off before; without, any that was not. `turned`: where that source is, if that has to be kept. `then` is called once
    /// that counts. A word that says what counts by now is taken in any epoch: it is one whose answer was lost. Waits for the disk.
    pub(crate) fn admit_in(
        &self,
        epoch: u64,
        (identity, turned): (Option<&str>, Option<Turned>),
        then: impl FnOnce(),
    ) -> io::Result<Option<u64>> {
        let _writing = self.writing();
        let state = self.lock();
        let (mut next, version) = (state.epoch.with_admitted(identity), state.version);
        next.turned = turned.or(next.turned);
        if next == state.epoch {
            then();
            return Ok(Some(next.epoch));
        }
        if epoch != state.epoch.epoch {
            return Ok(None);
        }
        next.epoch += 1;
        let number = next.epoch;
        drop(state);
        Ok(self.write_and_count(next, version, then)?.then_some(number))
    }

    /// Has it count once it is on disk, unless something else counts by then: false. What that is, is written after this.
    fn write_and_count(&self, next: Epoch, version: u64, then: impl FnOnce()) -> io::Result<bool> {
        self.write(&next)?;
        let mut state = self.lock();
        if state.version != version {
            state.on_disk = None;
            return Ok(false);
        }
        *state = Counts { epoch: next, version: version + 1, on_disk: Some(version + 1) };
        then();
        Ok(true)
    }

    /// Where a move had turned the relay to counts no more. The epoch stays: nobody is acknowledged who was not before. Waits for the disk.
    pub(crate) fn forget_turned(&self) -> io::Result<()> {
        {
            let mut state = self.lock();
            state.epoch.turned = None;
            state.version += 1;
        }
        self.keep().map(drop)
    }

    fn write(&self, next: &Epoch) -> io::Result<()> {
        self.root.check()?;
        let root = self.root.path();
        let text = toml::to_string(next).map_err(io::Error::other)?;
        let new = root.join("epoch.toml.new");
        let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&new)?;
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        // Until here the disk has what it had.
        let placed = fs::rename(&new, root.join(FILE)).and_then(|()| sync_folder(root));
        if placed.is_err() {
            // It may have it all the same.
            self.lock().on_disk = None;
        }
        placed
    }
}

impl Epoch {
    /// With this source in place of the last one.
    fn with_source(&self, identity: &str) -> Self {
        let mut next = self.clone();
        let admitted = next.admitted.take().filter(|admitted| admitted != identity);
        let old = [next.source.replace(identity.to_owned()), admitted];
        if next.refuse_all(old) {
            next.epoch += 1;
        }
        next
    }

    /// Not cut, and with this source admitted.
    fn with_admitted(&self, identity: Option<&str>) -> Self {
        let mut next = Self { is_cut: false, is_by_move: false, ..self.clone() };
        if let Some(identity) = identity {
            next.refused.retain(|refused| refused != identity);
            let is_source = next.source.as_deref() == Some(identity);
            let new = (!is_source).then(|| identity.to_owned());
            let other = std::mem::replace(&mut next.admitted, new).filter(|other| other != identity);
            next.refuse_all([other, None]);
        }
        next
    }

    /// True if there is one among them.
    fn refuse_all(&mut self, identities: [Option<String>; 2]) -> bool {
        identities.into_iter().flatten().map(|identity| self.refuse(identity)).count() > 0
    }

    fn refuse(&mut self, identity: String) {
        self.refused.retain(|refused| *refused != identity);
        self.refused.push(identity);
        if self.refused.len() > MOST_REFUSED {
            self.refused.remove(0);
        }
    }
}

#[cfg(test)]
mod tests;
