//! The clock that leases go by.

use std::time::Duration;

use delphinus_topology::BootTime;
use rustix::time::{ClockId, clock_gettime};

/// Time since the machine was started, with the time that it slept. A machine that was suspended must not take its lease for
/// younger than it is.
pub fn boot_now() -> BootTime {
    let now = clock_gettime(ClockId::Boottime);
    let seconds = u64::try_from(now.tv_sec).unwrap_or_default();
    BootTime(Duration::new(seconds, u32::try_from(now.tv_nsec).unwrap_or_default()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_goes_on() {
        let before = boot_now();
        assert!(before > BootTime::default());
        assert!(boot_now() >= before);
    }
}
