//! When a lease that is a row of a table is over. Pure; no table is known here.
//!
//! No server's clock is asked: a server may be another one by then, and operators set clocks. The holder adds one to the row's beat, and
//! whoever reads it counts, on its own clock, how long the beat has stayed as it is. The holder counts from before it has sent the
//! change, and a reader from when it has heard of it, which is later. So the holder's tenure ends before any reader's time is up,
//! wherever the row was read. A reader takes the row away only with the beat that it has seen: a holder that was quicker keeps it.

use std::collections::BTreeMap;
use std::time::Duration;

use super::BootTime;

/// A lease, as its row shows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sighted {
    /// Its number.
    pub lease: u64,
    /// How often its holder has been heard of. It only grows.
    pub beat: u64,
    /// For how long its holder may not have been heard of.
    pub ttl: Duration,
}

/// What one process has seen of the leases in a table.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Sightings(BTreeMap<u64, (Sighted, BootTime)>);

impl Sightings {
    /// All leases, as the server shows them that takes the writes. The answer was there at `heard`.
    pub fn all(&mut self, rows: &[Sighted], heard: BootTime) {
        self.0.retain(|lease, _| rows.iter().any(|row| row.lease == *lease));
        for row in rows {
            // Even an earlier beat is news: tables are restored.
            self.note(*row, heard, |before| before != *row);
        }
    }

    /// Some leases, as a server shows them that may be behind the others.
    pub fn some(&mut self, rows: &[Sighted], heard: BootTime) {
        for row in rows {
            self.note(*row, heard, |before| before.beat < row.beat);
        }
    }

    fn note(&mut self, row: Sighted, heard: BootTime, is_news: impl Fn(Sighted) -> bool) {
        let known = self.0.entry(row.lease).or_insert((row, heard));
        if is_news(known.0) {
            *known = (row, heard);
        }
    }

    /// Leases that are over, each with the beat that its row has to have still.
    pub fn over(&self, now: BootTime) -> impl Iterator<Item = Sighted> {
        let is_over = move |(row, since): &&(Sighted, BootTime)| now.since(*since) >= row.ttl;
        self.0.values().filter(is_over).map(|(row, _)| *row)
    }

    /// How many are known.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// True if none is known.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> BootTime {
        BootTime(Duration::from_millis(ms))
    }

    fn row(lease: u64, beat: u64) -> Sighted {
        Sighted { lease, beat, ttl: Duration::from_secs(6) }
    }

    fn over(seen: &Sightings, ms: u64) -> Vec<(u64, u64)> {
        seen.over(at(ms)).map(|row| (row.lease, row.beat)).collect()
    }

    #[test]
    fn a_lease_is_over_when_its_beat_has_stayed_for_its_time_to_live() {
        let mut seen = Sightings::default();
        seen.all(&[row(1, 10), row(2, 5)], at(1_000));
        seen.all(&[row(1, 10), row(2, 6)], at(4_000));
        assert_eq!(over(&seen, 6_999), []);
        assert_eq!(over(&seen, 7_000), [(1, 10)]);
        assert_eq!(over(&seen, 10_000), [(1, 10), (2, 6)]);
        seen.all(&[row(2, 6)], at(10_001));
        assert_eq!(over(&seen, 10_001), [(2, 6)], "a row that is gone is forgotten");
    }

    #[test]
    fn a_server_that_is_behind_makes_no_beat_younger_or_older() {
        let mut seen = Sightings::default();
        seen.all(&[row(1, 10)], at(1_000));
        seen.some(&[row(1, 9)], at(3_000));
        assert_eq!(over(&seen, 7_000), [(1, 10)], "an old beat is no news");
        seen.some(&[row(1, 11)], at(5_000));
        assert_eq!(over(&seen, 7_000), [], "a new one is, wherever it is seen");
        assert_eq!(over(&seen, 11_000), [(1, 11)]);
        seen.some(&[], at(12_000));
        assert_eq!(seen.len(), 1, "it may only not be there yet");
    }

    #[test]
    fn a_table_that_was_restored_is_believed() {
        let mut seen = Sightings::default();
        seen.all(&[row(1, 10)], at(0));
        seen.all(&[row(1, 3)], at(2_000));
        assert_eq!(over(&seen, 7_000), []);
        assert_eq!(over(&seen, 8_000), [(1, 3)]);
        assert!(!seen.is_empty());
    }

    #[test]
    fn another_time_to_live_counts_from_when_it_was_read() {
        let mut seen = Sightings::default();
        seen.all(&[row(1, 10)], at(0));
        let longer = Sighted { ttl: Duration::from_secs(20), ..row(1, 11) };
        seen.all(&[longer], at(1_000));
        assert_eq!(over(&seen, 20_999), []);
        assert_eq!(over(&seen, 21_000), [(1, 11)]);
    }
}
