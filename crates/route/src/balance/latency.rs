//! How long one backend takes, as far as can be told from what it took: it believes bad news at once and good news
//! slowly (peak EWMA), and forgets both, so that a backend that was slow once is tried again.

use std::time::{Duration, Instant};

/// After this, a third of what was known is left, in seconds.
const MEMORY_S: f64 = 3.0;

/// What is known of one backend.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Latency {
    /// Seconds, at the time of `at`.
    value_s: f64,
    at: Option<Instant>,
}

impl Latency {
    /// Takes in what a read took.
    pub(super) fn take(&mut self, time: Duration, now: Instant) {
        let (known, keeps) = (self.now_s(now), self.keeps(now));
        let taken = time.as_secs_f64();
        self.value_s = if taken > known { taken } else { known * keeps + taken * (1.0 - keeps) };
        self.at = Some(now);
    }

    /// What it is now, in seconds; 0 if nothing is known, so that it is tried.
    pub(super) fn now_s(&self, now: Instant) -> f64 {
        self.value_s * self.keeps(now)
    }

    fn keeps(&self, now: Instant) -> f64 {
        let Some(at) = self.at else { return 0.0 };
        (-now.saturating_duration_since(at).as_secs_f64() / MEMORY_S).exp()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bad_news_at_once_good_news_slowly_and_both_are_forgotten() {
        let start = Instant::now();
        let at = |s| start + Duration::from_secs(s);
        let mut latency = Latency::default();
        assert_eq!(latency.now_s(at(0)).to_bits(), 0.0_f64.to_bits());
        latency.take(Duration::from_millis(1), at(0));
        latency.take(Duration::from_millis(100), at(0));
        assert!((latency.now_s(at(0)) - 0.1).abs() < 1e-9);
        latency.take(Duration::from_millis(1), at(0) + Duration::from_millis(10));
        assert!(latency.now_s(at(0)) > 0.09, "one good answer is not believed");
        assert!(latency.now_s(at(60)) < 0.001, "it is tried again some time");
    }
}
