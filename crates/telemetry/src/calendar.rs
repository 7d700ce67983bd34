//! Moments as people read them: UTC, by the calendar.

use std::time::Duration;

/// Date and time so long after 1970, to the second.
pub fn date_time(since_epoch: Duration) -> String {
    let (date, time) = parts(since_epoch);
    format!("{date} {time}")
}

/// The same as RFC 3339 has it, with microseconds.
pub fn rfc3339(since_epoch: Duration) -> String {
    let (date, time) = parts(since_epoch);
    format!("{date}T{time}.{:06}Z", since_epoch.subsec_micros())
}

fn parts(since_epoch: Duration) -> (String, String) {
    let seconds = since_epoch.as_secs();
    let (days, second) = (seconds / 86_400, seconds % 86_400);
    let (year, month, day) = date(days);
    let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
    (format!("{year:04}-{month:02}-{day:02}"), format!("{hour:02}:{minute:02}:{second:02}"))
}

/// The date so many days after 1970-01-01. Counted in eras of 400 years that begin in March, so that leap days come last.
fn date(days: u64) -> (u64, u64, u64) {
    let shifted = days + 719_468;
    let (era, of_era) = (shifted / 146_097, shifted % 146_097);
    let year_of_era = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted_month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * shifted_month + 2) / 5 + 1;
    let month = if shifted_month < 10 { shifted_month + 3 } else { shifted_month - 9 };
    (era * 400 + year_of_era + u64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_those_of_the_calendar() {
        for (seconds, text) in [
            (0, "1970-01-01 00:00:00"),
            (951_782_399, "2000-02-28 23:59:59"),
            (951_782_400, "2000-02-29 00:00:00"),
            (1_709_251_199, "2024-02-29 23:59:59"),
            (1_735_689_599, "2024-12-31 23:59:59"),
            (4_107_542_400, "2100-03-01 00:00:00"),
        ] {
            assert_eq!(date_time(Duration::from_secs(seconds)), text);
        }
        assert_eq!(rfc3339(Duration::from_micros(951_782_399_000_123)), "2000-02-28T23:59:59.000123Z");
    }
}
