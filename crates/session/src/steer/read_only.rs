//! What becomes of the statements of a transaction that cannot write and runs on a replica. What is done about that is
//! in `crate::rescue::on_replica`, and in `crate::route`.

use delphinus_clients::ListenerMode;
use delphinus_pool::Checkout;
use delphinus_route::{InReadOnly, Place, Progress, Question, Target as RouteTarget, Wish, in_read_only};
use delphinus_sql::{
    Access, Class, Consistency, Effects, Flavor, Statement, Target, Why, assignments, looks_at_data,
    may_lock_to_share,
};
use delphinus_state::{PinReason, fixes, isolation_is, reads_only};
use delphinus_topology::BackendId;
use delphinus_wire::response::Status;

use super::{Around, ReplicaTransaction, Steering};
use crate::state::Wanted;

/// The id that the next INSERT takes. No other connection can be given it, but in a transaction that cannot write nothing takes
/// it: it goes along when the session leaves the replica.
const INSERT_ID: &str = "insert_id";

/// What becomes of a statement of a session that is held to a replica.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fate {
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

impl Steering {
    /// True if something holds the session to a replica, although its listener is for writing, too.
    pub(crate) fn is_held_on_replica(&self, around: Around<'_>) -> bool {
        self.replica.is_there
            && around.held.bound.is_some()
            && around.login.listener.mode == ListenerMode::Split
    }

    /// Takes in where the next statement goes.
    #[inline]
    pub(crate) fn goes_to(&mut self, target: RouteTarget) {
        self.replica.is_there = target != RouteTarget::Primary;
        self.replica.transaction.has_read = true;
    }

    /// A transaction has begun there.
    pub(crate) fn begin_on_replica(&mut self) {
        self.replica.transaction = ReplicaTransaction::default();
    }

    /// What becomes of the statement; `lacks`: whether that replica is not known to have what the client has named.
    pub(crate) fn fate(
        &self,
        question: &Question<'_>,
        around: Around<'_>,
        lacks: impl FnOnce(BackendId) -> bool,
    ) -> Fate {
        let Question { sql, lex, statement } = *question;
        if !is_open(around) && holds_insert_id(around.state) {
            return Fate::Leaves;
        }
        let (lists_changes, has_read) = (lex.flavor == Flavor::MariaDb, self.replica.transaction.has_read);
        let fate = match in_read_only(statement, Progress { has_read, lists_changes }) {
            InReadOnly::Run
                if fixes_variables(question)
                    || self.wants_to_move(statement, around, lacks)
                    || leaves_sql_behind(statement, around) =>
            {
                InReadOnly::Primary
            }
            InReadOnly::Leave if lex.flavor == Flavor::MySql && begins_alike(statement, around) => {
                InReadOnly::Run
            }
            // FOR UPDATE is a write to all servers, FOR SHARE is not.
            InReadOnly::Primary if statement.why == Why::LockingRead && !may_lock_to_share(sql) => {
                InReadOnly::Refuse
            }
            fate => fate,
        };
        let pins = &around.state.pins;
        let goes_along = |reason| match reason {
            PinReason::Transaction => true,
            PinReason::FixedVariable => pins.fixes_only(INSERT_ID),
            _ => false,
        };
        let held = pins.iter().find(|pin| !goes_along(pin.reason));
        match (fate, held) {
            (InReadOnly::Run, _) => Fate::Stays,
            (InReadOnly::Refuse, _) if is_read_only(around) && has_read => Fate::Refused,
            (_, Some(pin)) => Fate::Held(pin.reason.name()),
            (InReadOnly::Leave, None) => Fate::Leaves,
            (InReadOnly::Refuse | InReadOnly::Primary, None) if self.may_move(around) => Fate::Moves,
            (InReadOnly::Refuse | InReadOnly::Primary, None) => Fate::Restarts,
        }
    }

    /// Nothing was read yet, or each statement has a view of its own, and the primary has all that the replica had.
    fn may_move(&self, around: Around<'_>) -> bool {
        let views = ["READ-COMMITTED", "READ-UNCOMMITTED"];
        !self.replica.transaction.has_read
            || !self.replica.transaction.is_rooted && isolation_is(&around.state.want.vars, &views)
    }

    /// True for a read that must not, or that somebody does not want to, run on the replica.
    fn wants_to_move(
        &self,
        statement: &Statement,
        around: Around<'_>,
        lacks: impl FnOnce(BackendId) -> bool,
    ) -> bool {
        let Some(here) = around.held.bound.as_ref().map(Checkout::backend) else { return false };
        if statement.access == Access::Write {
            return false;
        }
        let wish = self.wish();
        if matches!(wish, Some(Wish::Rule(Place::Primary))) || self.consistency() == Some(Consistency::Global)
        {
            return true;
        }
        // Later it cannot be obeyed.
        let is_unwanted = match wish.map(Wish::place) {
            Some(Place::Primary) => true,
            Some(Place::Among(ids)) => !ids.contains(&here),
            Some(Place::Replica) | None => false,
        };
        !self.replica.transaction.has_read && (is_unwanted || lacks(here))
    }

    /// The statement runs there.
    pub(crate) fn note_stay(&mut self, sql: &[u8], statement: &Statement) {
        self.replica.transaction.has_read |= looks_at_data(sql, statement);
        // With AND CHAIN another one begins, as this one was begun.
        let roots = Effects::SETS_SYSTEM_VARS.union(Effects::BEGINS_TRANSACTION);
        self.replica.transaction.is_rooted |=
            statement.class == Class::Savepoint || statement.effects.intersects(roots);
    }
}

fn is_open(around: Around<'_>) -> bool {
    around.state.status.contains(Status::IN_TRANS)
}

/// True in a transaction that cannot write. Without autocommit one that could may be on a replica, too, if it began when there
/// was no primary.
fn is_read_only(around: Around<'_>) -> bool {
    is_open(around)
        && (around.state.status.contains(Status::IN_TRANS_READONLY) || reads_only(&around.state.want.vars))
}

/// To MySQL, what BEGIN begins in such a transaction cannot write either.
fn begins_alike(statement: &Statement, around: Around<'_>) -> bool {
    let says_how = Effects::BEGINS_SPECIAL.union(Effects::BEGINS_READ_ONLY);
    matches!(statement.class, Class::Begin | Class::StartTransaction)
        && !statement.effects.intersects(says_how)
        && is_open(around)
}

/// A variable that no other connection can be given would hold the session there.
fn fixes_variables(question: &Question<'_>) -> bool {
    question.statement.effects.contains(Effects::SETS_SYSTEM_VARS)
        && assignments(question.sql, question.lex)
            .iter()
            .any(|one| fixes(one) && !matches!(&one.target, Target::System { name, .. } if name == INSERT_ID))
}

/// True for what leads to another state while statements of SQL text stand ready in this one: they would hold the session where
/// it is.
fn leaves_sql_behind(statement: &Statement, around: Around<'_>) -> bool {
    let leaves = Effects::SETS_SYSTEM_VARS.union(Effects::CHANGES_SCHEMA);
    !around.state.sql.is_empty() && statement.effects.intersects(leaves)
}

/// True if `insert_id` is all that holds the session to its connection, a transaction apart.
pub(crate) fn holds_insert_id(state: &Wanted) -> bool {
    let pins = &state.pins;
    let may_go = |reason| matches!(reason, PinReason::Transaction | PinReason::FixedVariable);
    pins.fixes_only(INSERT_ID) && pins.iter().all(|pin| may_go(pin.reason))
}
