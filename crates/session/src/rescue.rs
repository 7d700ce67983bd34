//! A statement under which something goes wrong: what has happened, and what the verdict of `delphinus_route::rescue` comes to.
//! All ways of a statement come here.
//!
//! Owns: the reading of a trouble, and the carrying out of a verdict. Which verdict it is, is decided in `route`; how a primary is
//! waited for, and a transaction begun on it anew, is in `failover`, what is told of a lost connection in `loss`.

mod failover;
mod loss;
mod on_replica;

use delphinus_clients::ListenerMode;
use delphinus_net::NetError;
use delphinus_pool::{Checkout, PoolError};
use delphinus_route::{
    Ends, Harm, NextPrimary, Parts, Plan, READ_ATTEMPTS, Reached, Side, Situation, Suspicion, Target,
    Transaction, Trouble, Verdict, rescue,
};
use delphinus_sql::Statement;
use delphinus_state::Response;
use delphinus_topology::BackendId;
use delphinus_wire::error_code;
use delphinus_wire::response::Status;

use crate::client_error::ProxyError;
use crate::hold::Held;
use crate::io::{Cut, Input, Relayed};
use crate::served::Served;
use crate::session::Session;
use crate::state::Wanted;
use crate::worker::Failover;

pub use failover::WaitingRoom;
pub(crate) use failover::{Seeking, Waits};
pub(crate) use loss::{Stakes, lost, lost_after_refusal, take_bound, told_of_loss};
pub(crate) use on_replica::{leave_replica, roll_back_on_replica};

/// Of the network: the server cannot talk on this connection any more.
const NET_ERRORS: std::ops::RangeInclusive<u16> =
    error_code::NET_READ_ERROR..=error_code::NET_WRITE_INTERRUPTED;

/// A read that has run for so long when its connection breaks may be one that somebody wanted to end. By a clock that ticks once a
/// second: one that has run for less than a second never is.
const LONG_S: u32 = 2;

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
    pub(crate) async fn rescue_command(
        &mut self,
        checkout: Checkout,
        forwarded: Result<Relayed, Cut>,
        sent: Sent<'_>,
    ) -> Result<Rescued, NetError> {
        let verdict = match trouble(&forwarded) {
            None => Verdict::Tell,
            Some(trouble) => {
                let harm = self.harm(sent);
                let ran_s = self.held.activity.since_s(self.worker.registry.clock_s());
                let suspicion = match harm {
                    Harm::None => suspicion(trouble, checkout.backend(), ran_s, &mut self.held),
                    _ => Suspicion::None,
                };
                rescue(trouble, self.situation(sent, harm, suspicion))
            }
        };
        match forwarded {
            Err(Cut::Client(error)) => Err(error),
            Err(Cut::Backend { error, is_in_step, .. }) => {
                let backend = checkout.backend();
                // It is closed.
                drop(checkout);
                Ok(match self.stakes().after_cut(backend, sent.statement, verdict, (&error, is_in_step)) {
                    Some(served) => Rescued::Never(served),
                    None => Rescued::Elsewhere(backend),
                })
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
        let buffers = &self.worker.buffers;
        match verdict {
            Verdict::Elsewhere => {
                buffers.give(relayed.rest);
                Rescued::Elsewhere(leave_broken_off(checkout, &self.held))
            }
            Verdict::OnNextPrimary => {
                if let Some(refusal) = self.seeking().before_next(&checkout, relayed).await {
                    return Rescued::Told(checkout, refusal);
                }
                leave_refused(checkout, sent.statement, &self.state).await;
                Rescued::Again
            }
            Verdict::BeginAnew => {
                buffers.give(relayed.rest);
                match self.seeking().begin_on_next(checkout).await {
                    Ok(next) => {
                        self.steering.goes_to(Target::Primary);
                        self.held.bound = Some(next);
                        Rescued::Again
                    }
                    Err(error) => Rescued::Never(Served::Error(error)),
                }
            }
            Verdict::GiveUp => {
                buffers.give(relayed.rest);
                Rescued::Never(give_up_transaction(checkout, &self.held, &mut self.state).await)
            }
            Verdict::ToPrimary => {
                buffers.give(relayed.rest);
                let rolled_back =
                    roll_back_on_replica(checkout, &mut self.steering, &mut self.held, &mut self.state);
                Rescued::Never(Served::refused(rolled_back.await))
            }
            Verdict::Tell | Verdict::Lost(_) => Rescued::Told(checkout, relayed),
        }
    }

    /// What the session is in, when something goes wrong with what it has sent.
    fn situation(&self, sent: Sent<'_>, harm: Harm, suspicion: Suspicion) -> Situation {
        let transaction = self.state.transaction();
        Situation {
            harm,
            parts: Parts::of(sent.statement),
            is_at_hand: sent.input.is_whole() && !self.held.activity.is_killed(),
            holds: self.state.holds(),
            transaction,
            side: self.side(),
            next: next_primary(self.held.source.failover),
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

    fn side(&self) -> Side {
        if self.steering.on_replica {
            Side::Replica { may_leave: self.login.listener.mode == ListenerMode::Split }
        } else {
            Side::Primary
        }
    }
}

/// Leaves a connection on which a statement was refused because the server takes no writes any more.
async fn leave_refused(checkout: Checkout, statement: &Statement, state: &Wanted) {
    if state.status.contains(Status::AUTOCOMMIT) && statement.effects.is_empty() {
        checkout.release();
    } else {
        // The refused statement may have opened a transaction there, or a function in it may have changed the session before
        // another part was refused. One that cannot start over is closed.
        let _ = checkout.start_over().await;
    }
}

/// Rolls a transaction back and tells the client to try it again, which the refusal does not tell a driver.
async fn give_up_transaction(checkout: Checkout, held: &Held, state: &mut Wanted) -> Served {
    held.source.outlook.report_read_only(checkout.backend());
    // A connection that cannot start over is closed, and that rolls back, too.
    let _ = checkout.start_over().await;
    Served::Error(lost("it takes no writes any more", held, state))
}

/// Closes the connection of a statement that runs again elsewhere.
fn leave_broken_off(checkout: Checkout, held: &Held) -> BackendId {
    let (backend, source) = (checkout.backend(), &held.source);
    drop(checkout);
    held.activity.waits_again();
    source.counters.error_backend_lost.increment();
    source.outlook.report_lost(backend, "it breaks statements off");
    backend
}

fn next_primary(settings: Failover) -> NextPrimary {
    match (settings.roles_move, settings.wait.is_zero()) {
        (false, _) => NextPrimary::Never,
        (true, true) => NextPrimary::NotAwaited,
        (true, false) => NextPrimary::Awaited,
    }
}

/// Why a read does not run again. Servers say nothing of who closes a connection, or why. `ran_s`: for how long it has run.
fn suspicion(trouble: Trouble, backend: BackendId, ran_s: u32, held: &mut Held) -> Suspicion {
    let is_second = matches!(trouble, Trouble::Cut(_))
        && held.broke_on.replace(backend).is_some_and(|first| first != backend);
    if ran_s >= LONG_S && !held.source.outlook.is_hung(backend) {
        return Suspicion::Killed;
    }
    if is_second { Suspicion::Deadly } else { Suspicion::None }
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
