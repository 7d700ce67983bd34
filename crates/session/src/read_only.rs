//! Transactions that cannot write and run on a replica: which of their statements run there, and what becomes of the others.
//!
//! Such a transaction begins on a replica, and the first statement that looks at data decides whether it stays: one that is no
//! plain read begins it again on the primary, and nobody can tell the difference. When it has read, it cannot see the same
//! elsewhere: what a primary would refuse as well is refused (1792), and what only a primary can do ends it with the error that
//! programs know to try again (1213); from then on the session's transactions begin on the primary.

use delphinus_clients::ListenerMode;
use delphinus_net::rt;
use delphinus_pool::{Checkout, PoolError};
use delphinus_route::{InReadOnly, Place, Plan, Progress, Reason, Target as RouteTarget, Wish, in_read_only};
use delphinus_sql::{Access, Class, Consistency, Effects, Flavor, Statement, Target, Why, assignments};
use delphinus_state::{PinReason, Vars, fixes};
use delphinus_topology::BackendId;
use delphinus_wire::response::Status;

use crate::client_error::{ProxyError, Steered};
use crate::fresh::Reading;
use crate::io::Relayed;
use crate::serve::Served;
use crate::session::Session;

/// Whatever `completion_type` is.
const COMMIT: &str = "COMMIT AND NO CHAIN NO RELEASE";
pub(crate) const ROLLBACK: &str = "ROLLBACK AND NO CHAIN NO RELEASE";
const BEGIN: &str = "START TRANSACTION READ ONLY";

/// The id that the next INSERT takes. No other connection can be given it, but in a transaction that cannot write nothing takes
/// it: it goes along when the session leaves the replica.
const INSERT_ID: &str = "insert_id";

/// What becomes of a statement of a session that is held to a replica.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fate {
    /// It runs there.
    Stays,
    /// The transaction ends, as the statement would end it, and the statement goes where it belongs.
    Leaves,
    /// The transaction begins again elsewhere.
    Moves,
    /// Every server refuses it.
    Refused,
    /// The transaction is rolled back, and can be tried again.
    Restarts,
    /// It would have to leave, and this keeps it there.
    Held(&'static str),
}

impl Session {
    /// True if something holds the session to a replica, although its listener is for writing, too.
    pub(crate) fn is_held_on_replica(&self) -> bool {
        self.steering.on_replica
            && self.held.bound.is_some()
            && self.login.listener.mode == ListenerMode::Split
    }

    /// A transaction has begun there.
    pub(crate) fn begin_on_replica(&mut self) {
        self.steering.has_read = false;
        self.steering.is_rooted = false;
    }

    /// Sees to it that the session is where its next statement can run.
    pub(crate) async fn check_where_it_is(
        &mut self,
        sql: &[u8],
        statement: &Statement,
    ) -> Result<(), ProxyError> {
        if !self.is_held_on_replica() {
            return Ok(());
        }
        if !self.state.status.contains(Status::IN_TRANS) && self.holds_insert_id() {
            return Box::pin(self.leave_replica()).await;
        }
        match self.fate(sql, statement) {
            Fate::Stays => {
                self.note_stay(sql, statement);
                Ok(())
            }
            Fate::Leaves => self.leave_replica().await,
            Fate::Moves => Box::pin(self.move_from_replica(statement)).await,
            Fate::Refused => Err(self.refused_like_everywhere().into()),
            Fate::Held(what) => Err(Steered::HeldOnReplica(what).into()),
            Fate::Restarts => match self.take_bound()? {
                Some(checkout) => Err(self.roll_back_on_replica(checkout).await),
                None => Err(Steered::NeedsPrimary.into()),
            },
        }
    }

    /// The same for those who ask: whether the statement runs where the session is held; an error if nowhere.
    pub(crate) fn stays_on_replica(&mut self, sql: &[u8], statement: &Statement) -> Result<bool, Steered> {
        if !self.state.status.contains(Status::IN_TRANS) && self.holds_insert_id() {
            return Ok(false);
        }
        match self.fate(sql, statement) {
            Fate::Stays => Ok(true),
            Fate::Leaves | Fate::Moves => Ok(false),
            Fate::Refused => Err(self.refused_like_everywhere()),
            Fate::Restarts => Err(Steered::NeedsPrimary),
            Fate::Held(what) => Err(Steered::HeldOnReplica(what)),
        }
    }

    fn refused_like_everywhere(&mut self) -> Steered {
        let is_mariadb = self.state.lex.options(&self.state.want.vars).flavor == Flavor::MariaDb;
        Steered::ReadOnlyTransaction { is_mariadb }
    }

