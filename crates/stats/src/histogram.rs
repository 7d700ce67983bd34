//! A histogram of times: eight buckets for each doubling, from 1 µs to 4.7 hours, exact counts. Owns the buckets and how percentiles are
//! read from them.
//!
//! The middle of a bucket is at most 4.5 % away from any time in it, so that a percentile is as well: the buckets' borders are
//! `2^(i/8)`, rounded up to whole microseconds.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU16, AtomicU32, Ordering};

use delphinus_memory::Permit;

/// Times up to here have a bucket each.
const EXACT: u64 = 8;
/// Buckets for each doubling.
const PARTS: usize = 8;
/// How many buckets there are: the last one also counts what is longer.
pub const BUCKETS: usize = EXACT as usize + 31 * PARTS;
/// What the borders within a doubling are, in 1/256 of its beginning: `256 * 2^(i/8)`.
const BORDERS: [u16; PARTS] = [256, 280, 305, 332, 363, 395, 431, 470];
/// The bucket within a doubling by the eight bits behind the first one.
static PART_OF: [u8; 256] = parts();

const fn parts() -> [u8; 256] {
    let mut parts = [0; 256];
    let mut bits = 0;
    while bits < 256 {
        let mut part = PARTS - 1;
        while BORDERS[part] as usize > bits + 256 {
            part -= 1;
        }
        parts[bits] = part as u8;
        bits += 1;
    }
    parts
}

/// The bucket of a time, in microseconds.
#[inline]
fn bucket_of(us: u64) -> usize {
    if us < EXACT {
        return us as usize;
    }
    let doubling = us.ilog2();
    // The eight bits behind the first one.
    let bits = (if doubling >= 8 { us >> (doubling - 8) } else { us << (8 - doubling) }) & 0xff;
    let bucket = EXACT as usize + (doubling as usize - 3) * PARTS + PART_OF[bits as usize] as usize;
    bucket.min(BUCKETS - 1)
}

/// Where a bucket begins, in microseconds.
pub fn lower_us(bucket: usize) -> u64 {
    let Some(above) = bucket.checked_sub(EXACT as usize) else { return bucket as u64 };
    let (doubling, part) = (3 + above / PARTS, above % PARTS);
    (u64::from(BORDERS[part]) << doubling).div_ceil(256)
}

/// The middle of a bucket, in microseconds: as far from its beginning as from its end, by the quotient.
fn middle_us(bucket: usize) -> u64 {
    let (lower, upper) = (lower_us(bucket), lower_us(bucket + 1));
    if upper - lower <= 1 {
        return lower;
    }
    // The root of a product is between its factors.
    u64::try_from((4 * u128::from(lower) * u128::from(upper - 1)).isqrt().div_ceil(2)).unwrap_or(lower)
}

/// Counts of one thread, which any thread may read. Small counts have 16 bits; the rest of large ones is kept apart, as few
/// statements run so often.
#[derive(Debug)]
pub(crate) struct Histogram {
    low: [AtomicU16; BUCKETS],
    high: OnceLock<Box<High>>,
}

/// What is too large for 16 bits.
#[derive(Debug)]
struct High {
    counts: [AtomicU32; BUCKETS],
    _permit: Permit,
}

impl Default for Histogram {
    fn default() -> Self {
        Self { low: [const { AtomicU16::new(0) }; BUCKETS], high: OnceLock::new() }
    }
}

impl Histogram {
    /// Counts a time. Only the thread that it belongs to may call it. `room` is that of the row.
    #[inline]
    pub(crate) fn add(&self, us: u64, room: &Permit) {
        let bucket = bucket_of(us);
        let count = self.low[bucket].load(Ordering::Relaxed);
        if count == u16::MAX {
            self.carry(bucket, room);
        } else {
            self.low[bucket].store(count + 1, Ordering::Relaxed);
        }
    }

    #[cold]
    fn carry(&self, bucket: usize, room: &Permit) {
        // It is not refused: the statement has run, and what was counted before must not be lost.
        let more = || {
            let counts = [const { AtomicU32::new(0) }; BUCKETS];
            Box::new(High { counts, _permit: room.reserve_beside(size_of::<High>()) })
        };
        let high = &self.high.get_or_init(more).counts;
        high[bucket].fetch_add(1, Ordering::Relaxed);
        self.low[bucket].store(0, Ordering::Release);
    }

    /// Adds these counts to others.
    pub(crate) fn add_to(&self, times: &mut Times) {
        for (bucket, sum) in times.0.iter_mut().enumerate() {
            let low = self.low[bucket].load(Ordering::Acquire);
            let high = self.high.get().map_or(0, |high| high.counts[bucket].load(Ordering::Relaxed));
            *sum += u64::from(high) << 16 | u64::from(low);
        }
    }
}

/// Counts of times, to be added up and asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Times(Box<[u64; BUCKETS]>);

impl Default for Times {
    fn default() -> Self {
        Self(Box::new([0; BUCKETS]))
    }
}

impl Times {
    /// Counts a time, in microseconds.
    pub fn add(&mut self, us: u64) {
        self.0[bucket_of(us)] += 1;
    }

    /// Adds others.
    pub fn merge(&mut self, others: &Self) {
        for (sum, other) in self.0.iter_mut().zip(others.0.iter()) {
            *sum += other;
        }
    }

