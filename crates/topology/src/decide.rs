//! From what was seen to what holds: the only code that changes a snapshot. How health follows from
//! observations is here; what roles mean is in one file for each kind of topology.

mod static_roles;

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::backend::{Backend, BackendId, Fault, Wish};
use crate::health::Health;
use crate::observation::{Answer, Observation, ProbeOutcome, Traffic};
use crate::rest;
use crate::snapshot::Snapshot;

/// How the roles of the backends are known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Kind {
    /// From the configuration; they never move.
    #[default]
    Static,
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
}

/// A change, for logs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// A backend can be used.
    Up {
        /// Which one.
        backend: BackendId,
        /// How long it was down; `None` if this is the first that was seen of it.
        down_for: Option<Duration>,
    },
    /// A backend cannot be used.
    Down {
        /// Which one.
        backend: BackendId,
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
    /// An operator has taken a backend out of use, or put it back.
    Wished {
        /// Which one.
        backend: BackendId,
        /// What is wanted now.
        wish: Wish,
    },
}

/// What was seen of a backend in a row.
#[derive(Debug, Clone, Default)]
pub(crate) struct Tally {
    failures: u32,
    successes: u32,
    /// When the newest observation that counted was made; older ones come too late to mean anything.
    newest: Option<Instant>,
    /// Failed traffic counted since the last probe. It counts once: a hundred sessions that fail in the same
    /// moment are one failure.
    has_failed_traffic: bool,
}

/// What one observation says about life and death.
enum Evidence {
    Alive,
    Dead(Arc<str>),
    Nothing,
}

/// Takes the observations in, in their order. Returns the next snapshot, with a higher generation if a reader
/// could see a difference, and what happened.
pub fn decide(
    snapshot: &Snapshot,
    observations: &[Observation],
    settings: &Settings,
    now: Instant,
) -> (Snapshot, Vec<Event>) {
    let mut next = snapshot.clone();
    let mut events = Vec::new();
    let mut has_changed = false;
    for observation in observations {
        let Some(backend) = next.backends.get_mut(observation.backend().index()) else { continue };
        if let Observation::Wish { wish, .. } = observation {
            has_changed |= obey(backend, *wish, &mut events);
            continue;
        }
        if backend.tally.newest.is_some_and(|newest| observation.at() < newest) {
            continue;
        }
        has_changed |= learn(backend, observation, settings, &mut events);
        let evidence = weigh(&mut backend.tally, observation);
        has_changed |= judge(backend, evidence, settings, now, &mut events);
        if let Observation::Probe { backend, outcome: ProbeOutcome::Answered(answer), .. } = observation {
            rest::feel(&mut next, *backend, answer);
        }
    }
    has_changed |= rest::settle(&mut next);
    if has_changed {
        settle(&mut next);
    }
    (next, events)
}

/// Does what an operator wants; true if that is news. Who wants the same again does not start it over.
fn obey(backend: &mut Backend, wish: Wish, events: &mut Vec<Event>) -> bool {
    let is_news = backend.wish.is_offline() != wish.is_offline();
    if is_news {
        backend.wish = wish;
        events.push(Event::Wished { backend: backend.id, wish });
    }
    is_news
}

/// Keeps what the backend told; true if that is news.
fn learn(
    backend: &mut Backend,
    observation: &Observation,
    settings: &Settings,
    events: &mut Vec<Event>,
) -> bool {
    let Observation::Probe { outcome, .. } = observation else { return false };
    let mut is_news = false;
    let fault = match outcome {
        ProbeOutcome::Answered(answer) => {
            is_news = take_answer(backend, answer);
            match settings.kind {
                Kind::Static => static_roles::fault(backend.role, answer),
            }
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
    let is_same = backend.capabilities == Some(answer.capabilities)
        && backend.read_only == answer.read_only
        && backend.limits == Some(answer.limits)
        && backend
            .facts
            .as_ref()
            .is_some_and(|facts| Arc::ptr_eq(facts, &answer.facts) || *facts == answer.facts);
    if !is_same {
        backend.capabilities = Some(answer.capabilities);
        backend.read_only = answer.read_only;
        backend.limits = Some(answer.limits);
        backend.facts = Some(answer.facts.clone());
    }
    !is_same
}

fn weigh(tally: &mut Tally, observation: &Observation) -> Evidence {
    let evidence = match observation {
        Observation::Probe { outcome, .. } => {
            tally.has_failed_traffic = false;
            match outcome {
                ProbeOutcome::Answered(_) | ProbeOutcome::Denied(_) | ProbeOutcome::Full(_) => {
                    Evidence::Alive
                }
                ProbeOutcome::Refused(text) | ProbeOutcome::TimedOut(text) => Evidence::Dead(text.clone()),
            }
        }
        Observation::Traffic { traffic: Traffic::ConnectFailed(text), .. } => {
            if std::mem::replace(&mut tally.has_failed_traffic, true) {
                return Evidence::Nothing;
            }
            Evidence::Dead(text.clone())
        }
        Observation::Traffic { traffic: Traffic::Lost(_), .. } | Observation::Wish { .. } => {
            return Evidence::Nothing;
        }
    };
    tally.newest = Some(observation.at());
    match evidence {
        Evidence::Alive => (tally.successes, tally.failures) = (tally.successes.saturating_add(1), 0),
        Evidence::Dead(_) => (tally.failures, tally.successes) = (tally.failures.saturating_add(1), 0),
        Evidence::Nothing => {}
    }
    evidence
}

/// Changes the health if the evidence suffices; true if it did. The first thing seen decides at once: there is
/// no state yet that a single failure must not overthrow.
fn judge(
    backend: &mut Backend,
    evidence: Evidence,
    settings: &Settings,
    now: Instant,
    events: &mut Vec<Event>,
) -> bool {
    let id = backend.id;
    let is_first = backend.health == Health::Unknown;
    match evidence {
        Evidence::Alive if !backend.is_up() && (is_first || backend.tally.successes >= settings.rise) => {
            let down_for = backend.health.since().map(|since| now.saturating_duration_since(since));
            backend.health = Health::Up { since: now };
            backend.returned = down_for.map(|_| now);
            events.push(Event::Up { backend: id, down_for });
            true
        }
        Evidence::Dead(reason)
            if !backend.health.is_down() && (is_first || backend.tally.failures >= settings.fall) =>
        {
            backend.health = Health::Down { since: now, reason: reason.clone() };
            events.push(Event::Down { backend: id, reason });
            true
        }
        _ => false,
    }
}

/// What follows for the cluster as a whole.
fn settle(next: &mut Snapshot) {
    next.generation += 1;
    next.settled = next.backends.iter().all(|backend| backend.health != Health::Unknown);
    let primary = next.primary().and_then(|backend| backend.facts.clone());
    // A replica's facts stay until the primary is heard: what clients are told must not change back and forth.
    let others = || next.backends.iter().find_map(|backend| backend.facts.clone());
    next.facts = primary.or_else(|| next.facts.clone()).or_else(others);
}

#[cfg(test)]
mod tests;
