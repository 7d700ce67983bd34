//! The types that a server keeps for the parameters of a statement prepared in SQL text: the connection is made to keep those
//! that the session's own runs of the statement have left.
//!
//! Owns: how. What the types are is in `delphinus_state::ParameterTypes`.

use delphinus_net::NetError;
use delphinus_pool::{Checkout, PoolError};
use delphinus_sql::{Class, Statement, execute_using};
use delphinus_state::{Given, quote_identifier};
use delphinus_wire::response::Status;

use crate::client_error::ProxyError;
use crate::session::Session;

impl Session {
    /// The statement that an EXECUTE runs, and what it gives it. Boxed, because it is kept while others are waited for.
    pub(crate) fn given(&mut self, statement: &Statement, sql: &[u8]) -> Option<Box<(String, Given)>> {
        if statement.class != Class::Execute || self.sql.is_empty() {
            return None;
        }
        let found = execute_using(sql, self.lex.options(&self.want.vars))?;
        if !self.sql.keeps_types(&found.name) {
            return None;
        }
        let values = found.variables.iter().map(|name| self.want.user_vars.get(name.as_str()));
        Some(Box::new((found.name, Given::of(values))))
    }

    /// True if statements with types have to be on the connection before this runs: with it something may begin in which no types can
    /// be given to them any more.
    pub(crate) fn leaves_no_room_for_types(&self, statement: &Statement) -> bool {
        let may_begin = !statement.effects.is_empty() || !self.status.contains(Status::AUTOCOMMIT);
        may_begin && self.sql.typed().next().is_some()
    }

    /// Makes the statement on the connection keep the types that it has in the session, if running it with `given` does not.
    pub(crate) async fn give_types(
        &self,
        checkout: &mut Checkout,
        name: &str,
        given: Option<&Given>,
    ) -> Result<(), ProxyError> {
        let Some(Some(own)) = self.sql.find(name) else { return Ok(()) };
        let Some(Some(there)) = checkout.connection().sql.find(name) else { return Ok(()) };
        if there.types == own.types || given.is_some_and(|given| own.types.come_of(given)) {
            return Ok(());
        }
        let Some(run) = own.types.run() else { return Ok(()) };
        if self.status.contains(Status::IN_TRANS) || !self.pins.is_empty() {
            // What is run there to that end would be a part of the transaction, or write to a temporary table.
            return Err(ProxyError::CannotPrepareAgain(name.to_owned()));
        }
        let kept = own.clone();
        let commits = self.status.contains(Status::AUTOCOMMIT);
        let has_run = run_for_types(checkout, name, run, commits).await?;
        checkout.connection().sql.put(name, has_run.then_some(kept));
        Ok(())
    }

    /// Takes in that an EXECUTE has given a statement values of these types.
    pub(crate) fn learn_types(
        &mut self,
        checkout: &mut Checkout,
        name: &str,
        given: &Given,
        error: Option<u16>,
    ) {
        let has_run = error.is_none_or(|code| OF_ROWS.contains(&code));
        let before = self.sql.find(name).flatten().map(|own| own.types.clone());
        let there = checkout.connection().sql.find(name).flatten().map(|there| there.types.clone());
        self.sql.ran(name, given, has_run);
        if has_run || self.sql.find(name).flatten().is_none() {
            checkout.connection().sql.copy(name, &self.sql);
        } else if there != before {
            // It may have failed before it had types.
            checkout.connection().sql.put(name, None);
        }
    }
}

/// Errors of statements that have found the types of their parameters: of rows and of values (`ER_BAD_NULL_ERROR`, `ER_DUP_ENTRY`,
/// `ER_WARN_DATA_OUT_OF_RANGE`, `WARN_DATA_TRUNCATED`, `ER_TRUNCATED_WRONG_VALUE`, `ER_DIVISION_BY_ZERO`,
/// `ER_TRUNCATED_WRONG_VALUE_FOR_FIELD`, `ER_DATA_TOO_LONG`, `ER_ROW_IS_REFERENCED_2`, `ER_NO_REFERENCED_ROW_2`,
/// `ER_DATA_OUT_OF_RANGE`), and `ER_CANT_EXECUTE_IN_READ_ONLY_TRANSACTION`.
const OF_ROWS: [u16; 12] = [1048, 1062, 1264, 1265, 1292, 1365, 1366, 1406, 1451, 1452, 1690, 1792];

/// Runs a statement so that it gives nothing and writes nothing: only for the types of its parameters. False if it cannot be run.
async fn run_for_types(
    checkout: &mut Checkout,
    name: &str,
    given: &Given,
    commits: bool,
) -> Result<bool, ProxyError> {
    let before = "SELECT @@SESSION.sql_select_limit, @@SESSION.transaction_read_only LIMIT 1";
    let before = checkout.query(before).await.map_err(ProxyError::Pool)?;
    let cell =
        |at: usize| -> Option<String> { String::from_utf8(before.rows.first()?.get(at)?.clone()?).ok() };
    let (Some(limit), Some(read_only)) = (cell(0), cell(1)) else {
        return Err(ProxyError::CannotPrepareAgain(name.to_owned()));
    };
    let variables: Vec<String> =
        (0..given.examples().count()).map(|at| format!("@`delphinus parameter {at}`")).collect();
    // A variable keeps the type of the value before where it becomes NULL.
    let set = |(variable, value): (&String, &str)| format!("{variable} = X'', {variable} = {value}");
    let examples: Vec<String> = variables.iter().zip(given.examples()).map(set).collect();
    let nothing: Vec<String> = variables.iter().map(|variable| set((variable, "NULL"))).collect();
    // Without autocommit it would begin a transaction.
    let limits = "SESSION autocommit = 1, SESSION sql_select_limit = 0, SESSION transaction_read_only = 1";
    let back = format!(
        "SESSION autocommit = {}, SESSION sql_select_limit = {limit}, SESSION transaction_read_only = {read_only}",
        u8::from(commits)
    );
    on_the_way(checkout, &format!("SET {}, {limits}", examples.join(", "))).await?;
    let execute = format!("EXECUTE {} USING {}", quote_identifier(name), variables.join(", "));
    let has_run = match checkout.query(&execute).await {
        Ok(_) => true,
        Err(PoolError::Refused { error, .. }) => OF_ROWS.contains(&error.code),
        Err(lost) => return Err(ProxyError::Pool(lost)),
    };
    on_the_way(checkout, &format!("SET {}, {back}", nothing.join(", "))).await?;
    checkout.forget_warnings().await.map_err(ProxyError::Pool)?;
    Ok(has_run)
}

/// A connection that is left on the way, with what was set there, is lost.
async fn on_the_way(checkout: &mut Checkout, sql: &str) -> Result<(), ProxyError> {
    let result = checkout.query(sql).await.map(|_| ());
    result.map_err(|error| {
        ProxyError::Pool(match error {
            PoolError::Refused { backend, .. } => PoolError::Lost { backend, error: NetError::Closed },
            other => other,
        })
    })
}