    /// The counts of all buckets.
    pub fn counts(&self) -> &[u64; BUCKETS] {
        &self.0
    }

    /// As it is kept: the buckets that have counts, `bucket:count`, with spaces between.
    pub fn to_text(&self) -> String {
        let counted = self.0.iter().enumerate().filter(|(_, count)| **count > 0);
        counted.map(|(bucket, count)| format!("{bucket}:{count}")).collect::<Vec<_>>().join(" ")
    }

    /// Reads that; `None`: it is no such text.
    pub fn from_text(text: &str) -> Option<Self> {
        let mut times = Self::default();
        for part in text.split_ascii_whitespace() {
            let (bucket, count) = part.split_once(':')?;
            let bucket = times.0.get_mut(bucket.parse::<usize>().ok()?)?;
            *bucket = bucket.checked_add(count.parse().ok()?)?;
        }
        Some(times)
    }

    /// What has come since an earlier state of the same counts; `None`: it is none, they have begun anew.
    pub fn since(&self, earlier: &Self) -> Option<Self> {
        let mut times = self.clone();
        for (count, before) in times.0.iter_mut().zip(earlier.0.iter()) {
            *count = count.checked_sub(*before)?;
        }
        Some(times)
    }

    /// How many there are.
    pub fn count(&self) -> u64 {
        self.0.iter().fold(0, |sum, count| sum.saturating_add(*count))
    }

    /// How many of them are shorter than this, in microseconds: exact where a bucket begins there.
    pub fn below(&self, us: u64) -> u64 {
        self.0[..bucket_of(us)].iter().sum()
    }

    /// The time, in microseconds, that so many in a thousand do not exceed; `None` where there are none.
    pub fn per_mille(&self, part: u64) -> Option<u64> {
        let count = self.count();
        let rank = (u128::from(count) * u128::from(part)).div_ceil(1000).clamp(1, u128::from(count.max(1)));
        let mut sum = 0;
        let bucket = self.0.iter().position(|count| {
            sum += u128::from(*count);
            sum >= rank
        })?;
        Some(middle_us(bucket))
    }
}

#[cfg(test)]
mod tests {
    use delphinus_memory::{Account, Owner};

    use super::*;

    #[test]
    fn buckets_follow_one_another_and_their_middle_is_near() {
        assert!(size_of::<[AtomicU16; BUCKETS]>() <= 512);
        let mut last = 0;
        for us in (0..100_000).chain((17..44).flat_map(|bits| (1u64 << bits) - 2..(1 << bits) + 2)) {
            let bucket = bucket_of(us);
            if us < 100_000 {
                assert!(bucket == last || bucket == last + 1, "{us} µs is in {bucket}, behind {last}");
                last = bucket;
            }
            if bucket == BUCKETS - 1 {
                continue;
            }
            assert!(lower_us(bucket) <= us && us < lower_us(bucket + 1), "{us} µs is in {bucket}");
            let (told, off) = (middle_us(bucket), middle_us(bucket).abs_diff(us));
            assert!(us < 100 && off <= 2 || off <= us / 20, "{us} µs is told as {told}");
        }
        assert_eq!(bucket_of(u64::MAX), BUCKETS - 1);
        assert!(lower_us(BUCKETS - 1) > 4 * 3600 * 1_000_000);
    }

    #[test]
    fn kept_counts_come_back_and_differ() {
        let (mut earlier, mut later) = (Times::default(), Times::default());
        for us in [3, 100, 100, 5000] {
            earlier.add(us);
            later.add(us);
        }
        later.add(1_000_000);
        assert_eq!(Times::from_text(&later.to_text()), Some(later.clone()));
        assert_eq!(Times::from_text(""), Some(Times::default()));
        for wrong in ["x", "1", "1:x", "256:1", "-1:1", "1:18446744073709551615 1:1"] {
            assert_eq!(Times::from_text(wrong), None, "{wrong}");
        }
        let since = later.since(&earlier).unwrap();
        assert_eq!((since.count(), since.per_mille(500)), (1, Some(middle_us(bucket_of(1_000_000)))));
        assert_eq!(earlier.since(&later), None);
        let huge = Times::from_text("5:18446744073709551615 9:18446744073709551615").unwrap();
        assert!(huge.per_mille(999).is_some());
    }

    #[test]
    fn nothing_is_lost_above_16_bits() {
        let histogram = Histogram::default();
        let account = Account::unlimited();
        let room = account.take(Owner::Digests, 512).unwrap();
        for _ in 0..200_000 {
            histogram.add(100, &room);
        }
        for _ in 0..1000 {
            histogram.add(10_000, &room);
        }
        // What that has taken more is in the account, as long as it is there.
        assert_eq!(account.used_by(Owner::Digests), 512 + size_of::<High>() as u64);
        let mut times = Times::default();
        histogram.add_to(&mut times);
        histogram.add_to(&mut times);
        assert_eq!(times.count(), 2 * 201_000);
        assert_eq!(times.below(1000), 400_000);
        assert_eq!(times.per_mille(500), Some(middle_us(bucket_of(100))));
        assert_eq!(times.per_mille(999), Some(middle_us(bucket_of(10_000))));
        assert_eq!(Times::default().per_mille(500), None);
        drop(histogram);
        assert_eq!(account.used_by(Owner::Digests), 512);
    }
}
