//! `[activity]`: what sessions did and waited for, and what was counted, is kept.

use super::is;

section! {
    /// Each second the proxy records what every active session does and waits for; each hour, all counters. With
    /// `proxy.data_dir` this is kept in its directory `activity`, else in memory (8 MiB). See docs/see.md.
    pub struct Activity = "[activity]" at "activity" {
        /// Active sessions are sampled, and snapshots taken. If not, what is there can be read until it is too old.
        enabled: bool = is(true), "", Hot;
        /// The most that the files take together. The oldest of each kind makes room for the newest: samples have 60
        /// percent, minutes 25, hours 10, snapshots 5.
        max_bytes: u64 = is(536_870_912), "bytes", Hot, in 16_777_216..=1_099_511_627_776;
        /// The number of days before today of which samples are kept.
        keep_samples_days: u32 = is(2), "days", Hot, in 0..=8;
        /// How long sums of minutes are kept.
        keep_minutes_days: u32 = is(30), "days", Hot, in 1..=3_660;
        /// How long sums of hours are kept.
        keep_hours_days: u32 = is(366), "days", Hot, in 1..=36_600;
        /// The most sessions that have rows in a sample: those whose commands run longest. The others are added up in rows
        /// of the rest.
        max_rows_per_sample: u32 = is(500), "rows", Hot, in 10..=10_000;
        /// The most rows of a minute, and of an hour: those with the largest sums. The others are added up in rows of the
        /// rest.
        max_rows_per_minute: u32 = is(200), "rows", Hot, in 10..=5_000;
        /// How often a snapshot of all counters is taken, by the clock: 3600 is at each full hour.
        snapshot_interval_s: u64 = is(3_600), "s", Hot, in 60..=86_400;
        /// How long snapshots are kept.
        keep_snapshots_days: u32 = is(7), "days", Hot, in 1..=3_660;
        /// The number of digests in a snapshot: those with the largest sums of times. The others are added up in a row of
        /// the rest.
        max_digests_per_snapshot: u32 = is(100), "rows", Hot, in 10..=5_000;
    }
}
