//! How long a statement may run, where a hint, a setting or a rule says so: then it is ended on its backend with KILL
//! QUERY, and the client gets the server's error for statements that take too long.

use std::cell::Cell;
use std::rc::Rc;
use std::time::{Duration, Instant};

use delphinus_net::{Buffer, rt};
use delphinus_pool::{Checkout, PoolError};
use delphinus_sql::Flavor;
use delphinus_wire::error_code;
use delphinus_wire::{HEADER_LEN, parse_header, response};

use crate::client_error::{ClientError, ProxyError, Steered};
use crate::session::Session;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// The statement runs and has time.
    Waiting,
    /// It is being ended.
    Killing,
    /// Its response has ended.
    Over,
}

/// A statement that has so long to run. Dropped while the statement has time, it does nothing any more.
pub(crate) struct Deadline {
    stage: Rc<Cell<Stage>>,
    task: rt::JoinHandle<()>,
    ends: Instant,
}

impl Deadline {
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

impl Session {
    /// Runs `work` of the proxy's own on a backend in the time that the client's statement has, and watched over like that.
    pub(crate) async fn watched<T>(
        &mut self,
        checkout: &mut Checkout,
        work: impl AsyncFnOnce(&mut Checkout) -> Result<T, PoolError>,
    ) -> Result<T, ProxyError> {
        let deadline = self.steering.timeout.map(|limit| self.deadline(checkout, limit));
        let (client, mut watch) = self.watch();
        let done = client.attended(checkout, work, &mut watch).await;
        match deadline {
            Some(deadline) if !matches!(done, Err(ProxyError::ClientGone)) => {
                self.end_own_deadline(deadline, done).await
            }
            _ => done,
        }
    }

    /// Begins to watch over the statement that runs on this connection.
    pub(crate) fn deadline(&self, checkout: &mut Checkout, limit: Duration) -> Deadline {
        let (stage, ends) = (Rc::new(Cell::new(Stage::Waiting)), rt::now() + limit);
        let (worker, identity, seen) = (self.worker.clone(), self.held.identity.clone(), stage.clone());
        let (backend, thread) = (checkout.backend(), checkout.connection().thread());
        let task = rt::spawn_local(async move {
            rt::sleep(limit).await;
            if seen.get() == Stage::Over {
                return;
            }
            seen.set(Stage::Killing);
            worker.counters.statement_timeouts.increment();
            let still = || (seen.get() == Stage::Killing).then_some(thread);
            if let Err(error) = worker.pool.kill_query_if(backend, &identity, still).await {
                tracing::warn!(%error, "a statement that has run for too long could not be ended");
            }
        });
        Deadline { stage, task, ends }
    }

    /// The end of a response, in the words of a server whose own limit was reached, if that is why it ended.
    pub(crate) async fn end_deadline(
        &mut self,
        deadline: Deadline,
        mut rest: Buffer,
        len: usize,
    ) -> (Buffer, usize) {
        if !deadline.over().await {
            return (rest, len);
        }
        let Some((at, seq)) = last_error(&rest.data()[..len]) else { return (rest, len) };
        let mut out = rest.data()[..at].to_vec();
        ClientError::from(&self.took_too_long()).put(&mut out, seq, self.client.capabilities);
        rest.clear();
        rest.extend(&out);
        (rest, out.len())
    }

    /// The same where the proxy has run something of its own for the statement, which has the rest of the time: zero, if there is
    /// none. What was run may have come to its end all the same; see `in_time`.
    pub(crate) async fn end_own_deadline<T>(
        &mut self,
        deadline: Deadline,
        done: Result<T, ProxyError>,
    ) -> Result<T, ProxyError> {
        let rest = deadline.ends.saturating_duration_since(rt::now());
        let is_over = deadline.over().await;
        self.steering.timeout = Some(if is_over { Duration::ZERO } else { rest });
        done.map_err(|error| match error {
            ProxyError::Pool(PoolError::Refused { error, .. })
                if is_over && error.code == error_code::QUERY_INTERRUPTED =>
            {
                self.took_too_long()
            }
            error => error,
        })
    }

    /// An error if nothing is left of the statement's time, where something was run for it before: it is not begun then.
    pub(crate) fn in_time(&mut self) -> Result<(), ProxyError> {
        if self.steering.timeout == Some(Duration::ZERO) { Err(self.took_too_long()) } else { Ok(()) }
    }

    fn took_too_long(&mut self) -> ProxyError {
        let is_mariadb = self.state.lex.options(&self.state.want.vars).flavor == Flavor::MariaDb;
        Steered::StatementTimeout { is_mariadb }.into()
    }
}

/// Where the packet begins that says that the statement was interrupted, and its sequence id, if the bytes end with it.
/// Results that began before may stand in front of it.
fn last_error(bytes: &[u8]) -> Option<(usize, u8)> {
    let mut at = 0;
    loop {
        let frame = parse_header(bytes.get(at..)?)?;
        let end = at + HEADER_LEN + frame.len;
        if end == bytes.len() {
            let payload = &bytes[at + HEADER_LEN..];
            let is_it = payload.first() == Some(&response::ERR)
                && payload.get(1..3) == Some(&error_code::QUERY_INTERRUPTED.to_le_bytes());
            return is_it.then_some((at, frame.seq));
        }
        at = end;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_error_is_found_behind_what_came_before_it() {
        let error = [4, 0, 0, 7, 0xff, 0x25, 0x05, b'x'];
        let before = [2, 0, 0, 6, 1, 2];
        assert_eq!(last_error(&error), Some((0, 7)));
        assert_eq!(last_error(&[&before[..], &error].concat()), Some((6, 7)));
        assert_eq!(last_error(&[&error[..], &before].concat()), None);
        assert_eq!(last_error(&[4, 0, 0, 7, 0xff, 0x26, 0x05, b'x']), None);
        assert_eq!(last_error(&error[..6]), None);
        assert_eq!(last_error(b""), None);
    }
}
