//! Whether the cluster is at rest: nothing is being written, and who has all that was written before. Then a session may
//! read anywhere and never goes back in time.
//!
//! Owns: how that is told from probes. Must not know of sessions.

use std::sync::Arc;

use delphinus_wire::gtid::GtidSet;

use crate::backend::{Backend, BackendId};
use crate::observation::{Answer, Observation, ProbeOutcome};
use crate::snapshot::Snapshot;

/// The primary had the same position in two probes, and this proxy was writing nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rest {
    /// How many writes this proxy had sent by then: as long as it is not more, the rest goes on.
    pub writes: u64,
    /// All replicas that can be read have everything that the primary had.
    pub is_even: bool,
}

/// What the last probe of the primary said.
#[derive(Debug, Clone, Default)]
pub(crate) struct Pulse {
    of: Option<BackendId>,
    position: Option<Arc<GtidSet>>,
    writes: Option<u64>,
    search: Search,
}

/// The search for a replica that has not got everything. It goes on where it was left, so that an answer costs no more where
/// replicas are many.
#[derive(Debug, Clone, Default)]
struct Search {
    /// What they are to have.
    position: Option<Arc<GtidSet>>,
    /// All before this one have it, or need not.
    next: usize,
}

impl Search {
    /// True if all of `backends` that can be read have `position`, and answer by it: a Delphinus among them may have kept what is older. `whom`: whose position may have changed since the last time;
    /// `None`: whoever's, and who can be read.
    fn is_even(
        &mut self,
        backends: &[Backend],
        position: &Arc<GtidSet>,
        whom: Option<&[Observation]>,
    ) -> bool {
        let is_same = self.position.as_ref().is_some_and(|own| Arc::ptr_eq(own, position) || own == position);
        if whom.is_none() || !is_same {
            *self = Self { position: Some(position.clone()), next: 0 };
        }
        let is_well = |backend: &Backend| {
            !backend.is_readable_replica()
                || backend.position.as_ref().is_some_and(|own| own.contains(position))
                    && !backend.is_delphinus()
        };
        for seen in whom.unwrap_or_default() {
            let at = seen.backend().index();
            if at < self.next && backends.get(at).is_some_and(|backend| !is_well(backend)) {
                self.next = at;
            }
        }
        while backends.get(self.next).is_some_and(is_well) {
            self.next += 1;
        }
        self.next >= backends.len()
    }
}

/// Takes in how a probe of `backend` has ended; true if a rest may begin or end with it.
pub(crate) fn hear(next: &mut Snapshot, backend: BackendId, outcome: &ProbeOutcome) -> bool {
    match outcome {
        ProbeOutcome::Answered(answer) => feel(next, backend, answer),
        _ => miss(next, backend),
    }
}

/// It has answered.
fn feel(next: &mut Snapshot, backend: BackendId, answer: &Answer) -> bool {
    if next.primary().is_none_or(|primary| primary.id != backend) {
        return false;
    }
    let pulse = &mut next.pulse;
    let is_same = pulse.of == Some(backend) && pulse.position.is_some() && pulse.position == answer.position;
    let writes = answer.writes.filter(|_| is_same);
    let is_news = !is_same || writes != pulse.writes;
    (pulse.of, pulse.writes) = (Some(backend), writes);
    pulse.position.clone_from(&answer.position);
    is_news
}

/// It was asked in vain: what others write there from now on is not seen, as long as it lets nobody in who asks.
fn miss(next: &mut Snapshot, backend: BackendId) -> bool {
    let pulse = &mut next.pulse;
    if pulse.of != Some(backend) {
        return false;
    }
    (pulse.of, pulse.position, pulse.writes) = (None, None, None);
    true
}

/// The rest that follows from what is known; true if that is news. `whom`: those that were observed; `None`: somebody may be in
/// another state.
pub(crate) fn settle(next: &mut Snapshot, whom: Option<&[Observation]>) -> bool {
    let primary = next.primary().filter(|primary| primary.is_up()).map(|primary| primary.id);
    let (position, writes) = match &next.pulse {
        pulse if pulse.of.is_none() || pulse.of != primary => (None, None),
        pulse => (pulse.position.clone(), pulse.writes),
    };
    let rest = if let (Some(position), Some(writes)) = (&position, writes) {
        let is_even = next.pulse.search.is_even(&next.backends, position, whom);
        Some(Rest { writes, is_even })
    } else {
        // What changes from here on is not followed.
        next.pulse.search = Search::default();
        None
    };
    // A primary that is away has not unlearnt to tell.
    let tells_gtids = match next.primary().filter(|primary| primary.is_up() && primary.facts.is_some()) {
        Some(primary) => primary.position.is_some(),
        None => next.tells_gtids,
    };
    let is_news = rest != next.rest || tells_gtids != next.tells_gtids;
    (next.rest, next.tells_gtids) = (rest, tells_gtids);
    is_news
}

#[cfg(test)]
mod tests;
