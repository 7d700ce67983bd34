//! Lines of a log that would repeat themselves many times a second.
//!
//! Owns: whether it is time for one more. Must not know what the lines say.

use std::time::{Duration, Instant};

/// Lets one line through in so much time, and counts those that it has held back.
#[derive(Debug)]
pub struct Pace {
    every: Duration,
    last: Option<Instant>,
    held_back: u64,
}

impl Pace {
    /// One line in so much time.
    pub const fn of(every: Duration) -> Self {
        Self { every, last: None, held_back: 0 }
    }

    /// How many were held back since the last line, if it is time for one; else this one is.
    pub fn step(&mut self, now: Instant) -> Option<u64> {
        if self.last.is_some_and(|last| now.saturating_duration_since(last) < self.every) {
            self.held_back += 1;
            return None;
        }
        self.last = Some(now);
        Some(std::mem::take(&mut self.held_back))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_line_is_let_through_and_the_others_are_counted() {
        let (mut pace, start) = (Pace::of(Duration::from_secs(10)), Instant::now());
        let mut step = |seconds| pace.step(start + Duration::from_secs(seconds));
        assert_eq!([step(0), step(1), step(9), step(10), step(25)], [Some(0), None, None, Some(2), Some(0)]);
    }
}
