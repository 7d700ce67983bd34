//! A statement under which something goes wrong: what has happened, and what the verdict of `delphinus_route::rescue` comes to.
//! All ways of a statement come here.
//!
//! Owns: the carrying out of a verdict. What has happened is read in `trouble`, and which verdict it is, is decided in `route`; how a
//! primary is waited for, and a transaction begun on it anew, is in `failover`, what a waiting statement looks after in `wait`, what is
//! told of a lost connection in `loss`.

mod failover;
mod gate;
mod loss;
mod on_replica;
mod trouble;
mod wait;

use delphinus_net::NetError;
use delphinus_pool::Checkout;
use delphinus_route::{Harm, Plan, READ_ATTEMPTS, Suspicion, Target, Verdict, rescue};
use delphinus_sql::Statement;
use delphinus_telemetry::{ErrorKind, Retry};
use delphinus_topology::BackendId;
use delphinus_wire::response::Status;

use crate::client_error::ProxyError;
use crate::hold::Held;
use crate::io::{Cut, Input, Relayed};
use crate::logged::log_try;
use crate::served::Served;
use crate::session::Session;
use crate::state::Wanted;

pub(crate) use failover::Seeking;
pub(crate) use gate::Gate;
pub use gate::Pauses;
pub(crate) use loss::{Stakes, lost, lost_after_refusal, take_bound, told_of_loss};
pub(crate) use on_replica::{leave_replica, roll_back_on_replica};
pub(crate) use trouble::is_usual;
use trouble::{harm, situation, suspicion, trouble};
pub use wait::WaitingRoom;
pub(crate) use wait::Waits;

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
        error.retry() == Retry::IfReused && self.attempt < READ_ATTEMPTS
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

impl Session {
    /// What becomes of a command whose answer is not a usual one, or that has none.
    pub(crate) async fn rescue_command(
        &mut self,
        mut checkout: Checkout,
        forwarded: Result<Relayed, Cut>,
        sent: Sent<'_>,
    ) -> Result<Rescued, NetError> {
        let verdict = match trouble(&forwarded) {
            None => Verdict::Tell,
            Some(trouble) => {
                let harm = harm(sent, &self.state);
                let ran_s = self.held.activity.since_s(self.worker.registry.clock_s());
                let suspicion = match harm {
                    Harm::None => suspicion(trouble, checkout.backend(), ran_s, &mut self.held),
                    _ => Suspicion::None,
                };
                rescue(trouble, situation(self.stand(), sent, harm, suspicion))
            }
        };
        if !matches!((&verdict, &forwarded), (Verdict::Tell | Verdict::Lost(_), Ok(_))) {
            log_try(&self.client, &self.statements, (checkout.connection(), &self.costs, &forwarded));
        }
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
    Served::Error(lost("the server has become read-only", held, state))
}

/// Closes the connection of a statement that runs again elsewhere.
fn leave_broken_off(checkout: Checkout, held: &Held) -> BackendId {
    let (backend, source) = (checkout.backend(), &held.source);
    drop(checkout);
    held.activity.waits_again();
    source.counters.count_error(ErrorKind::BackendLost);
    source.outlook.report_lost(backend, "it aborts statements");
    backend
}