    fn fate(&mut self, sql: &[u8], statement: &Statement) -> Fate {
        let flavor = self.state.lex.options(&self.state.want.vars).flavor;
        let (lists_changes, has_read) = (flavor == Flavor::MariaDb, self.steering.has_read);
        let fate = match in_read_only(statement, Progress { has_read, lists_changes }) {
            InReadOnly::Run
                if self.fixes_variables(sql, statement)
                    || self.wants_to_move(statement)
                    || self.leaves_sql_behind(statement) =>
            {
                InReadOnly::Primary
            }
            InReadOnly::Leave if flavor == Flavor::MySql && self.begins_alike(statement) => InReadOnly::Run,
            // FOR UPDATE is a write to all servers, FOR SHARE is not.
            InReadOnly::Primary if statement.why == Why::LockingRead && !names(sql, &["share"]) => {
                InReadOnly::Refuse
            }
            fate => fate,
        };
        let goes_along = |reason| match reason {
            PinReason::Transaction => true,
            PinReason::FixedVariable => self.state.pins.fixes_only(INSERT_ID),
            _ => false,
        };
        let held = self.state.pins.iter().find(|pin| !goes_along(pin.reason));
        match (fate, held) {
            (InReadOnly::Run, _) => Fate::Stays,
            (InReadOnly::Refuse, _) if self.is_read_only() && has_read => Fate::Refused,
            (_, Some(pin)) => Fate::Held(pin.reason.as_str()),
            (InReadOnly::Leave, None) => Fate::Leaves,
            (InReadOnly::Refuse | InReadOnly::Primary, None) if self.may_move() => Fate::Moves,
            (InReadOnly::Refuse | InReadOnly::Primary, None) => Fate::Restarts,
        }
    }

    /// True in a transaction that cannot write. Without autocommit one that could may be on a replica, too, if it began when there
    /// was no primary.
    fn is_read_only(&self) -> bool {
        let is_open = self.state.status.contains(Status::IN_TRANS);
        is_open
            && (self.state.status.contains(Status::IN_TRANS_READONLY)
                || delphinus_state::reads_only(&self.state.want.vars))
    }

    /// To MySQL, what BEGIN begins in such a transaction cannot write either.
    fn begins_alike(&self, statement: &Statement) -> bool {
        let says_how = Effects::BEGINS_SPECIAL.union(Effects::BEGINS_READ_ONLY);
        matches!(statement.class, Class::Begin | Class::StartTransaction)
            && !statement.effects.intersects(says_how)
            && self.state.status.contains(Status::IN_TRANS)
    }

    /// Nothing was read yet, or each statement has a view of its own, and the primary has all that the replica had.
    fn may_move(&self) -> bool {
        let views = ["READ-COMMITTED", "READ-UNCOMMITTED"];
        !self.steering.has_read || !self.steering.is_rooted && isolation_is(&self.state.want.vars, &views)
    }

    /// A variable that no other connection can be given would hold the session there.
    fn fixes_variables(&mut self, sql: &[u8], statement: &Statement) -> bool {
        statement.effects.contains(Effects::SETS_SYSTEM_VARS)
            && assignments(sql, self.state.lex.options(&self.state.want.vars)).iter().any(|one| {
                fixes(one) && !matches!(&one.target, Target::System { name, .. } if name == INSERT_ID)
            })
    }

    /// True if it is all that holds the session to its connection, a transaction apart.
    fn holds_insert_id(&self) -> bool {
        let may_go = |reason| matches!(reason, PinReason::Transaction | PinReason::FixedVariable);
        self.state.pins.fixes_only(INSERT_ID) && self.state.pins.iter().all(|pin| may_go(pin.reason))
    }

    /// True for a read that must not, or that somebody does not want to, run on the replica.
    fn wants_to_move(&self, statement: &Statement) -> bool {
        let Some(here) = self.held.bound.as_ref().map(Checkout::backend) else { return false };
        if statement.access == Access::Write {
            return false;
        }
        let is_first = !self.steering.has_read;
        if matches!(self.steering.wish(), Some(Wish::Rule(Place::Primary)))
            || self.steering.consistency() == Some(Consistency::Global)
        {
            return true;
        }
        // Later it cannot be obeyed.
        let is_unwanted = match self.steering.wish().map(Wish::place) {
            Some(Place::Primary) => true,
            Some(Place::Among(ids)) => !ids.contains(&here),
            Some(Place::Replica) | None => false,
        };
        is_first && (is_unwanted || self.lacks_named(here))
    }

    /// True if a client has named transactions that the replica is not known to have.
    fn lacks_named(&self, here: BackendId) -> bool {
        self.worker.outlook.with_snapshot(|snapshot, _| {
            let reading = Reading { level: Consistency::Session, ..self.reading(snapshot) };
            self.causality.lacks_foreign(here, &reading)
        })
    }

    fn note_stay(&mut self, sql: &[u8], statement: &Statement) {
        self.steering.has_read |= looks_at_data(sql, statement);
        // With AND CHAIN another one begins, as this one was begun.
        let roots = Effects::SETS_SYSTEM_VARS.union(Effects::BEGINS_TRANSACTION);
        self.steering.is_rooted |= statement.class == Class::Savepoint || statement.effects.intersects(roots);
    }

