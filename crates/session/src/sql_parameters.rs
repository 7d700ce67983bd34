//! The types that a server keeps for the parameters of a statement prepared in SQL text: the connection is made to keep those
//! that the session's own runs of the statement have left.
//!
//! Owns: how. What the types are is in `delphinus_state::ParameterTypes`.

use delphinus_pool::{Checkout, PoolError};
use delphinus_sql::{Class, Statement, execute_using};
use delphinus_state::{Given, ParameterTypes, quote_identifier};
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
        let values = found.variables.iter().map(|name| self.want.user_vars.get(name.as_str()));
        Some(Box::new((found.name, Given::of(values))))
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
        if there.types == own.types
            || own.types.is_empty()
            || given.is_some_and(|given| own.types.come_of(given))
        {
            return Ok(());
        }
        if self.status.contains(Status::IN_TRANS) || !own.statement.is_harmless() {
            // What is run there to that end would be a part of the transaction.
            return Err(ProxyError::CannotPrepareAgain(name.to_owned()));
        }
        let kept = own.clone();
        let commits = self.status.contains(Status::AUTOCOMMIT);
        run_for_types(checkout, name, &kept.types, commits).await?;
        checkout.connection().sql.put(name, Some(kept));
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
        self.sql.ran(name, given, has_run);
        checkout.connection().sql.copy(name, &self.sql);
    }
}

/// Errors of statements that have found the types of their parameters: of rows and of values (`ER_BAD_NULL_ERROR`, `ER_DUP_ENTRY`,
/// `ER_WARN_DATA_OUT_OF_RANGE`, `WARN_DATA_TRUNCATED`, `ER_TRUNCATED_WRONG_VALUE`, `ER_DIVISION_BY_ZERO`,
/// `ER_TRUNCATED_WRONG_VALUE_FOR_FIELD`, `ER_DATA_TOO_LONG`, `ER_ROW_IS_REFERENCED_2`, `ER_NO_REFERENCED_ROW_2`,
/// `ER_DATA_OUT_OF_RANGE`), of locks (`ER_LOCK_WAIT_TIMEOUT`, `ER_LOCK_DEADLOCK`), and
/// `ER_CANT_EXECUTE_IN_READ_ONLY_TRANSACTION`.
const OF_ROWS: [u16; 14] =
    [1048, 1062, 1205, 1213, 1264, 1265, 1292, 1365, 1366, 1406, 1451, 1452, 1690, 1792];

/// Runs a statement so that it gives nothing and writes nothing: only for the types of its parameters.
async fn run_for_types(
    checkout: &mut Checkout,
    name: &str,
    types: &ParameterTypes,
    commits: bool,
) -> Result<(), ProxyError> {
    let count = types.runs().iter().map(|run| run.examples().count()).max().unwrap_or_default();
    let variables: Vec<String> = (0..count).map(|at| format!("@`delphinus parameter {at}`")).collect();
    let set = |values: &mut dyn Iterator<Item = &str>| {
        let values = variables.iter().zip(values).map(|(variable, value)| format!("{variable} = {value}"));
        values.collect::<Vec<_>>().join(", ")
    };
    let before = "SELECT @@SESSION.sql_select_limit, @@SESSION.transaction_read_only LIMIT 1";
    let before = checkout.query(before).await.map_err(ProxyError::Pool)?;
    let cell =
        |at: usize| -> Option<String> { String::from_utf8(before.rows.first()?.get(at)?.clone()?).ok() };
    let (Some(limit), Some(read_only)) = (cell(0), cell(1)) else {
        return Err(ProxyError::CannotPrepareAgain(name.to_owned()));
    };
    // Without autocommit it would begin a transaction.
    query(
        checkout,
        "SET SESSION autocommit = 1, SESSION sql_select_limit = 0, SESSION transaction_read_only = 1",
    )
    .await?;
    let execute = format!("EXECUTE {} USING {}", quote_identifier(name), variables.join(", "));
    for run in types.runs() {
        query(checkout, &format!("SET {}", set(&mut run.examples()))).await?;
        // A write is refused, after its types were found.
        match checkout.query(&execute).await {
            Ok(_) | Err(PoolError::Refused { .. }) => {}
            Err(lost) => return Err(ProxyError::Pool(lost)),
        }
    }
    let nothing = set(&mut std::iter::repeat("NULL"));
    let commits = u8::from(commits);
    let back = format!(
        "SET {nothing}, SESSION autocommit = {commits}, SESSION sql_select_limit = {limit}, \
         SESSION transaction_read_only = {read_only}"
    );
    query(checkout, &back).await?;
    checkout.forget_warnings().await.map_err(ProxyError::Pool)
}

async fn query(checkout: &mut Checkout, sql: &str) -> Result<(), ProxyError> {
    checkout.query(sql).await.map(|_| ()).map_err(ProxyError::Pool)
}
