//! What code in the database has left behind without a word of the server.

use delphinus_sql::{Class, Flavor};
use delphinus_wire::error_code;

use super::{Executed, Learnt};
use crate::pin::{PinReason, Pins};

/// An error says nothing of how far it had come: what may have been done counts. What it has let go of again is not known.
pub(super) fn learn(learnt: &mut Learnt, pins: &mut Pins, executed: &Executed<'_>) {
    let hidden = executed.hidden;
    if hidden.is_empty() || has_not_begun(executed) {
        return;
    }
    let mut add = |reason| pins.add(reason, executed.now, executed.text.sql);
    if hidden.is_unknown {
        add(PinReason::UnknownState);
    }
    if hidden.next_transaction {
        add(PinReason::NextTransaction);
    }
    if hidden.locks {
        add(PinReason::AdvisoryLock);
        pins.advisory_locks.add_unnamed();
    }
    // Where the server lists them all, that is asked.
    if !(learnt.hidden_user_vars && executed.text.lex.flavor == Flavor::MariaDb) {
        learnt.user_vars.extend(hidden.variables.iter().cloned());
        learnt.user_vars.sort_unstable();
        learnt.user_vars.dedup();
    }
}

fn has_not_begun(executed: &Executed<'_>) -> bool {
    let may_be_another = matches!(executed.statement.class, Class::Call | Class::Multi | Class::Unknown);
    executed.response.error == Some(error_code::ER_PARSE_ERROR) && !may_be_another
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use delphinus_sql::{Hidden, LexOptions, SqlText, classify};

    use crate::tracker::Response;
    use crate::{SessionState, learn};

    use super::*;

    /// What pins, and which variables are read back, after `sql` has done what is `hidden`.
    fn after(
        sql: &str,
        hidden: &Hidden,
        response: &Response,
        flavor: Flavor,
    ) -> (Vec<&'static str>, Vec<Box<str>>) {
        let lex = LexOptions { flavor, ..LexOptions::default() };
        let (statement, sql) = (&classify(sql.as_bytes(), lex), sql.as_bytes());
        let (mut state, mut pins) = (SessionState::default(), Pins::default());
        let text = &SqlText::new(sql, lex);
        let executed = Executed { statement, text, response, hidden, now: Instant::now() };
        let learnt = learn(&mut state, &mut pins, &executed).unwrap_or_default();
        (pins.iter().map(|pin| pin.reason.label()).collect(), learnt.user_vars)
    }

    fn answer(error: Option<u16>) -> Response {
        Response { error, affected_rows: error.is_none().then_some(1), ..Response::default() }
    }

    #[test]
    fn what_is_hidden_pins_or_is_read_back() {
        let variables = [Box::from("a")].into();
        let all =
            Hidden { locks: true, next_transaction: true, is_unknown: true, variables, ..Hidden::default() };
        for (sql, error, has_begun) in [
            ("INSERT INTO t VALUES (1)", None, true),
            ("INSERT INTO t VALUES (1)", Some(1062), true),
            ("INSERT INTO t VALUES (1", Some(1064), false),
            ("CALL p()", Some(1064), true),
        ] {
            let (mut pins, vars) = after(sql, &all, &answer(error), Flavor::MySql);
            // A procedure may have set a savepoint, too.
            pins.retain(|pin| *pin != "transaction");
            pins.sort_unstable();
            let wanted: &[&str] =
                if has_begun { &["get_lock", "set_transaction", "unknown_state"] } else { &[] };
            assert_eq!(pins, wanted, "{sql} {error:?}");
            assert_eq!(vars.len(), usize::from(has_begun), "{sql} {error:?}");
        }
    }

    #[test]
    fn a_server_that_lists_variables_is_asked_for_all() {
        let hidden = Hidden { variables: [Box::from("a")].into(), ..Hidden::default() };
        for (flavor, count) in [(Flavor::MySql, 1), (Flavor::MariaDb, 0)] {
            assert_eq!(after("CALL p()", &hidden, &answer(None), flavor).1.len(), count, "{flavor:?}");
        }
        let insert = "INSERT INTO t VALUES (1)";
        assert_eq!(after(insert, &hidden, &answer(None), Flavor::MariaDb).1.len(), 1);
    }
}
