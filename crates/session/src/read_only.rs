//! Transactions that cannot write and run on a replica: how they go elsewhere, or end. Which of their statements run there is
//! decided in `steer/read_only`.
//!
//! Such a transaction begins on a replica, and the first statement that looks at data decides whether it stays: one that is no
//! plain read begins it again on the primary, and nobody can tell the difference. When it has read, it cannot see the same
//! elsewhere: what a primary would refuse as well is refused (1792), and what only a primary can do ends it with the error that
//! programs know to try again (1213); from then on the session's transactions begin on the primary.

use delphinus_net::rt;
use delphinus_pool::{Checkout, PoolError};
use delphinus_route::{Plan, Question, Reason, Target as RouteTarget};
use delphinus_sql::Statement;
use delphinus_state::PinReason;
use delphinus_wire::response::Status;

use crate::client_error::{ProxyError, Steered};
use crate::rescue::{lost, roll_back_on_replica, take_bound};
use crate::session::Session;
use crate::steer::{Fate, holds_insert_id};

/// Whatever `completion_type` is.
const COMMIT: &str = "COMMIT AND NO CHAIN NO RELEASE";
const BEGIN: &str = "START TRANSACTION READ ONLY";

impl Session {
    /// Sees to it that the session is where its next statement can run.
    pub(crate) async fn check_where_it_is(
        &mut self,
        sql: &[u8],
        statement: &Statement,
    ) -> Result<(), ProxyError> {
        if !self.stand().is_held_on_replica() {
            return Ok(());
        }
        let question = Question { sql, lex: self.state.lex(), statement };
        match self.stand().fate(&question) {
            Fate::Stays => {
                self.steering.note_stay(sql, statement);
                Ok(())
            }
            Fate::Leaves => Box::pin(self.leave_replica()).await,
            Fate::Moves => Box::pin(self.move_from_replica(statement)).await,
            Fate::Refused => Err(self.stand().refused_like_everywhere().into()),
            Fate::Held(what) => Err(Steered::HeldOnReplica(what).into()),
            Fate::Restarts => match take_bound(&mut self.held, &mut self.state)? {
                Some(checkout) => {
                    let (held, state) = (&mut self.held, &mut self.state);
                    Err(roll_back_on_replica(checkout, &mut self.steering, held, state).await)
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
            error => self.held.source.failover.lost_transaction(&error.reason()),
        })
    }

    async fn begin_elsewhere(&mut self, statement: &Statement) -> Result<(), ProxyError> {
        let avoid = self.worker.outlook.avoided();
        let mut plan = self.stand().plan(statement, &avoid);
        if let RouteTarget::Replica(id) = plan.target
            && !self
                .worker
                .outlook
                .with_snapshot(|snapshot, _| snapshot.backend(id).is_some_and(|one| one.read_only))
        {
            plan = Plan { target: RouteTarget::Primary, ..plan };
        }
        let mut checkout = match self.held.bound.take() {
            Some(primary) => primary,
            None => match self.checkout_planned(plan, &avoid).await {
                // It is not there any more, or has not got yet what the session has to find.
                Err(_) if plan.target != RouteTarget::Primary => {
                    let plan = Plan { target: RouteTarget::Primary, ..plan };
                    self.checkout_planned(plan, &avoid).await?
                }
                found => found?,
            },
        };
        checkout.query(BEGIN).await.map_err(ProxyError::Pool)?;
        self.state.status = self.state.status.with(Status::IN_TRANS.with(Status::IN_TRANS_READONLY));
        self.state.pins.add(PinReason::Transaction, rt::now(), BEGIN.as_bytes());
        self.held.keep_or_give_back(checkout, &mut self.state);
        Ok(())
    }

    /// Ends the transaction on the replica. That has nothing to lose: where its connection is gone, it has ended.
    async fn leave_replica(&mut self) -> Result<(), ProxyError> {
        let checkout = match take_bound(&mut self.held, &mut self.state) {
            Err(ProxyError::LostTransaction { .. } | ProxyError::LostHarmless(_)) => return Ok(()),
            found => found?,
        };
        let Some(mut checkout) = checkout else { return Ok(()) };
        if holds_insert_id(self.around()) {
            return self.leave_with_insert_id(checkout).await;
        }
        let has_ended = checkout.query(COMMIT).await.is_ok();
        self.state.forget_transaction(self.held.bound_to());
        if has_ended {
            self.held.keep_or_give_back(checkout, &mut self.state);
        }
        Ok(())
    }

    /// The same, where `insert_id` goes along: the session is pinned to the primary then.
    async fn leave_with_insert_id(&mut self, mut replica: Checkout) -> Result<(), ProxyError> {
        let answer = match replica.query("SELECT @@session.insert_id LIMIT 1").await {
            Ok(answer) => answer,
            Err(error @ PoolError::Refused { .. }) => {
                self.steering.on_replica = true;
                self.held.bound = Some(replica);
                return Err(ProxyError::Pool(error));
            }
            Err(error) => return Err(lost(&error.to_string(), &self.held, &mut self.state)),
        };
        let id = answer.rows.first().and_then(|row| row.first()?.as_deref().map(<[u8]>::to_vec));
        let id = id.and_then(|id| String::from_utf8(id).ok()).unwrap_or_default();
        let plan = Plan {
            target: RouteTarget::Primary,
            reason: Reason::Pinned(PinReason::FixedVariable),
            or_without: None,
        };
        let primary = match self.checkout_planned(plan, &[]).await {
            Ok(mut primary) => match primary.query(&format!("SET SESSION insert_id = {id}")).await {
                Ok(_) => Ok(primary),
                Err(error) => Err(ProxyError::Pool(error)),
            },
            Err(error) => Err(error),
        };
        match primary {
            Ok(primary) => {
                // It has the id, too, and starts over before anybody gets it; one that cannot is closed.
                let _ = replica.start_over().await;
                self.state.forget_transaction(self.held.bound_to());
                self.held.keep_or_give_back(primary, &mut self.state);
                Ok(())
            }
            Err(error) => {
                self.steering.on_replica = true;
                self.held.bound = Some(replica);
                Err(error)
            }
        }
    }
}
