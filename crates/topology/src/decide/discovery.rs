//! Which members of the group are backends although the configuration does not name them. The members that answer say who is in
//! the group; only the newest view with the majority counts.
//!
//! | what is seen | what follows |
//! |---|---|
//! | a member that is no backend | it becomes one, if every configured backend has been looked at: it could be one of these |
//! | the same server is a configured backend | the one that was found goes at once: one server is never two backends |
//! | another server answers at the address | it counts as one that does not answer |
//! | the group is without a member that was found | after a time it goes, if most members that are left say so |

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::{Event, Settings, group_replication};
use crate::backend::{Backend, BackendId, Role};
use crate::group::{GroupMember, GroupView, MemberState};
use crate::observation::{Observation, ProbeOutcome};
use crate::origin::{Found, Origin, split};
use crate::snapshot::Snapshot;

/// Which servers become backends that the configuration does not name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Discovery {
    /// None.
    #[default]
    Off,
    /// The members of the group.
    Group {
        /// How long the group has to be without one until it is no backend any more.
        forget: Duration,
    },
}

/// What an answer counts for if it is not that of the server that was found: what stands at its address may be anybody.
pub(super) fn impostor(backend: &Backend, observation: &Observation) -> Option<Observation> {
    let found = backend.origin.found()?;
    let Observation::Probe { outcome: ProbeOutcome::Answered(answer), at, backend: id } = observation else {
        return None;
    };
    let text = match answer.group.as_deref() {
        Some(view) if view.own == found.id => return None,
        Some(view) => format!(
            "another server answers at {}: its server_uuid is {}, the member's is {}",
            found.address, view.own, found.id
        ),
        None => format!("it shows no group, so that nobody knows whether it is the member {}", found.id),
    };
    Some(Observation::Probe { backend: *id, at: *at, outcome: ProbeOutcome::Refused(text.into()) })
}

/// Takes in who has joined, and lets go of who has left; true if that changed anything.
pub(super) fn follow(
    next: &mut Snapshot,
    settings: &Settings,
    now: Instant,
    events: &mut Vec<Event>,
) -> bool {
    let Discovery::Group { forget } = settings.discovery else { return false };
    let mut has_changed = give_way(next, now, events);
    let is_looked_at = |backend: &Backend| backend.origin != Origin::Configured || backend.tally.is_known();
    if !next.backends.iter().all(is_looked_at) {
        return has_changed;
    }
    let Some((by, view)) = group_replication::newest_view(next) else { return has_changed };
    for member in &view.members {
        let is_there = matches!(member.state, MemberState::Online | MemberState::Recovering);
        if is_there && !member.id.is_empty() {
            has_changed |= meet(next, member, (&by, &view), now, events);
        }
    }
    next.strangers.retain(|id| view.members.iter().any(|member| member.id == *id));
    has_changed | let_go(next, (&view, forget), now, events)
}

/// A configured backend has turned out to be a server that was found under another name.
fn give_way(next: &mut Snapshot, now: Instant, events: &mut Vec<Event>) -> bool {
    let twin = |found: &Backend| {
        let id = &found.origin.found()?.id;
        let is_it = |one: &&Backend| {
            one.origin == Origin::Configured && one.tally.is_alive() && one.server_id.as_ref() == Some(id)
        };
        let twin = next.backends.iter().find(is_it)?;
        Some((found.id, format!("it is {} under another name", twin.name)))
    };
    let gone: Vec<_> = next.backends.iter().filter_map(twin).collect();
    for (id, reason) in &gone {
        leave(next, *id, reason, now, events);
    }
    !gone.is_empty()
}

/// One member that is in the group.
fn meet(
    next: &mut Snapshot,
    member: &GroupMember,
    (by, view): (&Arc<str>, &GroupView),
    now: Instant,
    events: &mut Vec<Event>,
) -> bool {
    let is_configured = |one: &Backend| {
        one.origin == Origin::Configured
            // One that has not told who it is may be the one at that address.
            && (one.server_id.as_ref() == Some(&member.id) || one.server_id.is_none() && one.name == member.address)
    };
    if next.backends.iter().any(is_configured) {
        return false;
    }
    if let Some(backend) = next.backends.iter_mut().find(|one| is_found(one, &member.id)) {
        let Origin::Found(found) = &mut backend.origin else { return false };
        found.missing = None;
        if found.address == member.address {
            return false;
        }
        // At its new address it begins anew.
        let id = backend.id;
        leave(next, id, "it has another address now", now, events);
    }
    let room = room_for(next, member, view);
    if let Err(reason) = room
        && !next.strangers.contains(&member.id)
    {
        next.strangers.push(member.id.clone());
        events.push(Event::Ignored { address: member.address.clone(), reason });
    }
    room.is_ok_and(|room| {
        take_in(next, (room, member, by), now, events);
        true
    })
}

