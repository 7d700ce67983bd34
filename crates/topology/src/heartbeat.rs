//! How late replicas are by a row that one proxy keeps changing on the primary: its beats. All times are by the clock of
//! the proxy that judges; only of beats from before it looked the number itself has to tell, which is the primary's clock.
//!
//! Owns: what follows from the beats that were seen, and which proxy writes them. Must not know how the row is read.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::backend::BackendId;

/// What a probe has made of the row as a backend shows it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Heartbeat {
    /// Nobody looked, or there is no beat yet to compare with.
    #[default]
    NotAsked,
    /// So late it is.
    Behind {
        /// How long ago the oldest beat was written that it has not got; zero if it has all.
        lag: Duration,
        /// Which primary it is seen to follow: it has a beat that was written there since that one is the primary.
        follows: Option<BackendId>,
    },
    /// It has the last beat, which is too old to mean anything: nobody writes.
    Silent,
    /// The row cannot be written or read. Why.
    Faulty(Arc<str>),
}

/// The row as it was read on the primary.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Beat {
    /// Grows with each beat. Microseconds since 1970 by the primary's clock, unless that goes back.
    pub number: u64,
    /// The proxy that wrote it; empty if it has ended and nobody has followed.
    pub writer: String,
    /// How often that one writes.
    pub every: Duration,
}

/// How many beats are remembered, so that the lag is exact for as long as those lasted.
const MOST: usize = 1024;

/// No writer is believed to write less often.
const SLOWEST: Duration = Duration::from_mins(1);

/// After so many beats that did not come the last one says nothing any more; not sooner than [`SHORTEST_SILENCE`].
const SILENCE: u32 = 3;
const SHORTEST_SILENCE: Duration = Duration::from_secs(1);

/// After so many that did not come another proxy writes; not sooner than [`SHORTEST_WATCH`].
const WATCHED: u32 = 4;
const SHORTEST_WATCH: Duration = Duration::from_secs(2);

/// The beats that this proxy has seen on the primary, and when.
#[derive(Debug, Clone)]
pub struct Beats {
    own: Duration,
    every: Duration,
    primary: Option<BackendId>,
    /// What was there when this one was looked at first as the primary: nobody knows when it was written.
    base: u64,
    /// Oldest first, numbers growing.
    seen: VecDeque<Seen>,
}

#[derive(Debug, Clone, Copy)]
struct Seen {
    number: u64,
    at: Instant,
}

impl Beats {
    /// None seen yet by a proxy that writes or looks so often.
    pub fn new(own: Duration) -> Self {
        Self { own, every: own, primary: None, base: 0, seen: VecDeque::new() }
    }

    /// True if there is nothing to compare with.
    pub fn is_empty(&self) -> bool {
        self.seen.is_empty()
    }

    /// How long no beat may come until the last one means nothing.
    pub fn silence(&self) -> Duration {
        SHORTEST_SILENCE.max(self.every * SILENCE)
    }

    /// Takes in what the row held on the primary; it was there at `at`, if not sooner.
    pub fn saw(&mut self, primary: BackendId, beat: &Beat, at: Instant) {
        if self.primary != Some(primary) {
            (self.primary, self.base) = (Some(primary), beat.number);
        }
        // The row may have been made anew.
        self.base = self.base.min(beat.number);
        self.every = self.own.max(beat.every.min(SLOWEST));
        // A new primary may never have got the last beats of the old one.
        while self.seen.back().is_some_and(|last| last.number > beat.number) {
            self.seen.pop_back();
        }
        if self.seen.back().is_none_or(|last| last.number < beat.number) {
            self.seen.push_back(Seen { number: beat.number, at });
        }
        if self.seen.len() > MOST {
            self.seen.pop_front();
        }
    }

    /// How late a replica is that showed beat `number` when it was asked at `at`; `None`: it showed no row.
    pub fn judge(&self, number: Option<u64>, at: Instant) -> Heartbeat {
        let (Some(oldest), Some(newest)) = (self.seen.front(), self.seen.back()) else {
            return Heartbeat::NotAsked;
        };
        let since = |seen: &Seen| at.saturating_duration_since(seen.at);
        let Some(number) = number else {
            // It may be on its way. One that is late without it is found by what the server says.
            return if since(oldest) <= self.silence() { Heartbeat::Silent } else { missing() };
        };
        if number >= newest.number {
            // The first that was seen may be of any age: that a replica has it says nothing.
            let tells = newest.number > self.base && since(newest) <= self.silence();
            return if tells {
                Heartbeat::Behind { lag: Duration::ZERO, follows: self.primary }
            } else {
                Heartbeat::Silent
            };
        }
        let lag = if number < oldest.number {
            // It lacks the beat after this one, which came about one interval later.
            let before = Duration::from_micros(oldest.number - number);
            since(oldest).saturating_add(before.saturating_sub(self.every))
        } else {
            since(&self.seen[self.seen.partition_point(|seen| seen.number <= number)])
        };
        Heartbeat::Behind { lag, follows: self.primary.filter(|_| number > self.base) }
    }
}

fn missing() -> Heartbeat {
    Heartbeat::Faulty("the heartbeat's row has not come here: is its table replicated?".into())
}

/// What a proxy has to do with the row next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Turn {
    /// Another one writes: look.
    Look,
    /// Write the next beat.
    Write,
    /// Write it in the place of another one that has stopped, if this is still the last beat.
    TakeOver(u64),
}

/// Which proxy writes: the one that did, until its beats stop.
///
/// That they have stopped is seen with one's own clock, so that no two clocks are compared, and the
/// number makes sure that of several that see it one alone takes over.
#[derive(Debug)]
pub struct Watch {
    me: String,
    own: Duration,
    watched: Option<(u64, Instant)>,
}

impl Watch {
    /// Of the proxy that is called `me` and writes so often.
    pub fn new(me: String, own: Duration) -> Self {
        Self { me, own, watched: None }
    }

    /// This proxy's name.
    pub fn me(&self) -> &str {
        &self.me
    }

    /// Nobody has looked for a while, or it is another server: what stood still before does not count.
    pub fn forget(&mut self) {
        self.watched = None;
    }

    /// What to do after the row was like this at `at`.
    pub fn turn(&mut self, beat: &Beat, at: Instant) -> Turn {
        if beat.writer == self.me {
            self.watched = None;
            return Turn::Write;
        }
        if beat.writer.is_empty() {
            return Turn::TakeOver(beat.number);
        }
        let limit = SHORTEST_WATCH.max(self.own.max(beat.every.min(SLOWEST)) * WATCHED);
        match self.watched {
            Some((number, since)) if number == beat.number => {
                if at.saturating_duration_since(since) < limit {
                    Turn::Look
                } else {
                    Turn::TakeOver(number)
                }
            }
            _ => {
                self.watched = Some((beat.number, at));
                Turn::Look
            }
        }
    }
}

#[cfg(test)]
mod tests;