    /// Begins the transaction again where its first statement belongs: it has seen nothing yet.
    async fn move_from_replica(&mut self, statement: &Statement) -> Result<(), ProxyError> {
        self.leave_replica().await?;
        self.begin_elsewhere(statement).await.map_err(|error| match error {
            ProxyError::Killed => error,
            // It has ended, and a client that is not told so would go on without one.
            error => self.lost_transaction(&error.reason()),
        })
    }

    async fn begin_elsewhere(&mut self, statement: &Statement) -> Result<(), ProxyError> {
        let avoid = self.worker.outlook.avoided();
        let mut plan = self.plan(statement, &avoid);
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
        self.keep_or_give_back(checkout);
        Ok(())
    }

    /// Ends the transaction on the replica. That has nothing to lose: where its connection is gone, it has ended.
    async fn leave_replica(&mut self) -> Result<(), ProxyError> {
        let checkout = match self.take_bound() {
            Err(ProxyError::LostTransaction { .. } | ProxyError::LostHarmless(_)) => return Ok(()),
            found => found?,
        };
        let Some(mut checkout) = checkout else { return Ok(()) };
        if self.holds_insert_id() {
            return self.leave_with_insert_id(checkout).await;
        }
        let has_ended = checkout.query(COMMIT).await.is_ok();
        self.forget_transaction();
        if has_ended {
            self.keep_or_give_back(checkout);
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
            Err(error) => return Err(self.lost(&error.to_string(), false)),
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
                self.forget_transaction();
                self.keep_or_give_back(primary);
                Ok(())
            }
            Err(error) => {
                self.steering.on_replica = true;
                self.held.bound = Some(replica);
                Err(error)
            }
        }
    }

    /// Rolls the transaction back after such a refusal.
    pub(crate) async fn restart_on_primary(&mut self, checkout: Checkout, relayed: Relayed) -> Served {
        self.worker.buffers.give(relayed.rest);
        let error = self.roll_back_on_replica(checkout).await;
        if error.ends_session() { Served::Fatal(error) } else { Served::Error(error) }
    }

    /// The transaction is to be tried again, on the primary.
    async fn roll_back_on_replica(&mut self, mut checkout: Checkout) -> ProxyError {
        if !self.steering.needs_primary {
            tracing::info!(
                session.id = self.activity.id.0,
                user = %self.activity.user(),
                "a READ ONLY transaction needed the primary after it had read on a replica: the session's next ones begin there"
            );
        }
        self.steering.needs_primary = true;
        self.worker.counters.read_only_restarts.increment();
        if let Err(error) = checkout.query(ROLLBACK).await {
            return self.lost(&error.to_string(), false);
        }
        // What goes along is taken along before the next statement.
        self.forget_transaction();
        self.keep_or_give_back(checkout);
        Steered::NeedsPrimary.into()
    }
}

/// True if the session has set one of these isolation levels.
pub(crate) fn isolation_is(vars: &Vars, levels: &[&str]) -> bool {
    ["transaction_isolation", "tx_isolation"]
        .iter()
        .filter_map(|name| vars.get(*name))
        .any(|value| levels.iter().any(|level| level.as_bytes().eq_ignore_ascii_case(value)))
}

/// False for what certainly looks at nothing but its session.
fn looks_at_data(sql: &[u8], statement: &Statement) -> bool {
    let may_be_about_session = match statement.class {
        Class::Select
        | Class::Do
        | Class::Set
        | Class::Use
        | Class::Empty
        | Class::Kill
        | Class::Deallocate
        | Class::Diagnostics => true,
        Class::Show => statement.access == Access::Write,
        _ => false,
    };
    !may_be_about_session
        || statement.effects.contains(Effects::CALLS_ROUTINE)
        || names(sql, &["from", "table"])
}

/// True if one of these words is in the text, be it in a comment.
fn names(sql: &[u8], words: &[&str]) -> bool {
    let mut found = sql.split(|byte| !byte.is_ascii_alphanumeric());
    found.any(|found| words.iter().any(|word| found.eq_ignore_ascii_case(word.as_bytes())))
}

#[cfg(test)]
mod tests {
    use delphinus_sql::{LexOptions, classify};

    use super::*;

    #[test]
    fn what_has_looked_at_nothing_can_begin_again() {
        for (sql, looks) in [
            ("SELECT 1", false),
            ("SELECT @@session.transaction_isolation, CONNECTION_ID()", false),
            ("SET NAMES utf8mb4", false),
            ("SET @a = 1", false),
            ("USE app", false),
            ("SHOW VARIABLES LIKE 'tx%'", false),
            ("SELECT f(1)", true),
            ("SET @a = (SELECT COUNT(*) FROM t)", true),
            ("SELECT COUNT(*) FROM t", true),
            ("SELECT 1 UNION TABLE t", true),
            ("TABLE t", true),
            ("SHOW TABLES", true),
            ("SAVEPOINT s", true),
            ("COMMIT AND CHAIN", true),
        ] {
            let statement = classify(sql.as_bytes(), LexOptions::default());
            assert_eq!(looks_at_data(sql.as_bytes(), &statement), looks, "{sql}");
        }
    }
}
