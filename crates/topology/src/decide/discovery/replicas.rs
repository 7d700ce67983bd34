//! The replicas of the primary. It names them; before one is read from it has to say itself that it is the one that was meant, that it
//! follows this primary, and that it takes no writes.
//!
//! | what is seen | what follows |
//! |---|---|
//! | the primary names it, and it says itself that it follows the primary | it is read from |
//! | it follows somebody else, or takes writes | it is not, and has nothing to do with who the primary is |
//! | the primary does not name it, nor does it say that it follows the primary | after a time it goes |
//! | the primary is dead, or does not tell | nobody comes, nobody goes |

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::super::{Event, group_replication};
use super::{Candidate, is_found, let_go, meet};
use crate::backend::Backend;
use crate::followers::{Follower, Followers};
use crate::identity::Identity;
use crate::origin::{Found, Origin, split};
use crate::replication::{Following, Receiver, Replication};
use crate::snapshot::Snapshot;

/// For so long it is looked for at one address, if it may be at several; longer when it was at none of them.
const TRY: Duration = Duration::from_secs(10);

/// So many times as long, at most.
const SLOWEST: u32 = 6;

pub(super) fn follow(next: &mut Snapshot, forget: Duration, now: Instant, events: &mut Vec<Event>) -> bool {
    let Some(word) = named(next) else {
        for backend in &mut next.backends {
            if let Origin::Found(found) = &mut backend.origin {
                found.missing = None;
            }
        }
        return false;
    };
    let Named { source, followers: named, .. } = &word;
    let mut has_changed = meet_all(next, &word, now, events);
    next.strangers.retain(|id| named.iter().any(|one| one.id == *id));
    let is_missing = |backend: &Backend, found: &Found| {
        let says_so = backend.tally.is_alive() && following(backend).is_some_and(|own| is_after(own, source));
        !says_so && !named.iter().any(|one| one.id == found.id)
    };
    if let_go(next, is_missing, (forget, "it no longer replicates from the primary"), now, events) {
        has_changed = true;
        // There may be room for another one.
        meet_all(next, &word, now, events);
    }
    has_changed
}

fn meet_all(
    next: &mut Snapshot,
    Named { by, source, followers: named }: &Named,
    now: Instant,
    events: &mut Vec<Event>,
) -> bool {
    let mut has_changed = false;
    for follower in named.iter() {
        // Two that follow each other name each other.
        if !source.is(&follower.id) {
            has_changed |= meet(next, &candidate(next, follower, (by, named), now), now, events);
        }
    }
    has_changed
}

/// The replicas that a primary names.
struct Named {
    /// The name of the primary.
    by: Arc<str>,
    /// Which server it is.
    source: Arc<Identity>,
    followers: Arc<[Follower]>,
}

/// The word of the primary. Nobody while it is dead, or what it has told is old.
fn named(next: &Snapshot) -> Option<Named> {
    let is_heard = |one: &&Backend| one.tally.is_answering() && group_replication::is_heard(one);
    let primary = next.primary().filter(is_heard)?;
    let Followers::Known(named) = &primary.followers else { return None };
    Some(Named { by: primary.name.clone(), source: primary.identity.clone()?, followers: named.clone() })
}

/// Where it is to be looked for: where it is already, unless it was not there for a while.
fn candidate(
    next: &Snapshot,
    follower: &Follower,
    (by, named): (&Arc<str>, &[Follower]),
    now: Instant,
) -> Candidate {
    let Follower { id, addresses } = follower;
    let own = next.backends.iter().find(|one| is_found(one, id));
    let others = || next.present().filter(|one| !is_found(one, id));
    // One that is not named any more has no claim to its place.
    let is_named =
        |one: &Backend| one.origin.found().is_none_or(|found| named.iter().any(|named| named.id == found.id));
    let is_theirs = |address: &Arc<str>| others().any(|one| one.name == *address && is_named(one));
    // One that is not where it is looked for, either, has to make room.
    let is_surely_theirs =
        |address: &Arc<str>| others().any(|one| one.name == *address && is_named(one) && !is_lost(one));
    let at = own.and_then(|one| one.origin.found()).filter(|found| addresses.contains(&found.address));
    let mut tries = tries_of(next, id);
    let address = match (own, at) {
        (Some(backend), Some(found)) => {
            let round = addresses.iter().cycle().skip_while(|one| **one != found.address).skip(1);
            let other = round.take(addresses.len() - 1).find(|one| !is_surely_theirs(one));
            let rounds = 1 + tries / u32::try_from(addresses.len()).unwrap_or(u32::MAX);
            let is_over = now.saturating_duration_since(found.since) >= TRY * rounds.min(SLOWEST);
            let other = other.filter(|_| is_lost(backend) && is_over);
            tries += u32::from(other.is_some());
            other.or(Some(&found.address))
        }
        _ => addresses.iter().find(|one| !is_theirs(one)).or(addresses.first()),
    };
    let flaw = match address {
        None => Some(
            "it names no host (report_host), and the primary's process list shows none to the monitor's user (PROCESS)",
        ),
        Some(address) if split(address).is_none() => {
            Some("it names no host and port (report_host, report_port)")
        }
        Some(address) if own.is_none() && is_theirs(address) => {
            Some("another backend has the name that it would get")
        }
        Some(_) => None,
    };
    let address = address.cloned().unwrap_or_else(|| id.clone());
    Candidate { id: id.clone(), address, flaw, by: by.clone(), tries }
}

