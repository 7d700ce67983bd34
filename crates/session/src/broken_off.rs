//! A statement that its server breaks off with an error of its own, where others just lose their connection: the server is
//! shut down, or has closed the connection for another reason. What only reads runs again elsewhere, as after a lost
//! connection, if nothing of its result has reached the client.
//!
//! Owns: which errors these are. What becomes of statements whose connection breaks is in `failover`.

use std::time::Duration;

use delphinus_net::rt;
use delphinus_pool::{Checkout, PoolError};
use delphinus_sql::{Access, Statement};
use delphinus_state::Response;
use delphinus_topology::BackendId;

use crate::failover::READ_ATTEMPTS;
use crate::forward::Relayed;
use crate::input::Input;
use crate::session::Session;

/// ER_SERVER_SHUTDOWN. MySQL says the same of a connection that somebody has killed, for which MariaDB has 1927.
const SHUTDOWN: u16 = 1053;
/// ER_NET_READ_ERROR, ER_NET_READ_INTERRUPTED (MariaDB's word for a connection that was idle for too long),
/// ER_NET_ERROR_ON_WRITE and ER_NET_WRITE_INTERRUPTED: the server cannot talk on this connection any more.
const NET_ERRORS: std::ops::RangeInclusive<u16> = 1158..=1161;
/// ER_CLIENT_INTERACTION_TIMEOUT: MySQL's word for a connection that was idle for too long.
const IDLE: u16 = 4031;

/// How long it may take to find out whether a server that has said SHUTDOWN goes on.
const LOOK: Duration = Duration::from_secs(1);

/// True if a server says this of its own end, or of the end of the connection, and nobody may have wanted to end the
/// statement.
fn ends_connection(code: u16) -> bool {
    matches!(code, SHUTDOWN | IDLE) || NET_ERRORS.contains(&code)
}

impl Session {
    /// True if a statement that changes nothing was broken off before the client has seen anything of its result.
    #[inline]
    pub(crate) fn is_broken_off(
        &self,
        statement: &Statement,
        relayed: &Relayed,
        (input, attempt): (Input, u32),
    ) -> bool {
        relayed.response.error.is_some_and(ends_connection)
            && relayed.is_untouched
            && input.is_whole()
            && attempt < READ_ATTEMPTS
            && (statement.access == Access::Read || self.only_begins(statement))
            && !self.info.is_killed()
    }

    /// True if it was not a KILL that broke it off: whoever has killed a statement does not want it to run again.
    pub(crate) async fn is_ending(&mut self, backend: BackendId, response: &Response) -> bool {
        if response.error != Some(SHUTDOWN) {
            return true;
        }
        // A server that is shut down closes its doors first, and those that are in go on to answer for a while: only a connection
        // that is opened now can tell.
        rt::timeout(LOOK, self.lets_nobody_in(backend)).await.unwrap_or(false)
    }

    /// True if no new connection can be opened to the server.
    async fn lets_nobody_in(&self, backend: BackendId) -> bool {
        match self.worker.pool.visit(backend, &self.identity).await {
            Ok(()) => false,
            Err(PoolError::Refused { error, .. }) => error.code == SHUTDOWN,
            Err(error) => matches!(error, PoolError::Unreachable { .. } | PoolError::Lost { .. }),
        }
    }

    /// Closes the connection of a statement that runs again elsewhere.
    pub(crate) fn leave_broken_off(&mut self, checkout: Checkout, relayed: Relayed) -> BackendId {
        let backend = checkout.backend();
        drop(checkout);
        self.worker.counters.error_backend_lost.increment();
        self.worker.report_lost(backend, "it breaks statements off");
        self.worker.buffers.give(relayed.rest);
        backend
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_somebody_has_killed_is_not_broken_off() {
        for code in [1053, 1158, 1159, 1160, 1161, 4031] {
            assert!(ends_connection(code), "{code}");
        }
        // KILL QUERY, MariaDB's KILL, time limits, deadlock, an aborted connection, too many connections.
        for code in [1317, 1927, 1969, 3024, 1213, 1152, 1184, 1040] {
            assert!(!ends_connection(code), "{code}");
        }
    }
}
