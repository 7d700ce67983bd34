//! Which of several backends takes the next read. One for each worker, so nothing is shared.
//!
//! Owns: the turns (spread evenly over time: weights 2 and 1 give a b a, a b a and not a a b), the primary's share, what
//! is known of latencies. Time and load are passed in, and only where the policy needs them.

mod hash;
mod latency;

use std::time::{Duration, Instant};

use delphinus_topology::{Backend, BackendId, Snapshot};

use crate::intent::Intent;
use crate::policy::{Policy, ReadBalance};
use hash::by_text;
pub use hash::{number_of_statement, number_of_text};
use latency::Latency;

/// Weights are multiplied by this, so that a slow start has steps.
const SCALE: i64 = 1_000;
/// The smallest part of its weight that a returned replica begins with: one of so many.
const FIRST_STEP: i64 = 20;

/// What each backend still has to come to. It stays bounded by the sum of the weights.
#[derive(Debug, Clone, Default)]
pub struct Balance {
    policy: Policy,
    credit: Vec<i64>,
    /// Hundredths of a read that the primary still has to come to.
    share: u32,
    seen: Vec<Seen>,
    now: Option<Instant>,
}

/// What is known of a backend beside the snapshot.
#[derive(Debug, Clone, Copy, Default)]
struct Seen {
    in_use: u32,
    latency: Latency,
}

impl Balance {
    /// For this policy.
    pub fn new(policy: Policy) -> Self {
        Self { policy, ..Self::default() }
    }

    /// Follows another policy from now on; nothing that is known is forgotten.
    pub fn follow(&mut self, policy: Policy) {
        self.policy = policy;
    }

    /// What it follows.
    pub fn policy(&self) -> &Policy {
        &self.policy
    }

    /// True if [`Balance::look`] has to be called before each choice.
    #[inline]
    pub fn needs_look(&self) -> bool {
        matches!(self.policy.read_balance, ReadBalance::LeastConnections | ReadBalance::LeastLatency)
            || !self.policy.slow_start.is_zero()
    }

    /// True if each read has to be timed, for [`Balance::took`].
    #[inline]
    pub fn needs_latency(&self) -> bool {
        self.policy.read_balance == ReadBalance::LeastLatency
    }

    /// True if each read needs a number made from its text, as [`Intent::text`].
    #[inline]
    pub fn needs_text(&self) -> bool {
        self.policy.read_balance == ReadBalance::Hash
    }

    /// Takes in the time, and how many connections to each backend are in use.
    pub fn look(&mut self, snapshot: &Snapshot, now: Instant, in_use: impl Fn(BackendId) -> u32) {
        self.now = Some(now);
        self.seen.resize(snapshot.backends.len(), Seen::default());
        for backend in &snapshot.backends {
            self.seen[backend.id.index()].in_use = in_use(backend.id);
        }
    }

    /// Takes in how long a read took.
    pub fn took(&mut self, backend: BackendId, time: Duration, now: Instant) {
        if self.seen.len() <= backend.index() {
            self.seen.resize(backend.index() + 1, Seen::default());
        }
        self.seen[backend.index()].latency.take(time, now);
    }

    /// True if it is the primary's turn to take a read: after any number of reads it is less than one off its share.
    #[inline]
    pub(crate) fn is_turn_of_primary(&mut self) -> bool {
        let percentage = u32::from(self.policy.read_primary_percentage);
        if percentage == 0 {
            return false;
        }
        self.share += percentage;
        let is_due = self.share >= 100;
        if is_due {
            self.share -= 100;
        }
        is_due
    }

    /// Chooses among the backends that may take it; those of weight 0 only when there is no other. Allocates only
    /// when the cluster has grown.
    #[inline]
    pub(crate) fn choose(
        &mut self,
        snapshot: &Snapshot,
        text: u32,
        is_usable: impl Fn(&Backend) -> bool + Copy,
    ) -> Option<BackendId> {
        if self.credit.len() < snapshot.backends.len() {
            self.credit.resize(snapshot.backends.len(), 0);
        }
        let candidates = move || snapshot.backends.iter().filter(move |backend| is_usable(backend));
        let weighty = move || candidates().filter(|backend| backend.weight > 0);
        let chosen = match self.policy.read_balance {
            ReadBalance::Weighted => self.next_of(weighty(), |_, backend| Some(backend.weight)),
            ReadBalance::RoundRobin => self.next_of(weighty(), |_, _| Some(1)),
            ReadBalance::LeastConnections | ReadBalance::LeastLatency => self.least_of(weighty),
            ReadBalance::Hash => by_text(text, weighty()),
        };
        chosen.or_else(|| self.next_of(candidates(), |_, _| Some(1)))
    }

    /// Everybody earns its weight, and the richest pays for all; those without a weight take no part.
    #[inline]
    fn next_of<'s>(
        &mut self,
        candidates: impl Iterator<Item = &'s Backend>,
        weight_of: impl Fn(&Self, &Backend) -> Option<u32>,
    ) -> Option<BackendId> {
        let (mut richest, mut total) = (None, 0);
        for backend in candidates {
            let Some(weight) = weight_of(self, backend) else { continue };
            let weight = self.scaled(backend, weight);
            total += weight;
            let credit = &mut self.credit[backend.id.index()];
            *credit += weight;
            if richest.is_none_or(|(_, best)| *credit > best) {
                richest = Some((backend.id, *credit));
            }
        }
        let (id, _) = richest?;
        self.credit[id.index()] -= total;
        Some(id)
    }

    /// Of those that cost least, the next in turn.
    fn least_of<'s, I: Iterator<Item = &'s Backend>>(
        &mut self,
        candidates: impl Fn() -> I,
    ) -> Option<BackendId> {
        let least = candidates().map(|backend| self.cost(backend)).min_by(f64::total_cmp)?;
        self.next_of(candidates(), |balance, backend| {
            (balance.cost(backend) <= least).then_some(backend.weight)
        })
    }

    fn cost(&self, backend: &Backend) -> f64 {
        let seen = self.seen.get(backend.id.index()).copied().unwrap_or_default();
        let load = f64::from(seen.in_use) + 1.0;
        let each = match (self.policy.read_balance, self.now) {
            (ReadBalance::LeastLatency, Some(now)) => seen.latency.now_s(now),
            _ => 1.0,
        };
        // Weights are below 2^53.
        #[expect(clippy::cast_precision_loss, reason = "weights are small")]
        let weight = self.scaled(backend, backend.weight) as f64;
        load * each / weight
    }

    /// The weight in steps; less while the backend is new again.
    #[inline]
    fn scaled(&self, backend: &Backend, weight: u32) -> i64 {
        let full = i64::from(weight) * SCALE;
        match backend.returned {
            Some(returned) if !self.policy.slow_start.is_zero() => self.slowed(full, returned),
            _ => full,
        }
    }

    fn slowed(&self, full: i64, returned: Instant) -> i64 {
        let Some(now) = self.now else { return full };
        let (since, whole) = (now.saturating_duration_since(returned), self.policy.slow_start);
        if since >= whole {
            return full;
        }
        let part = since.as_millis() * u128::from(full.unsigned_abs()) / whole.as_millis().max(1);
        i64::try_from(part).unwrap_or(full).max(full / FIRST_STEP).max(1)
    }
}

/// True for a replica that may take a read.
#[inline]
pub(crate) fn is_free_replica(backend: &Backend, intent: &Intent<'_>) -> bool {
    backend.is_readable_replica()
        && !intent.avoid.contains(&backend.id)
        && !intent.behind.contains(&backend.id)
}

#[cfg(test)]
mod tests;
