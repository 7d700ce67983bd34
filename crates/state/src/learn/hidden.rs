//! What code in the database has left behind without a word of the server.

use delphinus_sql::{Class, Flavor};

use super::done::SYNTAX;
use super::{Executed, Learnt};
use crate::pin::{PinReason, Pins};

/// An error says nothing of how far it had come: what may have been done counts. What it has let go of again is not known.
pub(super) fn learn(learnt: &mut Learnt, pins: &mut Pins, executed: &Executed<'_>) {
    let hidden = executed.hidden;
    if hidden.is_empty() || has_not_begun(executed) {
        return;
    }
    let mut add = |reason| pins.add(reason, executed.now, executed.sql);
    if hidden.is_unknown {
        add(PinReason::UnknownState);
    }
    if hidden.next_transaction {
        add(PinReason::NextTransaction);
    }
    if hidden.locks {
        add(PinReason::AdvisoryLock);
        if !pins.advisory_locks.contains(&None) {
            pins.advisory_locks.push(None);
        }
    }
    // Where the server lists them all, that is asked.
    if !(learnt.hidden_user_vars && executed.lex.flavor == Flavor::MariaDb) {
        learnt.user_vars.extend(hidden.variables.iter().cloned());
        learnt.user_vars.sort_unstable();
        learnt.user_vars.dedup();
    }
}

fn has_not_begun(executed: &Executed<'_>) -> bool {
    let may_be_another = matches!(executed.statement.class, Class::Call | Class::Multi | Class::Unknown);
    executed.response.error == Some(SYNTAX) && !may_be_another
}
