//! Waiting for a primary: for statements that were not sent because there is none, and for those that it has refused because it
//! takes no writes any more.
//!
//! Owns: who waits, how many, and for how long. What becomes of a statement under which something goes wrong is decided in
//! `delphinus_route::rescue`.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use delphinus_net::rt::{self, Either};
use delphinus_pool::{Checkout, PoolError};
use delphinus_route::{Holds, Plan, Reason, Target};
use delphinus_sql::{Class, Effects, Statement};
use delphinus_state::{PinReason, Response};
use delphinus_topology::{BackendId, Snapshot};
use delphinus_wire::error_code;
use delphinus_wire::response::Status;

use crate::answer::killed;
use crate::client_error::{ClientError, ProxyError};
use crate::io::Relayed;
use crate::served::Served;
use crate::session::Session;

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
                && self.worker.outlook.primary().is_none_or(|primary| !avoid.contains(&primary));
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
        let generation = self.worker.outlook.with_snapshot(|snapshot, _| snapshot.generation);
        let news =
            self.worker.outlook.news(|snapshot| is_there(snapshot) || snapshot.generation != generation);
        let woken = rt::either(rt::timeout(limit, news), self.activity.disturbed()).await;
        if let Either::Second(()) = woken {
            let (client, watch) = self.watch();
            if watch.attend(client, None).kills_query() {
                return Err(ProxyError::Killed);
            }
        }
        if self.activity.is_killed() {
            return Err(killed(self.state.flavor()));
        }
        if self.worker.is_stopping() {
            return Err(ProxyError::Shutdown);
        }
        if self.client.stream.is_gone() {
            return Err(ProxyError::NoBackend("the client has gone".to_owned()));
        }
        Ok(())
    }

    /// Waits for the primary that a refused statement can run on. Gives the refusal back if none comes in time.
    pub(crate) async fn before_next_primary(
        &mut self,
        checkout: &Checkout,
        relayed: Relayed,
    ) -> Option<Relayed> {
        match self.await_next_primary(checkout.backend(), rt::now()).await {
            Ok(true) => {
                self.worker.buffers.give(relayed.rest);
                None
            }
            Err(error @ ProxyError::Killed) => Some(self.told_instead(&error, relayed)),
            Ok(false) | Err(_) => Some(relayed),
        }
    }

    /// Another error in the place of the one that is all of a response.
    fn told_instead(&self, error: &ProxyError, mut relayed: Relayed) -> Relayed {
        let (mut packet, error) = (Vec::new(), ClientError::from(error));
        error.put(&mut packet, 1, self.client.capabilities);
        relayed.rest.clear();
        relayed.rest.extend(&packet);
        relayed.len = packet.len();
        relayed.response.error = Some(error.code());
        relayed
    }

    /// Rolls it back and tells the client to try it again, which the refusal does not tell a driver.
    pub(crate) async fn give_up_transaction(&mut self, checkout: Checkout, relayed: Relayed) -> Served {
        self.worker.outlook.report_read_only(checkout.backend());
        self.worker.buffers.give(relayed.rest);
        // A connection that cannot start over is closed, and that rolls back, too.
        let _ = checkout.start_over().await;
        Served::Error(self.lost("it takes no writes any more", false))
    }

    /// Leaves a connection on which a statement was refused because the server takes no writes any more.
    pub(crate) async fn leave_refused(&self, checkout: Checkout, statement: &Statement) {
        if self.state.status.contains(Status::AUTOCOMMIT) && statement.effects.is_empty() {
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
        self.worker.outlook.report_lost(old, "it takes no writes any more");
        self.activity.waits_again();
        let is_there = |snapshot: &Snapshot| {
            snapshot
                .primary()
                .is_some_and(|primary| primary.takes_statements() && !primary.read_only && primary.id != old)
        };
        while refused.elapsed() < settings.wait {
            if self.worker.outlook.with_snapshot(|snapshot, _| is_there(snapshot)) {
                return Ok(true);
            }
            self.pause(RETRY, is_there).await?;
            // It may have been set back: nothing but another try can tell.
            if refused.elapsed() >= RETRY * 5 && self.worker.outlook.primary() == Some(old) {
                return Ok(true);
            }
        }
        self.worker.counters.failover_timeouts.increment();
        Ok(false)
    }

    /// The error where a connection broke before the statement was sent on it. Who was pinned to it is told what has gone with
    /// it, here and not once more by the next statement.
    pub(crate) fn told_of_loss(&mut self, error: ProxyError) -> ProxyError {
        match error {
            _ if self.held.bound.is_some() || self.is_only_kept() => error,
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
        let is_only_transaction = self.holds() == Holds::Transaction;
        let assigns = Effects::SETS_USER_VARS.union(Effects::SETS_SYSTEM_VARS).union(Effects::OPAQUE);
        let changes_session = statement.effects.intersects(assigns) || statement.class == Class::Multi;
        let (true, true, false, Some(code)) = (is_lost, is_only_transaction, changes_session, response.error)
        else {
            return Err(());
        };
        self.worker.counters.error_backend_lost.increment();
        self.forget_transaction();
        let how = lost.to_string();
        if statement.effects.contains(Effects::ENDS_TRANSACTION) || code == error_code::LOCK_DEADLOCK {
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

    /// The transaction is gone, and the session goes on.
    pub(crate) fn forget_transaction(&mut self) {
        self.state.pins.remove(PinReason::Transaction);
        self.state.status = self.state.status.without(Status::IN_TRANS.with(Status::IN_TRANS_READONLY));
        self.publish_pin();
    }

    /// What is told of a transaction that is to be tried again.
    pub(crate) fn lost_transaction(&self, how: &str) -> ProxyError {
        let is_plain = self.worker.settings.failover.lost_transaction_is_lost_connection;
        ProxyError::LostTransaction { how: how.to_owned(), as_deadlock: !is_plain }
    }
}

/// True where it is the primary that is missing, and nothing has been sent to it.
fn is_missing(error: &ProxyError) -> bool {
    match error {
        ProxyError::NoBackend(_)
        | ProxyError::Pool(
            PoolError::Unreachable { .. } | PoolError::Lost { .. } | PoolError::Offline { .. },
        ) => true,
        ProxyError::Pool(PoolError::Refused { error, .. }) => error.code == error_code::SERVER_SHUTDOWN,
        _ => false,
    }
}
