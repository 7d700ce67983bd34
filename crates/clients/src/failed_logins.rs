//! How long the next login has to wait where logins have failed: longer each time, by the place that they come from. Owns a
//! table of such places, of bounded size. While it is empty, which is usual, a login pays for the load of one number.
//!
//! A place is an address (of IPv6, a network), which a load balancer may have told, or the system user at the other end of a
//! Unix socket. Many clients may share one. So a user that has logged in from there since does not wait there before its
//! password is looked at, but only for the answer if that is wrong: an application that keeps failing delays others once.
//! A few wrong passwords between right ones do not change that: one mistake must not delay a whole pool of the same user.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::net::IpAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::admission::Source;

/// Where a login comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Visitor {
    source: Source,
    /// On a Unix socket.
    system_user: Option<u32>,
}

impl Visitor {
    pub(crate) fn source(&self) -> Source {
        self.source
    }

    /// From an address, or from a system user on a Unix socket.
    pub fn of(ip: Option<IpAddr>, system_user: Option<u32>) -> Self {
        Self { source: Source::of(ip), system_user: system_user.filter(|_| ip.is_none()) }
    }
}

/// What a login has to do before its password is looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Delay {
    /// Nothing.
    None,
    /// Wait so long, and then tell the table with [`FailedLogins::has_waited`].
    Wait(Duration),
    /// Go away: too many wait already.
    Refused,
}

/// The rules.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LoginDelays {
    /// So many logins fail without a delay.
    pub threshold: u32,
    /// The longest delay; zero: there is none.
    pub most: Duration,
}

impl Default for LoginDelays {
    fn default() -> Self {
        Self { threshold: 3, most: Duration::from_secs(4) }
    }
}

/// Places where logins have failed.
#[derive(Debug, Default)]
pub struct FailedLogins {
    /// How many places are known.
    known: AtomicUsize,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    delays: LoginDelays,
    places: HashMap<Visitor, Failures>,
    waiting: u32,
}

/// Of one place.
#[derive(Debug)]
struct Failures {
    count: u32,
    last: Instant,
    waiting: u32,
    /// Users that have logged in since, the latest last.
    good: Vec<Good>,
}

/// A user that has logged in from a place.
#[derive(Debug)]
struct Good {
    /// A hash of its name.
    user: u64,
    /// Its wrong passwords from there since.
    misses: u32,
}

/// The first delay.
const FIRST: Duration = Duration::from_millis(250);
/// For each such time without a failure, half of them are forgotten.
const HALF_LIFE: Duration = Duration::from_mins(1);
/// Places that are known at the same time.
const MOST_PLACES: usize = 4096;
/// Users that are remembered for each.
const MOST_GOOD: usize = 32;
/// After so many wrong passwords without a right one, it is like any other.
const MOST_MISSES: u32 = 3;
/// Logins that wait at the same time, of one place and of all: an application's pool has to fit.
const MOST_WAITING: (u32, u32) = (128, 1024);

/// What stands for a user's name, of whatever length.
pub(crate) fn user_key(user: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    user.hash(&mut hasher);
    hasher.finish()
}

impl FailedLogins {
    /// With these rules.
    pub fn new(delays: LoginDelays) -> Self {
        Self { state: Mutex::new(State { delays, ..State::default() }), ..Self::default() }
    }

    /// Follows other rules from now on.
    pub fn follow(&self, delays: LoginDelays) {
        self.state().delays = delays;
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// True if no login has failed lately.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.known.load(Ordering::Relaxed) == 0
    }

    /// Before the password of a user is looked at.
    pub(crate) fn before(&self, visitor: Visitor, user: u64, now: Instant) -> Delay {
        if self.is_empty() {
            return Delay::None;
        }
        let mut state = self.state();
        match state.places.get(&visitor) {
            Some(failures) if !failures.good.iter().any(|good| good.user == user) => state.wait(visitor, now),
            _ => Delay::None,
        }
    }

    /// A login has failed: how long its answer has to wait, unless it has waited before.
    pub(crate) fn failed(&self, visitor: Visitor, user: u64, has_waited: bool, now: Instant) -> Delay {
        let mut state = self.state();
        if state.delays.most.is_zero() {
            return Delay::None;
        }
        if !state.places.contains_key(&visitor) && state.places.len() >= MOST_PLACES {
            state.forget_one();
        }
        let new = || Failures { count: 0, last: now, waiting: 0, good: Vec::new() };
        let failures = state.places.entry(visitor).or_insert_with(new);
        failures.fade(now);
        failures.count = failures.count.saturating_add(1);
        failures.last = now;
        failures.missed(user);
        self.known.store(state.places.len(), Ordering::Relaxed);
        if has_waited { Delay::None } else { state.wait(visitor, now) }
    }

    /// A login has succeeded.
    pub(crate) fn succeeded(&self, visitor: Visitor, user: u64) {
        if self.is_empty() {
            return;
        }
        if let Some(failures) = self.state().places.get_mut(&visitor) {
            failures.good.retain(|good| good.user != user);
            if failures.good.len() == MOST_GOOD {
                failures.good.remove(0);
            }
            failures.good.push(Good { user, misses: 0 });
        }
    }

    /// A login has waited, to the end or not.
    pub(crate) fn has_waited(&self, visitor: Visitor) {
        let mut state = self.state();
        state.waiting = state.waiting.saturating_sub(1);
        if let Some(failures) = state.places.get_mut(&visitor) {
            failures.waiting = failures.waiting.saturating_sub(1);
        }
    }

