//! Moments as people read them: UTC, to the second.

use std::time::{Instant, SystemTime, UNIX_EPOCH};

use delphinus_telemetry::date_time;

/// A moment that has passed, as a date and time.
pub(crate) fn moment(at: Instant, now: Instant) -> String {
    let ago = now.saturating_duration_since(at);
    // A clock from before 1970 is wrong by more than this.
    let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    date_time(since_epoch.saturating_sub(ago))
}

/// A moment of the calendar, as a date and time.
pub(crate) fn stamp(at: SystemTime) -> String {
    date_time(at.duration_since(UNIX_EPOCH).unwrap_or_default())
}

/// Whole seconds since a moment.
pub(crate) fn seconds_since(at: Instant, now: Instant) -> u64 {
    now.saturating_duration_since(at).as_secs()
}
