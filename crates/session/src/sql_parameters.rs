//! The types that `MySQL` keeps for the parameters of a statement prepared in SQL text: where the statement is prepared again and runs
//! with something else than what gave it its types, it is given them first.
//!
//! Owns: how. Which statements that can be done with is in `delphinus_state::ParameterTypes`.

use delphinus_net::NetError;
use delphinus_pool::{Checkout, Doing, PoolError};
use delphinus_sql::{Class, Statement, execute_using, sql_prepared};
use delphinus_state::{Executed, Given, ParameterTypes, PinReason, quote_identifier};
use delphinus_wire::response::Status;

use crate::client_error::ProxyError;
use crate::read_only::ROLLBACK;
use crate::session::Session;

/// What a run for the types alone, in which somebody else would see something, has to stay away from: it would use up what SET
/// TRANSACTION has set; variables like `sql_auto_is_null` and `gtid_next` are used up, too; the client is told of each change.
const HINDRANCES: [PinReason; 3] =
    [PinReason::NextTransaction, PinReason::FixedVariable, PinReason::Tracking];

/// Variables of the proxy's own; they are NULL but for a moment.
const ZERO: &str = "@`delphinus zero`";
const LIMIT: &str = "@`delphinus limit`";

impl Session {
    /// The statement that an EXECUTE runs, and what it gives it, where the server keeps types. Boxed, because it is kept while
    /// others are waited for.
    pub(crate) fn given(&mut self, statement: &Statement, sql: &[u8]) -> Option<Box<(String, Given)>> {
        if statement.class != Class::Execute || self.sql.is_empty() {
            return None;
        }
        let lex = self.lex.options(&self.want.vars);
        let Some(found) = execute_using(sql, lex) else {
            let name = sql_prepared(sql, lex).run.into_iter().next()?;
            return self.sql.keeps_types(&name).then(|| Box::new((name, Given::Other)));
        };
        if !self.sql.keeps_types(&found.name) {
            return None;
        }
        if found.variables.len() != self.sql.typed_parameters(&found.name) {
            return Some(Box::new((found.name, Given::WrongNumber)));
        }
        let values = found.variables.iter().map(|name| self.want.user_vars.get(name.as_str()));
        Some(Box::new((found.name, Given::of(values))))
    }

    /// Takes in what an EXECUTE has given the parameters of its statement.
    pub(crate) fn learn_types(
        &mut self,
        checkout: &mut Checkout,
        (name, given): (&str, Given),
        executed: &Executed<'_>,
    ) {
        let there = &mut checkout.connection().sql;
        self.sql.ran((name, given), executed.response.is_ok(), &self.want, there);
    }

    /// Makes the parameters of a statement on the connection have the types that they have in the session. Where that cannot be
    /// done, the connection is left without the statement.
    pub(crate) async fn bring_types(
        &mut self,
        checkout: &mut Checkout,
        name: &str,
    ) -> Result<(), ProxyError> {
        let types = self.sql.types(name);
        let ParameterTypes::Integers(count) = types else { return Ok(()) };
        if checkout.connection().sql.types(name) == types {
            return Ok(());
        }
        let hindrance = HINDRANCES.into_iter().find(|reason| self.pins.has(*reason));
        let brought = match hindrance {
            None => self.run_with_zeros(checkout, name, count).await,
            Some(reason) => Err(ProxyError::CannotGiveTypes(name.to_owned(), reason.as_str())),
        };
        match brought {
            Ok(()) => checkout.connection().sql.set_types(name, types),
            Err(ProxyError::Pool(PoolError::Lost { .. }) | ProxyError::ClientGone) => {}
            Err(_) => {
                let drop = format!("DEALLOCATE PREPARE {}", quote_identifier(name));
                self.on_the_way(checkout, &drop).await?;
                checkout.connection().sql.remove(name);
            }
        }
        brought
    }

    /// Runs a plain read so that it looks at no row.
    async fn run_with_zeros(
        &mut self,
        checkout: &mut Checkout,
        name: &str,
        count: usize,
    ) -> Result<(), ProxyError> {
        let before =
            format!("SET {LIMIT} = @@SESSION.sql_select_limit, {ZERO} = 0, SESSION sql_select_limit = 0");
        let after = format!("SET SESSION sql_select_limit = {LIMIT}, {LIMIT} = NULL, {ZERO} = NULL");
        self.on_the_way(checkout, &before).await?;
        let execute = format!("EXECUTE {} USING {}", quote_identifier(name), vec![ZERO; count].join(", "));
        let run = async |checkout: &mut Checkout| checkout.query(&execute).await.map(|_| ());
        let ran = self.watched(checkout, run).await;
        if matches!(ran, Err(ProxyError::Pool(PoolError::Lost { .. }) | ProxyError::ClientGone)) {
            return ran;
        }
        self.on_the_way(checkout, &after).await?;
        if !self.status.contains(Status::AUTOCOMMIT) && !self.pins.has(PinReason::Transaction) {
            // It may have begun a transaction of which the session would know nothing.
            self.on_the_way(checkout, ROLLBACK).await?;
        }
        self.attended(checkout, async |checkout: &mut Checkout| checkout.forget_warnings().await).await?;
        ran
    }

    /// A connection that is left on the way, with what was set there, is lost. So the time limit is not for this: it is short,
    /// unless its backend hangs, where no limit ends anything.
    async fn on_the_way(&mut self, checkout: &mut Checkout, sql: &str) -> Result<(), ProxyError> {
        let run = async |checkout: &mut Checkout| checkout.query(sql).await.map(|_| ());
        let done = self.attended(checkout, run).await;
        done.map_err(|error| match error {
            ProxyError::Pool(PoolError::Refused { backend, .. }) => {
                // Nobody may have it as it is.
                checkout.note(Doing::Running);
                ProxyError::Pool(PoolError::Lost { backend, error: NetError::Closed })
            }
            other => other,
        })
    }
}
