//! What one limit has counted for one key.
//!
//! The rate is a token bucket in the form of GCRA (ITU-T I.371): one number, the moment at which the bucket is full again.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, LazyLock};
use std::time::{Duration, Instant};

use delphinus_net::rt;

use super::LimitTerms;
use super::slots::Slots;

/// Where times count from, in nanoseconds.
static START: LazyLock<Instant> = LazyLock::new(rt::now);

/// Statements in a second.
#[derive(Debug)]
pub(super) struct Rate {
    /// When the bucket is full again.
    full_at: AtomicU64,
    /// What one statement takes.
    each: u64,
    /// How far `full_at` may be ahead.
    room: u64,
    /// How far beyond that transactions move it, which do not wait: who waits has to come before the end of its patience.
    debt: u64,
}

/// What one key has used.
#[derive(Debug)]
pub(super) struct LimitAccount {
    pub(super) rate: Option<Rate>,
    pub(super) slots: Option<Arc<Slots>>,
    /// Statements in the queue.
    pub(super) waiting: AtomicU32,
}

impl Rate {
    fn new((per_second, burst): (u32, u32), terms: &LimitTerms) -> Self {
        let each = 1_000_000_000 / u64::from(per_second.max(1));
        // Half of it: there is room behind what transactions have taken. Where nobody waits, none is refused for that.
        let debt = if terms.queue == 0 { Duration::ZERO } else { terms.queue_timeout / 2 };
        let room = each * u64::from(burst.max(1) - 1);
        Self { full_at: AtomicU64::new(0), each, room, debt: nanos(debt) }
    }

    /// Takes one, if one is there; if it `must`, also one that is not. `now` is [`since_start`].
    #[inline]
    pub(super) fn take(&self, now: u64, must: bool) -> bool {
        let next = |full_at: u64| {
            let (after, full) = (full_at.max(now) + self.each, now + self.room);
            if full_at <= full {
                Some(after)
            } else {
                must.then(|| after.min(full_at.max(full.saturating_add(self.debt))))
            }
        };
        self.full_at.fetch_update(Ordering::AcqRel, Ordering::Relaxed, next).is_ok()
    }

    /// Takes one of the future, and tells how long that is; `None` if it is later than `patience`.
    pub(super) fn reserve(&self, now: Instant, patience: Duration) -> Option<Duration> {
        let (now, patience) = (since_start(now), nanos(patience));
        let wait = |full_at: u64| full_at.saturating_sub(now + self.room);
        let next = |full_at: u64| (wait(full_at) <= patience).then(|| full_at.max(now) + self.each);
        let before = self.full_at.fetch_update(Ordering::AcqRel, Ordering::Relaxed, next);
        before.ok().map(|full_at| Duration::from_nanos(wait(full_at)))
    }

    /// Gives back what was reserved and is not used: who comes next has it.
    pub(super) fn give_back(&self) {
        self.full_at.fetch_sub(self.each, Ordering::AcqRel);
    }
}

impl LimitAccount {
    pub(super) fn new(terms: &LimitTerms) -> Self {
        Self {
            rate: terms.rate.map(|rate| Rate::new(rate, terms)),
            slots: terms.concurrency.map(|slots| Arc::new(Slots::new(slots))),
            waiting: AtomicU32::new(0),
        }
    }

    /// True if to forget it would forget something.
    pub(super) fn is_busy(&self, now: Instant) -> bool {
        self.waiting.load(Ordering::Relaxed) > 0
            || self.rate.as_ref().is_some_and(|rate| rate.full_at.load(Ordering::Relaxed) > since_start(now))
    }
}

/// In nanoseconds.
pub(super) fn since_start(now: Instant) -> u64 {
    // A moment before the first is the first.
    nanos(now.saturating_duration_since(*START))
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}
