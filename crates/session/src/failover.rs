//! What happens to statements and sessions when a backend goes away: which wait for a primary, which run again on the
//! next one, and what is told of those that cannot.
//!
//! | what is known of the statement | what follows |
//! |---|---|
//! | it was not sent, and there is no primary | it waits for one, and runs there (`checkout_planned`) |
//! | a backend refused it because it takes no writes any more | it waits for the next primary, and runs there (`is_refused_as_read_only`) |
//! | the same in a transaction that has only begun | that begins anew on the next primary (`begin_anew`) |
//! | the same in any other | that is rolled back and gone: "retry it" (`give_up_transaction`) |
//! | it only reads, and no byte of its result has reached the client | it runs again (`command/query.rs`) |
//! | it was sent in a transaction that cannot have been committed by it | the transaction is gone: "retry it" (`lost`) |
//! | it may have been committed | "outcome unknown", and never again (`lost`) |

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use delphinus_net::NetError;
use delphinus_net::rt::{self, Either};
use delphinus_pool::{Checkout, PoolError};
use delphinus_route::{Plan, Reason, Target};
use delphinus_sql::{Class, Effects, Statement};
use delphinus_state::{PinReason, Response};
use delphinus_topology::{BackendId, Snapshot};
use delphinus_wire::response::Status;

use crate::client_error::{ClientError, ProxyError};
use crate::forward::Relayed;
use crate::input::Input;
use crate::serve::Served;
use crate::session::Session;
use crate::settle::OPAQUE;

/// What an operator sets about failovers.
#[derive(Debug, Clone, Copy, Default)]
pub struct Failover {
    /// How long a statement waits for a primary; zero: not at all.
    pub wait: Duration,
    /// So many statements wait at the same time.
    pub queue: u32,
    /// A lost transaction is told by the error of a lost connection, and not by that of a deadlock.
    pub lost_transaction_is_lost_connection: bool,
    /// Another backend can become the primary: a statement that is refused because the server takes no writes runs there.
    pub roles_move: bool,
}

/// The statements of one cluster that wait for its primary, over all workers.
#[derive(Debug, Clone, Default)]
pub struct WaitingRoom(Arc<AtomicU32>);

/// A place in it.
#[derive(Debug)]
struct WaitPlace(WaitingRoom);

impl WaitingRoom {
    /// A place, if less than `limit` are taken.
    fn enter(&self, limit: u32) -> Option<WaitPlace> {
        let add = |n| (n < limit).then_some(n + 1);
        let entered = self.0.fetch_update(Ordering::AcqRel, Ordering::Relaxed, add);
        entered.ok().map(|_| WaitPlace(self.clone()))
    }
}

impl Drop for WaitPlace {
    fn drop(&mut self) {
        self.0.0.fetch_sub(1, Ordering::AcqRel);
    }
}

/// How often a primary that is said to be there is tried while statements wait for it.
const RETRY: Duration = Duration::from_millis(100);

/// How often a statement that only reads is tried on other backends.
pub(crate) const READ_ATTEMPTS: u32 = 5;

/// How often a statement is run that is refused because the server takes no writes, although that is said to be the primary.
pub(crate) const REFUSALS: u32 = 20;

/// ER_OPTION_PREVENTS_STATEMENT: `read_only`, `super_read_only` and others.
const PREVENTED: u16 = 1290;
/// ER_READ_ONLY_MODE.
const READ_ONLY_MODE: u16 = 1836;

impl Session {
    /// As `checkout`; where it is the primary that is missing, the statement waits for one.
    #[inline]
    pub(crate) async fn checkout_planned(
        &mut self,
        plan: Plan,
        avoid: &[BackendId],
    ) -> Result<Checkout, ProxyError> {
        // A read that only prefers the primary goes to a replica rather than wait.
        let waits = plan.target == Target::Primary
            && !matches!(plan.reason, Reason::PrimaryPreferred | Reason::ReadShare | Reason::Consistency);
        match self.checkout_or_wait(plan.target, waits).await {
            Err(error) if self.waits_for_primary(plan, avoid, &error) => {
                Box::pin(self.wait_for_primary(error)).await
            }
            result => result,
        }
    }

    fn waits_for_primary(&self, plan: Plan, avoid: &[BackendId], error: &ProxyError) -> bool {
        // A read that only prefers the primary has been somewhere else first.
        let may_go_elsewhere =
            matches!(plan.reason, Reason::PrimaryPreferred | Reason::ReadShare | Reason::Consistency)
                && self.worker.primary().is_none_or(|primary| !avoid.contains(&primary));
        plan.target == Target::Primary
            && plan.or_without.is_none()
            && !may_go_elsewhere
            && !self.worker.settings.failover.wait.is_zero()
            && is_missing(error)
    }

