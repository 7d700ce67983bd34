//! Which servers are backends although the configuration does not name them. Who says so is in `discovery/`: the members of a group,
//! or the primary of its replicas. What holds for both is here:
//!
//! | what is seen | what follows |
//! |---|---|
//! | a server that is no backend | it becomes one, if every configured backend has been looked at: it could be one of these |
//! | the same server is a configured backend | the one that was found goes at once: one server is never two backends |
//! | another server answers at the address | it counts as one that does not answer |
//! | one that was found is missing | after a time it goes |
//!
//! ## Places of backends that are found
//!
//! `topology/src/decide/discovery.rs` decides who becomes a backend without being configured, and who is none any more
//! (`Origin`): `discovery/group.rs` by what members of a group say, `discovery/replicas.rs` by what a primary and its
//! replicas say of each other. Places for them exist from the start, behind the configured ones and before the mirrors:
//! everything that is numbered by `BackendId` has its size then. A place that was once a server's is never another's, so
//! that whatever remembers the number means that server. Where a backend listens is in its `net::Place`, which the
//! monitor writes and pools and probes read; a connection that was opened before the last move is closed when it comes
//! back. `monitor/src/names.rs` looks up the names of backends; one that leads elsewhere is an `Observation::Moved`.

mod group;
mod replicas;

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::{Event, Kind, Settings, group_replication};
use crate::backend::{Backend, BackendId, Role};
use crate::observation::{Answer, Observation, ProbeOutcome};
use crate::origin::{Found, Origin};
use crate::snapshot::Snapshot;

pub(super) use replicas::{Lineage, doubt};

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
    /// The replicas of the primary, by its own word and theirs. They are read from, and never written to.
    Replicas {
        /// How long the primary has to be without one until it is no backend any more.
        forget: Duration,
    },
}

impl Discovery {
    /// The same, where a server has to be missing for so long.
    #[must_use]
    pub fn forgetting_after(self, forget: Duration) -> Self {
        match self {
            Self::Off => Self::Off,
            Self::Group { .. } => Self::Group { forget },
            Self::Replicas { .. } => Self::Replicas { forget },
        }
    }
}

/// A server that the cluster names.
#[derive(Debug)]
struct Candidate {
    /// What it is known by.
    id: Arc<str>,
    /// Where it is.
    address: Arc<str>,
    /// Why it cannot be reached there.
    flaw: Option<&'static str>,
    /// Name of the backend that names it.
    by: Arc<str>,
    /// At how many addresses it was looked for before.
    tries: u32,
}

/// What an answer counts for if it is not that of the server that was found: what stands at its address may be anybody.
pub(super) fn impostor(backend: &Backend, observation: &Observation) -> Option<Observation> {
    let found = backend.origin.found()?;
    let Observation::Probe { outcome, at, backend: id } = observation else { return None };
    let text = match outcome {
        ProbeOutcome::Answered(answer) => other_than(found, answer)?,
        // It lives, and does not say who it is: that must not bring one back that was gone.
        ProbeOutcome::Denied(text) | ProbeOutcome::Full(text) if !backend.tally.is_alive() => {
            format!("the proxy cannot tell whether it is {}: {text}", found.id)
        }
        _ => return None,
    };
    Some(Observation::Probe { backend: *id, at: *at, outcome: ProbeOutcome::Refused(text.into()) })
}

/// Why it was not the one that was found that has said this.
fn other_than(found: &Found, answer: &Answer) -> Option<String> {
    let Found { id, address, .. } = found;
    match (answer.group.as_deref(), &answer.identity) {
        (Some(view), _) if view.own == *id => None,
        (Some(view), _) => Some(format!(
            "another server answers at {address}: its server_uuid is {}, the member's is {id}",
            view.own
        )),
        (None, Some(own)) if own.is(id) => None,
        (None, Some(own)) => {
            Some(format!("another server answers at {address}: it is {}, not {id}", own.name()))
        }
        (None, None) => {
            Some(format!("it shows no group, so the proxy cannot tell whether it is the member {id}"))
        }
    }
}

/// Takes in who has come, and lets go of who has left; true if that changed anything.
pub(super) fn follow(
    next: &mut Snapshot,
    settings: &Settings,
    now: Instant,
    events: &mut Vec<Event>,
) -> bool {
    if settings.discovery == Discovery::Off {
        return false;
    }
    if settings.kind == Kind::GroupReplication {
        // Who goes now may be the only one that has told of the newest view.
        group_replication::note_views(next);
    }
    let has_changed = give_way(next, now, events);
    let is_looked_at = |backend: &Backend| backend.origin != Origin::Configured || backend.tally.is_known();
    if !next.backends.iter().all(is_looked_at) {
        return has_changed;
    }
    has_changed
        | match settings.discovery {
            Discovery::Off => false,
            Discovery::Group { forget } => group::follow(next, forget, now, events),
            Discovery::Replicas { forget } => replicas::follow(next, forget, now, events),
        }
}

