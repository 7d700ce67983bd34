//! A connection that is gone: what of its session has gone with it, and what the client is told.
//!
//! Which loss it is, is decided in `delphinus_route::rescue`.

use delphinus_net::NetError;
use delphinus_pool::{Checkout, PoolError};
use delphinus_route::{Holds, Loss, Suspicion, Transaction, Verdict, lost as loss_of};
use delphinus_sql::{Access, Class, Effects, Statement};
use delphinus_state::{PinReason, Response};
use delphinus_telemetry::{ClusterCounters, ErrorKind, Source};
use delphinus_topology::BackendId;
use delphinus_wire::error_code;

use crate::client_error::{Lost, ProxyError};
use crate::fresh::Causality;
use crate::hold::Held;
use crate::served::Served;
use crate::state::Wanted;

/// What the client of a read that has run for long is told beside how its connection broke.
const KILLED: &str =
    "it had run for long and may have been killed, so the proxy does not run it again on another server";

/// There are statements that servers die of.
const DEADLY: &str = "two servers were lost while they ran it, so the proxy does not try a third";

/// The pinned connection, if it still lives; the client is told what has gone with one that does not.
pub(crate) fn take_bound(held: &mut Held, state: &mut Wanted) -> Result<Option<Checkout>, ProxyError> {
    held.take_bound(state).map_err(|why| lost(why, held, state))
}

/// The error for a connection that is gone with what the session was held to it for, before its command was sent. A transaction
/// alone ends, and the session goes on; anything else ends the session.
pub(crate) fn lost(how: &str, held: &Held, state: &mut Wanted) -> ProxyError {
    lost_after(false, how, held, state)
}

/// The same; the command may have committed something.
fn lost_after(may_have_committed: bool, how: &str, held: &Held, state: &mut Wanted) -> ProxyError {
    held.source.counters.count_error(ErrorKind::BackendLost);
    let loss = loss_of(state.holds(), state.transaction(), may_have_committed);
    told_as(loss, how, held, state)
}

/// Takes in what is lost; what the client is told of that.
fn told_as(loss: Loss, how: &str, held: &Held, state: &mut Wanted) -> ProxyError {
    if loss == Loss::State {
        let pin = state.pins.reason().map_or("state", PinReason::name);
        return Lost::State(how.to_owned(), pin).into();
    }
    if state.holds() == Holds::Transaction {
        state.forget_transaction(held.bound_to());
    }
    let how = how.to_owned();
    let lost = match loss {
        Loss::Answer(Suspicion::None) => Lost::Answer(how),
        Loss::Answer(Suspicion::Killed) => Lost::Answer(format!("{how}; {KILLED}")),
        Loss::Answer(Suspicion::Deadly) => Lost::Answer(format!("{how}; {DEADLY}")),
        // Nothing has begun, as without a primary.
        Loss::Beginning => return ProxyError::NoBackend(how),
        Loss::Outcome => Lost::Outcome(how),
        Loss::Transaction | Loss::State => held.source.failover.get().lost_transaction(how),
    };
    lost.into()
}

/// What a session may lose with a connection that a command was sent on.
pub(crate) struct Stakes<'a> {
    pub held: &'a Held,
    pub state: &'a mut Wanted,
    pub causality: &'a mut Causality,
}

impl Stakes<'_> {
    /// The connection of a statement broke, and what was on it is told as lost; `None` if the statement is to run elsewhere.
    pub(crate) fn after_cut(
        self,
        backend: BackendId,
        statement: &Statement,
        verdict: Verdict,
        (error, is_in_step): (&NetError, bool),
    ) -> Option<Served> {
        let may_have_written = match self.state.holds() {
            Holds::Nothing => statement.access == Access::Write,
            Holds::Transaction | Holds::More => self.causality.is_writing(),
        };
        let (source, why) = (&self.held.source, error.to_string());
        if may_have_written {
            // It may have been written, or be written yet.
            self.causality.may_have_written(backend, &source.outlook.progress);
        }
        source.outlook.report_lost(backend, &why);
        source.counters.count_error(error.kind(Source::Backend));
        self.held.activity.waits_again();
        let Verdict::Lost(loss) = verdict else {
            debug_assert!(self.state.holds() == Holds::Nothing, "state is lost, and the client is not told");
            return None;
        };
        let error = told_as(loss, &why, self.held, self.state);
        // After half a row, or half a command, nothing can follow on this connection.
        let goes_on = is_in_step && !error.ends_session();
        Some(if goes_on { Served::Error(error) } else { Served::Fatal(error) })
    }

    /// What follows when the connection of an open cursor breaks.
    pub(crate) fn after_loss(self, error: &NetError) -> Served {
        if self.causality.is_writing()
            && let Some(backend) = self.held.last_backend
        {
            self.causality.may_have_written(backend, &self.held.source.outlook.progress);
        }
        let is_in_transaction = self.state.transaction() != Transaction::None;
        let may_have_committed = self.causality.may_have_committed(is_in_transaction);
        Served::refused(lost_after(may_have_committed, &error.to_string(), self.held, self.state))
    }
}

/// The error where a connection broke before the statement was sent on it. Who was pinned to it is told what has gone with
/// it, here and not once more by the next statement.
pub(crate) fn told_of_loss(error: ProxyError, held: &Held, state: &mut Wanted) -> ProxyError {
    match error {
        _ if held.bound.is_some() || state.is_only_kept() => error,
        ProxyError::Pool(lost_one @ PoolError::Lost { .. }) => lost(&lost_one.to_string(), held, state),
        ProxyError::Lost(Lost::Answer(why)) => lost(&why, held, state),
        error => error,
    }
}

/// What becomes of a statement that its server has refused, where the connection broke before the server was asked how the
/// transaction stands: the error that the client is told instead, `None` if the server's own one says all. `Err` if more than the
/// transaction is gone.
pub(crate) fn lost_after_refusal(
    lost: &PoolError,
    (statement, response): (&Statement, &Response),
    held: &Held,
    state: &mut Wanted,
) -> Result<Option<ProxyError>, ()> {
    let is_lost = matches!(lost, PoolError::Lost { .. });
    let is_only_transaction = state.holds() == Holds::Transaction;
    let assigns = Effects::SETS_USER_VARS.union(Effects::SETS_SYSTEM_VARS).union(Effects::OPAQUE);
    let changes_session = statement.effects.intersects(assigns) || statement.class == Class::Multi;
    let (true, true, false, Some(code)) = (is_lost, is_only_transaction, changes_session, response.error)
    else {
        return Err(());
    };
    held.source.counters.count_error(ErrorKind::BackendLost);
    state.forget_transaction(held.bound_to());
    let how = lost.to_string();
    if statement.effects.contains(Effects::ENDS_TRANSACTION) || code == error_code::ER_LOCK_DEADLOCK {
        // It is at its end, and the client knows that.
        return Ok(None);
    }
    let commits = Effects::IMPLICIT_COMMIT.union(Effects::BEGINS_TRANSACTION);
    if statement.effects.intersects(commits) {
        // It may have been committed before this one was refused.
        return Ok(Some(Lost::Outcome(how).into()));
    }
    Ok(Some(held.source.failover.get().lost_transaction(how).into()))
}

/// Counts what has not been counted where it was lost.
pub(crate) fn count_unless_lost(error: &ProxyError, counters: &ClusterCounters) {
    if !matches!(error, ProxyError::Lost(Lost::State(..) | Lost::Transaction { .. } | Lost::Outcome(_))) {
        counters.count_error(error.kind());
    }
}
