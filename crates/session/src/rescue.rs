//! A statement under which something goes wrong: what has happened, and what the verdict of `delphinus_route::rescue` comes to.
//! All ways of a statement come here.
//!
//! Owns: the reading of a trouble, and the carrying out of a verdict. Which verdict it is, is decided in `route`; how a primary is
//! waited for is in `failover`, how a transaction begins anew in `begin_anew`.

use delphinus_clients::ListenerMode;
use delphinus_net::NetError;
use delphinus_pool::{Checkout, PoolError};
use delphinus_route::{
    Ends, Harm, Holds, Loss, NextPrimary, Parts, Plan, READ_ATTEMPTS, Reached, Side, Situation, Suspicion,
    Transaction, Trouble, Verdict, lost, rescue,
};
use delphinus_sql::{Access, Statement};
use delphinus_state::{PinReason, Response};
use delphinus_topology::BackendId;
use delphinus_wire::error_code;
use delphinus_wire::response::Status;

use crate::client_error::ProxyError;
use crate::io::Input;
use crate::io::{Cut, Relayed};
use crate::served::Served;
use crate::session::Session;

/// Of the network: the server cannot talk on this connection any more.
const NET_ERRORS: std::ops::RangeInclusive<u16> =
    error_code::NET_READ_ERROR..=error_code::NET_WRITE_INTERRUPTED;

/// A read that has run for so long when its connection breaks may be one that somebody wanted to end. By a clock that ticks once a
/// second: one that has run for less than a second never is.
const LONG_S: u32 = 2;

/// What the client of such a read is told beside how its connection broke.
const KILLED: &str =
    "it has run for long, so that somebody may have killed it, and it does not run again elsewhere";

/// There are statements that servers die of.
const DEADLY: &str = "it is the second server on which that happens, and it does not run on a third";

/// How often a command was tried, and the backends that it is not tried on any more.
#[derive(Debug, Default)]
pub(crate) struct Tries {
    /// The number of this try, from 1.
    pub attempt: u32,
    /// Not these.
    pub avoid: Vec<BackendId>,
    /// Where the first try goes, if that is decided.
    pub planned: Option<Plan>,
}

impl Tries {
    /// One more.
    #[inline]
    pub(crate) fn begin(&mut self) {
        self.attempt += 1;
    }

    /// True if a connection that broke before anything was sent is no reason to give up.
    pub(crate) fn are_left(&self, error: &ProxyError) -> bool {
        matches!(error, ProxyError::Pool(PoolError::Lost { .. })) && self.attempt < READ_ATTEMPTS
    }
}

/// A command that was sent.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Sent<'a> {
    pub statement: &'a Statement,
    /// It runs the statement; to prepare it, or to enter a schema, changes nothing on the server.
    pub runs: bool,
    pub input: Input,
    pub attempt: u32,
}

/// What becomes of it.
pub(crate) enum Rescued {
    /// The client gets this answer.
    Told(Checkout, Relayed),
    /// Once more.
    Again,
    /// Once more, without this backend.
    Elsewhere(BackendId),
    /// Not again.
    Never(Served),
}

/// True for an answer that nothing has to be done about.
#[inline]
pub(crate) fn is_usual(response: &Response) -> bool {
    response.error.is_none_or(|code| !is_trouble(code))
}

#[cold]
fn is_trouble(code: u16) -> bool {
    matches!(code, error_code::OPTION_PREVENTS_STATEMENT | error_code::READ_ONLY_MODE) || ends(code).is_some()
}

/// What a server says that it ends, if this is such an error.
fn ends(code: u16) -> Option<Ends> {
    match code {
        error_code::SERVER_SHUTDOWN => Some(Ends::Itself),
        error_code::CLIENT_INTERACTION_TIMEOUT => Some(Ends::Connection),
        _ => NET_ERRORS.contains(&code).then_some(Ends::Connection),
    }
}

fn trouble(forwarded: &Result<Relayed, Cut>) -> Option<Trouble> {
    let relayed = match forwarded {
        Ok(relayed) => relayed,
        Err(Cut::Client(_)) => return None,
        Err(Cut::Backend { is_repeatable, .. }) => {
            let reached = if *is_repeatable { Reached::Nothing } else { Reached::APart };
            return Some(Trouble::Cut(reached));
        }
    };
    let code = relayed.response.error.filter(|_| relayed.is_untouched)?;
    let is_refusal = match code {
        error_code::READ_ONLY_MODE => true,
        error_code::OPTION_PREVENTS_STATEMENT => says_read_only(&relayed.rest.data()[..relayed.len]),
        _ => false,
    };
    if is_refusal && relayed.response.result_sets == 0 {
        return Some(Trouble::Refused);
    }
    ends(code).map(Trouble::BrokenOff)
}

