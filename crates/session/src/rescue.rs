//! A statement under which something goes wrong: which verdict it is, and what that comes to for the connection. All ways of a
//! statement come here.
//!
//! Owns: the judging, and how a connection is left. What has happened is read in `trouble`, and which verdict it is, is decided in
//! `delphinus_route::rescue`; `run` carries it out. How a primary is waited for, and a transaction begun on it anew, is in `failover`,
//! what a waiting statement looks after in `wait`, what is told of a lost connection in `loss`.

mod failover;
mod gate;
mod loss;
mod on_replica;
mod trouble;
mod wait;

use std::time::Duration;

use delphinus_net::rt;
use delphinus_pool::Checkout;
use delphinus_route::{Harm, Plan, READ_ATTEMPTS, Suspicion, Verdict, rescue};
use delphinus_sql::Statement;
use delphinus_telemetry::{ErrorKind, Retry};
use delphinus_topology::BackendId;
use delphinus_wire::response::Status;

use crate::client_error::{self, ProxyError};
use crate::hold::Held;
use crate::io::{Cut, Input, Relayed};
use crate::outlook::Outlook;
use crate::planner::Planner;
use crate::served::Served;
use crate::state::Wanted;

pub(crate) use failover::{Seeking, told_instead};
pub(crate) use gate::Gate;
pub use gate::Pauses;
pub(crate) use loss::{Stakes, count_unless_lost, lost, lost_after_refusal, take_bound, told_of_loss};
pub(crate) use on_replica::{leave_replica, roll_back_on_replica};
use trouble::{harm, situation, suspicion, trouble};
pub(crate) use trouble::{is_last, is_usual, says_goodbye};
pub use wait::WaitingRoom;
pub(crate) use wait::{Waiter, Waits, wait_for_turn};

/// How often a command was tried, and the backends that it is not tried on any more.
#[derive(Debug)]
pub(crate) struct Tries {
    /// The number of this try, from 1.
    pub attempt: u32,
    /// Not these.
    pub avoid: Vec<BackendId>,
    /// Where the first try goes, if that is decided.
    pub planned: Option<Plan>,
}

impl Tries {
    /// None yet, and the backends that have just failed left out.
    #[inline]
    pub(crate) fn new(outlook: &Outlook) -> Self {
        Self { attempt: 0, avoid: outlook.avoided(), planned: None }
    }

    /// One more.
    #[inline]
    pub(crate) fn begin(&mut self) {
        self.attempt += 1;
    }

    /// Leaves a backend out, and waits a little: a cluster that is down is not to be hammered.
    pub(crate) async fn go_elsewhere(&mut self, backend: BackendId) {
        self.avoid.push(backend);
        if self.attempt > 1 {
            rt::sleep(Duration::from_millis(u64::from(self.attempt) * 10)).await;
        }
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
    /// It runs once for each row of an array.
    pub has_rows: bool,
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

/// What is to become of a command whose answer is not a usual one, or that has none. `ran_s`: for how long it has run.
pub(crate) fn judge(
    planner: Planner<'_>,
    sent: Sent<'_>,
    backend: BackendId,
    forwarded: &Result<Relayed, Cut>,
    ran_s: u32,
) -> Verdict {
    let Some(trouble) = trouble(forwarded) else { return Verdict::Tell };
    let harm = harm(sent, planner.around.state);
    let suspicion = match harm {
        Harm::None => suspicion(trouble, backend, ran_s, planner.around.held),
        _ => Suspicion::None,
    };
    rescue(trouble, situation(planner, sent, harm, suspicion))
}

/// The same answer where it ends with an error by which the server closes the connection: the session goes on, with another one, and
/// no pool is to throw it away.
pub(crate) fn that_goes_on(mut relayed: Relayed) -> Relayed {
    if says_goodbye(&relayed.response) && relayed.is_untouched {
        client_error::goes_on(relayed.rest.data_mut());
    }
    relayed
}

/// Leaves a connection on which a statement was refused because the server takes no writes any more.
pub(crate) async fn leave_refused(checkout: Checkout, statement: &Statement, state: &Wanted) {
    if state.status.contains(Status::AUTOCOMMIT) && statement.effects.is_empty() {
        checkout.release();
    } else {
        // The refused statement may have opened a transaction there, or a function in it may have changed the session before
        // another part was refused. One that cannot start over is closed.
        let _ = checkout.start_over().await;
    }
}

/// Rolls a transaction back and tells the client to try it again, which the refusal does not tell a driver.
pub(crate) async fn give_up_transaction(checkout: Checkout, held: &Held, state: &mut Wanted) -> Served {
    held.source.outlook.report_read_only(checkout.backend());
    held.activity.waits_again();
    // A connection that cannot start over is closed, and that rolls back, too.
    let _ = checkout.start_over().await;
    Served::Error(lost("the server has become read-only", held, state))
}

/// Closes the connection of a statement that runs again elsewhere.
pub(crate) fn leave_broken_off(checkout: Checkout, held: &Held) -> BackendId {
    let (backend, source) = (checkout.backend(), &held.source);
    drop(checkout);
    held.activity.waits_again();
    source.counters.count_error(ErrorKind::BackendLost);
    source.outlook.report_lost(backend, "it aborts statements");
    backend
}
