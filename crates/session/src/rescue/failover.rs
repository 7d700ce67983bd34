//! Waiting for a primary: for statements that were not sent because there is none, and for those that it has refused because it
//! takes no writes any more. And for operators who have statements wait (`PAUSE`).
//!
//! Owns: which statements wait for that, and for how long, and how a transaction is begun anew on a primary. How a statement waits is in
//! `wait`; what becomes of one under which something goes wrong is decided in `delphinus_route::rescue`.

use std::time::{Duration, Instant};

use delphinus_net::{Stream, rt};
use delphinus_pool::{Checkout, PoolError};
use delphinus_telemetry::Wait;
use delphinus_topology::{BackendId, Snapshot};
use delphinus_wire::response::Status;
use delphinus_wire::{Capabilities, error_code};

use super::loss::lost;
use super::wait::Waits;
use crate::client_error::{ClientError, ProxyError};
use crate::hold::{Held, is_about_schema};
use crate::io::Relayed;
use crate::spent::Timed;
use crate::state::{Opening, Wanted};

/// How often a primary that is said to be there is tried while statements wait for it.
const RETRY: Duration = Duration::from_millis(100);

/// A session that needs the primary, and waits where there is none.
pub(crate) struct Seeking<'a> {
    pub held: &'a mut Held,
    pub state: &'a mut Wanted,
    /// The client's end.
    pub stream: &'a Stream,
    pub waits: &'a Waits,
}

