//! A connection that is made to have a prepared statement: in the schema and with the variables that its client had when it
//! prepared it.

use std::io;
use std::rc::Rc;

use delphinus_pool::{Checkout, Connection, Means, Memory, PoolError, StatementKey};
use delphinus_sql::{Effects, Statement, may_ask_for_schema};
use delphinus_state::{Changed, Response, SessionState, as_prepared};
use delphinus_wire::command::BackendStmtId;

/// The statement's id on a connection whose session is in the state `want`; `prepare` prepares it in its own state.
pub(crate) async fn prepare_in<E: From<PoolError>>(
    checkout: &mut Checkout,
    key: &Rc<StatementKey>,
    (want, memory): (&SessionState, &Rc<Memory>),
    means: Means,
    prepare: impl AsyncFnOnce(&mut Checkout) -> Result<BackendStmtId, E>,
) -> Result<BackendStmtId, E> {
    if let Some(found) = checkout.connection().statements.find(key) {
        return Ok(found.id);
    }
    if checkout.connection().statements.adopt(key) {
        let found = checkout.connection().statements.find(key);
        return Ok(found.expect("invariant: it was just adopted").id);
    }
    let mut then = SessionState {
        vars: as_prepared(&key.state().vars, &want.vars),
        schema: key.state().schema.clone(),
        ..want.clone()
    };
    if then.schema.is_none() && means == Means::Settings && !may_ask_for_schema(key.text()) {
        // Which schema it is in makes no difference to it.
        then.schema.clone_from(&want.schema);
    }
    let brought = checkout.make_ready_by(&then, memory, means).await;
    let prepared = match brought {
        Ok(_) => prepare(checkout).await,
        Err(error) => Err(error.into()),
    };
    if checkout.is_amid_command() && prepared.is_err() {
        // Nobody waits for the answer, and there is nothing to ask it any more.
        return prepared;
    }
    if let Ok(id) = prepared {
        for old in checkout.connection().statements.insert(key.clone(), id) {
            checkout.close_statement(old).await?;
        }
    }
    // A schema is left only by COM_CHANGE_USER, which would drop the statement too: it runs in its own schema then.
    let schema = want.schema.clone().or(then.schema);
    let now = SessionState { schema, ..want.clone() };
    // Also if it was not prepared: the session's next statement may run here.
    match checkout.make_ready_by(&now, memory, means).await {
        Ok(_) => prepared,
        Err(error @ PoolError::Lost { .. }) => Err(error.into()),
        Err(error) if means == Means::Settings => {
            // In this state it must not run anything: what the session has there ends with it, and is told as lost.
            checkout.connection().stream.finish().await;
            Err(checkout.lost(io::Error::other(error.to_string()).into()).into())
        }
        Err(error) => Err(error.into()),
    }
}

/// Takes a change of the schema that did not outlive its statement for none. Servers report a change of state with it, which
/// may hide that of a trigger.
pub(crate) fn forget_schema(connection: &mut Connection, statement: &Statement, response: &mut Response) {
    let entered = response.changes.iter().rev().find_map(|change| match change {
        Changed::Schema(schema) => Some(schema),
        _ => None,
    });
    if let Some(schema) = entered.filter(|_| statement.effects.contains(Effects::CHANGES_SCHEMA)) {
        // A USE: the connection, which was in the statement's own schema, is in another one.
        connection.have.schema = schema.as_deref().map(Rc::from);
    }
    let all = response.changes.len();
    response.changes.retain(|change| !matches!(change, Changed::Schema(_)));
    if response.changes.len() < all
        && statement.effects.without(Effects::MAY_COUNT_ROWS.union(Effects::HIDDEN)).is_empty()
    {
        connection.may_hide_user_vars |= response.changes.contains(&Changed::State);
        response.changes.retain(|change| *change != Changed::State);
    }
}
