//! Whether a backend lives: what was seen of it in a row, and how often it has died lately.

use std::sync::Arc;
use std::time::Instant;

use delphinus_wire::gtid::GtidSet;

use super::Settings;
use super::fitness::Unfit;
use crate::heartbeat::Heartbeat;
use crate::identity::Identity;
use crate::observation::{Answer, Observation, ProbeOutcome, Traffic};

/// What was seen of a backend so far.
#[derive(Debug, Clone, Default)]
pub(crate) struct Tally {
    failures: u32,
    successes: u32,
    /// When the newest observation that counted was made; older ones come too late to mean anything.
    newest: Option<Instant>,
    /// Failed traffic counted since the last probe. It counts once: a hundred sessions that fail in the same
    /// moment are one failure.
    has_failed_traffic: bool,
    /// What the last failed probe has said.
    failure: Failure,
    pub(super) life: Life,
    /// How often in a row it died soon after it came.
    flaps: u32,
    /// When it came back the last time, if it has not gone since.
    returned_at: Option<Instant>,
    /// It flaps: it is kept out until then.
    pub(super) shunned_until: Option<Instant>,
    /// Why it is no place for reads, if it is none.
    pub(super) unfit: Option<Unfit>,
    /// Since when its replication looks for a source although there is a primary.
    pub(super) connecting_since: Option<Instant>,
    /// When it answered last.
    pub(super) heard_at: Option<Instant>,
    /// How late it was by the heartbeat then.
    pub(super) heartbeat: Heartbeat,
    /// What it had executed when it was last heard as one that takes no writes.
    pub(super) followed: Option<Arc<GtidSet>>,
    /// It has been the primary, so that it must be seen to follow the new one before it is read from.
    pub(super) was_primary: bool,
    /// It was found, and is known to be a replica of this cluster: whom it follows.
    pub(super) vouched: Option<Arc<Identity>>,
    /// Another backend has taken its place while it took writes. Why it must not be written to.
    pub(super) deposed: Option<Arc<str>>,
    /// The proxies have agreed that another backend has its role: why it must not be written to whenever it takes writes.
    pub(super) replaced: Option<Arc<str>>,
}

/// Whether it lives.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) enum Life {
    #[default]
    Unknown,
    Alive,
    /// With what the failure said that made it so.
    Dead(Arc<str>),
}

/// How a probe failed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum Failure {
    /// It cannot be reached.
    #[default]
    Refused,
    /// It has not answered in time: it may be slow. Nothing has said that it is gone.
    Late,
}

/// What one observation says about life and death.
enum Evidence {
    Alive,
    /// Why; and how a probe failed, if it was one.
    Dead(Arc<str>, Option<Failure>),
}

impl Tally {
    /// Nothing that was seen before `now` counts.
    pub(crate) fn since(now: Instant) -> Self {
        Self { newest: Some(now), ..Self::default() }
    }

    pub(crate) fn was_primary(&self) -> bool {
        self.was_primary
    }

    /// True once something was seen of it.
    pub(super) fn is_known(&self) -> bool {
        self.life != Life::Unknown
    }

    pub(super) fn is_alive(&self) -> bool {
        self.life == Life::Alive
    }

    /// True if it lives, and its last probe has not failed.
    pub(super) fn is_answering(&self) -> bool {
        self.is_alive() && self.failures == 0
    }

    /// True if it counts as dead, and all that is known is that it does not answer in time.
    pub(crate) fn is_silent(&self) -> bool {
        matches!(self.life, Life::Dead(_)) && self.failure == Failure::Late
    }

    /// True if something newer has been seen.
    pub(super) fn is_too_late(&self, at: Instant) -> bool {
        self.newest.is_some_and(|newest| at < newest)
    }

    /// The next failure is its death.
    pub(super) fn condemn(&mut self) {
        self.failures = u32::MAX;
        self.vouched = None;
    }

