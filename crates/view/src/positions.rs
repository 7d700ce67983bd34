//! What each backend has executed, from probe to probe, and the writes that this proxy has sent. Beside the snapshot,
//! which would have to be made anew with every probe.
//!
//! Owns: the newest of each. What follows from them for the cluster is decided in `topology`, for a session in `session`.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arc_swap::{ArcSwapOption, Guard};
use delphinus_topology::BackendId;
use delphinus_wire::gtid::GtidSet;

/// The number of a server's first probe is above all those of the servers that were behind its name before.
const TENURE: u64 = 1 << 32;

/// Shared by the monitor, which writes the positions, and the workers, which count writes.
#[derive(Debug)]
pub struct Positions {
    backends: Box<[Known]>,
    begun: AtomicU64,
    ended: AtomicU64,
}

#[derive(Debug, Default)]
struct Known {
    /// How many probes have told a position; and a [`TENURE`] for each server that was there before.
    probes: AtomicU64,
    position: ArcSwapOption<GtidSet>,
    /// What those had when they were probed last.
    former: ArcSwapOption<GtidSet>,
}

impl Known {
    /// What was heard is of another server, or of a time that was undone.
    fn begin_anew(&self) {
        if let Some(mut former) = self.position.load_full() {
            if let Some(before) = &*self.former.load() {
                Arc::make_mut(&mut former).merge(before);
            }
            self.former.store(Some(former));
        }
        let tenure = self.probes.load(Ordering::Relaxed) / TENURE + 1;
        // Before the position goes: see `last_of`.
        self.probes.store(tenure * TENURE, Ordering::Release);
        self.position.store(None);
    }
}

/// How many writes this proxy has begun and ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Writes {
    /// Begun.
    pub begun: u64,
    /// Of those, ended.
    pub ended: u64,
}

/// A write on its way. While there is one, the cluster is not at rest.
#[derive(Debug)]
pub struct Write(Arc<Positions>);

impl Drop for Write {
    fn drop(&mut self) {
        self.0.ended.fetch_add(1, Ordering::Release);
    }
}

impl Positions {
    /// None known yet.
    pub fn new(backends: usize) -> Self {
        let backends = (0..backends).map(|_| Known::default()).collect();
        Self { backends, begun: AtomicU64::new(0), ended: AtomicU64::new(0) }
    }

    /// Counts a write, until the guard is dropped.
    pub fn write(self: &Arc<Self>) -> Write {
        self.begun.fetch_add(1, Ordering::AcqRel);
        Write(self.clone())
    }

    /// How many writes have begun.
    #[inline]
    pub fn writes(&self) -> u64 {
        self.begun.load(Ordering::Acquire)
    }

    /// How many writes there have been, if none is running.
    pub fn writes_at_rest(&self) -> Option<u64> {
        let Writes { begun, ended } = self.count();
        (begun == ended).then_some(begun)
    }

    /// How many writes have begun and ended.
    pub fn count(&self) -> Writes {
        // In this order: one that begins and ends between the two must not be missed.
        let ended = self.ended.load(Ordering::Acquire);
        let begun = self.begun.load(Ordering::Acquire);
        Writes { begun, ended }
    }

    /// Takes in what a probe has brought. A server whose position goes back is another one, or was set back (`RESET MASTER`, a backup):
    /// what was seen there before need not be there.
    pub fn learn(&self, backend: BackendId, position: Option<&Arc<GtidSet>>) {
        let Some(known) = self.backends.get(backend.index()) else { return };
        let before = known.position.load_full();
        let goes_back =
            |before: &Arc<GtidSet>, now: &Arc<GtidSet>| !Arc::ptr_eq(before, now) && !now.contains(before);
        if before.as_ref().zip(position).is_some_and(|(before, now)| goes_back(before, now)) {
            known.begin_anew();
        }
        known.position.store(position.cloned());
        if position.is_none() {
            return;
        }
        // After the position: whoever sees the number finds this position, or a newer one.
        known.probes.fetch_add(1, Ordering::Release);
    }

