//! How long a statement may run, where a hint, a setting or a rule says so: then it is ended on its backend with KILL
//! QUERY, and the client gets the server's error for statements that take too long.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use delphinus_net::rt;
use delphinus_pool::{Checkout, PoolError};
use delphinus_sql::Flavor;
use delphinus_telemetry::ClusterCounters;
use delphinus_wire::error_code;
use delphinus_wire::{Capabilities, HEADER_LEN, parse_header, response};

use super::Steering;
use crate::client_error::{ClientError, ProxyError, Steered};
use crate::hold::{Held, Running};
use crate::io::Relayed;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// The statement runs and has time.
    Waiting,
    /// It is being ended.
    Killing,
    /// Its response has ended.
    Over,
}

impl Steering {
    /// Begins to watch over what runs on this connection, if it has only so much time.
    pub(crate) fn begin_deadline(&self, checkout: &mut Checkout, held: &Held) -> Option<Deadline> {
        let limit = self.of_command.timeout?;
        Some(Deadline::begin(limit, held.running_on(checkout), held.source.counters.clone()))
    }
}

/// A statement that has so long to run. Dropped while the statement has time, it does nothing any more.
pub(crate) struct Deadline {
    stage: Rc<Cell<Stage>>,
    task: rt::JoinHandle<()>,
    ends: Instant,
}

impl Deadline {
    /// Begins to watch over what runs there.
    fn begin(limit: Duration, running: Running, counters: Arc<ClusterCounters>) -> Self {
        let (stage, ends) = (Rc::new(Cell::new(Stage::Waiting)), rt::now() + limit);
        let seen = stage.clone();
        let task = rt::spawn_local(async move {
            rt::sleep(limit).await;
            if seen.get() == Stage::Over {
                return;
            }
            seen.set(Stage::Killing);
            counters.statement_timeouts.increment();
            let failed = "the proxy could not end a statement that exceeded its time limit";
            running.end(|| seen.get() == Stage::Killing, failed).await;
        });
        Self { stage, task, ends }
    }

    /// The end of a response, in the words of a server whose own limit was reached, if that is why it ended.
    pub(crate) async fn end(self, relayed: Relayed, flavor: Flavor, client: Capabilities) -> Relayed {
        if self.over().await { told_of_limit(relayed, flavor, client) } else { relayed }
    }

    /// The same where the proxy has run something of its own for the statement, which has the rest of the time that is returned:
    /// zero, if there is none. What was run may have come to its end all the same; see `in_time`.
    pub(crate) async fn end_own<T>(
        self,
        done: Result<T, ProxyError>,
        flavor: Flavor,
    ) -> (Duration, Result<T, ProxyError>) {
        let rest = self.ends.saturating_duration_since(rt::now());
        let is_over = self.over().await;
        let done = done.map_err(|error| match error {
            ProxyError::Pool(PoolError::Refused { error, .. })
                if is_over && error.code == error_code::ER_QUERY_INTERRUPTED =>
            {
                took_too_long(flavor)
            }
            error => error,
        });
        (if is_over { Duration::ZERO } else { rest }, done)
    }

    /// The statement has ended. Returns when no KILL can reach the next one on its connection; true if this one was
    /// ended, or nearly so.
    async fn over(mut self) -> bool {
        if self.stage.replace(Stage::Over) == Stage::Waiting {
            return false;
        }
        let _ = (&mut self.task).await;
        true
    }
}

impl Drop for Deadline {
    fn drop(&mut self) {
        if self.stage.replace(Stage::Over) == Stage::Waiting {
            self.task.abort();
        }
    }
}

impl Steering {
    /// An error if nothing is left of the statement's time, where something was run for it before: it is not begun then.
    pub(crate) fn in_time(&self, flavor: Flavor) -> Result<(), ProxyError> {
        if self.of_command.timeout == Some(Duration::ZERO) { Err(took_too_long(flavor)) } else { Ok(()) }
    }
}

fn took_too_long(flavor: Flavor) -> ProxyError {
    Steered::StatementTimeout { is_mariadb: flavor == Flavor::MariaDb }.into()
}

/// The same response, with the error of a limit in the place of the one that says that it was interrupted.
fn told_of_limit(mut relayed: Relayed, flavor: Flavor, client: Capabilities) -> Relayed {
    // The bytes alone do not tell: those of a row may look like the error.
    if relayed.response.error != Some(error_code::ER_QUERY_INTERRUPTED) {
        return relayed;
    }
    let bytes = &relayed.rest.data()[..relayed.len];
    let Some((at, seq)) = last_error(bytes) else { return relayed };
    let (mut out, error) = (bytes[..at].to_vec(), ClientError::from(&took_too_long(flavor)));
    error.put(&mut out, seq, client);
    relayed.rest.clear();
    relayed.rest.extend(&out);
    relayed.len = out.len();
    relayed.response.error = Some(error.code());
    relayed
}

/// Where the packet begins that says that the statement was interrupted, and its sequence id, if the bytes end with it. They may
/// begin in the middle of a row, so that the packet is looked for from the end.
fn last_error(bytes: &[u8]) -> Option<(usize, u8)> {
    (0..bytes.len()).rev().find_map(|at| {
        let frame = parse_header(bytes.get(at..)?)?;
        let payload = bytes.get(at + HEADER_LEN..)?;
        let is_it = frame.len == payload.len()
            && payload.first() == Some(&response::ERR)
            && payload.get(1..3) == Some(&error_code::ER_QUERY_INTERRUPTED.to_le_bytes());
        is_it.then_some((at, frame.seq))
    })
}

#[cfg(test)]
mod tests {
    use delphinus_net::Buffer;
    use delphinus_state::Response;

    use super::*;

    #[test]
    fn only_the_error_of_the_response_gives_way_to_that_of_the_limit() {
        let like_error = [4, 0, 0, 7, 0xff, 0x25, 0x05, b'x'];
        for (error, told) in [(None, None), (Some(1205), Some(1205)), (Some(1317), Some(3024))] {
            let mut rest = Buffer::default();
            rest.extend(&like_error);
            let response = Response { error, ..Response::default() };
            let relayed = Relayed { response, rest, len: like_error.len(), is_untouched: false };
            let relayed = told_of_limit(relayed, Flavor::MySql, Capabilities::default());
            assert_eq!(relayed.response.error, told);
            let is_left = relayed.rest.data()[..relayed.len] == like_error;
            assert_eq!(is_left, error == told, "{error:?}");
        }
    }

    #[test]
    fn the_error_is_found_behind_what_came_before_it() {
        let error = [4, 0, 0, 7, 0xff, 0x25, 0x05, b'x'];
        let before = [2, 0, 0, 6, 1, 2];
        assert_eq!(last_error(&error), Some((0, 7)));
        assert_eq!(last_error(&[&before[..], &error].concat()), Some((6, 7)));
        assert_eq!(last_error(&[&b"the end of a row"[..], &before, &error].concat()), Some((22, 7)));
        assert_eq!(last_error(&[&error[..], &before].concat()), None);
        assert_eq!(last_error(&[4, 0, 0, 7, 0xff, 0x26, 0x05, b'x']), None);
        assert_eq!(last_error(&error[..6]), None);
        assert_eq!(last_error(b""), None);
    }
}
