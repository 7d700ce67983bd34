//! Latencies, counted in buckets whose width grows with the value: at most 1/64 away from the truth, at any size.

use std::time::Duration;

use crate::stats::float;

/// Values below this are counted exactly, in nanoseconds; above, each doubling has half as many buckets.
const LINEAR: u64 = 128;
const HALF: usize = 64;
/// 2^42 ns are more than an hour.
const DOUBLINGS: usize = 36;
const BUCKETS: usize = LINEAR as usize + DOUBLINGS * HALF;

/// How often each latency was seen.
#[derive(Debug, Clone)]
pub(crate) struct Histogram {
    counts: Vec<u64>,
    total: u64,
}

impl Default for Histogram {
    fn default() -> Self {
        Self { counts: vec![0; BUCKETS], total: 0 }
    }
}

impl Histogram {
    /// Counts one latency.
    #[inline]
    pub(crate) fn record(&mut self, latency: Duration) {
        self.record_many(latency, 1);
    }

    /// Counts a latency that so many had.
    #[inline]
    pub(crate) fn record_many(&mut self, latency: Duration, count: u64) {
        let nanos = u64::try_from(latency.as_nanos()).unwrap_or(u64::MAX);
        self.counts[bucket(nanos)] += count;
        self.total += count;
    }

    /// How many were counted.
    pub(crate) fn total(&self) -> u64 {
        self.total
    }

    /// Adds what another one has counted.
    pub(crate) fn add(&mut self, other: &Self) {
        for (own, other) in self.counts.iter_mut().zip(&other.counts) {
            *own += other;
        }
        self.total += other.total;
    }

    /// The latency in ms that `share` (0 to 1) of all are not above; `None` when nothing was counted.
    pub(crate) fn quantile_ms(&self, share: f64) -> Option<f64> {
        let wanted = (float(self.total) * share).ceil().max(1.0);
        let mut seen = 0;
        let found = self.counts.iter().position(|count| {
            seen += count;
            float(seen) >= wanted
        })?;
        Some(middle(found) / 1e6)
    }
}

fn bucket(nanos: u64) -> usize {
    if nanos < LINEAR {
        return nanos as usize;
    }
    // The highest seven bits say where: the first of them is always set.
    let shift = nanos.ilog2() as usize - 6;
    let within = (nanos >> shift) as usize - HALF;
    (LINEAR as usize + (shift - 1) * HALF + within).min(BUCKETS - 1)
}

/// The middle of a bucket, in ns.
fn middle(bucket: usize) -> f64 {
    if bucket < LINEAR as usize {
        return float(bucket as u64);
    }
    let above = bucket - LINEAR as usize;
    let (shift, within) = (above / HALF + 1, above % HALF);
    let width = float(1 << shift);
    (float((HALF + within) as u64) + 0.5) * width
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_value_is_counted_near_itself() {
        for nanos in (0..41).map(|bit| 1u64 << bit).flat_map(|n| [n, n + n / 3, 2 * n - 1]) {
            let found = middle(bucket(nanos));
            assert!((found - float(nanos)).abs() <= float(nanos) / 64.0, "{nanos}: {found}");
        }
        assert_eq!(bucket(u64::MAX), BUCKETS - 1);
    }

    #[test]
    fn buckets_follow_one_another() {
        let mut last = 0;
        for nanos in 0..100_000 {
            let at = bucket(nanos);
            assert!(at == last || at == last + 1, "{nanos}");
            last = at;
        }
    }

    #[test]
    fn quantiles_are_those_of_the_values() {
        let mut histogram = Histogram::default();
        assert_eq!(histogram.quantile_ms(0.5), None);
        for micros in 1..=1000 {
            histogram.record(Duration::from_micros(micros));
        }
        for (share, wanted) in [(0.5, 0.5), (0.95, 0.95), (0.99, 0.99), (1.0, 1.0), (0.0, 0.001)] {
            let found = histogram.quantile_ms(share).unwrap();
            assert!((found - wanted).abs() <= wanted / 50.0, "{share}: {found}");
        }
    }

    #[test]
    fn two_together_have_the_values_of_both() {
        let (mut one, mut two) = (Histogram::default(), Histogram::default());
        one.record(Duration::from_millis(1));
        two.record(Duration::from_millis(9));
        two.record(Duration::from_millis(9));
        one.add(&two);
        assert_eq!(one.total(), 3);
        assert!(one.quantile_ms(0.5).unwrap() > 8.0);
        assert!(one.quantile_ms(0.3).unwrap() < 2.0);
    }
}