/// A configured backend has turned out to be a server that was found under another name.
fn give_way(next: &mut Snapshot, now: Instant, events: &mut Vec<Event>) -> bool {
    let twin = |found: &Backend| {
        let id = &found.origin.found()?.id;
        let is_it = |one: &&Backend| {
            let is_it = one.identity.as_ref().is_some_and(|own| own.is(id));
            one.origin == Origin::Configured && one.tally.is_alive() && is_it
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

/// One that is there.
fn meet(next: &mut Snapshot, candidate: &Candidate, now: Instant, events: &mut Vec<Event>) -> bool {
    let Candidate { id, address, .. } = candidate;
    let is_configured = |one: &Backend| {
        // One that has not told who it is may be the one at that address.
        let is_it = one.identity.as_ref().map_or(one.name == *address, |own| own.is(id));
        one.origin == Origin::Configured && is_it
    };
    if next.backends.iter().any(is_configured) {
        return false;
    }
    if let Some(backend) = next.backends.iter_mut().find(|one| is_found(one, id)) {
        let Origin::Found(found) = &mut backend.origin else { return false };
        found.missing = None;
        if found.address == *address {
            return false;
        }
        // At its new address it begins anew.
        let id = backend.id;
        leave(next, id, "it has another address now", now, events);
    }
    match room_for(next, candidate) {
        Ok(room) => take_in(next, (room, candidate), now, events),
        Err(_) if next.strangers.contains(id) => return false,
        Err(reason) => {
            next.strangers.push(id.clone());
            events.push(Event::Ignored { address: address.clone(), reason });
        }
    }
    true
}

fn take_in(
    next: &mut Snapshot,
    (room, candidate): (BackendId, &Candidate),
    now: Instant,
    events: &mut Vec<Event>,
) {
    let Candidate { id, address, by, tries, .. } = candidate;
    // A server that was made anew has another id than before, and the address of that time.
    let has_its_address = |one: &&Backend| one.origin.found().is_some_and(|it| it.address == *address);
    if let Some(former) = next.backends.iter().find(has_its_address).map(|former| former.id) {
        leave(next, former, "another server has its address", now, events);
    }
    let backend = &mut next.backends[room.index()];
    backend.forget(now);
    backend.name = address.clone();
    backend.origin = Origin::Found(Found {
        id: id.clone(),
        address: address.clone(),
        by: by.clone(),
        since: now,
        tries: *tries,
        missing: None,
    });
    events.push(Event::Found { backend: room, by: by.clone() });
}

fn is_found(backend: &Backend, id: &Arc<str>) -> bool {
    backend.origin.found().is_some_and(|found| found.id == *id)
}

/// The place that it had before, or one that nobody has had.
fn room_for(next: &Snapshot, candidate: &Candidate) -> Result<BackendId, &'static str> {
    if let Some(flaw) = candidate.flaw {
        return Err(flaw);
    }
    if next.backends.iter().any(|one| one.origin == Origin::Configured && one.name == candidate.address) {
        return Err("another backend has the name that it would get");
    }
    let former = |one: &&Backend| matches!(&one.origin, Origin::Left(found) if found.id == candidate.id);
    let spare = |one: &&Backend| one.origin == Origin::Spare;
    let room = next.backends.iter().find(former).or_else(|| next.backends.iter().find(spare));
    room.map(|room| room.id).ok_or("max_discovered servers were found since the start")
}

/// Lets go of those that have been missing for long enough.
fn let_go(
    next: &mut Snapshot,
    is_missing: impl Fn(&Backend, &Found) -> bool,
    (forget, reason): (Duration, &str),
    now: Instant,
    events: &mut Vec<Event>,
) -> bool {
    let mut gone = Vec::new();
    for backend in &mut next.backends {
        let is_missed = backend.origin.found().is_some_and(|found| is_missing(backend, found));
        let Origin::Found(found) = &mut backend.origin else { continue };
        if !is_missed {
            found.missing = None;
        } else if now.saturating_duration_since(*found.missing.get_or_insert(now)) >= forget {
            gone.push(backend.id);
        }
    }
    for id in &gone {
        leave(next, *id, reason, now, events);
    }
    !gone.is_empty()
}

/// What was found is no backend any more.
fn leave(next: &mut Snapshot, id: BackendId, reason: &str, now: Instant, events: &mut Vec<Event>) {
    let Some(backend) = next.backends.get_mut(id.index()) else { return };
    let Origin::Found(found) = &backend.origin else { return };
    let found = Found { missing: None, ..found.clone() };
    if backend.role == Role::Primary {
        next.no_primary = Some(format!("the primary, {}, is no backend now: {reason}", backend.name).into());
    }
    backend.forget(now);
    backend.origin = Origin::Left(found);
    events.push(Event::Left { backend: id, reason: reason.into() });
}

/// True while somebody is missed, or may be somewhere else: then time alone changes something.
pub(super) fn is_waiting(snapshot: &Snapshot) -> bool {
    let is_missed = |one: &Backend| {
        one.origin.found().is_some_and(|found| found.missing.is_some() || replicas::is_lost(one))
    };
    snapshot.backends.iter().any(is_missed)
}