impl Session {
    /// What becomes of a command whose answer is not a usual one, or that has none.
    pub(crate) async fn rescue(
        &mut self,
        checkout: Checkout,
        forwarded: Result<Relayed, Cut>,
        sent: Sent<'_>,
    ) -> Result<Rescued, NetError> {
        let verdict = match trouble(&forwarded) {
            None => Verdict::Tell,
            Some(trouble) => {
                let harm = self.harm(sent);
                let suspicion = self.suspicion(trouble, checkout.backend(), harm);
                rescue(trouble, self.situation(sent, harm, suspicion))
            }
        };
        match forwarded {
            Err(Cut::Client(error)) => Err(error),
            Err(Cut::Backend { error, is_in_step, .. }) => {
                Ok(self.after_cut(checkout, sent.statement, verdict, (&error, is_in_step)))
            }
            Ok(relayed) => Ok(self.after_answer(checkout, relayed, sent, verdict).await),
        }
    }

    async fn after_answer(
        &mut self,
        checkout: Checkout,
        relayed: Relayed,
        sent: Sent<'_>,
        verdict: Verdict,
    ) -> Rescued {
        match verdict {
            Verdict::Elsewhere => Rescued::Elsewhere(self.leave_broken_off(checkout, relayed)),
            Verdict::OnNextPrimary => {
                if let Some(refusal) = self.before_next_primary(&checkout, relayed).await {
                    return Rescued::Told(checkout, refusal);
                }
                self.leave_refused(checkout, sent.statement).await;
                Rescued::Again
            }
            Verdict::BeginAnew => match self.begin_on_next(checkout, relayed).await {
                Ok(next) => {
                    self.held.bound = Some(next);
                    Rescued::Again
                }
                Err(error) => Rescued::Never(Served::Error(error)),
            },
            Verdict::GiveUp => Rescued::Never(self.give_up_transaction(checkout, relayed).await),
            Verdict::ToPrimary => Rescued::Never(self.restart_on_primary(checkout, relayed).await),
            Verdict::Tell | Verdict::Lost(_) => Rescued::Told(checkout, relayed),
        }
    }

    /// The connection broke: it is closed, and what was on it is told as lost.
    fn after_cut(
        &mut self,
        checkout: Checkout,
        statement: &Statement,
        verdict: Verdict,
        (error, is_in_step): (&NetError, bool),
    ) -> Rescued {
        let backend = checkout.backend();
        drop(checkout);
        let may_have_written = match self.holds() {
            Holds::Nothing => statement.access == Access::Write,
            Holds::Transaction | Holds::More => self.causality.is_writing(),
        };
        if may_have_written {
            // It may have been written, or be written yet.
            self.causality.may_have_written(backend, &self.worker.outlook.progress);
        }
        let why = error.to_string();
        self.worker.outlook.report_lost(backend, &why);
        self.worker.counters.error_backend_lost.increment();
        self.activity.waits_again();
        match verdict {
            Verdict::Lost(loss) => {
                let error = self.told_as(loss, &why);
                // After half a row, or half a command, nothing can follow on this connection.
                let goes_on = is_in_step && !error.ends_session();
                Rescued::Never(if goes_on { Served::Error(error) } else { Served::Fatal(error) })
            }
            _ => Rescued::Elsewhere(backend),
        }
    }

    /// What the session is in, when something goes wrong with what it has sent.
    fn situation(&self, sent: Sent<'_>, harm: Harm, suspicion: Suspicion) -> Situation {
        let transaction = self.transaction();
        Situation {
            harm,
            parts: Parts::of(sent.statement),
            is_at_hand: sent.input.is_whole() && !self.activity.is_killed(),
            holds: self.holds(),
            transaction,
            side: self.side(),
            next: self.next_primary(),
            suspicion,
            may_have_committed: self.causality.may_have_committed(transaction != Transaction::None),
            attempt: sent.attempt,
        }
    }

    fn harm(&self, sent: Sent<'_>) -> Harm {
        if sent.runs {
            Harm::of(sent.statement, self.state.status.contains(Status::IN_TRANS))
        } else {
            Harm::None
        }
    }

    /// What goes with the session's connection.
    pub(crate) fn holds(&self) -> Holds {
        if self.state.pins.is_empty() {
            Holds::Nothing
        } else if self.state.pins.iter().all(|pin| can_go_on(pin.reason)) {
            Holds::Transaction
        } else {
            Holds::More
        }
    }

    /// The session's transaction: with a savepoint there is one for its client, whatever the server says.
    pub(crate) fn transaction(&self) -> Transaction {
        if !self.state.status.contains(Status::IN_TRANS) && !self.state.pins.has(PinReason::Transaction) {
            Transaction::None
        } else if self.just_begun.opening().is_some() {
            Transaction::JustBegun
        } else {
            Transaction::Open
        }
    }

    fn side(&self) -> Side {
        if self.steering.on_replica {
            Side::Replica { may_leave: self.login.listener.mode == ListenerMode::Split }
        } else {
            Side::Primary
        }
    }

