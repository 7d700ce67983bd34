//! What operators see of the incoming side: written by the receiver, read by anyone.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// What the receiver is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum State {
    /// Told to be.
    #[default]
    Stopped,
    /// On its way to the source.
    Connecting,
    /// The stream runs.
    Receiving,
    /// Something failed; it tries again soon.
    Retrying,
    /// Something is wrong that trying again does not mend.
    Failed,
    /// The source was cut off.
    Cut,
}

impl State {
    /// As operators read it.
    pub fn word(self) -> &'static str {
        match self {
            Self::Stopped => "stopped",
            Self::Connecting => "connecting",
            Self::Receiving => "receiving",
            Self::Retrying => "retrying",
            Self::Failed => "failed",
            Self::Cut => "cut",
        }
    }
}

/// What is in words.
#[derive(Debug, Clone, Default)]
pub struct Told {
    /// What it is doing.
    pub state: State,
    /// The source's name or address.
    pub source: String,
    /// Its uuid or server id, once it has said so.
    pub identity: String,
    /// What the connection to it is compressed with, or "uncompressed"; empty while there is none.
    pub compression: &'static str,
    /// The last thing that went wrong, if that still matters.
    pub error: String,
}

/// Times, by powers of two of microseconds.
#[derive(Debug, Default)]
pub struct Times {
    /// How many took less than 2^n microseconds, and at least 2^(n-1).
    buckets: [AtomicU64; Self::BUCKETS],
    sum_us: AtomicU64,
}

impl Times {
    /// The last one is for all that took longer: half a minute.
    pub const BUCKETS: usize = 26;

    pub(crate) fn add(&self, time: Duration) {
        let us = time.as_micros().min(u128::from(u64::MAX)) as u64;
        let bucket = (u64::BITS - us.leading_zeros()) as usize;
        self.buckets[bucket.min(Self::BUCKETS - 1)].fetch_add(1, Relaxed);
        self.sum_us.fetch_add(us, Relaxed);
    }

    /// Counts of each bucket, the sum in seconds.
    pub fn read(&self) -> ([u64; Self::BUCKETS], f64) {
        let counts = std::array::from_fn(|at| self.buckets[at].load(Relaxed));
        (counts, Duration::from_micros(self.sum_us.load(Relaxed)).as_secs_f64())
    }

    /// The upper end of a bucket, in seconds.
    pub fn upper(bucket: usize) -> f64 {
        Duration::from_micros(1 << bucket).as_secs_f64()
    }
}

/// The incoming side of one relay.
#[derive(Debug, Default)]
pub struct Status {
    told: Mutex<Told>,
    /// True if it acknowledges to the source, which may wait for that, or may not.
    pub semi_sync: AtomicBool,
    /// Bytes received, with what is in no file.
    pub bytes: AtomicU64,
    /// Commits: one write and one fdatasync each.
    pub commits: AtomicU64,
    /// Acknowledgements sent.
    pub acks: AtomicU64,
    /// Connections that have begun to stream.
    pub connections: AtomicU64,
    /// Failures of any kind.
    pub failures: AtomicU64,
    /// When the source began the newest event, in seconds since 1970.
    pub newest: AtomicU32,
    /// When anything came last, in milliseconds since 1970.
    pub heard: AtomicU64,
    /// From the end of a batch's reading to the end of its fdatasync.
    pub sync_times: Times,
    /// From the arrival of a batch to its acknowledgement.
    pub ack_times: Times,
    /// How long after the source began an event it was here, in milliseconds, the newest: whole seconds are what events tell.
    pub delay: AtomicU64,
}

impl Status {
    /// What is in words.
    pub fn told(&self) -> Told {
        self.told.lock().expect("invariant: no panic under this lock").clone()
    }

    pub(crate) fn tell(&self, change: impl FnOnce(&mut Told)) {
        change(&mut self.told.lock().expect("invariant: no panic under this lock"));
    }

    pub(crate) fn hear(&self, bytes: usize) {
        self.bytes.fetch_add(bytes as u64, Relaxed);
        self.heard.store(now_ms(), Relaxed);
    }

    pub(crate) fn see(&self, timestamp: u32) {
        if timestamp > 0 {
            self.newest.store(timestamp, Relaxed);
            self.delay.store(now_ms().saturating_sub(u64::from(timestamp) * 1000), Relaxed);
        }
    }
}

fn now_ms() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as u64)
}
