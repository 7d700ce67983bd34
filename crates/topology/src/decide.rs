//! From what was seen to what holds: the only code that changes a snapshot. How it is done is in `decide/`:
//!
//! | question | file |
//! |---|---|
//! | does a backend live | `life` |
//! | is it fit for reads, and which state follows | `fitness` |
//! | which one is the primary | `roles`, one file for each kind of topology |
//! | which backends are configured | `roster` |
//! | which servers are backends that are not configured | `discovery` |
//! | which of several writable ones is right | `judge` |
//!
//! Here roles are only recognised. How the proxy itself moves them is in `promotion`.

mod discovery;
mod fitness;
mod group_replication;
mod judge;
mod life;
mod read_only;
mod roles;
mod roster;
mod static_roles;

use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::backend::{Backend, BackendId, Fault, Role, Wish};
use crate::health::Health;
use crate::identity::Identity;
use crate::observation::{Answer, Observation, ProbeOutcome};
use crate::rest;
use crate::snapshot::{Snapshot, Succession};

pub use discovery::Discovery;
pub(crate) use life::Tally;
pub(crate) use roles::Contest;

/// How the roles of the backends are known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Kind {
    /// From the configuration; they never move.
    #[default]
    Static,
    /// The backend that is not `read_only` is the primary: whoever promotes, the proxy follows.
    ReadOnly,
    /// The member that a single-primary group has elected is the primary.
    GroupReplication,
}

/// What the decisions depend on.
#[derive(Debug, Clone)]
pub struct Settings {
    /// How roles are known.
    pub kind: Kind,
    /// Failures one after another until a backend is down; at least 1.
    pub fall: u32,
    /// Successful probes one after another until it is up again; at least 1.
    pub rise: u32,
    /// How far a replica may be behind.
    pub lag: Lag,
    /// What happens to replicas that come and go.
    pub flapping: Flapping,
    /// Which servers become backends beside those that are configured.
    pub discovery: Discovery,
}

/// How far a replica may be behind.
#[derive(Debug, Clone, Copy)]
pub struct Lag {
    /// Further behind it is no place for reads; zero: nobody looks.
    pub down: Duration,
    /// It is one again when it is not further behind than this.
    pub recover: Duration,
}

/// What happens to replicas that come and go.
#[derive(Debug, Clone, Copy)]
pub struct Flapping {
    /// One that is down again within this time after it came up flaps.
    pub window: Duration,
    /// How long it is kept out the first time; twice as long each further time. Zero: never.
    pub first: Duration,
    /// Never longer than this.
    pub most: Duration,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            kind: Kind::Static,
            fall: 2,
            rise: 2,
            lag: Lag { down: Duration::from_secs(10), recover: Duration::from_secs(1) },
            flapping: Flapping {
                window: Duration::from_mins(1),
                first: Duration::from_secs(2),
                most: Duration::from_mins(1),
            },
            discovery: Discovery::Off,
        }
    }
}

/// A change, for logs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// A backend can be used.
    Up {
        /// Which one.
        backend: BackendId,
        /// How long it could not; `None` if this is the first that was seen of it.
        down_for: Option<Duration>,
    },
    /// A backend does not answer.
    Down {
        /// Which one.
        backend: BackendId,
        /// Why.
        reason: Arc<str>,
    },
    /// A backend lives and is not used.
    Out {
        /// Which one.
        backend: BackendId,
        /// The state that it is in now, as `lagging`.
        state: &'static str,
        /// Why.
        reason: Arc<str>,
    },
    /// Something that a human must put right.
    Faulty {
        /// Which one.
        backend: BackendId,
        /// What it is.
        fault: Fault,
    },
    /// It was put right.
    Sound {
        /// Which one.
        backend: BackendId,
    },
    /// An operator has taken a backend out of use, or put it back; or a move of its role wants something of it.
    Wished {
        /// Which one.
        backend: BackendId,
        /// What is wanted now.
        wish: Wish,
    },
    /// A move wants nothing of a backend any more.
    Released {
        /// Which one.
        backend: BackendId,
        /// What an operator wants of it.
        wish: Wish,
    },
    /// An operator has added a backend to the configuration.
    Added {
        /// Which one.
        backend: BackendId,
    },
    /// An operator has removed a backend from the configuration.
    Removed {
        /// Which one.
        backend: BackendId,
    },
    /// The cluster has named a server that is a backend now.
    Found {
        /// Which one.
        backend: BackendId,
        /// Name of the backend that has named it.
        by: Arc<str>,
    },
    /// One that was found is no backend any more.
    Left {
        /// Which one.
        backend: BackendId,
        /// Why.
        reason: Arc<str>,
    },
    /// The cluster has named a server that cannot become a backend.
    Ignored {
        /// Where it says that it can be reached.
        address: Arc<str>,
        /// Why not.
        reason: &'static str,
    },
    /// The name of a backend leads to another address.
    Moved {
        /// Which one.
        backend: BackendId,
        /// Where it is now.
        to: IpAddr,
    },
    /// Writes go to this backend now.
    Primary {
        /// Which one.
        backend: BackendId,
        /// Where they went before, if anywhere.
        before: Option<BackendId>,
    },
    /// Writes go nowhere.
    NoPrimary {
        /// Why.
        reason: Arc<str>,
        /// More than one backend has said that it takes writes: the cluster is about to break, and a human must put it right.
        is_conflict: bool,
    },
}