    /// Forgets places where no login has failed for long; once a second.
    pub fn tick(&self, now: Instant) {
        if self.is_empty() {
            return;
        }
        let mut state = self.state();
        state.places.retain(|_, failures| {
            failures.fade(now);
            failures.count > 0 || failures.waiting > 0
        });
        self.known.store(state.places.len(), Ordering::Relaxed);
    }
}

impl State {
    fn wait(&mut self, visitor: Visitor, now: Instant) -> Delay {
        let (most_here, most) = MOST_WAITING;
        let (is_full, delays) = (self.waiting >= most, self.delays);
        let Some(failures) = self.places.get_mut(&visitor) else { return Delay::None };
        failures.fade(now);
        let Some(over) = failures.count.checked_sub(delays.threshold + 1) else { return Delay::None };
        if is_full || failures.waiting >= most_here {
            return Delay::Refused;
        }
        failures.waiting += 1;
        self.waiting += 1;
        Delay::Wait((FIRST * 2_u32.pow(over.min(16))).min(delays.most))
    }

    /// Of those with the fewest failures, the oldest.
    fn forget_one(&mut self) {
        let least = self.places.iter().filter(|(_, one)| one.waiting == 0);
        let least = least.min_by_key(|(_, one)| (one.count, one.last)).map(|(visitor, _)| *visitor);
        if let Some(visitor) = least {
            self.places.remove(&visitor);
        }
    }
}

impl Failures {
    fn missed(&mut self, user: u64) {
        let mut good = self.good.iter_mut();
        if let Some(known) = good.find(|good| good.user == user) {
            known.misses += 1;
        }
        self.good.retain(|good| good.misses <= MOST_MISSES);
    }

    fn fade(&mut self, now: Instant) {
        while self.count > 0 && now.saturating_duration_since(self.last) >= HALF_LIFE {
            self.count /= 2;
            self.last += HALF_LIFE;
        }
        self.count = self.count.min(32);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ip: &str) -> Visitor {
        Visitor::of(Some(ip.parse().unwrap()), None)
    }

    /// Logs in with a wrong password; what it had to wait for, in milliseconds.
    fn fails(table: &FailedLogins, visitor: Visitor, user: u64, now: Instant) -> Option<u64> {
        let before = table.before(visitor, user, now);
        let after = table.failed(visitor, user, before != Delay::None, now);
        let waited = [before, after].map(|delay| match delay {
            Delay::None => Some(0),
            Delay::Wait(time) => {
                table.has_waited(visitor);
                Some(time.as_millis() as u64)
            }
            Delay::Refused => None,
        });
        Some(waited[0]? + waited[1]?)
    }

    #[test]
    fn delays_grow_and_end() {
        let (table, now) = (FailedLogins::default(), Instant::now());
        let waits: Vec<_> = (0..10).map(|_| fails(&table, at("10.0.0.1"), 1, now).unwrap()).collect();
        assert_eq!(waits, [0, 0, 0, 250, 250, 500, 1000, 2000, 4000, 4000]);
        assert_eq!(table.before(at("10.0.0.2"), 1, now), Delay::None, "another address");
        let other = Visitor::of(None, Some(1000));
        assert_eq!(table.before(other, 1, now), Delay::None, "a Unix socket");
        let later = now + HALF_LIFE * 5;
        assert_eq!(table.before(at("10.0.0.1"), 1, later), Delay::None);
        table.tick(later);
        assert!(table.is_empty());
    }

    #[test]
    fn who_has_logged_in_there_does_not_wait_but_for_the_answer_to_a_wrong_password() {
        let (table, here, now) = (FailedLogins::default(), at("10.0.0.1"), Instant::now());
        for _ in 0..20 {
            fails(&table, here, 1, now);
        }
        assert_eq!(table.before(here, 2, now), Delay::Wait(Duration::from_secs(4)));
        table.has_waited(here);
        table.succeeded(here, 2);
        assert_eq!(table.before(here, 2, now), Delay::None);
        // No difference to a user that is not known there.
        for _ in 0..MOST_MISSES {
            assert_eq!(fails(&table, here, 2, now), Some(4000));
        }
        assert_eq!(table.before(here, 2, now), Delay::None, "some mistakes");
        assert_eq!(fails(&table, here, 2, now), Some(4000));
        assert_eq!(table.before(here, 2, now), Delay::Wait(Duration::from_secs(4)), "too many");
    }

    #[test]
    fn the_table_and_those_that_wait_are_bounded() {
        let (table, now) = (FailedLogins::default(), Instant::now());
        for _ in 0..8 {
            fails(&table, at("10.9.9.9"), 1, now);
        }
        for number in 0..20_000_u32 {
            fails(&table, Visitor::of(Some(IpAddr::V4(number.into())), None), 1, now);
        }
        assert_eq!(table.state().places.len(), MOST_PLACES);
        let waits = |_| table.before(at("10.9.9.9"), 1, now);
        let delays: Vec<_> = (0..132).map(waits).collect();
        assert_eq!(
            delays.iter().filter(|one| **one == Delay::Refused).count(),
            4,
            "a known attacker stays known"
        );
        assert_eq!(table.state().waiting, 128);
    }
}
