//! For how long a process may rely on what a lease store has given it. Pure: the times are passed in, and no store is known
//! here.
//!
//! The store forgets a holder that has not been heard of for the time to live, counted from when it heard of it. The holder counts
//! from when it has *sent*, which is earlier, and ends earlier still, by a margin. So the holder has always ended before the store
//! gives the key to another.

mod failsafe;
mod sightings;

use std::ops::Add;
use std::time::Duration;

pub use failsafe::{MemberNames, Plea, Promises, Roll};
pub use sightings::{Sighted, Sightings};

/// A moment on a clock that goes on while the machine sleeps and that no operator sets (CLOCK_BOOTTIME): time since the machine
/// was started.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct BootTime(pub Duration);

impl BootTime {
    /// How much later than `earlier` it is; nothing if it is not.
    pub fn since(self, earlier: Self) -> Duration {
        self.0.saturating_sub(earlier.0)
    }
}

impl Add<Duration> for BootTime {
    type Output = Self;

    fn add(self, more: Duration) -> Self {
        Self(self.0 + more)
    }
}

/// What a store and its users have agreed on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Terms {
    /// After so long without a word of the holder, the store gives its keys to others.
    pub ttl: Duration,
    /// So much earlier the holder ends.
    pub margin: Duration,
}

impl Terms {
    /// The kernel looks at lifetimes of addresses once a second, and removed addresses up to 0.41 s late when that was measured
    /// (1.07 s with a lifetime of one second is the look itself). A smaller margin could leave an address in two places.
    pub const LEAST_MARGIN: Duration = Duration::from_millis(1250);

    /// How often the holder tells the store that it lives: a lost message or two must not end the tenure.
    pub fn pace(&self) -> Duration {
        (self.ttl / 6).max(Duration::from_millis(200))
    }

    /// How long one question to the store may take; there is time for another one within the tenure.
    pub fn patience(&self) -> Duration {
        (self.ttl.saturating_sub(self.margin) / 3).max(Duration::from_millis(200))
    }
}

/// How long this process is sure to be known to the store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tenure {
    terms: Terms,
    ends: Option<BootTime>,
}

impl Tenure {
    /// None yet.
    pub fn new(terms: Terms) -> Self {
        Self { terms, ends: None }
    }

    /// The store has answered a message that was sent at `sent`: it will wait for `ttl`, which may differ from what was asked.
    pub fn renewed(&mut self, sent: BootTime, ttl: Duration) {
        let sure = ttl.min(self.terms.ttl).saturating_sub(self.terms.margin);
        let ends = sent + sure;
        // Answers may come out of their order.
        self.ends = Some(self.ends.map_or(ends, |before| before.max(ends)));
    }

    /// The store does not know this process any more.
    pub fn lost(&mut self) {
        self.ends = None;
    }

    /// When it ends, if there is one.
    pub fn ends(&self) -> Option<BootTime> {
        self.ends
    }

    /// What is left of it.
    pub fn left(&self, now: BootTime) -> Duration {
        self.ends.map_or(Duration::ZERO, |ends| ends.since(now))
    }
}

/// Whether the holder may stay although the store is lost: every member that the store has listed last has promised, not longer
/// ago than `within`, to take nothing over. A list that is empty proves nothing.
pub fn may_stay<'a>(
    members: impl IntoIterator<Item = &'a str>,
    promised: impl Fn(&str) -> Option<BootTime>,
    (now, within): (BootTime, Duration),
) -> bool {
    let mut count = 0;
    let all = members.into_iter().all(|member| {
        count += 1;
        promised(member).is_some_and(|when| when + within > now)
    });
    all && count > 0
}

#[cfg(test)]
mod tests {
    use super::*;

    const TERMS: Terms = Terms { ttl: Duration::from_secs(6), margin: Duration::from_millis(1250) };

    fn at(ms: u64) -> BootTime {
        BootTime(Duration::from_millis(ms))
    }

    #[test]
    fn the_holder_counts_from_when_it_has_sent() {
        let mut tenure = Tenure::new(TERMS);
        assert_eq!(tenure.left(at(0)), Duration::ZERO);
        tenure.renewed(at(1_000), TERMS.ttl);
        assert_eq!(tenure.ends(), Some(at(5_750)));
        assert_eq!(tenure.left(at(5_000)), Duration::from_millis(750));
        assert_eq!(tenure.left(at(5_750)), Duration::ZERO);
    }

    #[test]
    fn a_store_that_grants_less_is_believed_and_one_that_grants_more_is_not() {
        let mut tenure = Tenure::new(TERMS);
        tenure.renewed(at(0), Duration::from_secs(3));
        assert_eq!(tenure.ends(), Some(at(1_750)));
        tenure.renewed(at(0), Duration::from_mins(1));
        assert_eq!(tenure.ends(), Some(at(4_750)));
        tenure.renewed(at(1_000), Duration::from_secs(1));
        assert_eq!(tenure.ends(), Some(at(4_750)), "an answer that promises less than an earlier one");
    }

    #[test]
    fn an_answer_out_of_order_takes_nothing_back_and_a_loss_takes_all() {
        let mut tenure = Tenure::new(TERMS);
        tenure.renewed(at(2_000), TERMS.ttl);
        tenure.renewed(at(1_000), TERMS.ttl);
        assert_eq!(tenure.ends(), Some(at(6_750)));
        tenure.lost();
        assert_eq!(tenure.left(at(0)), Duration::ZERO);
    }

    #[test]
    fn one_promise_that_is_missing_or_old_is_enough_to_give_up() {
        let promised = |name: &str| match name {
            "a" => Some(at(900)),
            "b" => Some(at(500)),
            _ => None,
        };
        let within = Duration::from_millis(600);
        assert!(may_stay(["a", "b"], promised, (at(1_000), within)));
        assert!(!may_stay(["a", "b"], promised, (at(1_100), within)), "b's is too old");
        assert!(!may_stay(["a", "c"], promised, (at(1_000), within)));
        assert!(!may_stay([], promised, (at(1_000), within)));
    }
}
