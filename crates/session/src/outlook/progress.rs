//! How far each backend is: what the monitor's probes have told, and what sessions have found out by waiting for a replica,
//! until the probes tell that, too. What a session has to find is decided in `fresh`.

use std::cell::RefCell;
use std::ops::Deref;
use std::sync::Arc;
use std::time::{Duration, Instant};

use delphinus_topology::{BackendId, Snapshot};
use delphinus_view::{Positions, Write};
use delphinus_wire::gtid::GtidSet;

/// How long no session waits again for a replica that was waited for in vain.
const LATE: Duration = Duration::from_secs(1);

/// What is known of the progress of all backends.
#[derive(Debug)]
pub(crate) struct Progress {
    positions: Arc<Positions>,
    found: RefCell<Vec<Found>>,
    late: RefCell<Vec<(BackendId, Instant)>>,
}

/// What a session has found a replica to have.
#[derive(Debug)]
struct Found {
    backend: BackendId,
    set: GtidSet,
    /// The number of its last probe then: the one after the next has the set.
    probe: u64,
}

impl Progress {
    /// What these probes tell, and nothing else yet.
    pub(crate) fn new(positions: Arc<Positions>) -> Self {
        Self { positions, found: RefCell::default(), late: RefCell::default() }
    }

    /// Counts a write, until the guard is dropped.
    #[inline]
    pub(crate) fn write(&self) -> Write {
        self.positions.write()
    }

    /// How many writes have begun.
    #[inline]
    pub(crate) fn writes(&self) -> u64 {
        self.positions.writes()
    }

    /// True while nothing is being written, and every backend has everything.
    #[inline]
    pub(crate) fn is_at_rest(&self, snapshot: &Snapshot) -> bool {
        snapshot.rest.is_some_and(|rest| rest.is_even && rest.writes == self.writes())
    }

    /// True while this backend has everything that was written through the proxy.
    pub(crate) fn has_all(&self, backend: BackendId, snapshot: &Snapshot) -> bool {
        let is_there = snapshot.primary().is_some_and(|primary| primary.id == backend)
            || snapshot.readable_replicas().any(|replica| replica.id == backend);
        is_there && self.is_at_rest(snapshot)
    }

    /// How many writes have begun, if all of them have ended and this backend has them: it is the primary, or every backend has everything.
    pub(crate) fn writes_of_all(&self, backend: BackendId, snapshot: &Snapshot) -> Option<u64> {
        let writes = self.positions.writes_at_rest()?;
        let is_primary = snapshot.primary().is_some_and(|primary| primary.id == backend);
        (is_primary || self.has_all(backend, snapshot)).then_some(writes)
    }

    /// The number of a backend's last probe. What was read there before now is in the position of the probe that has this
    /// number plus 2: that one begins after the one that may be running.
    #[inline]
    pub(crate) fn probe(&self, backend: BackendId) -> u64 {
        self.positions.probe(backend)
    }

    /// What a backend had executed when it was probed last.
    pub(crate) fn probed(&self, backend: BackendId) -> impl Deref<Target = Option<Arc<GtidSet>>> {
        self.positions.of(backend)
    }

    /// The same of the server that has had the probe with this number: another one may be there now.
    pub(crate) fn last_of(&self, backend: BackendId, probe: u64) -> Option<Arc<GtidSet>> {
        self.positions.last_of(backend, probe)
    }

    /// True if a backend is known to have executed all of `set`.
    pub(crate) fn has(&self, backend: BackendId, set: &GtidSet) -> bool {
        if self.positions.of(backend).as_ref().is_some_and(|own| own.contains(set)) {
            return true;
        }
        let probe = self.probe(backend);
        // Once the probes tell it, they alone count: what was found may be of a server that was there before.
        let is_of_now = |found: &Found| found.backend == backend && probe < found.probe + 2;
        self.found.borrow().iter().any(|found| is_of_now(found) && found.set.contains(set))
    }

    /// A session has waited on this replica until it had all of `set`.
    pub(crate) fn found(&self, backend: BackendId, set: GtidSet) {
        let probe = self.probe(backend);
        let mut all = self.found.borrow_mut();
        self.late.borrow_mut().retain(|(late, _)| *late != backend);
        match all.iter_mut().find(|found| found.backend == backend) {
            Some(found) if probe < found.probe + 2 => found.set.merge(&set),
            Some(found) => *found = Found { backend, set, probe },
            None => all.push(Found { backend, set, probe }),
        }
    }

    /// A session has waited on this replica in vain.
    pub(crate) fn found_late(&self, backend: BackendId, now: Instant) {
        self.late.borrow_mut().push((backend, now + LATE));
    }

    /// True if it is not worth while to wait for this replica.
    pub(crate) fn is_late(&self, backend: BackendId, now: Instant) -> bool {
        let mut late = self.late.borrow_mut();
        late.retain(|(_, until)| *until > now);
        late.iter().any(|(late, _)| *late == backend)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: BackendId = BackendId(1);

    fn set(text: &str) -> GtidSet {
        GtidSet::parse(text).unwrap()
    }

    fn probed(positions: &Positions, text: &str) {
        positions.learn(ONE, Some(&Arc::new(set(text))));
    }

    #[test]
    fn what_was_waited_for_is_known_of_that_replica_until_the_probes_tell_more() {
        let positions = Arc::new(Positions::new(3));
        let progress = Progress::new(positions.clone());
        probed(&positions, "0-1-1");
        progress.found(ONE, set("0-1-5"));
        probed(&positions, "0-1-1");
        progress.found(ONE, set("1-1-2"));
        assert!(progress.has(ONE, &set("0-1-5,1-1-2")) && !progress.has(BackendId(2), &set("0-1-5")));
        probed(&positions, "0-1-1");
        progress.found(ONE, set("0-1-9"));
        assert!(progress.has(ONE, &set("0-1-9")) && !progress.has(ONE, &set("1-1-2")));
    }

    #[test]
    fn what_was_waited_for_on_a_server_is_not_had_by_the_next_one() {
        let positions = Arc::new(Positions::new(3));
        let progress = Progress::new(positions.clone());
        probed(&positions, "0-1-1");
        progress.found(ONE, set("0-1-5"));
        assert!(progress.has(ONE, &set("0-1-5")));
        positions.begin_anew(ONE);
        assert!(!progress.has(ONE, &set("0-1-5")) && !progress.has(ONE, &set("0-1-1")));
        probed(&positions, "0-1-3");
        assert!(!progress.has(ONE, &set("0-1-5")));
    }

    #[test]
    fn what_probes_have_told_is_had() {
        let positions = Arc::new(Positions::new(3));
        let progress = Progress::new(positions.clone());
        assert!(!progress.has(ONE, &set("0-1-5")));
        probed(&positions, "0-1-5");
        assert!(progress.has(ONE, &set("0-1-5")) && !progress.has(ONE, &set("0-1-6")));
        assert!(!progress.has(BackendId(2), &set("0-1-5")));
    }

    #[test]
    fn no_session_waits_for_a_late_one_for_a_while() {
        let (progress, now) = (Progress::new(Arc::new(Positions::new(3))), Instant::now());
        progress.found_late(ONE, now);
        assert!(progress.is_late(ONE, now) && !progress.is_late(BackendId(2), now));
        assert!(!progress.is_late(ONE, now + LATE));
        progress.found_late(ONE, now);
        progress.found(ONE, set("0-1-1"));
        assert!(!progress.is_late(ONE, now));
    }
}
