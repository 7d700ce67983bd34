//! Hears when a key changes. What has changed is not read: the keeper lists all keys then, so that a message that is lost costs time
//! and nothing else.

use std::io::{BufRead, BufReader};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::json;

use super::range;
use crate::gateway::Gateway;

/// From one try to the next, at least.
const PAUSE: Duration = Duration::from_millis(500);

/// A line that is longer is no news of keys as short as ours.
const LONGEST_LINE: u64 = 1024 * 1024;

/// A thread that watches until `ring` says that nobody listens. It waits for the store most of the time, and notices the end late.
pub(super) fn start(mut gateway: Gateway, prefix: &str, ring: Box<dyn Fn() -> bool + Send>) {
    let request = json!({"create_request": range(prefix)});
    let watching = move || {
        // The first ring asks whether anybody listens.
        while ring() {
            let begun = Instant::now();
            if let Some(stream) = gateway.stream("/v3/watch", &request) {
                let mut lines = BufReader::new(std::io::Read::take(stream, u64::MAX));
                while one_line(&mut lines) && ring() {}
            }
            // A stream on which nothing came for long is opened again at once: what happens meanwhile is heard of late.
            thread::sleep(PAUSE.saturating_sub(begun.elapsed()));
        }
    };
    // Without it the keeper asks from time to time.
    if let Err(error) = thread::Builder::new().name("lease-watch".into()).spawn(watching) {
        tracing::warn!(%error, "cannot start the thread that watches the lease store");
    }
}

/// Waits for one line; false at the end.
fn one_line(lines: &mut impl BufRead) -> bool {
    let mut line = Vec::new();
    let mut bounded = std::io::Read::take(lines, LONGEST_LINE);
    matches!(bounded.read_until(b'\n', &mut line), Ok(read) if read > 0)
}