    async fn wait_for_primary(&mut self, first: ProxyError) -> Result<Checkout, ProxyError> {
        let settings = self.worker.settings.failover;
        let Some(_place) = self.worker.waiting.enter(settings.queue) else {
            return Err(ProxyError::NoPrimary(Duration::ZERO, first.reason()));
        };
        self.worker.counters.failover_waits.increment();
        let (began, mut last) = (rt::now(), first);
        while began.elapsed() < settings.wait {
            let left = settings.wait.saturating_sub(began.elapsed());
            self.pause(RETRY.min(left), |_| false).await?;
            match self.checkout(Target::Primary).await {
                Err(error) if is_missing(&error) => last = error,
                result => return result,
            }
        }
        self.worker.counters.failover_timeouts.increment();
        Err(ProxyError::NoPrimary(began.elapsed(), last.reason()))
    }

    /// Waits for the next look at the cluster, or until `is_there`; an error if nobody waits for the answer any more.
    async fn pause(
        &mut self,
        limit: Duration,
        is_there: impl Fn(&Snapshot) -> bool,
    ) -> Result<(), ProxyError> {
        let generation = self.worker.with_snapshot(|snapshot, _| snapshot.generation);
        let news = self.worker.news(|snapshot| is_there(snapshot) || snapshot.generation != generation);
        let woken = rt::either(rt::timeout(limit, news), self.info.disturbed()).await;
        if let Either::Second(()) = woken
            && self.attend(None).kills_query()
        {
            return Err(ProxyError::Killed);
        }
        if self.info.is_killed() {
            return Err(self.killed());
        }
        if self.worker.is_stopping() {
            return Err(ProxyError::Shutdown);
        }
        if self.stream.is_gone() {
            return Err(ProxyError::NoBackend("the client has gone".to_owned()));
        }
        Ok(())
    }

    /// True if the server has not run the statement because it takes no writes any more, so that it can run on the next
    /// primary: nothing has happened, and nobody has been told.
    #[inline]
    pub(crate) fn is_refused_as_read_only(
        &self,
        statement: &Statement,
        input: Input,
        relayed: &Relayed,
    ) -> bool {
        is_read_only_refusal(relayed)
            && input.is_whole()
            && self.may_run_on_next(statement, &relayed.response)
    }

    /// Waits for the primary that a refused statement can run on. Gives the refusal back if none comes in time.
    pub(crate) async fn before_next_primary(
        &mut self,
        checkout: &mut Checkout,
        relayed: Relayed,
        attempt: u32,
    ) -> Result<Option<Relayed>, NetError> {
        let (backend, refused) = (checkout.backend(), rt::now());
        if attempt >= REFUSALS {
            return Ok(Some(relayed));
        }
        match Box::pin(self.await_next_primary(backend, refused)).await {
            Ok(true) => {
                self.worker.buffers.give(relayed.rest);
                Ok(None)
            }
            Err(error @ ProxyError::Killed) => Ok(Some(self.told_instead(&error, relayed))),
            Ok(false) | Err(_) => Ok(Some(relayed)),
        }
    }

    /// Another error in the place of the one that is all of a response.
    fn told_instead(&self, error: &ProxyError, mut relayed: Relayed) -> Relayed {
        let (mut packet, error) = (Vec::new(), ClientError::from(error));
        error.put(&mut packet, 1, self.capabilities());
        relayed.rest.clear();
        relayed.rest.extend(&packet);
        relayed.len = packet.len();
        relayed.response.error = Some(error.code());
        relayed
    }

    /// True if the server has refused a statement of a transaction because it takes no writes any more: it can neither go on
    /// nor be committed there.
    #[inline]
    pub(crate) fn is_transaction_refused(&self, statement: &Statement, relayed: &Relayed) -> bool {
        is_read_only_refusal(relayed)
            && runs_whole(statement)
            && (self.may_give_up_transaction(&relayed.response) || self.may_restart(&relayed.response))
    }

    fn may_give_up_transaction(&self, response: &Response) -> bool {
        self.worker.settings.failover.roles_move
            && response.result_sets == 0
            && self.has_transaction()
            && !self.steering.on_replica
            && !self.pins.is_empty()
            && self.pins.iter().all(|pin| can_go_on(pin.reason))
    }

