//! Finds a backend and a connection for a command, and says what is wrong where there is none.

use delphinus_net::rt;
use delphinus_pool::{Checkout, PoolError};
use delphinus_route::{Plan, READ_ATTEMPTS, Reason, Target};
use delphinus_sql::{Class, Effects, Statement};
use delphinus_topology::BackendId;

use crate::client_error::ProxyError;
use crate::fresh::Patience;
use crate::rescue::{Tries, take_bound};
use crate::session::Session;

impl Session {
    /// No try yet, and the backends that have just failed left out.
    #[inline]
    pub(crate) fn tries(&self) -> Tries {
        Tries { attempt: 0, avoid: self.worker.outlook.avoided(), planned: None }
    }

    /// A connection for a statement: the one that the session is held to, or one to where the statement belongs.
    #[inline]
    pub(crate) async fn choose(
        &mut self,
        statement: &Statement,
        tries: &mut Tries,
    ) -> Result<Checkout, ProxyError> {
        match take_bound(&mut self.held, &mut self.state) {
            Ok(None) => {}
            Ok(Some(checkout)) => return Ok(checkout),
            Err(error) => return Box::pin(self.begin_after_loss(error)).await,
        }
        loop {
            let plan = tries.planned.take().unwrap_or_else(|| self.stand().plan(statement, &tries.avoid));
            let found = match self.checkout_at_once(plan.target) {
                Some(checkout) => return Ok(checkout),
                None => self.checkout_planned(plan, &tries.avoid).await,
            };
            let error = match found {
                Ok(checkout) => return Ok(checkout),
                Err(error) => error,
            };
            let Some(backend) = self.may_go_elsewhere(plan, tries, &error) else { return Err(error) };
            self.go_elsewhere(tries, backend).await;
            tries.begin();
        }
    }

    /// Leaves a backend out, and waits a little: a cluster that is down is not to be hammered.
    pub(crate) async fn go_elsewhere(&self, tries: &mut Tries, backend: BackendId) {
        tries.avoid.push(backend);
        if tries.attempt > 1 {
            rt::sleep(std::time::Duration::from_millis(u64::from(tries.attempt) * 10)).await;
        }
    }

    /// The backend to avoid, if the statement may be planned again without it.
    fn may_go_elsewhere(&self, plan: Plan, tries: &Tries, error: &ProxyError) -> Option<BackendId> {
        if let ProxyError::Behind(backend) = error {
            return Some(*backend);
        }
        if tries.attempt >= READ_ATTEMPTS {
            return None;
        }
        let (is_elsewhere_better, is_refused) = match error {
            ProxyError::Pool(error) => {
                (error.is_elsewhere_better(), matches!(error, PoolError::Refused { .. }))
            }
            ProxyError::NoBackend(_) => (true, false),
            _ => return None,
        };
        match (plan.target, plan.reason) {
            // A replica that refuses the session's state, such as a schema that has not reached it yet, too.
            (Target::Replica(backend), _) => (is_elsewhere_better || is_refused).then_some(backend),
            // What needs no primary, where that has just gone.
            (Target::Primary, _) if plan.or_without.is_some() && is_elsewhere_better => plan.or_without,
            // Reads that only prefer the primary.
            (Target::Primary, Reason::PrimaryPreferred | Reason::ReadShare | Reason::Consistency)
                if is_elsewhere_better =>
            {
                self.worker.outlook.primary().filter(|primary| !tries.avoid.contains(primary))
            }
            _ => None,
        }
    }

    /// The connection that the session has left where the plan leads, if it can be used as it is. Nearly every statement
    /// finds it: for that, no future has to be made.
    #[inline]
    pub(crate) fn checkout_at_once(&mut self, target: Target) -> Option<Checkout> {
        if self.causality.must_wait() {
            return None;
        }
        let backend = self.resolve(target).ok()?;
        let checkout = self.held.retake_ready(backend, &self.state.want)?;
        self.count_route(target);
        self.steering.goes_to(target);
        Some(checkout)
    }

    #[inline]
    fn count_route(&self, target: Target) {
        match target {
            Target::Primary => self.worker.counters.routed_primary.increment(),
            Target::Replica(_) => self.worker.counters.routed_replica.increment(),
        }
    }

