//! What sessions have found out about replicas by waiting for them, until the monitor knows it, too. One for each worker.

use std::cell::RefCell;
use std::time::{Duration, Instant};

use delphinus_topology::BackendId;
use delphinus_wire::gtid::GtidSet;

/// How long nobody waits again for a replica that was waited for in vain.
const LATE: Duration = Duration::from_secs(1);

/// What was found out.
#[derive(Debug, Default)]
pub(crate) struct Reached {
    had: RefCell<Vec<Had>>,
    late: RefCell<Vec<(BackendId, Instant)>>,
}

#[derive(Debug)]
struct Had {
    backend: BackendId,
    set: GtidSet,
    /// The number of its last probe then: the one after the next has the set.
    probe: u64,
}

impl Reached {
    /// True if it was found to have all of `set`.
    pub(crate) fn has(&self, backend: BackendId, set: &GtidSet) -> bool {
        self.had.borrow().iter().any(|had| had.backend == backend && had.set.contains(set))
    }

    /// It has all of `set`; `probe` is the number of its last probe.
    pub(crate) fn note(&self, backend: BackendId, set: GtidSet, probe: u64) {
        let mut all = self.had.borrow_mut();
        self.late.borrow_mut().retain(|(late, _)| *late != backend);
        match all.iter_mut().find(|had| had.backend == backend) {
            Some(had) if probe < had.probe + 2 => had.set.merge(&set),
            Some(had) => *had = Had { backend, set, probe },
            None => all.push(Had { backend, set, probe }),
        }
    }

    /// It was waited for in vain.
    pub(crate) fn note_late(&self, backend: BackendId, now: Instant) {
        self.late.borrow_mut().push((backend, now + LATE));
    }

    /// True if it was waited for in vain a moment ago.
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

    #[test]
    fn what_was_reached_is_known_of_that_replica_until_the_probes_tell_more() {
        let reached = Reached::default();
        reached.note(ONE, set("0-1-5"), 1);
        reached.note(ONE, set("1-1-2"), 2);
        assert!(reached.has(ONE, &set("0-1-5,1-1-2")) && !reached.has(BackendId(2), &set("0-1-5")));
        reached.note(ONE, set("0-1-9"), 3);
        assert!(reached.has(ONE, &set("0-1-9")) && !reached.has(ONE, &set("1-1-2")));
    }

    #[test]
    fn nobody_waits_for_a_late_one_for_a_while() {
        let (reached, now) = (Reached::default(), Instant::now());
        reached.note_late(ONE, now);
        assert!(reached.is_late(ONE, now) && !reached.is_late(BackendId(2), now));
        assert!(!reached.is_late(ONE, now + LATE));
        reached.note_late(ONE, now);
        reached.note(ONE, set("0-1-1"), 1);
        assert!(!reached.is_late(ONE, now));
    }
}
