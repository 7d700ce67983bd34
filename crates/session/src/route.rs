//! Finds a backend and a connection for a command, and says what is wrong where there is none.

use delphinus_net::rt;
use delphinus_pool::{Checkout, PoolError, Request};
use delphinus_route::{Behind, Intent, Plan, READ_ATTEMPTS, Reason, Scope, Target, plan};
use delphinus_sql::{Access, Consistency, Statement};
use delphinus_state::{PinReason, SessionState};
use delphinus_topology::{Backend, BackendId, Health, Snapshot};
use delphinus_wire::error_code;
use delphinus_wire::response::Status;

use crate::client_error::ProxyError;
use crate::fresh::{Patience, Reading};
use crate::rescue::Tries;
use crate::session::Session;

impl Session {
    /// Decides where a statement goes. Made once; nothing looks at the text again.
    #[inline]
    pub(crate) fn plan(&self, statement: &Statement, avoid: &[BackendId]) -> Plan {
        self.worker.outlook.with_snapshot(|snapshot, balance| {
            let behind = self.behind(statement, snapshot, avoid).replicas;
            let around = self.around();
            let scope = self.steering.scope_to_plan(statement, around);
            let intent = Intent { behind: &behind, scope, ..self.steering.intent(statement, avoid, around) };
            if balance.needs_look() {
                balance.look(snapshot, rt::now(), |backend| self.worker.pool.in_use(backend));
            }
            let plan = plan(&intent, snapshot, balance);
            if let Some(trace) = &self.steering.trace {
                trace.is_planned(plan);
            }
            plan
        })
    }

    /// Replicas that a statement must not go to, because they have not got what the session has to find.
    #[inline]
    fn behind(&self, statement: &Statement, snapshot: &Snapshot, avoid: &[BackendId]) -> Behind {
        let reading = self.reading(snapshot);
        // What goes to the primary anyway needs no thought.
        let is_free = self.causality.is_free_to_read(&reading)
            || statement.access == Access::Write
                && self.steering.scope(statement, self.around()) == Scope::Usual;
        let found = if is_free { Behind::default() } else { self.causality.behind(&reading, avoid) };
        self.causality.is_planned(found.must_wait);
        found
    }

    /// A read of the session in this cluster.
    #[inline]
    pub(crate) fn reading<'a>(&'a self, snapshot: &'a Snapshot) -> Reading<'a> {
        let usual = if snapshot.tells_gtids { Consistency::Session } else { Consistency::Eventual };
        Reading {
            level: self.steering.consistency().unwrap_or(usual),
            snapshot,
            progress: &self.worker.outlook.progress,
            patience: self.worker.settings.routing.consistency_timeout,
        }
    }

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
        match self.take_bound() {
            Ok(None) => {}
            Ok(Some(checkout)) => return Ok(checkout),
            Err(error) => return Box::pin(self.begin_after_loss(error)).await,
        }
        loop {
            let plan = tries.planned.take().unwrap_or_else(|| self.plan(statement, &tries.avoid));
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
        let seat = (backend, self.held.seats.find(backend)?);
        let checkout = self.worker.pool.retake_ready(seat, &self.held.memory, &self.state.want)?;
        self.held.seats.take(backend);
        self.goes_to(target);
        Some(self.note(checkout))
    }

    /// Takes in where a statement goes.
    #[inline]
    fn goes_to(&mut self, target: Target) {
        match target {
            Target::Primary => self.worker.counters.routed_primary.increment(),
            Target::Replica(_) => self.worker.counters.routed_replica.increment(),
        }
        self.steering.on_replica = target != Target::Primary;
        self.steering.has_read = true;
    }

    /// A connection to where the plan leads, in the state that the session wants.
    #[inline]
    pub(crate) async fn checkout(&mut self, target: Target) -> Result<Checkout, ProxyError> {
        self.checkout_or_wait(target, target == Target::Primary).await
    }

    /// The same; `waits` for a connection where the server has none left.
    #[inline]
    pub(crate) async fn checkout_or_wait(
        &mut self,
        target: Target,
        waits: bool,
    ) -> Result<Checkout, ProxyError> {
        let backend = self.resolve(target)?;
        self.goes_to(target);
        match self.checkout_in_state(backend, waits).await {
            Err(ProxyError::Pool(error)) if target == Target::Primary && is_about_schema(&error) => {
                self.checkout_without_schema(backend).await
            }
            Ok(checkout) if target != Target::Primary && self.causality.must_wait() => {
                Box::pin(self.catch_up(checkout)).await
            }
            Ok(checkout) if target != Target::Primary => Ok(checkout),
            // It may have taken its time.
            Ok(checkout) if self.worker.outlook.primary() != Some(backend) => {
                self.activity.runs_nowhere();
                self.held.seats.put(backend, checkout.give_back());
                Err(ProxyError::NoBackend("the primary has just become another one".to_owned()))
            }
            result => result,
        }
    }

    /// Waits until the replica has what the session has to find. An error sends the read elsewhere.
    async fn catch_up(&mut self, mut checkout: Checkout) -> Result<Checkout, ProxyError> {
        let limit = self.worker.settings.routing.consistency_timeout;
        let patience = Patience { limit, flavor: self.state.lex.options(&self.state.want.vars).flavor };
        let (outlook, counters) = (&self.worker.outlook, &self.worker.counters);
        match self.causality.catch_up(&mut checkout, patience, outlook, counters).await {
            Ok(true) => Ok(checkout),
            Ok(false) => {
                let backend = checkout.backend();
                self.activity.runs_nowhere();
                self.held.seats.put(backend, checkout.give_back());
                Err(ProxyError::Behind(backend))
            }
            Err(error) => Err(ProxyError::Pool(error)),
        }
    }