    fn next_primary(&self) -> NextPrimary {
        let settings = &self.worker.settings.failover;
        match (settings.roles_move, settings.wait.is_zero()) {
            (false, _) => NextPrimary::Never,
            (true, true) => NextPrimary::NotAwaited,
            (true, false) => NextPrimary::Awaited,
        }
    }

    /// Why a read does not run again. Servers say nothing of who closes a connection, or why.
    fn suspicion(&mut self, trouble: Trouble, backend: BackendId, harm: Harm) -> Suspicion {
        if harm != Harm::None {
            return Suspicion::None;
        }
        let is_second = matches!(trouble, Trouble::Cut(_))
            && self.held.broke_on.replace(backend).is_some_and(|first| first != backend);
        if self.has_run_long() && !self.worker.outlook.is_hung(backend) {
            return Suspicion::Killed;
        }
        if is_second { Suspicion::Deadly } else { Suspicion::None }
    }

    /// True for a statement that somebody may have wanted to end.
    fn has_run_long(&self) -> bool {
        self.activity.since_s(self.worker.registry.clock_s()) >= LONG_S
    }

    /// Closes the connection of a statement that runs again elsewhere.
    fn leave_broken_off(&mut self, checkout: Checkout, relayed: Relayed) -> BackendId {
        let backend = checkout.backend();
        drop(checkout);
        self.activity.waits_again();
        self.worker.counters.error_backend_lost.increment();
        self.worker.outlook.report_lost(backend, "it breaks statements off");
        self.worker.buffers.give(relayed.rest);
        backend
    }

    /// The error for a connection that is gone with what the session was held to it for. A transaction alone ends, and
    /// the session goes on; anything else ends the session. `sent`: the command has been sent.
    pub(crate) fn lost(&mut self, how: &str, sent: bool) -> ProxyError {
        self.worker.counters.error_backend_lost.increment();
        let transaction = self.transaction();
        let may_have_committed = sent && self.causality.may_have_committed(transaction != Transaction::None);
        let loss = lost(self.holds(), transaction, may_have_committed);
        self.told_as(loss, how)
    }

    /// Takes in what is lost; what the client is told of that.
    fn told_as(&mut self, loss: Loss, how: &str) -> ProxyError {
        if loss == Loss::State {
            let pin = self.state.pins.reason().map_or("state", PinReason::as_str);
            return ProxyError::LostState(how.to_owned(), pin);
        }
        if self.holds() == Holds::Transaction {
            self.forget_transaction();
        }
        let how = how.to_owned();
        match loss {
            Loss::Answer(Suspicion::None) => ProxyError::LostHarmless(how),
            Loss::Answer(Suspicion::Killed) => ProxyError::LostHarmless(format!("{how}; {KILLED}")),
            Loss::Answer(Suspicion::Deadly) => ProxyError::LostHarmless(format!("{how}; {DEADLY}")),
            // Nothing has begun, as without a primary.
            Loss::Beginning => ProxyError::NoBackend(how),
            Loss::Outcome => ProxyError::LostUnknown(how),
            Loss::Transaction | Loss::State => self.lost_transaction(&how),
        }
    }

    /// What follows when the connection of an open cursor breaks, or one that a setting was sent on.
    pub(crate) fn after_loss(&mut self, why: &str) -> Served {
        if self.causality.is_writing()
            && let Some(backend) = self.held.last_backend
        {
            self.causality.may_have_written(backend, &self.worker.outlook.progress);
        }
        let error = self.lost(why, true);
        if error.ends_session() { Served::Fatal(error) } else { Served::Error(error) }
    }
}

/// True if a session that loses this with its connection can go on.
pub(crate) fn can_go_on(reason: PinReason) -> bool {
    matches!(reason, PinReason::Transaction | PinReason::Dedicated)
}

/// 1290 has other causes, too: `secure_file_priv`, `skip_grant_tables`.
fn says_read_only(packet: &[u8]) -> bool {
    packet.windows(9).any(|words| matches!(words, b"read-only" | b"read_only"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_read_only_servers_say_so() {
        for (text, says) in [
            (
                "The MariaDB server is running with the --read-only option so it cannot execute this statement",
                true,
            ),
            (
                "The MySQL server is running with the --super-read-only option so it cannot execute this statement",
                true,
            ),
            (
                "The MySQL server is running with the --secure-file-priv option so it cannot execute this statement",
                false,
            ),
        ] {
            assert_eq!(says_read_only(text.as_bytes()), says, "{text}");
        }
    }

    #[test]
    fn what_somebody_has_killed_is_not_broken_off() {
        for code in [1053, 1158, 1159, 1160, 1161, 4031] {
            assert!(ends(code).is_some(), "{code}");
        }
        // KILL QUERY, MariaDB's KILL, time limits, deadlock, an aborted connection, too many connections.
        for code in [1317, 1927, 1969, 3024, 1213, 1152, 1184, 1040] {
            assert_eq!(ends(code), None, "{code}");
        }
    }
}
