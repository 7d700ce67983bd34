//! MariaDB's COM_STMT_BULK_EXECUTE: an array of parameters. How it comes here, and ends, is as of COM_STMT_EXECUTE.

use std::rc::Rc;

use delphinus_pool::{Checkout, StatementKey};
use delphinus_sql::{SqlText, Statement, Uses};
use delphinus_wire::command::{BackendStmtId, ClientStmtId};

use crate::client_error::ProxyError;
use crate::follow::check_last_values;
use crate::io::Input;
use crate::run::Job;
use crate::session::Session;

/// An execution with an array of parameters on its way.
pub(super) struct Bulk {
    pub id: ClientStmtId,
    pub statement: Statement,
    pub key: Rc<StatementKey>,
    /// Its own statement on the connection that the session is held to.
    pub own: Option<BackendStmtId>,
}

impl Job for Bulk {
    fn statement(&self) -> &Statement {
        &self.statement
    }

    async fn ready(
        &mut self,
        session: &mut Session,
        checkout: &mut Checkout,
        input: Input,
    ) -> Result<Input, ProxyError> {
        if self.statement.uses.contains(Uses::LAST_VALUE) {
            let lex = session.state.lex.options_with(&self.key.state().vars);
            let text = &SqlText::new(self.key.text(), lex);
            check_last_values((&self.statement, text), self.key.state(), checkout.connection())?;
        }
        let backend_id = if let Some(backend_id) = self.own {
            backend_id
        } else {
            let (client, mut watch) = session.watch();
            watch.ensure_prepared(client, checkout, &self.key).await?
        };
        session.client.write_stmt_id(backend_id);
        let bound = match self.own {
            Some(_) => {
                session.statements.find(self.id).and_then(|found| Some(&mut found.own.as_mut()?.statement))
            }
            None => checkout.connection().statements.find(&self.key),
        };
        if let Some(statement) = bound {
            statement.bound_by = 0;
            statement.has_run_with_values = true;
        }
        Ok(input)
    }
}