fn take_in(
    next: &mut Snapshot,
    (room, member, by): (BackendId, &GroupMember, &Arc<str>),
    now: Instant,
    events: &mut Vec<Event>,
) {
    // A server that was made anew has another id than before, and the address of that time.
    let has_its_address = |one: &&Backend| one.origin.found().is_some_and(|it| it.address == member.address);
    if let Some(former) = next.backends.iter().find(has_its_address).map(|former| former.id) {
        leave(next, former, "another server has its address", now, events);
    }
    let backend = &mut next.backends[room.index()];
    backend.forget(now);
    let (id, address) = (member.id.clone(), member.address.clone());
    backend.name = address.clone();
    backend.origin = Origin::Found(Found { id, address, by: by.clone(), missing: None });
    events.push(Event::Found { backend: room, by: by.clone() });
}

fn is_found(backend: &Backend, id: &Arc<str>) -> bool {
    backend.origin.found().is_some_and(|found| found.id == *id)
}

/// The place that it had before, or one that nobody has had.
fn room_for(next: &Snapshot, member: &GroupMember, view: &GroupView) -> Result<BackendId, &'static str> {
    if split(&member.address).is_none() {
        return Err("it names no host and port (report_host, report_port)");
    }
    let is_same = |other: &&GroupMember| other.id != member.id && other.address == member.address;
    if view.members.iter().any(|other| is_same(&other)) {
        return Err("another member names the same host and port (report_host, report_port)");
    }
    if next.backends.iter().any(|one| one.origin == Origin::Configured && one.name == member.address) {
        return Err("another backend has the name that it would get");
    }
    let former = |one: &&Backend| matches!(&one.origin, Origin::Left(found) if found.id == member.id);
    let spare = |one: &&Backend| one.origin == Origin::Spare;
    let room = next.backends.iter().find(former).or_else(|| next.backends.iter().find(spare));
    room.map(|room| room.id).ok_or("max_discovered servers were found since the start")
}

/// Lets go of those that the group has been without for long enough.
fn let_go(
    next: &mut Snapshot,
    (view, forget): (&GroupView, Duration),
    now: Instant,
    events: &mut Vec<Event>,
) -> bool {
    let is_agreed = is_agreed(next, view);
    let mut gone = Vec::new();
    for backend in &mut next.backends {
        let Origin::Found(found) = &mut backend.origin else { continue };
        let is_missing = is_agreed && !view.members.iter().any(|member| member.id == found.id);
        if !is_missing || backend.role == Role::Primary {
            found.missing = None;
        } else if now.saturating_duration_since(*found.missing.get_or_insert(now)) >= forget {
            gone.push(backend.id);
        }
    }
    for id in &gone {
        leave(next, *id, "it is not in the group any more", now, events);
    }
    !gone.is_empty()
}

/// True if more than half of the members of a view have it: what one alone says may be an error of its own.
fn is_agreed(next: &Snapshot, view: &GroupView) -> bool {
    let has_it = |one: &GroupView| {
        one.life == view.life
            && one.counter == view.counter
            && view.members.iter().any(|member| member.id == one.own)
    };
    let say_so = next.backends.iter().filter_map(group_replication::sound_view).filter(|one| has_it(one));
    say_so.count() * 2 > view.members.len()
}

/// What was found is no backend any more.
fn leave(next: &mut Snapshot, id: BackendId, reason: &str, now: Instant, events: &mut Vec<Event>) {
    let Some(backend) = next.backends.get_mut(id.index()) else { return };
    let Origin::Found(found) = &backend.origin else { return };
    let found = Found { missing: None, ..found.clone() };
    if backend.role == Role::Primary {
        next.no_primary =
            Some(format!("{}, which was the primary, is no backend any more: {reason}", backend.name).into());
    }
    backend.forget(now);
    backend.origin = Origin::Left(found);
    events.push(Event::Left { backend: id, reason: reason.into() });
}

/// True while somebody is missed: then time alone changes something.
pub(super) fn is_waiting(snapshot: &Snapshot) -> bool {
    let is_missed = |one: &Backend| one.origin.found().is_some_and(|found| found.missing.is_some());
    snapshot.backends.iter().any(is_missed)
}

#[cfg(test)]
mod tests;