/// At how many addresses it was looked for so far.
fn tries_of(next: &Snapshot, id: &Arc<str>) -> u32 {
    let found = next.backends.iter().find_map(|one| match &one.origin {
        Origin::Found(found) | Origin::Left(found) if found.id == *id => Some(found.tries),
        _ => None,
    });
    found.unwrap_or_default()
}

/// True for one that does not answer where it is looked for, and was never seen there.
pub(super) fn is_lost(backend: &Backend) -> bool {
    backend.origin.found().is_some()
        && backend.tally.is_known()
        && !backend.tally.is_alive()
        && backend.tally.vouched.is_none()
}

fn following(backend: &Backend) -> Option<&Following> {
    match &backend.replication {
        Replication::On(following) => Some(following),
        Replication::NotAsked | Replication::Unseen(_) | Replication::Off => None,
    }
}

/// True if it follows this server, or tries to.
fn is_after(following: &Following, source: &Identity) -> bool {
    !matches!(following.receiver, Receiver::Stopped(_)) && names(following, source)
}

fn names(following: &Following, source: &Identity) -> bool {
    following.sources.iter().any(|one| one.is_same(source))
}

/// Whom one that was found may follow.
#[derive(Debug, Clone, Default)]
pub(in crate::decide) struct Lineage {
    /// The primary, while it lives: its name, and which server it is.
    primary: Option<(Arc<str>, Arc<Identity>)>,
    /// Those that have lost its place while they took writes, and those that the configuration does not name any more.
    deposed: Vec<Arc<Identity>>,
}

impl Lineage {
    pub(in crate::decide) fn of(snapshot: &Snapshot) -> Self {
        let primary = snapshot.primary().filter(|primary| primary.tally.is_alive());
        let deposed = snapshot.backends.iter().filter(|one| one.tally.deposed.is_some());
        let is_back = |removed: &Identity| {
            let mut present = snapshot.configured().filter_map(|one| one.identity.as_ref());
            present.any(|own| own.is_same(removed))
        };
        let removed = snapshot.contest.removed.iter().filter(|removed| !is_back(removed)).cloned();
        Self {
            primary: primary.and_then(|primary| Some((primary.name.clone(), primary.identity.clone()?))),
            deposed: deposed.filter_map(|one| one.identity.clone()).chain(removed).collect(),
        }
    }
}

/// Why one that was found, and lives, is not to be read from; `None` if it is known to be a replica of this cluster.
pub(in crate::decide) fn doubt(backend: &mut Backend, lineage: &Lineage) -> Option<String> {
    backend.origin.found()?;
    let vouched = judge(backend, lineage);
    match vouched {
        Ok(Some(source)) => backend.tally.vouched = Some(source),
        Ok(None) if backend.tally.vouched.is_none() => {
            return Some("its source is not known yet".to_owned());
        }
        Ok(None) => {}
        Err(text) => {
            backend.tally.vouched = None;
            return Some(text);
        }
    }
    None
}

/// Whom it follows that makes it a replica of this cluster; `None` if that cannot be told now.
fn judge(backend: &Backend, lineage: &Lineage) -> Result<Option<Arc<Identity>>, String> {
    if !backend.read_only {
        return Err("it takes writes, and one that was found is only read from".to_owned());
    }
    let following = match &backend.replication {
        Replication::NotAsked => return Ok(None),
        Replication::Unseen(text) => return Err(format!("its source cannot be read: {text}")),
        Replication::Off if lineage.primary.is_none() => return Ok(None),
        Replication::Off => return Err("it replicates from no server".to_owned()),
        Replication::On(following) => following,
    };
    let known = backend.tally.vouched.as_deref();
    // Who follows one that others have left behind reads what nobody else will see.
    let is_deposed = |one: &Identity| lineage.deposed.iter().any(|deposed| deposed.is_same(one));
    let stays = known.is_some_and(|known| names(following, known) && !is_deposed(known));
    match &lineage.primary {
        Some((_, primary)) if names(following, primary) => {
            // One that stands still when it is seen first may be as late as anything.
            let is_known = known.is_some() || Replication::On(following.clone()).runs();
            if is_known { Ok(Some(primary.clone())) } else { Err("its replication does not run".to_owned()) }
        }
        // The roles have moved, and it has not been told yet; or nobody is there to be followed.
        _ if stays => Ok(backend.tally.vouched.clone()),
        None => Ok(None),
        Some((name, _)) => Err(format!("it does not replicate from {name}")),
    }
}

#[cfg(test)]
mod tests;
