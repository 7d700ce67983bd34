//! Finds a backend and a connection for a command, and says what is wrong where there is none.

use delphinus_net::Stream;
use delphinus_pool::{Checkout, PoolError};
use delphinus_route::{Plan, Question, READ_ATTEMPTS, Reason, Target, runs_behind_last};
use delphinus_sql::Statement;
use delphinus_telemetry::Wait;
use delphinus_topology::BackendId;
use delphinus_wire::response::Status;

use crate::client_error::{ProxyError, Steered};
use crate::fresh::{Causality, Patience};
use crate::hold::Held;
use crate::login_facts::LoginFacts;
use crate::planner::Planner;
use crate::rescue::{Seeking, Tries, Waits, leave_replica, roll_back_on_replica, take_bound};
use crate::settings::Routing;
use crate::spent::Timed;
use crate::state::Wanted;
use crate::steer::{Around, Fate, Steering};

/// As it is begun on a replica.
const BEGIN: &str = "START TRANSACTION READ ONLY";

/// What of a session has a say in where a statement goes, and is changed on the way there.
pub(crate) struct Route<'a> {
    pub held: &'a mut Held,
    pub state: &'a mut Wanted,
    pub steering: &'a mut Steering,
    pub causality: &'a mut Causality,
    pub login: &'a LoginFacts,
    /// What an operator has set.
    pub routing: &'a Routing,
    pub waits: &'a Waits,
    /// The client's end.
    pub stream: &'a Stream,
}

