//! Kept answers that are too old are given back though no session asks for them. Runs beside the control plane, on a thread for long
//! computations: it looks at all answers, one after the other.
//!
//! Owns: how often that is worth it. Where a tenth of them was too old the last time, it looks again after a second, else later and later.

use std::sync::Arc;
use std::time::Duration;

use delphinus_cache::Cache;
use delphinus_net::rt;

/// After a look that was worth it.
const SHORTEST: Duration = Duration::from_secs(1);
/// After many that were not.
const LONGEST: Duration = Duration::from_secs(16);

/// Gives back until the proxy ends.
pub(crate) async fn run(cache: Arc<Cache>) {
    let mut pause = SHORTEST;
    loop {
        rt::sleep(pause).await;
        if cache.is_empty() {
            pause = SHORTEST;
            continue;
        }
        let (swept, now) = (cache.clone(), rt::now());
        let Some((gone, left)) = rt::compute(move || swept.sweep(now)).await else { return };
        pause = next(pause, (gone, left));
    }
}

/// When to look again, after so many were too old, and so many were not.
fn next(pause: Duration, (gone, left): (u64, u64)) -> Duration {
    if gone * 10 >= left { SHORTEST } else { (pause * 2).min(LONGEST) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn where_little_is_too_old_it_looks_later_and_later() {
        let seconds = Duration::from_secs;
        assert_eq!(next(seconds(1), (0, 100)), seconds(2));
        assert_eq!(next(seconds(2), (9, 100)), seconds(4));
        assert_eq!(next(seconds(16), (0, 100)), seconds(16));
        assert_eq!(next(seconds(16), (10, 100)), seconds(1));
        assert_eq!(next(seconds(16), (5, 0)), seconds(1));
    }
}
