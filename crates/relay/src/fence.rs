//! Which source may be acknowledged: what makes it safe to promote another server once a relay has cut its primary off.
//!
//! Owns: the file `epoch.toml` in the relay's folder, and the word that each acknowledgement asks. A restarted relay knows from the file
//! whom it has cut off. The file is durable before a cut is reported.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

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
    /// Sources that were cut off.
    pub refused: Vec<String>,
}

/// The fence of one relay.
#[derive(Debug)]
pub(crate) struct Fence {
    root: Anchor,
    state: Mutex<Epoch>,
    /// The epoch in which acknowledgements may leave; changes before the file does.
    open: AtomicU64,
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
        let state = match fs::read_to_string(root.join(FILE)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Epoch::default(),
            text => toml::from_str(&text?).map_err(io::Error::other)?,
        };
        Ok(Self { root: Anchor::of(root)?, state: Mutex::new(state), open: AtomicU64::new(CLOSED) })
    }

    /// What counts now: what is on disk, or a cut that the disk has not taken.
    pub(crate) fn epoch(&self) -> Epoch {
        self.lock().clone()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Epoch> {
        self.state.lock().expect("invariant: no panic under this lock")
    }

    /// A connection to this source may be acknowledged on from now on, in the epoch that is given. Another source than the last one
    /// ends the last one's epoch: it is refused from then on.
    pub(crate) fn enter(&self, identity: &str) -> io::Result<Result<u64, Refusal>> {
        let mut state = self.lock();
        if state.is_cut {
            return Ok(Err(Refusal::Cut(state.epoch)));
        }
        if state.source.as_deref() != Some(identity) {
            if state.refused.iter().any(|refused| refused == identity) {
                return Ok(Err(Refusal::WasCutOff(state.epoch)));
            }
            let mut next = state.clone();
            if let Some(old) = next.source.replace(identity.to_owned()) {
                next.refuse(old);
                next.epoch += 1;
            }
            self.write(&next)?;
            *state = next;
        }
        self.open.store(state.epoch, Ordering::SeqCst);
        Ok(Ok(state.epoch))
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
        self.cut_and(|| {})
    }

    /// Cuts the source off: no acknowledgement leaves from now on, in this process or a later one. Gives the new epoch, once it is on
    /// disk. `then` is called once the cut counts in this process, before the disk has it. It counts for as long as the process lives even if
    /// the disk does not take it.
    pub(crate) fn cut_and(&self, then: impl FnOnce()) -> io::Result<u64> {
        self.open.store(CLOSED, Ordering::SeqCst);
        let mut state = self.lock();
        // Again: a connection may have entered in between.
        self.open.store(CLOSED, Ordering::SeqCst);
        let mut next = state.clone();
        if let Some(old) = next.source.take() {
            next.refuse(old);
        }
        next.is_cut = true;
        next.epoch += 1;
        *state = next;
        then();
        self.write(&state)?;
        Ok(state.epoch)
    }

    /// Ends a cut. With the identity of a source, that source may be acknowledged even if it was cut off before; without, any that was
    /// not.
    pub(crate) fn admit(&self, identity: Option<&str>) -> io::Result<u64> {
        let epoch = self.admit_in(None, identity)?;
        Ok(epoch.expect("invariant: without an epoch none is another one"))
    }

    /// The same, if the epoch is still this one; `None`: it is not.
    pub(crate) fn admit_in(&self, epoch: Option<u64>, identity: Option<&str>) -> io::Result<Option<u64>> {
        let mut state = self.lock();
        if epoch.is_some_and(|epoch| epoch != state.epoch) {
            return Ok(None);
        }
        let mut next = state.clone();
        next.is_cut = false;
        if let Some(identity) = identity {
            next.refused.retain(|refused| refused != identity);
        }
        if next != *state {
            next.epoch += 1;
            self.write(&next)?;
            *state = next;
        }
        Ok(Some(state.epoch))
    }

    fn write(&self, next: &Epoch) -> io::Result<()> {
        self.root.check()?;
        let root = self.root.path();
        let text = toml::to_string(next).map_err(io::Error::other)?;
        let new = root.join("epoch.toml.new");
        let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&new)?;
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        fs::rename(&new, root.join(FILE))?;
        sync_folder(root)
    }
}

