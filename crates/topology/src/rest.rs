//! Whether the cluster is at rest: nothing is being written, and who has all that was written before. Then a session may
//! read anywhere and never goes back in time.
//!
//! Owns: how that is told from probes. Must not know of sessions.

use std::sync::Arc;

use delphinus_wire::gtid::GtidSet;

use crate::backend::BackendId;
use crate::observation::Answer;
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
}

/// Takes in what `backend` has answered; true if a rest may begin or end with it.
pub(crate) fn feel(next: &mut Snapshot, backend: BackendId, answer: &Answer) -> bool {
    if next.primary().is_none_or(|primary| primary.id != backend) {
        return false;
    }
    let pulse = &mut next.pulse;
    let is_same = pulse.of == Some(backend) && pulse.position.is_some() && pulse.position == answer.position;
    let writes = answer.writes.filter(|_| is_same);
    let is_news = !is_same || writes != pulse.writes;
    *pulse = Pulse { of: Some(backend), position: answer.position.clone(), writes };
    is_news
}

/// The rest that follows from what is known; true if that is news.
pub(crate) fn settle(next: &mut Snapshot) -> bool {
    let primary = next.primary().filter(|primary| primary.is_up()).map(|primary| primary.id);
    let (position, writes) = match &next.pulse {
        pulse if pulse.of.is_none() || pulse.of != primary => (None, None),
        pulse => (pulse.position.clone(), pulse.writes),
    };
    let has_all = |position: &GtidSet| {
        next.readable_replicas()
            .all(|replica| replica.position.as_ref().is_some_and(|own| own.contains(position)))
    };
    let rest = match (&position, writes) {
        (Some(position), Some(writes)) => Some(Rest { writes, is_even: has_all(position) }),
        _ => None,
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