    /// The schema of the session has been dropped, or taken from its user. On a server such a session lives on, and
    /// statements that need a schema fail: so it is here.
    async fn checkout_without_schema(&mut self, backend: BackendId) -> Result<Checkout, ProxyError> {
        let want = SessionState { schema: None, ..self.state.want.clone() };
        self.checkout_slow(backend, want, true).await
    }

    /// A connection in the state that the session wants, or an error.
    #[inline]
    pub(crate) async fn checkout_in_state(
        &mut self,
        backend: BackendId,
        waits: bool,
    ) -> Result<Checkout, ProxyError> {
        if let Some(mut checkout) = self.retake(backend) {
            if checkout.is_ready(&self.state.want, &self.held.memory) {
                return Ok(self.note(checkout));
            }
            self.state.keep_defaults(self.worker.users.defaults(), self.held.rights);
            match checkout.make_ready(&self.state.want, &self.held.memory).await {
                Ok(_) => return Ok(self.note(checkout)),
                // Nothing of this command was sent: another connection will do.
                Err(error) if error.is_elsewhere_better() => {}
                Err(error) => {
                    checkout.release();
                    return Err(ProxyError::Pool(error));
                }
            }
        }
        self.state.keep_defaults(self.worker.users.defaults(), self.held.rights);
        self.checkout_slow(backend, self.state.want.clone(), waits).await
    }

    /// The connection that the session is pinned to, or has left in its seat.
    #[inline]
    pub(crate) fn retake(&mut self, backend: BackendId) -> Option<Checkout> {
        let seat = self.held.seats.take(backend)?;
        self.worker.pool.retake(backend, seat, &self.held.memory)
    }

    async fn checkout_slow(
        &mut self,
        backend: BackendId,
        want: SessionState,
        waits_for_room: bool,
    ) -> Result<Checkout, ProxyError> {
        let (identity, memory) = (&self.held.identity, &self.held.memory);
        let request =
            Request { backend, identity, rights: self.held.rights, want: &want, memory, waits_for_room };
        // Off the usual path: boxed, so that an idle session does not carry its room.
        let found = Box::pin(self.worker.pool.checkout(request)).await;
        match found {
            Ok(checkout) => Ok(self.note(checkout)),
            Err(error) => {
                if let PoolError::Unreachable { error: reason, .. } = &error {
                    self.worker.outlook.report_unreachable(backend, &reason.to_string());
                }
                Err(ProxyError::Pool(error))
            }
        }
    }

    pub(crate) fn note(&self, mut checkout: Checkout) -> Checkout {
        let thread = checkout.connection().thread();
        if let Some(trace) = &self.steering.trace {
            trace.runs_on(checkout.backend());
        }
        self.activity.runs_on(checkout.backend(), thread);
        checkout
    }

    pub(crate) fn resolve(&self, target: Target) -> Result<BackendId, ProxyError> {
        match target {
            Target::Replica(backend) => Ok(backend),
            Target::Primary => self.worker.outlook.with_snapshot(|snapshot, _| {
                let primary = snapshot
                    .primary()
                    .ok_or_else(|| ProxyError::NoBackend(snapshot.why_no_primary().to_string()))?;
                if primary.is_offline() {
                    return Err(ProxyError::NoBackend(format!(
                        "the primary {} is set OFFLINE",
                        primary.name
                    )));
                }
                if let Health::Down { reason, .. } = &primary.health {
                    return Err(ProxyError::NoBackend(format!(
                        "the primary {} is down: {reason}",
                        primary.name
                    )));
                }
                Ok(primary.id)
            }),
        }
    }

    /// The pinned connection, if it still lives.
    pub(crate) fn take_bound(&mut self) -> Result<Option<Checkout>, ProxyError> {
        match self.why_unbound() {
            None => Ok(self.held.bound.take().map(|checkout| self.note(checkout))),
            Some(why) => {
                self.held.bound = None;
                Err(self.lost(why, false))
            }
        }
    }

    /// Why the session does not have the connection any more that it is pinned to.
    pub(crate) fn why_unbound(&mut self) -> Option<&'static str> {
        let is_only_kept = self.is_only_kept();
        let Some(checkout) = &mut self.held.bound else {
            // What the session was pinned for has gone with a connection that broke beside its statements: on another one
            // the rest of a transaction would be committed alone.
            return (!is_only_kept).then_some("it broke");
        };
        let backend = checkout.backend();
        let is_fenced = self
            .worker
            .outlook
            .with_snapshot(|snapshot, _| snapshot.backend(backend).is_some_and(Backend::is_fenced));
        if is_fenced {
            // Another backend is the primary: what is written here now is lost, or worse.
            return Some("on a backend that is not the primary any more, and is fenced");
        }
        if checkout.connection().stream.is_quiet() {
            return None;
        }
        self.worker.outlook.report_lost(backend, "closed by the backend while a session was pinned to it");
        if is_only_kept && !self.state.status.contains(Status::IN_TRANS) {
            // Any will do, with its state.
            self.held.bound = None;
            return None;
        }
        Some("closed by the backend")
    }

    /// True where nothing but an operator's wish, if anything, holds the session to a connection.
    pub(crate) fn is_only_kept(&self) -> bool {
        self.state.pins.iter().all(|pin| pin.reason == PinReason::Dedicated)
    }
}

/// Unknown database, and access denied to it.
pub(crate) fn is_about_schema(error: &PoolError) -> bool {
    let PoolError::Refused { error, .. } = error else { return false };
    matches!(
        error.code,
        error_code::DBACCESS_DENIED_ERROR
            | error_code::BAD_DB_ERROR
            | error_code::TOO_LONG_IDENT
            | error_code::WRONG_DB_NAME
    )
}
