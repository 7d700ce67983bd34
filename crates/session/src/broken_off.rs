//! A statement that its server breaks off, by an error of its own or by closing the connection: what only reads runs again
//! elsewhere, if nothing of its result has reached the client and nobody has wanted to end it.
//!
//! Owns: which errors these are, and what looks like a KILL on the server. What becomes of other statements whose connection breaks
//! is in `failover`.

use delphinus_pool::Checkout;
use delphinus_sql::{Access, Statement};
use delphinus_topology::BackendId;

use crate::failover::{READ_ATTEMPTS, REFUSALS};
use crate::forward::Relayed;
use crate::input::Input;
use crate::session::Session;

/// ER_SERVER_SHUTDOWN. MySQL says the same of a connection that somebody has killed, for which MariaDB has 1927, if they say anything.
const SHUTDOWN: u16 = 1053;
/// ER_NET_READ_ERROR, ER_NET_READ_INTERRUPTED (MariaDB's word for a connection that was idle for too long),
/// ER_NET_ERROR_ON_WRITE and ER_NET_WRITE_INTERRUPTED: the server cannot talk on this connection any more.
const NET_ERRORS: std::ops::RangeInclusive<u16> = 1158..=1161;
/// ER_CLIENT_INTERACTION_TIMEOUT: MySQL's word for a connection that was idle for too long.
const IDLE: u16 = 4031;

/// A read that has run for so long when its connection breaks may be one that somebody wanted to end. By a clock that ticks once a
/// second: one that has run for less than a second never is.
const LONG_S: u32 = 2;

/// What the client of such a read is told beside how its connection broke.
const KILLED: &str =
    "it has run for long, so that somebody may have killed it, and it does not run again elsewhere";

/// There are statements that servers die of.
const DEADLY: &str = "it is the second server on which that happens, and it does not run on a third";

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
            && attempt < self.attempts(statement)
            && (statement.access == Access::Read || self.only_begins(statement))
            && !self.info.is_killed()
            && !(relayed.response.error == Some(SHUTDOWN) && self.has_run_long())
    }

    /// How often a statement that changes nothing is tried. A read has other backends; what begins a transaction has none, and
    /// a primary that comes and goes may have many connections that break one after the other.
    pub(crate) fn attempts(&self, statement: &Statement) -> u32 {
        if self.only_begins(statement) { REFUSALS } else { READ_ATTEMPTS }
    }

    /// Why a statement that changes nothing, and whose connection broke on this backend, does not run again all the same. Servers
    /// say nothing of who closes a connection, or why.
    pub(crate) fn why_not_again(
        &mut self,
        backend: BackendId,
        statement: &Statement,
    ) -> Option<&'static str> {
        if statement.access != Access::Read {
            return None;
        }
        let is_second = self.broke_on.replace(backend).is_some_and(|first| first != backend);
        if self.has_run_long() && !self.worker.is_hung(backend) {
            return Some(KILLED);
        }
        is_second.then_some(DEADLY)
    }

    /// True for a statement that somebody may have wanted to end.
    fn has_run_long(&self) -> bool {
        self.info.since_s(self.worker.registry.clock_s()) >= LONG_S
    }

    /// Closes the connection of a statement that runs again elsewhere.
    pub(crate) fn leave_broken_off(&mut self, checkout: Checkout, relayed: Relayed) -> BackendId {
        let backend = checkout.backend();
        drop(checkout);
        self.info.waits_again();
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
