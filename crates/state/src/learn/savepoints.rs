//! Savepoints that are set without autocommit before the transaction that they belong to: no status shows them.

use delphinus_sql::{Class, Effects, Statement};
use delphinus_wire::error_code;
use delphinus_wire::response::Status;

use super::{Executed, Learnt};
use crate::pin::Pins;

/// Pins where one was set, or may have been.
pub(super) fn learn(learnt: &mut Learnt, pins: &mut Pins, executed: &Executed<'_>) {
    let response = executed.response;
    let status = response.status.filter(|_| response.is_ok());
    let is_early =
        |status: Status| !status.contains(Status::IN_TRANS) && !status.contains(Status::AUTOCOMMIT);
    // What a server has forgotten is ended at once, unless it is certain that there is more.
    let hides = |one: &Statement| may_hide(one) && !learnt.may_lose_transactions;
    if status.is_none_or(is_early) && may_be_left(executed, hides) {
        pins.add_early_savepoint(executed.now, executed.text.sql);
        // After an error the status that is asked for says whether it counts.
        learnt.ping |= status.is_none();
    }
}

/// What ends a transaction, and with it its savepoints.
pub(super) const ENDS: Effects = Effects::ENDS_TRANSACTION.union(Effects::IMPLICIT_COMMIT);

fn may_be_left(executed: &Executed<'_>, hides: impl Fn(&Statement) -> bool) -> bool {
    let Executed { statement, text, response, .. } = executed;
    if statement.class != Class::Multi || statement.effects.contains(Effects::UNKNOWN) {
        let is_refused =
            response.error == Some(error_code::ER_PARSE_ERROR) && statement.class == Class::Unknown;
        return hides(statement) && !is_refused || sets(statement) && response.is_ok();
    }
    if !statement.effects.intersects(MAY) {
        return false;
    }
    let mut is_left = false;
    for (_, one) in &text.names().statements {
        // Which of them were run before an error nobody knows.
        is_left &= !(one.effects.intersects(ENDS) && response.is_ok());
        is_left |= sets(one) || hides(one);
    }
    is_left
}

/// Nothing else can set one.
const MAY: Effects = Effects::SETS_SAVEPOINT.union(Effects::OPAQUE);

fn sets(statement: &Statement) -> bool {
    statement.effects.contains(Effects::SETS_SAVEPOINT)
}

/// True for what may run other statements in the session itself. What a function or a trigger sets ends with it: both servers
/// give those savepoints of their own.
fn may_hide(statement: &Statement) -> bool {
    statement.effects.intersects(Effects::SQL_EXECUTES.union(Effects::UNKNOWN))
        || statement.class == Class::Call
}