impl Route<'_> {
    fn planner(&self) -> Planner<'_> {
        let Self { held, state, steering, causality, login, routing, .. } = self;
        Planner { around: Around { state, held, login, routing }, steering, causality }
    }

    fn seeking(&mut self) -> Seeking<'_> {
        Seeking { held: self.held, state: self.state, stream: self.stream, waits: self.waits }
    }

    /// A connection for a statement: the one that the session is held to, or one to where the statement belongs.
    #[inline]
    pub(crate) async fn choose(
        &mut self,
        statement: &Statement,
        tries: &mut Tries,
    ) -> Result<Checkout, ProxyError> {
        if self.held.source.outlook.is_paused() {
            Box::pin(self.seeking().wait_while_paused()).await?;
        }
        match take_bound(self.held, self.state) {
            Ok(None) => {}
            Ok(Some(checkout)) => return Ok(checkout),
            Err(error) => return Box::pin(self.begin_after_loss(error)).await,
        }
        loop {
            let plan = tries.planned.take().unwrap_or_else(|| self.planner().plan(statement, &tries.avoid));
            self.held.activity.is_routed(plan.reason.number());
            let found = match self.checkout_at_once(plan.target) {
                Some(checkout) => return Ok(checkout),
                None => self.checkout_planned(plan, &tries.avoid).await,
            };
            let error = match found {
                Ok(checkout) => return Ok(checkout),
                Err(error) => error,
            };
            if plan.target != Target::Primary && is_expired(&error) {
                // The password can be changed there.
                tries.planned = Some(Plan { target: Target::Primary, ..plan });
                continue;
            }
            let Some(backend) = self.may_go_elsewhere(plan, tries, &error) else { return Err(error) };
            tries.go_elsewhere(backend).await;
            tries.begin();
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
                self.held.source.outlook.primary().filter(|primary| !tries.avoid.contains(primary))
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
        self.steering.goes_to(target);
        Some(checkout)
    }

    /// A connection to where the plan leads, in the state that the session wants; where it is the primary that is missing, the
    /// statement waits for one.
    #[inline]
    async fn checkout_planned(&mut self, plan: Plan, avoid: &[BackendId]) -> Result<Checkout, ProxyError> {
        if let Target::Replica(backend) = plan.target {
            return self.checkout_replica(backend).await;
        }
        // A read that only prefers the primary goes to a replica rather than wait.
        let only_prefers =
            matches!(plan.reason, Reason::PrimaryPreferred | Reason::ReadShare | Reason::Consistency);
        // Such a read has been somewhere else first.
        let may_go_elsewhere = plan.or_without.is_some()
            || only_prefers
                && self.held.source.outlook.primary().is_none_or(|primary| !avoid.contains(&primary));
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
        self.steering.goes_to(target);
        let mut checkout = self.held.checkout(backend, self.state, false).await?;
        if !self.causality.must_wait() {
            return Ok(checkout);
        }
        let limit = self.routing.consistency_timeout;
        let patience = Patience { limit, flavor: self.state.flavor() };
        let (outlook, counters) = (&self.held.source.outlook, &self.held.source.counters);
        // An error sends the read elsewhere.
        let timed = Timed::by(Wait::Replica, &self.held.spent);
        let has_caught_up =
            Box::pin(self.causality.catch_up(&mut checkout, patience, outlook, counters)).await?;
        drop(timed);
        if has_caught_up {
            return Ok(checkout);
        }
        self.held.give_back(checkout);
        Err(ProxyError::Behind(backend))
    }

    fn resolve(&self, target: Target) -> Result<BackendId, ProxyError> {
        match target {
            Target::Replica(backend) => Ok(backend),
            Target::Primary => self.held.source.outlook.usable_primary(),
        }
    }

    /// The session's connection is gone, and with it, as `error` says, a transaction. If that had only begun, it is begun on
    /// the next primary.
    async fn begin_after_loss(&mut self, error: ProxyError) -> Result<Checkout, ProxyError> {
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
        if self.held.source.outlook.is_paused() {
            Box::pin(self.seeking().wait_while_paused()).await?;
        }
        let last = match take_bound(self.held, self.state) {
            Ok(bound) => self.held.connection_of_last_statement(bound, self.state, statement),
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
        let is_primary = self.held.source.outlook.usable_primary().is_ok_and(|id| id == checkout.backend());
        if is_primary || !self.state.pins.is_empty() || runs_behind_last(statement, sql) {
            if self.held.tells(&mut checkout, statement).await? {
                return Ok(Some(checkout));
            }
        } else {
            checkout.save().await?;
        }
        self.held.keep_or_give_back(checkout, self.state);
        self.held.recall().await;
        Ok(None)
    }
}

/// Sessions whose transaction runs on a replica: see `rescue/on_replica`.
impl Route<'_> {
    /// Sees to it that the session is where its next statement can run.
    pub(crate) async fn check_where_it_is(&mut self, question: &Question<'_>) -> Result<(), ProxyError> {
        if !self.planner().is_held_on_replica() {
            return Ok(());
        }
        let Question { sql, statement, .. } = *question;
        match self.planner().fate(question) {
            Fate::Stays => {
                self.steering.note_stay(sql, statement);
                Ok(())
            }
            Fate::Leaves => Box::pin(self.leave_replica()).await,
            Fate::Moves => Box::pin(self.move_from_replica(statement)).await,
            Fate::Refused => Err(self.planner().refused_like_everywhere().into()),
            Fate::Held(what) => Err(Steered::HeldOnReplica(what).into()),
            Fate::Restarts => match take_bound(self.held, self.state)? {
                Some(checkout) => {
                    Err(roll_back_on_replica(checkout, self.steering, self.held, self.state).await)
                }
                None => Err(Steered::NeedsPrimary.into()),
            },
        }
    }

    /// Begins the transaction again where its first statement belongs: it has seen nothing yet.
    async fn move_from_replica(&mut self, statement: &Statement) -> Result<(), ProxyError> {
        self.leave_replica().await?;
        self.begin_elsewhere(statement).await.map_err(|error| match error {
            ProxyError::Killed => error,
            // It has ended, and a client that is not told so would go on without one.
            error => self.held.source.failover.get().lost_transaction(error.reason()).into(),
        })
    }

    async fn begin_elsewhere(&mut self, statement: &Statement) -> Result<(), ProxyError> {
        let avoid = self.held.source.outlook.avoided();
        let mut plan = self.planner().plan(statement, &avoid);
        if let Target::Replica(id) = plan.target
            && !self.held.source.outlook.is_read_only(id)
        {
            plan = Plan { target: Target::Primary, ..plan };
        }
        let mut checkout = match self.held.bound.take() {
            Some(primary) => primary,
            None => match self.checkout_planned(plan, &avoid).await {
                // It is gone, or has not caught up with what the session has written or read.
                Err(_) if plan.target != Target::Primary => {
                    let plan = Plan { target: Target::Primary, ..plan };
                    self.checkout_planned(plan, &avoid).await?
                }
                found => found?,
            },
        };
        checkout.query(BEGIN).await.map_err(ProxyError::Pool)?;
        self.state.begins(BEGIN, Status::IN_TRANS.with(Status::IN_TRANS_READONLY));
        self.held.keep_or_give_back(checkout, self.state);
        Ok(())
    }

    /// Ends the transaction on the replica.
    async fn leave_replica(&mut self) -> Result<(), ProxyError> {
        let Self { held, state, stream, waits, .. } = self;
        leave_replica(Seeking { held, state, stream, waits }, self.steering).await
    }
}

fn is_expired(error: &ProxyError) -> bool {
    matches!(error, ProxyError::Pool(error) if error.is_expired())
}