    /// Rolls it back and tells the client to try it again, which the refusal does not tell a driver.
    pub(crate) async fn give_up_transaction(&mut self, checkout: Checkout, relayed: Relayed) -> Served {
        self.worker.report_read_only(checkout.backend());
        self.worker.buffers.give(relayed.rest);
        // A connection that cannot start over is closed, and that rolls back, too.
        let _ = checkout.start_over().await;
        Served::Error(self.lost("it takes no writes any more", false))
    }

    fn may_run_on_next(&self, statement: &Statement, response: &Response) -> bool {
        let settings = &self.worker.settings.failover;
        settings.roles_move
            && !settings.wait.is_zero()
            && runs_whole(statement)
            && response.result_sets == 0
            && self.pins.is_empty()
            && !self.steering.on_replica
            && !self.status.contains(Status::IN_TRANS)
    }

    /// Leaves a connection on which a statement was refused because the server takes no writes any more.
    pub(crate) async fn leave_refused(&self, checkout: Checkout, statement: &Statement) {
        if self.status.contains(Status::AUTOCOMMIT) && statement.effects.is_empty() {
            checkout.release();
        } else {
            // The refused statement may have opened a transaction there, or a function in it may have changed the session before
            // another part was refused. One that cannot start over is closed.
            let _ = checkout.start_over().await;
        }
    }

    /// Waits until another backend is the primary, or this one was seen to take writes after `refused`; false if that
    /// did not come in time.
    pub(crate) async fn await_next_primary(
        &mut self,
        old: BackendId,
        refused: Instant,
    ) -> Result<bool, ProxyError> {
        let settings = self.worker.settings.failover;
        let Some(_place) = self.worker.waiting.enter(settings.queue) else { return Ok(false) };
        self.worker.counters.failover_waits.increment();
        self.worker.report_lost(old, "it takes no writes any more");
        self.info.waits_again();
        let is_there = |snapshot: &Snapshot| {
            snapshot
                .primary()
                .is_some_and(|primary| primary.takes_statements() && !primary.read_only && primary.id != old)
        };
        while refused.elapsed() < settings.wait {
            if self.worker.with_snapshot(|snapshot, _| is_there(snapshot)) {
                return Ok(true);
            }
            self.pause(RETRY, is_there).await?;
            // It may have been set back: nothing but another try can tell.
            if refused.elapsed() >= RETRY * 5 && self.worker.primary() == Some(old) {
                return Ok(true);
            }
        }
        self.worker.counters.failover_timeouts.increment();
        Ok(false)
    }

    /// The error for a connection that is gone with what the session was pinned to it for. A transaction alone ends, and
    /// the session goes on; anything else ends the session. `sent`: the command has been sent.
    pub(crate) fn lost(&mut self, how: &str, sent: bool) -> ProxyError {
        self.worker.counters.error_backend_lost.increment();
        if self.pins.is_empty() || self.pins.iter().any(|pin| !can_go_on(pin.reason)) {
            let pin = self.pins.reason().map_or("state", PinReason::as_str);
            return ProxyError::LostState(how.to_owned(), pin);
        }
        let was_in_transaction = self.has_transaction();
        let is_unknown = sent && self.causality.may_have_committed(was_in_transaction);
        self.forget_transaction();
        if is_unknown {
            return ProxyError::LostUnknown(how.to_owned());
        }
        if !was_in_transaction {
            return ProxyError::LostHarmless(how.to_owned());
        }
        self.lost_transaction(how)
    }

    /// The error where a connection broke before the statement was sent on it. Who was pinned to it is told what has gone with
    /// it, here and not once more by the next statement.
    pub(crate) fn told_of_loss(&mut self, error: ProxyError) -> ProxyError {
        match error {
            _ if self.bound.is_some() || self.is_only_kept() => error,
            ProxyError::Pool(lost @ PoolError::Lost { .. }) => self.lost(&lost.to_string(), false),
            ProxyError::LostHarmless(why) => self.lost(&why, false),
            error => error,
        }
    }

    /// What becomes of a statement that its server has refused, where the connection broke before the server was asked how the
    /// transaction stands: the error that the client is told instead, `None` if the server's own one says all. `Err` if more than the
    /// transaction is gone.
    pub(crate) fn lost_after_refusal(
        &mut self,
        lost: &PoolError,
        statement: &Statement,
        response: &Response,
    ) -> Result<Option<ProxyError>, ()> {
        let is_lost = matches!(lost, PoolError::Lost { .. });
        let is_only_transaction = !self.pins.is_empty() && self.pins.iter().all(|pin| can_go_on(pin.reason));
        let assigns = Effects::SETS_USER_VARS.union(Effects::SETS_SYSTEM_VARS).union(OPAQUE);
        let changes_session = statement.effects.intersects(assigns) || statement.class == Class::Multi;
        let (true, true, false, Some(code)) = (is_lost, is_only_transaction, changes_session, response.error)
        else {
            return Err(());
        };
        self.worker.counters.error_backend_lost.increment();
        self.forget_transaction();
        let how = lost.to_string();
        if statement.effects.contains(Effects::ENDS_TRANSACTION) || code == DEADLOCK {
            // It is at its end, and the client knows that.
            return Ok(None);
        }
        let commits = Effects::IMPLICIT_COMMIT.union(Effects::BEGINS_TRANSACTION);
        if statement.effects.intersects(commits) {
            // It may have been committed before this one was refused.
            return Ok(Some(ProxyError::LostUnknown(how)));
        }
        Ok(Some(self.lost_transaction(&how)))
    }

