//! One row: the counts of statements that are alike.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use delphinus_memory::Permit;
use delphinus_sql::Digest;
use delphinus_telemetry::Counter;
use delphinus_topology::BackendId;

use crate::cost::{Cost, Place};
use crate::histogram::{Histogram, Times};
use crate::statistics::WhoNo;

/// What tells rows apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Key {
    /// [`REST`] for all that had no room.
    pub(crate) digest: Digest,
    pub(crate) who: WhoNo,
    /// `None`: no backend had it.
    pub(crate) backend: Option<BackendId>,
}

/// The digest of the row for what has no row of its own. No text has it but with a probability of 2^-64.
pub(crate) const REST: Digest = Digest(0);

/// Counts that one thread writes and any may read.
#[derive(Debug)]
pub(crate) struct Row {
    pub(crate) key: Key,
    count: Counter,
    failed: Counter,
    total_us: Counter,
    at_us: [Counter; Place::ALL.len()],
    rows_sent: Counter,
    rows_affected: Counter,
    bytes_received: Counter,
    bytes_sent: Counter,
    min_us: AtomicU64,
    max_us: AtomicU64,
    first_s: AtomicU32,
    last_s: AtomicU32,
    times: Histogram,
    /// For as long as the row is kept.
    permit: Permit,
}

/// What a row takes, in bytes, with what the maps and lists need for it.
pub(crate) const ROW_BYTES: usize = size_of::<Row>() + 96;

impl Row {
    pub(crate) fn new(key: Key, permit: Permit) -> Self {
        Self {
            key,
            count: Counter::default(),
            failed: Counter::default(),
            total_us: Counter::default(),
            at_us: Default::default(),
            rows_sent: Counter::default(),
            rows_affected: Counter::default(),
            bytes_received: Counter::default(),
            bytes_sent: Counter::default(),
            min_us: AtomicU64::new(u64::MAX),
            max_us: AtomicU64::new(0),
            first_s: AtomicU32::new(u32::MAX),
            last_s: AtomicU32::new(0),
            times: Histogram::default(),
            permit,
        }
    }

    /// Counts a statement. Only the thread that the row belongs to may call it.
    #[inline]
    pub(crate) fn add(&self, cost: &Cost, now_s: u32) {
        if self.count.value() == 0 {
            self.first_s.store(now_s, Ordering::Relaxed);
        }
        self.count.increment();
        self.total_us.add(cost.total_us);
        self.at_us[Place::Backend as usize].add(cost.at(Place::Backend).into());
        self.bytes_received.add(cost.bytes_received);
        self.bytes_sent.add(cost.bytes_sent);
        self.rows_sent.add(cost.rows_sent);
        self.rows_affected.add(cost.rows_affected);
        self.times.add(cost.total_us, &self.permit);
        if cost.has_failed {
            self.failed.increment();
        }
        for place in [Place::Queue, Place::Pool, Place::Sync, Place::Client] {
            if cost.at(place) > 0 {
                self.at_us[place as usize].add(cost.at(place).into());
            }
        }
        if cost.total_us < self.min_us.load(Ordering::Relaxed) {
            self.min_us.store(cost.total_us, Ordering::Relaxed);
        }
        if cost.total_us > self.max_us.load(Ordering::Relaxed) {
            self.max_us.store(cost.total_us, Ordering::Relaxed);
        }
        self.last_s.store(now_s, Ordering::Relaxed);
    }

    /// Adds what a statement that was counted has cost beyond that: it is no other one.
    pub(crate) fn add_more(&self, cost: &Cost, now_s: u32) {
        self.total_us.add(cost.total_us);
        for (sum, us) in self.at_us.iter().zip(cost.at_us) {
            sum.add(us.into());
        }
        self.bytes_received.add(cost.bytes_received);
        self.bytes_sent.add(cost.bytes_sent);
        self.rows_sent.add(cost.rows_sent);
        self.last_s.store(now_s, Ordering::Relaxed);
    }

    /// Adds its counts to others.
    pub(crate) fn add_to(&self, totals: &mut Totals, times: &mut Times) {
        totals.count += self.count.value();
        totals.failed += self.failed.value();
        totals.total_us += self.total_us.value();
        for (sum, counter) in totals.at_us.iter_mut().zip(&self.at_us) {
            *sum += counter.value();
        }
        totals.rows_sent += self.rows_sent.value();
        totals.rows_affected += self.rows_affected.value();
        totals.bytes_received += self.bytes_received.value();
        totals.bytes_sent += self.bytes_sent.value();
        totals.min_us = totals.min_us.min(self.min_us.load(Ordering::Relaxed));
        totals.max_us = totals.max_us.max(self.max_us.load(Ordering::Relaxed));
        totals.first_s = totals.first_s.min(self.first_s.load(Ordering::Relaxed));
        totals.last_s = totals.last_s.max(self.last_s.load(Ordering::Relaxed));
        self.times.add_to(times);
    }
}

/// Counts of one row or of many.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Totals {
    /// Statements.
    pub count: u64,
    /// Of these, those that ended with an error.
    pub failed: u64,
    /// The sum of their times, in microseconds.
    pub total_us: u64,
    /// How much of that was spent where, in the order of [`Place::ALL`].
    pub at_us: [u64; Place::ALL.len()],
    /// Rows of all results.
    pub rows_sent: u64,
    /// Rows changed.
    pub rows_affected: u64,
    /// Bytes of commands.
    pub bytes_received: u64,
    /// Bytes of answers.
    pub bytes_sent: u64,
    /// The shortest time, in microseconds; `u64::MAX` where there is none.
    pub min_us: u64,
    /// The longest time, in microseconds.
    pub max_us: u64,
    /// When the first one was counted, in seconds by the clock of whoever counts; `u32::MAX` where there is none.
    pub first_s: u32,
    /// When the last one was counted, in seconds by the same clock.
    pub last_s: u32,
}

impl Default for Totals {
    fn default() -> Self {
        Self {
            count: 0,
            failed: 0,
            total_us: 0,
            at_us: [0; Place::ALL.len()],
            rows_sent: 0,
            rows_affected: 0,
            bytes_received: 0,
            bytes_sent: 0,
            min_us: u64::MAX,
            max_us: 0,
            first_s: u32::MAX,
            last_s: 0,
        }
    }
}

impl Totals {
    /// Adds others.
    pub fn merge(&mut self, others: &Self) {
        self.count += others.count;
        self.failed += others.failed;
        self.total_us += others.total_us;
        for (sum, other) in self.at_us.iter_mut().zip(&others.at_us) {
            *sum += other;
        }
        self.rows_sent += others.rows_sent;
        self.rows_affected += others.rows_affected;
        self.bytes_received += others.bytes_received;
        self.bytes_sent += others.bytes_sent;
        self.min_us = self.min_us.min(others.min_us);
        self.max_us = self.max_us.max(others.max_us);
        self.first_s = self.first_s.min(others.first_s);
        self.last_s = self.last_s.max(others.last_s);
    }

    /// How much was spent there, in microseconds.
    pub fn at(&self, place: Place) -> u64 {
        self.at_us[place as usize]
    }
}
