//! Waiting for something to become true, with a deadline: the only place of this crate that sleeps.

use std::time::{Duration, Instant};

use anyhow::{Result, bail};

/// The time between two looks.
const PAUSE: Duration = Duration::from_millis(10);

/// Looks again and again until `look` gives a value; fails after `limit` with `what` and the last error.
pub fn eventually<T>(limit: Duration, what: &str, mut look: impl FnMut() -> Result<Option<T>>) -> Result<T> {
    let deadline = Instant::now() + limit;
    loop {
        let seen = look();
        if let Ok(Some(value)) = seen {
            return Ok(value);
        }
        if Instant::now() > deadline {
            match seen {
                Err(error) => return Err(error.context(format!("waited {limit:?} for {what}"))),
                _ => bail!("waited {limit:?} for {what}"),
            }
        }
        std::thread::sleep(PAUSE);
    }
}

/// [`eventually`] for a condition; an error of `holds` counts as "not yet".
pub fn until(limit: Duration, what: &str, mut holds: impl FnMut() -> Result<bool>) -> Result<()> {
    eventually(limit, what, || Ok(holds()?.then_some(())))
}
