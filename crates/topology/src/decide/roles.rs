//! Which backend has the role of the primary. Each kind of topology gives a verdict; what follows from it is here.

use std::sync::Arc;
use std::time::Instant;

use super::{Event, Kind, Settings, group_replication, read_only, static_roles};
use crate::backend::{Backend, BackendId, Fault, Role};
use crate::followers::Followers;
use crate::heartbeat::Heartbeat;
use crate::identity::Identity;
use crate::observation::Answer;
use crate::origin::Origin;
use crate::replication::Replication;
use crate::snapshot::Snapshot;

/// What is remembered of earlier decisions about the primary.
#[derive(Debug, Clone, Default)]
pub(crate) struct Contest {
    /// Since when it looks as if several backends took writes.
    pub(super) since: Option<Instant>,
    /// The lives of groups that backends have told of, and the counter of the newest view of each: what is older is not
    /// believed.
    pub(super) newest_views: Vec<(Arc<str>, u64)>,
    /// Members of a group have different words for its primary.
    pub(super) is_disputed: bool,
    /// Who was the primary last.
    pub(super) holder: Option<BackendId>,
    /// Servers that were backends, and that the configuration does not name any more; the last ones.
    pub(super) removed: Vec<Arc<Identity>>,
}

impl Contest {
    /// True while every answer counts, also one that repeats the last: it may be newer than what others say.
    pub(super) fn is_open(&self) -> bool {
        self.since.is_some() || self.is_disputed
    }
}

/// What a kind of topology makes of what is known.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// Nothing is known that would move a role.
    Keep,
    /// This one, and no other.
    Primary(BackendId),
    /// Nobody, and why.
    Nobody {
        reason: String,
        /// Two writers were seen, not only suspected.
        is_conflict: bool,
    },
}

impl Verdict {
    pub(super) fn nobody(reason: impl Into<String>) -> Self {
        Self::Nobody { reason: reason.into(), is_conflict: false }
    }
}

/// What is wrong with a backend that answered, beside its state.
pub(super) fn fault(backend: &Backend, answer: &Answer, settings: &Settings) -> Option<Fault> {
    let own = match settings.kind {
        Kind::Static => static_roles::fault(backend.role, answer),
        Kind::GroupReplication if answer.group.is_none() => Some(Fault::GroupUnseen(
            "it shows no group: it is in none, or the monitor's user may not read performance_schema".into(),
        )),
        Kind::ReadOnly | Kind::GroupReplication => None,
    };
    own.or_else(|| match (&answer.heartbeat, &answer.replication) {
        (Heartbeat::Faulty(text), _) => Some(Fault::Heartbeat(text.clone())),
        // What it says is not needed.
        (Heartbeat::Behind { .. }, _) => None,
        (_, Replication::Unseen(text)) if backend.role == Role::Replica => {
            Some(Fault::ReplicationUnseen(text.clone()))
        }
        _ => None,
    })
    .or_else(|| match &answer.followers {
        Followers::Unseen(text) if backend.role == Role::Primary => {
            Some(Fault::FollowersUnseen(text.clone()))
        }
        _ => None,
    })
}

/// Moves the roles as the kind of topology wants them; true if that changed anything.
pub(super) fn follow(next: &mut Snapshot, kind: Kind, now: Instant, events: &mut Vec<Event>) -> bool {
    let verdict = match kind {
        Kind::Static => Verdict::Keep,
        Kind::ReadOnly => read_only::verdict(next, now),
        Kind::GroupReplication => group_replication::verdict(next),
    };
    match verdict {
        Verdict::Keep => false,
        Verdict::Primary(id) => crown(next, id, events),
        Verdict::Nobody { reason, is_conflict } => dethrone(next, reason.into(), is_conflict, events),
    }
}

/// The server that a backend was is somewhere else, and its name leads to another one. Where roles are configured the name has the
/// role; elsewhere nobody knows what that one is.
pub(super) fn move_away(next: &mut Snapshot, id: BackendId, kind: Kind, at: Instant) {
    let Some(backend) = next.backends.get_mut(id.index()) else { return };
    let (role, capabilities) = (backend.role, backend.capabilities);
    let (wish, offline_since) = (backend.wish, backend.offline_since);
    // What the proxies have agreed on is about the name.
    let replaced = backend.tally.replaced.take();
    if role == Role::Primary {
        next.succession.end();
    }
    backend.forget(at);
    (backend.wish, backend.offline_since) = (wish, offline_since);
    backend.tally.replaced = replaced;
    // What clients are offered must not shrink to nothing until it is heard.
    backend.capabilities = capabilities;
    if kind == Kind::Static {
        backend.role = role;
    } else if role == Role::Primary {
        next.no_primary =
            Some(format!("{}, which was the primary, is at another address now", backend.name).into());
    }
}

fn crown(next: &mut Snapshot, id: BackendId, events: &mut Vec<Event>) -> bool {
    let before = next.primary().map(|primary| primary.id);
    if before == Some(id) {
        return false;
    }
    next.no_primary = None;
    next.contest.holder = Some(id);
    let Some(name) = next.backend(id).map(|backend| backend.name.clone()) else { return false };
    for backend in &mut next.backends {
        if backend.id == id {
            backend.role = Role::Primary;
            (backend.tally.was_primary, backend.tally.deposed) = (true, None);
            backend.tally.replaced = None;
            (backend.lag, backend.lag_source) = (None, None);
            continue;
        }
        backend.role = Role::Replica;
        // By its last word it takes writes, and it cannot be asked or is not to be used: when it comes back, it must not
        // be taken for the primary.
        let is_known = backend.origin == Origin::Configured && backend.facts.is_some();
        if is_known && !backend.read_only {
            backend.tally.deposed =
                Some(format!("{name} is the primary now, and this one takes writes, too").into());
        }
    }
    events.push(Event::Primary { backend: id, before });
    true
}

/// The proxies have agreed that `by` has the role of this one, which may not know it. True if a reader could see a difference.
pub(super) fn replace(
    next: &mut Snapshot,
    id: BackendId,
    (kind, by): (Kind, Option<&Arc<str>>),
    events: &mut Vec<Event>,
) -> bool {
    let Some(backend) = next.backends.get_mut(id.index()) else { return false };
    if kind != Kind::ReadOnly || backend.origin != Origin::Configured {
        return false;
    }
    let Some(by) = by else {
        let was = backend.tally.replaced.take();
        let is_fenced = was.is_some() && backend.tally.deposed == was;
        if is_fenced {
            backend.tally.deposed = None;
        }
        return is_fenced;
    };
    let why: Arc<str> =
        format!("{by} has replaced it, as the lease store says, and this one takes writes, too").into();
    backend.tally.replaced = Some(why.clone());
    // It may have what no other server has: it has to follow the new primary before it is read from, also where this process has not
    // seen it have the role.
    let is_new = backend.role != Role::Primary && !std::mem::replace(&mut backend.tally.was_primary, true);
    // One that has not been asked yet is looked at when it answers.
    if backend.facts.is_none() || backend.read_only || backend.tally.deposed.is_some() {
        return is_new;
    }
    backend.tally.deposed = Some(why.clone());
    if backend.role == Role::Primary {
        dethrone(next, why, false, events);
    }
    true
}

fn dethrone(next: &mut Snapshot, reason: Arc<str>, is_conflict: bool, events: &mut Vec<Event>) -> bool {
    if next.no_primary.as_ref() == Some(&reason) {
        return false;
    }
    for backend in &mut next.backends {
        backend.role = Role::Replica;
    }
    next.no_primary = Some(reason.clone());
    events.push(Event::NoPrimary { reason, is_conflict });
    true
}
