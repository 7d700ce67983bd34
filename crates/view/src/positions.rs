//! What each backend has executed, from probe to probe, and the writes that this proxy has sent. Beside the snapshot,
//! which would have to be made anew with every probe.
//!
//! Owns: the newest of each. What follows from them for the cluster is decided in `topology`, for a session in `session`.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arc_swap::{ArcSwapOption, Guard};
use delphinus_topology::BackendId;
use delphinus_wire::gtid::GtidSet;

/// Shared by the monitor, which writes the positions, and the workers, which count writes.
#[derive(Debug)]
pub struct Positions {
    backends: Box<[Known]>,
    begun: AtomicU64,
    ended: AtomicU64,
}

#[derive(Debug, Default)]
struct Known {
    /// How many probes have told a position.
    probes: AtomicU64,
    position: ArcSwapOption<GtidSet>,
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

    /// Takes in what a probe has brought.
    pub fn learn(&self, backend: BackendId, position: Option<&Arc<GtidSet>>) {
        let Some(known) = self.backends.get(backend.index()) else { return };
        known.position.store(position.cloned());
        if position.is_none() {
            return;
        }
        // After the position: whoever sees the number finds this position, or a newer one.
        known.probes.fetch_add(1, Ordering::Release);
    }

    /// The number of the last probe of a backend. What was read there before now is in the position of the probe that has
    /// this number plus 2: that one begins after the one that may be running.
    #[inline]
    pub fn probe(&self, backend: BackendId) -> u64 {
        self.backends.get(backend.index()).map_or(0, |known| known.probes.load(Ordering::Acquire))
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