    /// Another server is behind the name of this backend, or none: what was heard of the one before does not count for it.
    pub fn begin_anew(&self, backend: BackendId) {
        if let Some(known) = self.backends.get(backend.index()) {
            known.begin_anew();
        }
    }

    /// The number of the last probe of a backend. What was read there before now is in the position of the probe that has
    /// this number plus 2: that one begins after the one that may be running.
    #[inline]
    pub fn probe(&self, backend: BackendId) -> u64 {
        self.backends.get(backend.index()).map_or(0, |known| known.probes.load(Ordering::Acquire))
    }

    /// What the server had executed when it was probed last that has had the probe with this number: it may be another one that is there
    /// now. Of several that are gone, all that they had.
    pub fn last_of(&self, backend: BackendId, probe: u64) -> Option<Arc<GtidSet>> {
        let known = self.backends.get(backend.index())?;
        let position = known.position.load_full();
        // After the position: whoever finds that of another server finds the number of that one, too.
        if known.probes.load(Ordering::Acquire) / TENURE == probe / TENURE {
            position
        } else {
            known.former.load_full()
        }
    }

    /// What a backend had executed when it was probed last.
    pub fn of(&self, backend: BackendId) -> Guard<Option<Arc<GtidSet>>> {
        self.backends
            .get(backend.index())
            .map_or_else(|| Guard::from_inner(None), |known| known.position.load())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn writes_are_counted_until_they_end() {
        let positions = Arc::new(Positions::new(1));
        assert_eq!(positions.writes_at_rest(), Some(0));
        let one = positions.write();
        let other = positions.write();
        assert_eq!((positions.writes(), positions.writes_at_rest()), (2, None));
        drop(one);
        assert_eq!(positions.writes_at_rest(), None);
        drop(other);
        assert_eq!(positions.writes_at_rest(), Some(2));
    }

    #[test]
    fn what_a_server_had_is_known_of_it_alone() {
        let positions = Positions::new(1);
        let here = BackendId(0);
        let set = |text| Arc::new(GtidSet::parse(text).unwrap());
        positions.learn(here, Some(&set("0-1-9")));
        let first = positions.probe(here);
        positions.learn(here, Some(&set("0-1-10")));
        assert_eq!(positions.probe(here), first + 1, "it has gone on");
        // It goes back.
        positions.learn(here, Some(&set("0-1-7,1-1-1")));
        let second = positions.probe(here);
        assert!(second > first + 2, "what was seen in its last probe but one is not in this one");
        assert_eq!(positions.of(here).as_deref(), Some(&*set("0-1-7,1-1-1")));
        assert_eq!(positions.last_of(here, first), Some(set("0-1-10")));
        assert_eq!(positions.last_of(here, second), Some(set("0-1-7,1-1-1")));
        positions.begin_anew(here);
        assert!(positions.probe(here) > second + 2 && positions.of(here).is_none());
        assert_eq!(positions.last_of(here, second), Some(set("0-1-10,1-1-1")));
        assert_eq!(positions.last_of(here, positions.probe(here)), None);
        positions.learn(here, Some(&set("0-1-3")));
        assert_eq!(positions.last_of(here, positions.probe(here)), Some(set("0-1-3")));
    }

    #[test]
    fn positions_come_with_the_number_of_their_probe() {
        let positions = Positions::new(1);
        let (here, nowhere) = (BackendId(0), BackendId(7));
        assert_eq!((positions.probe(here), positions.of(here).is_none()), (0, true));
        let position = Arc::new(GtidSet::parse("0-1-3").unwrap());
        positions.learn(here, Some(&position));
        assert_eq!(positions.probe(here), 1);
        assert_eq!(positions.of(here).as_deref(), Some(&*position));
        positions.learn(nowhere, Some(&position));
        assert_eq!((positions.probe(nowhere), positions.of(nowhere).is_none()), (0, true));
    }
}