impl Seeking<'_> {
    /// A connection to the primary, in the state that the session wants; `waits` for one where the server has none left.
    #[inline]
    pub(crate) async fn checkout(&mut self, waits: bool) -> Result<Checkout, ProxyError> {
        let primary = self.held.source.outlook.usable_primary()?;
        match self.held.checkout(primary, self.state, waits).await {
            Err(error) if is_about_schema(&error) => {
                Ok(self.held.checkout_without_schema(primary, self.state).await?)
            }
            // It may have taken its time.
            Ok(checkout) if self.held.source.outlook.primary() != Some(primary) => {
                self.held.give_back(checkout);
                Err(ProxyError::NoBackend("the primary has just changed".to_owned()))
            }
            result => Ok(result?),
        }
    }

    /// The same; where it is the primary that is missing, the statement waits for one.
    pub(crate) async fn checkout_patiently(&mut self) -> Result<Checkout, ProxyError> {
        match self.checkout(true).await {
            Err(error) if self.can_wait(&error) => Box::pin(self.wait(error)).await,
            found => found,
        }
    }

    /// True if the statement may wait: it is the primary that is missing, and nothing has been sent to it.
    pub(crate) fn can_wait(&self, error: &ProxyError) -> bool {
        !self.held.source.failover.get().wait.is_zero() && is_missing(error)
    }

    /// Waits for a primary to which there is a connection; `first` is what has kept the session from one.
    pub(crate) async fn wait(&mut self, first: ProxyError) -> Result<Checkout, ProxyError> {
        let source = self.held.source.clone();
        let (settings, counters) = (source.failover.get(), &source.counters);
        let Some(_place) = self.waits.room.enter(settings.queue) else {
            return Err(ProxyError::NoPrimary(Duration::ZERO, first.reason()));
        };
        counters.failover_waits.increment();
        let _timed = Timed::by(Wait::Primary, &self.held.spent);
        let (began, mut last) = (rt::now(), first);
        while began.elapsed() < settings.wait {
            let left = settings.wait.saturating_sub(began.elapsed());
            self.look(RETRY.min(left), |_| false).await?;
            match self.checkout(true).await {
                Err(error) if is_missing(&error) => last = error,
                result => return result,
            }
        }
        counters.failover_timeouts.increment();
        Err(ProxyError::NoPrimary(began.elapsed(), last.reason()))
    }

    /// Waits for the next look at the cluster, or until `is_there`, but not for longer than a try takes.
    async fn look(&self, limit: Duration, is_there: impl Fn(&Snapshot) -> bool) -> Result<(), ProxyError> {
        let outlook = &self.held.source.outlook;
        let generation = outlook.with_snapshot(|snapshot, _| snapshot.generation);
        let news = outlook.news(|snapshot| is_there(snapshot) || snapshot.generation != generation);
        self.wait_for(limit, news).await.map(drop)
    }

    /// Waits while operators have paused the session's cluster or user. What the session has begun on a connection goes on there: a
    /// pause lets transactions come to their end.
    pub(crate) async fn wait_while_paused(&mut self) -> Result<(), ProxyError> {
        let (source, activity) = (self.held.source.clone(), self.held.activity.clone());
        let user = activity.user();
        if !self.state.is_only_kept() || !self.waits.gate.holds(&user) {
            return Ok(());
        }
        let settings = source.failover.get();
        let Some(_place) = self.waits.room.enter(settings.queue) else {
            return Err(paused(&format!("the queue is full (failover_wait_queue = {})", settings.queue)));
        };
        source.counters.pause_waits.increment();
        let _timed = Timed::by(Wait::Pause, &self.held.spent);
        activity.is_paused_now();
        let mut line = self.waits.gate.line_up(&user);
        if self.wait_for(settings.pause, line.may_go()).await?.is_none() {
            source.counters.pause_timeouts.increment();
            return Err(paused(&format!(
                "no RESUME came within pause_timeout_ms = {}",
                settings.pause.as_millis()
            )));
        }
        activity.waits_again();
        Ok(())
    }

    /// Waits until another backend is the primary, or this one was seen to take writes after `refused`; false if that
    /// did not come in time.
    pub(crate) async fn await_next(&self, old: BackendId, refused: Instant) -> Result<bool, ProxyError> {
        let (source, activity) = (&self.held.source, &self.held.activity);
        let settings = source.failover.get();
        let Some(_place) = self.waits.room.enter(settings.queue) else { return Ok(false) };
        source.counters.failover_waits.increment();
        source.outlook.report_lost(old, "the server has become read-only");
        activity.waits_again();
        let _timed = Timed::by(Wait::Primary, &self.held.spent);
        let is_there = |snapshot: &Snapshot| {
            snapshot
                .primary()
                .is_some_and(|primary| primary.takes_statements() && !primary.read_only && primary.id != old)
        };
        while refused.elapsed() < settings.wait {
            if source.outlook.with_snapshot(|snapshot, _| is_there(snapshot)) {
                return Ok(true);
            }
            self.look(RETRY, is_there).await?;
            // It may have been set back: nothing but another try can tell.
            if refused.elapsed() >= RETRY * 5 && source.outlook.primary() == Some(old) {
                return Ok(true);
            }
        }
        source.counters.failover_timeouts.increment();
        Ok(false)
    }

    /// The first statement of a transaction was refused because the server takes no writes any more: a connection to the next
    /// primary, on which the transaction has begun.
    pub(crate) async fn begin_on_next(&mut self, checkout: Checkout) -> Result<Checkout, ProxyError> {
        let (old, refused) = (checkout.backend(), rt::now());
        self.held.source.outlook.report_read_only(old);
        self.held.activity.waits_again();
        // A connection that cannot start over is closed, and that ends the transaction, too.
        let _ = checkout.start_over().await;
        let opening = self.state.just_begun.opening();
        let is_there = matches!(self.await_next(old, refused).await, Ok(true));
        let Some(opening) = opening.filter(|_| is_there) else {
            return Err(lost("the server has become read-only", self.held, self.state));
        };
        self.state.forget_transaction(self.held.bound_to());
        self.begin(opening).await
    }

    /// A connection to the primary, on which a transaction has begun.
    pub(crate) async fn begin(&mut self, opening: Opening) -> Result<Checkout, ProxyError> {
        let mut checkout = self.checkout_patiently().await?;
        if let Err(error) = checkout.query(opening.sql()).await {
            return Err(self.held.source.failover.get().lost_transaction(error.to_string()).into());
        }
        self.state.begins(opening.sql(), Status::IN_TRANS);
        self.state.publish(self.held.bound_to());
        Ok(checkout)
    }
}

/// Another error in the place of the one that is all of a response.
pub(crate) fn told_instead(error: &ProxyError, mut relayed: Relayed, client: Capabilities) -> Relayed {
    let (mut packet, error) = (Vec::new(), ClientError::from(error));
    error.put(&mut packet, 1, client);
    relayed.rest.clear();
    relayed.rest.extend(&packet);
    relayed.len = packet.len();
    relayed.response.error = Some(error.code());
    relayed
}

/// What the client of a statement is told that has waited for nothing.
fn paused(why: &str) -> ProxyError {
    ProxyError::NoBackend(format!(
        "an operator has paused the cluster or the user, and {why}; the statement has not run: try again later"
    ))
}

/// True where it is the primary that is missing, and nothing has been sent to it.
fn is_missing(error: &ProxyError) -> bool {
    match error {
        ProxyError::NoBackend(_)
        | ProxyError::Pool(
            PoolError::Unreachable { .. } | PoolError::Lost { .. } | PoolError::Offline { .. },
        ) => true,
        ProxyError::Pool(PoolError::Refused { error, .. }) => error.code == error_code::ER_SERVER_SHUTDOWN,
        _ => false,
    }
}
