//! Which backends the configuration names: more or fewer than at the start, as an operator changes that while the proxy runs.
//!
//! A place that was once a server's is never another's, here as in `discovery`: whoever writes the roster gives a server that comes
//! back its old place, and another one a new place at the end.

use std::time::Instant;

use super::{Event, Kind, group_replication};
use crate::backend::{Backend, BackendId, Role};
use crate::origin::Origin;
use crate::snapshot::{Member, Snapshot};

/// So many servers that were removed are remembered.
const MOST_REMOVED: usize = 64;

/// The place has this backend of the configuration, or none; true if that is news.
pub(super) fn list(
    next: &mut Snapshot,
    (id, member): (BackendId, Option<&Member>),
    kind: Kind,
    at: Instant,
    events: &mut Vec<Event>,
) -> bool {
    let Some(member) = member else { return strike(next, id, at, events) };
    while next.backends.len() <= id.index() {
        let Ok(free) = u16::try_from(next.backends.len()) else { return false };
        let vacant = Backend::new(BackendId(free), "".into(), Role::Replica, 0);
        next.backends.push(Backend { origin: Origin::Vacant, ..vacant });
    }
    let has_changed = match next.backends[id.index()].origin {
        Origin::Vacant => {
            enlist(next, id, member, at);
            events.push(Event::Added { backend: id });
            true
        }
        Origin::Configured => {
            let backend = &mut next.backends[id.index()];
            let before = std::mem::replace(&mut backend.weight, member.weight);
            before != member.weight
        }
        // Those of the cluster's own discovery have places of their own.
        Origin::Spare | Origin::Found(_) | Origin::Left(_) => false,
    };
    has_changed | (kind == Kind::Static && cast(next, id, member.role, events))
}

fn enlist(next: &mut Snapshot, id: BackendId, member: &Member, at: Instant) {
    let primary = next.primary().map(|primary| primary.name.clone());
    let backend = &mut next.backends[id.index()];
    backend.forget(at);
    backend.name = member.name.clone();
    backend.weight = member.weight;
    backend.origin = Origin::Configured;
    // One that takes writes must not stop those of the primary: it has to be seen read-only first.
    backend.tally.deposed = primary
        .map(|name| format!("it was added while {name} was the primary, and takes writes, too").into());
}

/// Where roles are configured: this one has it from now on.
fn cast(next: &mut Snapshot, id: BackendId, role: Role, events: &mut Vec<Event>) -> bool {
    let before = next.primary().map(|primary| primary.id);
    let backend = &mut next.backends[id.index()];
    backend.tally.deposed = None;
    if backend.role == role {
        return false;
    }
    backend.role = role;
    if role == Role::Primary {
        for other in next.backends.iter_mut().filter(|other| other.id != id) {
            other.role = Role::Replica;
        }
        next.no_primary = None;
        events.push(Event::Primary { backend: id, before });
    } else if next.primary().is_none() {
        next.no_primary = Some("the configuration names no primary".into());
    }
    true
}

fn strike(next: &mut Snapshot, id: BackendId, at: Instant, events: &mut Vec<Event>) -> bool {
    if next.backend(id).is_none_or(|backend| backend.origin != Origin::Configured) {
        return false;
    }
    // What it has told of its group counts: it may be the only one that knows of the newest view.
    group_replication::note_views(next);
    let Some(backend) = next.backends.get_mut(id.index()) else { return false };
    if let Some(identity) = backend.identity.clone() {
        next.contest.removed.retain(|known| !known.is_same(&identity));
        next.contest.removed.push(identity);
        let surplus = next.contest.removed.len().saturating_sub(MOST_REMOVED);
        next.contest.removed.drain(..surplus);
    }
    if backend.role == Role::Primary {
        let reason = format!("the primary, {}, is no backend now", backend.name);
        next.no_primary = Some(reason.into());
    }
    backend.forget(at);
    backend.origin = Origin::Vacant;
    events.push(Event::Removed { backend: id });
    true
}

#[cfg(test)]
mod tests;
