//! Hears when a key changes. What has changed is not read: the keeper lists all keys then, so that a message that is lost costs time
//! and nothing else. A line is read only for whether etcd has ended the watch: it says so with the status 200, and leaves the stream open.
//! Measured on 3.4.23: a token that is too old, or that a change of users or roles has made old; a missing right; a revision that is
//! compacted.

use std::io::{BufRead, BufReader};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::range;
use crate::gateway::Gateway;

/// From one try to the next, at least.
const PAUSE: Duration = Duration::from_millis(500);

/// The pause is doubled up to so often while etcd ends each watch: each login costs it the check of a password.
const MOST_DOUBLED: u32 = 5;

/// So many watches end one after the other before it is said: an old token explains one.
const SAID_AT: u32 = 2;

/// A line that is longer is no news of keys as short as ours.
const LONGEST_LINE: u64 = 1024 * 1024;

/// A thread that watches until `ring` says that nobody listens. It waits for the store most of the time, and notices the end late.
pub(super) fn start(mut gateway: Gateway, prefix: &str, ring: Box<dyn Fn() -> bool + Send>) {
    let request = json!({"create_request": range(prefix)});
    let watching = move || {
        let mut refusals = 0;
        // The first ring asks whether anybody listens.
        while ring() {
            let begun = Instant::now();
            if let Some(stream) = gateway.stream("/v3/watch", &request) {
                let mut lines = BufReader::new(std::io::Read::take(stream, u64::MAX));
                if let Some(why) = listen(&mut lines, &*ring, &mut refusals) {
                    // Whatever the reason is, another token does no harm.
                    gateway.forget_token();
                    if refusals == SAID_AT {
                        tracing::warn!(
                            why,
                            "etcd ends each watch of its keys, so that changes are heard up to a second late; see that the user \
                             of [lease] may read them"
                        );
                    }
                }
            }
            // A stream on which nothing came for long is opened again at once: what happens meanwhile is heard of late.
            thread::sleep(pause(refusals).saturating_sub(begun.elapsed()));
        }
    };
    // Without it the keeper asks from time to time.
    if let Err(error) = thread::Builder::new().name("lease-watch".into()).spawn(watching) {
        tracing::warn!(%error, "cannot start the thread that watches the lease store");
    }
}

fn pause(refusals: u32) -> Duration {
    PAUSE * 2_u32.pow(refusals.saturating_sub(1).min(MOST_DOUBLED))
}

/// Rings for each line until the stream ends or nobody listens. The reason, if it is etcd that has ended the watch.
fn listen(lines: &mut impl BufRead, ring: &dyn Fn() -> bool, refusals: &mut u32) -> Option<String> {
    loop {
        match one_line(lines) {
            Line::News if ring() => *refusals = 0,
            Line::News | Line::End => return None,
            Line::Refused(why) => {
                *refusals += 1;
                return Some(why);
            }
        }
    }
}

/// What came on a stream.
#[derive(Debug, PartialEq, Eq)]
enum Line {
    /// Something has changed, or the watch has begun.
    News,
    /// No more comes, whether the stream ends or not: why.
    Refused(String),
    /// The stream has ended.
    End,
}

/// Waits for one line.
fn one_line(lines: &mut impl BufRead) -> Line {
    let mut line = Vec::new();
    let mut bounded = std::io::Read::take(lines, LONGEST_LINE);
    match bounded.read_until(b'\n', &mut line) {
        Ok(read) if read > 0 => line_of(&line),
        _ => Line::End,
    }
}

/// What is no JSON is news: the keeper lists once more than it has to.
fn line_of(line: &[u8]) -> Line {
    let said: Value = serde_json::from_slice(line).unwrap_or_default();
    let (result, error) = (&said["result"], &said["error"]);
    if result["canceled"].as_bool().unwrap_or(false) {
        // A watch that was too slow for what was compacted has no reason.
        let why = result["cancel_reason"].as_str().unwrap_or("no reason is given");
        return Line::Refused(why.to_owned());
    }
    if error.is_null() {
        return Line::News;
    }
    Line::Refused(error["message"].as_str().unwrap_or("no reason is given").to_owned())
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::*;
    use crate::gateway::tests::{TOKENS, access, serve};

    const BEGUN: &str = r#"{"result":{"header":{"revision":"4"},"created":true}}"#;
    const EVENT: &str = r#"{"result":{"header":{"revision":"5"},"events":[{"kv":{"key":"YQ=="}}]}}"#;
    /// As etcd 3.4.23 says it.
    const OLD: &str = r#"{"result":{"header":{"revision":"4"},"watch_id":"-1","created":true,"canceled":true,"cancel_reason":"rpc error: code = Unauthenticated desc = etcdserver: invalid auth token"}}"#;
    const COMPACTED: &str = r#"{"result":{"header":{},"canceled":true,"compact_revision":"7"}}"#;
    const STOPS: &str = r#"{"error":{"grpc_code":14,"http_code":503,"message":"transport is closing"}}"#;

    #[test]
    fn a_watch_that_etcd_has_ended_is_told_from_news() {
        let all = [BEGUN, EVENT, OLD, COMPACTED, STOPS, "no JSON"].join("\n");
        let mut lines = all.as_bytes();
        let refused = |why: &str| Line::Refused(why.to_owned());
        assert_eq!([one_line(&mut lines), one_line(&mut lines)], [Line::News, Line::News]);
        let old = "rpc error: code = Unauthenticated desc = etcdserver: invalid auth token";
        assert_eq!(one_line(&mut lines), refused(old));
        assert_eq!(one_line(&mut lines), refused("no reason is given"));
        assert_eq!(one_line(&mut lines), refused("transport is closing"));
        assert_eq!([one_line(&mut lines), one_line(&mut lines)], [Line::News, Line::End]);
    }

    #[test]
    fn a_store_that_ends_each_watch_is_asked_more_and_more_rarely() {
        assert_eq!([pause(0), pause(1), pause(2), pause(3)], [1, 1, 2, 4].map(|times| PAUSE * times));
        assert_eq!(pause(6), pause(1_000));
        let mut refusals = 0;
        for times in 1..=3 {
            assert!(listen(&mut OLD.as_bytes(), &|| true, &mut refusals).is_some());
            assert_eq!(refusals, times);
        }
        assert_eq!(listen(&mut BEGUN.as_bytes(), &|| true, &mut refusals), None);
        assert_eq!(refusals, 0);
    }

    #[test]
    fn a_watch_with_an_old_token_logs_in_again() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let gateway = Gateway::new(access(&listener)).unwrap();
        let is_over = Arc::new(AtomicBool::new(false));
        let asked = is_over.clone();
        start(gateway, "/d/", Box::new(move || !asked.load(Ordering::SeqCst)));
        let answers = [(200, TOKENS[0]), (200, OLD), (200, TOKENS[1]), (200, BEGUN)];
        let seen = serve(&listener, &answers);
        is_over.store(true, Ordering::SeqCst);
        let login = ("/v3/auth/authenticate".to_owned(), None);
        let watch = |token: &str| ("/v3/watch".to_owned(), Some(token.to_owned()));
        assert_eq!(seen, [login.clone(), watch("t1"), login, watch("t2")]);
    }
}