/// Takes the observations in, in their order. Returns the next snapshot, with a higher generation if a reader
/// could see a difference, and what happened.
pub fn decide(
    snapshot: Snapshot,
    observations: &[Observation],
    settings: &Settings,
    now: Instant,
) -> (Snapshot, Vec<Event>) {
    let mut next = snapshot;
    let mut events = Vec::new();
    let (mut has_changed, mut has_moved) = (false, false);
    for observation in observations {
        if let Observation::Listed { backend, at, member } = observation {
            has_changed |=
                roster::list(&mut next, (*backend, member.as_ref()), settings.kind, *at, &mut events);
            continue;
        }
        let Some(backend) = next.backends.get_mut(observation.backend().index()) else { continue };
        let is_wish = matches!(
            observation,
            Observation::Wish { .. } | Observation::Released { .. } | Observation::Replaced { .. }
        );
        let is_late = !is_wish && backend.tally.is_too_late(observation.at());
        if is_late || !backend.origin.is_present() {
            continue;
        }
        if let Observation::Replaced { by, .. } = observation {
            has_changed |=
                roles::replace(&mut next, observation.backend(), (settings.kind, by.as_ref()), &mut events);
            continue;
        }
        if let Observation::Moved { at, to, .. } = observation {
            roles::move_away(&mut next, observation.backend(), settings.kind, *at);
            events.push(Event::Moved { backend: observation.backend(), to: *to });
            has_changed = true;
            continue;
        }
        let impostor = discovery::impostor(backend, observation);
        if impostor.is_some() {
            // One time is proof enough.
            backend.tally.condemn();
        }
        let observation = impostor.as_ref().unwrap_or(observation);
        let position = backend.position.clone();
        has_changed |= take_in((backend, &mut next.succession), observation, settings, &mut events);
        has_moved |= !is_same(position.as_ref(), backend.position.as_ref());
        if let Observation::Probe { backend, outcome, .. } = observation {
            has_moved |= rest::hear(&mut next, *backend, outcome);
        }
    }
    if has_changed || discovery::is_waiting(&next) {
        has_changed |= discovery::follow(&mut next, settings, now, &mut events);
    }
    if has_changed || next.contest.is_open() {
        let is_settled = next.configured().all(|backend| backend.tally.is_known());
        next.settled = is_settled;
        if roles::follow(&mut next, settings.kind, now, &mut events) {
            has_changed = true;
            // Others may name those that are to be found now.
            discovery::follow(&mut next, settings, now, &mut events);
        }
    }
    // Roles, and whether there is a primary, change what is made of the rest, so that everybody is looked at then.
    let whom = fitness::Whom { observations, everybody: has_changed };
    has_changed |= fitness::look(&mut next, whom, settings, now);
    let is_reassessed = fitness::assess(&mut next, whom, (settings.kind, now), &mut events);
    has_changed |= is_reassessed;
    if has_changed || has_moved {
        let is_anybody_else = whom.everybody || is_reassessed;
        has_changed |= rest::settle(&mut next, (!is_anybody_else).then_some(observations));
    }
    if has_changed {
        settle(&mut next, settings.kind, now);
    }
    (next, events)
}

fn is_same<T: PartialEq>(one: Option<&Arc<T>>, other: Option<&Arc<T>>) -> bool {
    match (one, other) {
        (Some(one), Some(other)) => Arc::ptr_eq(one, other) || one == other,
        (one, other) => one.is_none() && other.is_none(),
    }
}

/// One observation of one backend; true if there is news in it.
fn take_in(
    (backend, succession): (&mut Backend, &mut Succession),
    observation: &Observation,
    settings: &Settings,
    events: &mut Vec<Event>,
) -> bool {
    match observation {
        Observation::Wish { wish, .. } => return obey(backend, *wish, events),
        Observation::Released { .. } => return release(backend, events),
        _ => {}
    }
    let before = backend.identity.clone();
    let is_news = learn(backend, observation, settings, events);
    if backend.role == Role::Primary && is_another(before.as_deref(), backend.identity.as_deref()) {
        // A virtual IP leads to another server, which need not have all that this one had acknowledged.
        succession.end();
    }
    backend.tally.weigh(observation, settings) || is_news
}

/// True if both are told, and are not of the same server.
fn is_another(before: Option<&Identity>, now: Option<&Identity>) -> bool {
    before.zip(now).is_some_and(|(before, now)| !before.is_same(now))
}