    /// True if a transaction is open: with a savepoint it is for its client, whatever the server says.
    fn has_transaction(&self) -> bool {
        self.status.contains(Status::IN_TRANS) || self.pins.has(PinReason::Transaction)
    }

    /// The transaction is gone, and the session goes on.
    pub(crate) fn forget_transaction(&mut self) {
        self.pins.remove(PinReason::Transaction);
        self.publish_pin();
        self.status = self.status.without(Status::IN_TRANS.with(Status::IN_TRANS_READONLY));
    }

    /// What is told of a transaction that is to be tried again.
    pub(crate) fn lost_transaction(&self, how: &str) -> ProxyError {
        let is_plain = self.worker.settings.failover.lost_transaction_is_lost_connection;
        ProxyError::LostTransaction { how: how.to_owned(), as_deadlock: !is_plain }
    }
}

/// ER_LOCK_DEADLOCK: the server has rolled the transaction back.
const DEADLOCK: u16 = 1213;

/// True if a session that loses this with its connection can go on.
fn can_go_on(reason: PinReason) -> bool {
    matches!(reason, PinReason::Transaction | PinReason::Dedicated)
}

/// True where it is the primary that is missing, and nothing has been sent to it.
fn is_missing(error: &ProxyError) -> bool {
    match error {
        ProxyError::NoBackend(_)
        | ProxyError::Pool(
            PoolError::Unreachable { .. } | PoolError::Lost { .. } | PoolError::Offline { .. },
        ) => true,
        // Shutdown in progress.
        ProxyError::Pool(PoolError::Refused { error, .. }) => error.code == 1053,
        _ => false,
    }
}

/// True for what is refused before it has done anything, or undone. Of a procedure, of a text of several statements, of SQL that is
/// in a variable and of what nobody here knows, a part may have been committed before another one was refused.
#[inline]
fn runs_whole(statement: &Statement) -> bool {
    statement.count == 1
        && !matches!(statement.class, Class::Call | Class::Multi)
        && !statement.effects.intersects(Effects::SQL_EXECUTES.union(Effects::UNKNOWN))
}

/// True for the answer of a server that takes no writes, of which nothing has reached the client.
#[inline]
fn is_read_only_refusal(relayed: &Relayed) -> bool {
    let error = relayed.response.error;
    matches!(error, Some(PREVENTED | READ_ONLY_MODE))
        && relayed.is_untouched
        && (error == Some(READ_ONLY_MODE) || says_read_only(&relayed.rest.data()[..relayed.len]))
}

/// 1290 has other causes, too: `secure_file_priv`, `skip_grant_tables`.
fn says_read_only(packet: &[u8]) -> bool {
    packet.windows(9).any(|words| matches!(words, b"read-only" | b"read_only"))
}

#[cfg(test)]
mod tests {
    use delphinus_sql::{LexOptions, classify};

    use super::*;

    #[test]
    fn what_may_have_committed_a_part_is_not_run_again() {
        for (sql, whole) in [
            ("INSERT INTO t VALUES (1)", true),
            ("INSERT INTO t VALUES (f(1))", true),
            ("SELECT f(1)", true),
            ("UPDATE t SET a = 1", true),
            ("CREATE TABLE t (a INT)", true),
            ("BEGIN", true),
            ("COMMIT", true),
            ("CALL p()", false),
            ("EXECUTE s", false),
            ("EXECUTE IMMEDIATE 'CALL p()'", false),
            ("INSERT INTO t VALUES (1); INSERT INTO t VALUES (2)", false),
            ("BEGIN NOT ATOMIC INSERT INTO t VALUES (1); INSERT INTO t VALUES (2); END", false),
            ("WHAT IS THIS", false),
        ] {
            let statement = classify(sql.as_bytes(), LexOptions::default());
            assert_eq!(runs_whole(&statement), whole, "{sql}");
        }
    }

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
}