    /// It has answered.
    pub(super) fn heard(&mut self, answer: &Answer, at: Instant) {
        self.heard_at = Some(at);
        self.heartbeat.clone_from(&answer.heartbeat);
        if answer.read_only {
            self.followed.clone_from(&answer.position);
            self.deposed = None;
        } else if self.replaced.is_some() {
            self.deposed.clone_from(&self.replaced);
        }
    }

    /// Counts an observation; true if it lives, is dead or only silent now, and was not before. The first thing seen decides at
    /// once: there is no state yet that a single failure must not overthrow.
    pub(super) fn weigh(&mut self, observation: &Observation, settings: &Settings) -> bool {
        let Some(evidence) = self.evidence(observation) else { return false };
        let now = observation.at();
        self.newest = Some(now);
        let is_first = !self.is_known();
        match evidence {
            Evidence::Alive => {
                (self.successes, self.failures) = (self.successes.saturating_add(1), 0);
                let is_news = !self.is_alive() && (is_first || self.successes >= settings.rise);
                if is_news {
                    self.rise(settings, now);
                }
                // One that answers again, and not often enough yet, is still what it was.
                if self.is_alive() {
                    self.failure = Failure::default();
                }
                is_news
            }
            Evidence::Dead(reason, failure) => {
                let was_silent = self.is_silent();
                self.failure = failure.unwrap_or(self.failure);
                (self.failures, self.successes) = (self.failures.saturating_add(1), 0);
                let is_dead = matches!(self.life, Life::Dead(_));
                let is_news = !is_dead && (is_first || self.failures >= settings.fall);
                if is_news {
                    self.fall(settings, now);
                    self.life = Life::Dead(reason);
                }
                is_news || was_silent != self.is_silent()
            }
        }
    }

    fn evidence(&mut self, observation: &Observation) -> Option<Evidence> {
        match observation {
            Observation::Probe { outcome, .. } => {
                self.has_failed_traffic = false;
                Some(match outcome {
                    ProbeOutcome::Answered(_) | ProbeOutcome::Denied(_) | ProbeOutcome::Full(_) => {
                        Evidence::Alive
                    }
                    ProbeOutcome::Refused(text) => Evidence::Dead(text.clone(), Some(Failure::Refused)),
                    ProbeOutcome::TimedOut(text) => Evidence::Dead(text.clone(), Some(Failure::Late)),
                })
            }
            Observation::Traffic { traffic: Traffic::ConnectFailed(text), .. } => {
                let is_repeated = std::mem::replace(&mut self.has_failed_traffic, true);
                (!is_repeated).then(|| Evidence::Dead(text.clone(), None))
            }
            Observation::Traffic { traffic: Traffic::Lost(_) | Traffic::ReadOnly, .. }
            | Observation::Moved { .. }
            | Observation::Listed { .. }
            | Observation::Wish { .. }
            | Observation::Released { .. }
            | Observation::Replaced { .. } => None,
        }
    }

    fn rise(&mut self, settings: &Settings, now: Instant) {
        let has_returned = self.is_known();
        self.life = Life::Alive;
        if !has_returned {
            return;
        }
        self.returned_at = Some(now);
        let flapping = &settings.flapping;
        let doubled = 2_u32.saturating_pow(self.flaps.saturating_sub(1));
        let pause = flapping.first.saturating_mul(doubled).min(flapping.most);
        self.shunned_until = (self.flaps > 0 && !pause.is_zero()).then(|| now + pause);
    }

    fn fall(&mut self, settings: &Settings, now: Instant) {
        // The time that it was kept out for does not make it any steadier.
        let from = self.shunned_until.max(self.returned_at);
        let is_soon = from.is_some_and(|from| now.saturating_duration_since(from) < settings.flapping.window);
        self.flaps = if is_soon { self.flaps.saturating_add(1) } else { 0 };
        (self.returned_at, self.shunned_until) = (None, None);
    }
}