/// Does what an operator wants; true if that is news. Who wants the same again does not start it over.
fn obey(backend: &mut Backend, wish: Wish, events: &mut Vec<Event>) -> bool {
    match wish {
        Wish::Online => backend.offline_since = None,
        Wish::Offline { since } => {
            backend.offline_since.get_or_insert(since);
        }
        Wish::Held { .. } | Wish::GivenUp { .. } => {}
    }
    // Whoever waits in a planned move is not to hear what the primary says once it is lost. The other way round that stays so.
    let is_news = wish.replaces(backend.wish);
    if is_news {
        // What it has said last may be from before the move closed it: it counts for nothing until it says that it is read-only.
        let was_by_move = backend.wish.is_of_move();
        backend.wish = wish;
        events.push(Event::Wished { backend: backend.id, wish });
        if !wish.is_offline() && !was_by_move {
            // An operator who takes it back has looked at it: it counts like any other again.
            (backend.tally.deposed, backend.tally.replaced) = (None, None);
        }
    }
    is_news
}

/// A move has come to its end; true if that is news. What the backend has said last may be from before the move closed it: it counts for nothing
/// until it says that it is read-only.
fn release(backend: &mut Backend, events: &mut Vec<Event>) -> bool {
    if !backend.wish.is_of_move() {
        return false;
    }
    let wish = backend.offline_since.map_or(Wish::Online, |since| Wish::Offline { since });
    backend.wish = wish;
    events.push(Event::Released { backend: backend.id, wish });
    true
}

/// Keeps what the backend told; true if that is news.
fn learn(
    backend: &mut Backend,
    observation: &Observation,
    settings: &Settings,
    events: &mut Vec<Event>,
) -> bool {
    let Observation::Probe { outcome, at, .. } = observation else { return false };
    let mut is_news = false;
    let fault = match outcome {
        ProbeOutcome::Answered(answer) => {
            is_news = take_answer(backend, answer);
            backend.tally.heard(answer, *at);
            roles::fault(backend, answer, settings)
        }
        ProbeOutcome::Denied(text) => Some(Fault::Denied(text.clone())),
        ProbeOutcome::Full(text) => Some(Fault::Full(text.clone())),
        // Nothing was heard, so what was wrong before may still be.
        ProbeOutcome::Refused(_) | ProbeOutcome::TimedOut(_) => return false,
    };
    if fault != backend.fault {
        events.push(match &fault {
            Some(fault) => Event::Faulty { backend: backend.id, fault: fault.clone() },
            None => Event::Sound { backend: backend.id },
        });
        backend.fault = fault;
        is_news = true;
    }
    is_news
}

fn take_answer(backend: &mut Backend, answer: &Answer) -> bool {
    backend.latency = Some(answer.latency);
    backend.position.clone_from(&answer.position);
    // How far it is behind changes all the time, and is shown only roughly.
    backend.replication.clone_from(&answer.replication);
    let is_same = backend.capabilities == Some(answer.capabilities)
        && backend.read_only == answer.read_only
        && backend.limits == Some(answer.limits)
        && backend.sql_mode.as_ref() == Some(&answer.sql_mode)
        && backend.group == answer.group
        && backend.followers == answer.followers
        && (answer.identity.is_none() || backend.identity == answer.identity)
        && backend
            .facts
            .as_ref()
            .is_some_and(|facts| Arc::ptr_eq(facts, &answer.facts) || *facts == answer.facts);
    if !is_same {
        backend.capabilities = Some(answer.capabilities);
        backend.read_only = answer.read_only;
        backend.limits = Some(answer.limits);
        backend.sql_mode = Some(answer.sql_mode.clone());
        backend.group.clone_from(&answer.group);
        backend.followers.clone_from(&answer.followers);
        backend.identity = answer.told_identity().or(backend.identity.take());
        backend.facts = Some(answer.facts.clone());
    }
    !is_same
}

/// What follows for the cluster as a whole.
fn settle(next: &mut Snapshot, kind: Kind, now: Instant) {
    next.generation += 1;
    let primary = next.primary().map(|primary| primary.id);
    next.succession.follow(primary, kind == Kind::GroupReplication, now);
    let primaries = next.backends.iter().filter(|backend| backend.role == Role::Primary);
    debug_assert!(primaries.count() <= 1, "two backends have the role of the primary");
    let is_settled = next.configured().all(|backend| backend.health != Health::Unknown);
    next.settled = is_settled;
    let primary = next.primary().and_then(|backend| backend.facts.clone());
    // A replica's facts stay until the primary is heard: what clients are told must not change back and forth.
    let others = || next.backends.iter().find_map(|backend| backend.facts.clone());
    next.facts = primary.or_else(|| next.facts.clone()).or_else(others);
}

#[cfg(test)]
mod tests;