impl Epoch {
    fn refuse(&mut self, identity: String) {
        self.refused.retain(|refused| *refused != identity);
        self.refused.push(identity);
        if self.refused.len() > MOST_REFUSED {
            self.refused.remove(0);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;

    fn place(name: &str) -> PathBuf {
        let path = std::env::temp_dir().join(format!("delphinus-fence-{}-{name}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(&path).unwrap();
        path
    }

    #[test]
    fn a_word_that_was_said_before_a_cut_ends_it_no_more() {
        let place = place("late");
        let fence = Fence::open(&place).unwrap();
        fence.enter("a").unwrap().unwrap();
        let cut = fence.cut().unwrap();
        assert_eq!(fence.cut().unwrap(), cut + 1);
        assert_eq!(fence.admit_in(Some(cut), Some("a")).unwrap(), None);
        assert!(fence.epoch().is_cut);
        assert_eq!(fence.admit_in(Some(cut + 1), Some("a")).unwrap(), Some(cut + 2));
        assert_eq!(fence.enter("a").unwrap(), Ok(cut + 2));
        fs::remove_dir_all(&place).unwrap();
    }

    #[test]
    fn a_source_that_was_cut_off_stays_cut_off() {
        let place = place("cut");
        let fence = Fence::open(&place).unwrap();
        assert!(!fence.is_open(0));
        let epoch = fence.enter("a").unwrap().unwrap();
        assert!(fence.is_open(epoch));
        assert_eq!(fence.cut().unwrap(), 1);
        assert!(!fence.is_open(epoch) && !fence.is_open(1));
        for fence in [fence, Fence::open(&place).unwrap()] {
            assert_eq!(fence.enter("a").unwrap(), Err(Refusal::Cut(1)));
            assert_eq!(fence.enter("b").unwrap(), Err(Refusal::Cut(1)));
        }
        let fence = Fence::open(&place).unwrap();
        fence.admit(None).unwrap();
        assert_eq!(fence.enter("a").unwrap(), Err(Refusal::WasCutOff(2)));
        let epoch = fence.enter("b").unwrap().unwrap();
        assert!(fence.is_open(epoch));
        fence.leave();
        assert!(!fence.is_open(epoch));
        // A planned move back.
        fence.cut().unwrap();
        fence.admit(Some("a")).unwrap();
        assert!(fence.enter("a").unwrap().is_ok());
        assert_eq!(Fence::open(&place).unwrap().epoch().refused, ["b"]);
        fs::remove_dir_all(place).unwrap();
    }

    #[test]
    fn another_source_ends_the_last_ones_epoch() {
        let place = place("change");
        let fence = Fence::open(&place).unwrap();
        let old = fence.enter("a").unwrap().unwrap();
        let new = fence.enter("b").unwrap().unwrap();
        assert!(new > old && fence.is_open(new) && !fence.is_open(old));
        assert_eq!(Fence::open(&place).unwrap().enter("a").unwrap(), Err(Refusal::WasCutOff(new)));
        fs::remove_dir_all(place).unwrap();
    }

    #[test]
    fn a_cut_that_is_not_on_disk_counts_all_the_same() {
        let place = place("failed");
        let fence = Fence::open(&place).unwrap();
        fence.enter("a").unwrap().unwrap();
        // Where the new file would be.
        let in_the_way = place.join("epoch.toml.new");
        fs::create_dir(&in_the_way).unwrap();
        let mut is_told = false;
        assert!(fence.cut_and(|| is_told = true).is_err());
        assert!(is_told, "the connection is ended before the disk is asked");
        // The receiver comes again.
        assert_eq!(fence.enter("a").unwrap(), Err(Refusal::Cut(1)));
        assert!(fence.admit(Some("a")).is_err());
        assert_eq!(
            fence.enter("a").unwrap(),
            Err(Refusal::Cut(1)),
            "an admission that is not on disk does not count"
        );
        fs::remove_dir(in_the_way).unwrap();
        assert_eq!(fence.cut().unwrap(), 2);
        assert_eq!(Fence::open(&place).unwrap().enter("a").unwrap(), Err(Refusal::Cut(2)));
        fs::remove_dir_all(place).unwrap();
    }

    #[test]
    fn a_cut_that_is_not_on_disk_is_not_reported() {
        let place = place("lost");
        let fence = Fence::open(&place).unwrap();
        let epoch = fence.enter("a").unwrap().unwrap();
        let away = place.with_extension("away");
        fs::rename(&place, &away).unwrap();
        assert!(fence.cut().is_err());
        assert!(!fence.is_open(epoch), "no acknowledgement leaves all the same");
        // Another disk is there: a relay that is started when the old one is back would not know.
        fs::create_dir(&place).unwrap();
        assert!(fence.cut().is_err());
        fs::remove_dir_all(place).unwrap();
        fs::remove_dir_all(away).unwrap();
    }
}
