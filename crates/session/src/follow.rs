//! State that moves with the session from connection to connection.
//!
//! Owns: what a statement that has run has made of the session, what has to be asked for that, and what has to be there before one
//! runs. The state itself is in `crate::state`, and what follows from an answer in `delphinus_state`.

mod defaults;
mod full_answers;
mod noted;
mod questions;
mod rights;
mod room;
mod sequences;
mod sql_statements;
mod stored_code;
mod temporary_tables;
mod texts;
mod tracking;
mod user_variables;

use delphinus_clients::Users;
use delphinus_net::rt;
use delphinus_pool::{Checkout, Keys, PoolError};
use delphinus_sql::{Class, Effects, Statement};
use delphinus_state::{Changed, Executed, Learnt, Vars, learn};
use delphinus_view::StoredCode;
use delphinus_wire::error_code;

pub(crate) use self::noted::Noted;
pub(crate) use self::rights::AT_RISK;
pub(crate) use self::sequences::{check_last_values, check_texts_run};
pub(crate) use self::sql_statements::Bringing;
pub(crate) use self::stored_code::{MAY_CHANGE_CODE, uncover};
pub(crate) use self::texts::{RUNS_TEXTS, TextExecuted, TextRun, TextsRun};
use crate::outlook::Outlook;
use crate::state::{Ran, Wanted};

/// What a session is settled with that is not its own: of its cluster, and of its user.
pub(crate) struct Shared<'a> {
    pub stored_code: &'a StoredCode,
    pub users: &'a Users,
    pub keys: &'a Keys,
    pub outlook: &'a Outlook,
    /// So many statements of SQL text may be kept.
    pub most_prepared: usize,
}

/// Takes in what a statement that has run has changed: first for others, before its client knows of that, then of the session. What the
/// server has not said is asked on the same connection, which has the session's state then. Returns what the server has reported only
/// when it was asked.
pub(crate) async fn settle(
    state: &mut Wanted,
    noted: &mut Noted,
    checkout: &mut Checkout,
    ran: Ran<'_>,
    shared: Shared<'_>,
) -> Result<Vec<Changed>, PoolError> {
    let Ran { statement, text, response } = ran;
    let hidden = noted.settle_hidden(ran, state, shared.stored_code).await;
    let executed = Executed { statement, text, response, hidden: &hidden, now: rt::now() };
    let (had, before) = (checkout.connection().have.schema.clone(), state.want.schema.clone());
    let defaults_since = noted.settle_rights(&executed, shared.keys, shared.users);
    state.count_own_tables(checkout, ran);
    state.asked_tracking.learn(ran);
    let learnt = state.learn_from(&executed);
    let may_change_vars = learnt.is_some() || !response.changes.is_empty();
    let mut late = Vec::new();
    if let Some(learnt) = learnt {
        let facts = if learnt.has_hidden_collations() { shared.outlook.server_facts() } else { None };
        let collations = facts.as_ref().map(|facts| &facts.collations);
        late = Box::pin(state.ask(checkout, &learnt, ran, collations)).await?;
    }
    if defaults_since.is_some() && state.reads_results() {
        let names = noted.set_globally(&executed, state);
        Box::pin(state.learn_defaults(checkout, names, shared.users)).await?;
    }
    noted.executed = None;
    state.learn_sql(checkout, &executed, shared.most_prepared);
    if may_change_vars {
        state.idle_limit_s = idle_limit_s(&state.want.vars);
    }
    if may_change_vars || statement.effects.contains(Effects::SQL_PREPARES) {
        state.keep_state(checkout, text.sql);
    }
    let connection = checkout.connection();
    connection.have = state.want.clone();
    let has_entered = response.changes.iter().any(|change| matches!(change, Changed::Schema(_)));
    if had != before && state.want.schema == before && !has_entered {
        // It ran without the session's schema, which is gone: see `checkout_without_schema`.
        connection.have.schema = had;
    }
    sequences::note(state, connection, ran);
    Ok(late)
}

impl Wanted {
    /// Takes in what a statement has changed; what EXECUTE has run, where that is known, as if it had been sent by itself.
    fn learn_from(&mut self, executed: &Executed<'_>) -> Option<Learnt> {
        if has_run_nothing(executed) && !self.has_any_named(executed) {
            let nothing = Statement { effects: Effects::default(), ..*executed.statement };
            return learn(&mut self.want, &mut self.pins, &Executed { statement: &nothing, ..*executed });
        }
        if let Some(known) = self.ran_by_execute(executed.statement, executed.text) {
            let (statement, text) = known.runs();
            return learn(&mut self.want, &mut self.pins, &Executed { statement, text: &text, ..*executed });
        }
        learn(&mut self.want, &mut self.pins, executed)
    }

    /// True if the session has a statement of a name that the text runs: the error is of something in that one then.
    fn has_any_named(&self, executed: &Executed<'_>) -> bool {
        executed.text.names().sql_prepared.run.iter().any(|name| self.sql.find(name).is_some())
    }
}

/// True for an EXECUTE of a statement that is not there, and nothing else.
fn has_run_nothing(Executed { statement, response, .. }: &Executed<'_>) -> bool {
    statement.class == Class::Execute
        && response.error == Some(error_code::ER_UNKNOWN_STMT_HANDLER)
        && statement.effects.without(Effects::SQL_EXECUTES).is_empty()
}

/// The `wait_timeout` that the session has set, 0 if none. The connection to the backend is shared, and its own clock
/// says nothing of the client.
fn idle_limit_s(vars: &Vars) -> u32 {
    let value = vars.get("wait_timeout").and_then(|value| std::str::from_utf8(value).ok());
    value.and_then(|value| value.parse().ok()).unwrap_or(0)
}
