//! The backend that is not `read_only` is the primary. Whoever moves the roles (a failover tool, a managed service, a
//! script) says so on the servers, and nothing else has to be told.

use std::time::Instant;

use super::judge::judge;
use super::roles::Verdict;
use crate::backend::Backend;
use crate::origin::Origin;
use crate::snapshot::Snapshot;

/// Exactly one writable backend is the primary. With two there is none: which one is right is not for the proxy to guess.
/// It is clear again when all but one are read-only, are out of use by an operator's word, or do not answer any more, or when
/// what they have executed tells which one is right.
pub(super) fn verdict(next: &mut Snapshot, now: Instant) -> Verdict {
    if !next.settled && next.primary().is_none() {
        // The one that has not been asked yet may be the primary. Beside a primary it is not, so that one that was added or has moved
        // keeps no role where it has gone from.
        return Verdict::Keep;
    }
    let contenders: Vec<_> = next.backends.iter().filter(|backend| is_contender(backend)).collect();
    match contenders.as_slice() {
        &[&Backend { id, .. }] => {
            next.contest.since = None;
            Verdict::Primary(id)
        }
        [] => {
            next.contest.since = None;
            nobody(next)
        }
        several => {
            // Who was asked a moment ago may have given the role up since: a planned switch looks like this, too.
            let since = next.contest.since.unwrap_or(now);
            let is_conflict = several.iter().all(|one| one.tally.heard_at.is_some_and(|at| at > since));
            if is_conflict && let Some(right) = judge(several, next.contest.holder) {
                next.contest.since = None;
                return Verdict::Primary(right);
            }
            let names: Vec<_> = several.iter().map(|one| &*one.name).collect();
            let names = names.join(", ");
            let reason = if is_conflict {
                format!("more than one backend takes writes: {names}; set read_only on all but one of them")
            } else {
                format!("the primary's role is being moved: {names} took writes when they were last asked")
            };
            next.contest.since = Some(since);
            Verdict::Nobody { reason, is_conflict }
        }
    }
}

fn is_contender(backend: &Backend) -> bool {
    let has_answered = backend.facts.is_some();
    // What was found is only read from: nobody has said that it may become the primary.
    has_answered
        && backend.origin == Origin::Configured
        && !backend.read_only
        && backend.tally.is_alive()
        && backend.tally.deposed.is_none()
        && !backend.is_offline()
}

fn nobody(next: &Snapshot) -> Verdict {
    let primary = next.primary();
    let has_given_up = |one: &Backend| one.tally.is_alive() && one.read_only && !one.is_offline();
    if primary.is_some_and(|primary| !has_given_up(primary)) {
        // It is down or out of use; nobody has taken its place.
        return Verdict::Keep;
    }
    let is_fenced = |backend: &&Backend| backend.tally.is_alive() && backend.tally.deposed.is_some();
    Verdict::nobody(match (next.backends.iter().find(is_fenced), primary) {
        (Some(fenced), _) => format!("no backend takes writes but {}, which is fenced", fenced.name),
        (None, Some(one)) => format!("{} has become read_only, and no other backend takes writes", one.name),
        (None, None) => "no backend takes writes: all that answer are read_only".to_owned(),
    })
}