    /// A connection to where the plan leads, in the state that the session wants; where it is the primary that is missing, the
    /// statement waits for one.
    #[inline]
    pub(crate) async fn checkout_planned(
        &mut self,
        plan: Plan,
        avoid: &[BackendId],
    ) -> Result<Checkout, ProxyError> {
        if let Target::Replica(backend) = plan.target {
            return self.checkout_replica(backend).await;
        }
        // A read that only prefers the primary goes to a replica rather than wait.
        let only_prefers =
            matches!(plan.reason, Reason::PrimaryPreferred | Reason::ReadShare | Reason::Consistency);
        // Such a read has been somewhere else first.
        let may_go_elsewhere = plan.or_without.is_some()
            || only_prefers && self.worker.outlook.primary().is_none_or(|primary| !avoid.contains(&primary));
        let mut seeking = self.seeking();
        let found = match seeking.checkout(!only_prefers).await {
            Err(error) if !may_go_elsewhere && seeking.can_wait(&error) => {
                Box::pin(seeking.wait(error)).await
            }
            found => found,
        };
        if found.is_ok() {
            self.steering.goes_to(Target::Primary);
        }
        found
    }

    /// A connection to a replica, that has what the session has to find.
    async fn checkout_replica(&mut self, backend: BackendId) -> Result<Checkout, ProxyError> {
        let target = Target::Replica(backend);
        self.count_route(target);
        self.steering.goes_to(target);
        let mut checkout = self.held.checkout(backend, &mut self.state, false).await?;
        if !self.causality.must_wait() {
            return Ok(checkout);
        }
        let limit = self.worker.settings.routing.consistency_timeout;
        let patience = Patience { limit, flavor: self.state.flavor() };
        let (outlook, counters) = (&self.worker.outlook, &self.worker.counters);
        // An error sends the read elsewhere.
        if Box::pin(self.causality.catch_up(&mut checkout, patience, outlook, counters)).await? {
            return Ok(checkout);
        }
        self.held.give_back(checkout);
        Err(ProxyError::Behind(backend))
    }

    fn resolve(&self, target: Target) -> Result<BackendId, ProxyError> {
        match target {
            Target::Replica(backend) => Ok(backend),
            Target::Primary => self.worker.outlook.usable_primary(),
        }
    }

    /// The session's connection is gone, and with it, as `error` says, a transaction. If that had only begun, it is begun on
    /// the next primary.
    pub(crate) async fn begin_after_loss(&mut self, error: ProxyError) -> Result<Checkout, ProxyError> {
        let Some(opening) = self.state.just_begun.after_loss(&error) else { return Err(error) };
        let begun = self.seeking().begin(opening).await?;
        self.steering.goes_to(Target::Primary);
        Ok(begun)
    }

    /// The connection that tells all that `statement` asks about the one before, if it may run there. Otherwise the memory knows
    /// what can be known from here on.
    pub(crate) async fn connection_that_tells(
        &mut self,
        statement: &Statement,
        sql: &[u8],
    ) -> Result<Option<Checkout>, ProxyError> {
        let last = match take_bound(&mut self.held, &mut self.state) {
            Ok(bound) => self.held.connection_of_last_statement(bound, &self.state),
            Err(error) => {
                self.held.bound = Some(self.begin_after_loss(error).await?);
                None
            }
        };
        let Some(mut checkout) = last else {
            self.held.recall().await;
            return Ok(None);
        };
        // What locks or writes has to run on the primary, wherever the last one ran.
        let is_primary = self.worker.outlook.usable_primary().is_ok_and(|id| id == checkout.backend());
        if is_primary || !self.state.pins.is_empty() || only_reads(statement, sql) {
            if self.held.tells(&mut checkout, statement).await? {
                return Ok(Some(checkout));
            }
        } else {
            checkout.save().await?;
        }
        self.held.keep_or_give_back(checkout, &mut self.state);
        self.held.recall().await;
        Ok(None)
    }
}

/// False for what must not run on a replica, beside being about the statement before.
fn only_reads(statement: &Statement, sql: &[u8]) -> bool {
    let reads = matches!(statement.class, Class::Select | Class::Show | Class::Set | Class::Do);
    let may_write = Effects::CALLS_ROUTINE.union(Effects::UNKNOWN).union(Effects::GETS_LOCK);
    let mut words = sql.split(|byte| !byte.is_ascii_alphanumeric());
    // FOR UPDATE, FOR SHARE, LOCK IN SHARE MODE: in a text that names none of them nothing locks.
    let mut locks =
        || words.any(|word| [&b"update"[..], b"share"].iter().any(|lock| word.eq_ignore_ascii_case(lock)));
    reads && !statement.effects.intersects(may_write) && !locks()
}
