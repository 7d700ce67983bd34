//! What the proxy itself runs on a connection before a statement runs there: the session's statements, prepared as such or in SQL
//! text, are made to be there.

use std::rc::Rc;

use delphinus_pool::{Checkout, Means, PoolError, StatementKey};
use delphinus_sql::{SqlText, Statement};
use delphinus_telemetry::Wait;
use delphinus_wire::command::BackendStmtId;

use crate::client_error::ProxyError;
use crate::follow::Bringing;
use crate::hold::prepare_in;
use crate::io::Client;
use crate::spent::Timed;
use crate::watch::Watch;

impl Watch<'_> {
    /// Makes the connection have what `statement` may touch of what is prepared in SQL text, as the session has it.
    pub(crate) async fn bring_sql(
        &mut self,
        client: &Client,
        checkout: &mut Checkout,
        statement: &Statement,
        text: &SqlText<'_>,
    ) -> Result<(), ProxyError> {
        let bringing = self.state.to_bring(checkout, statement, text);
        self.bring(client, checkout, bringing).await?;
        self.steering.in_time(self.state.flavor())
    }

    /// Runs what the proxy has to run itself before the connection has all that.
    pub(crate) async fn bring(
        &mut self,
        client: &Client,
        checkout: &mut Checkout,
        mut bringing: Bringing,
    ) -> Result<(), ProxyError> {
        let _timed = Timed::by(Wait::State, &self.held.spent);
        while let Some(step) = bringing.next(self.state, checkout)? {
            // The client is told nothing of its warnings.
            let run = async |checkout: &mut Checkout| {
                let result = checkout.query(&step.sql).await;
                if !matches!(result, Err(PoolError::Lost { .. })) {
                    checkout.forget_warnings().await?;
                }
                result.map(|_| ())
            };
            let result = self.run_own(client, checkout, run).await;
            bringing.has_run(step, result, checkout)?;
        }
        Ok(())
    }

    /// The statement's id on this connection, where it is prepared if it was not yet: in the schema and with the
    /// variables that the client had when it prepared it.
    pub(crate) async fn ensure_prepared(
        &mut self,
        client: &Client,
        checkout: &mut Checkout,
        key: &Rc<StatementKey>,
    ) -> Result<BackendStmtId, ProxyError> {
        if let Some(found) = checkout.connection().statements.find(key) {
            return Ok(found.id);
        }
        // Boxed: it happens once for each connection, and its room would be every idle session's.
        Box::pin(self.prepare_again(client, checkout, key)).await
    }

    async fn prepare_again(
        &mut self,
        client: &Client,
        checkout: &mut Checkout,
        key: &Rc<StatementKey>,
    ) -> Result<BackendStmtId, ProxyError> {
        let _timed = Timed::by(Wait::Prepare, &self.held.spent);
        let (want, memory) = (self.state.want.clone(), self.held.memory.clone());
        let means = if self.state.pins.is_empty() { Means::All } else { Means::Settings };
        let prepare = async |checkout: &mut Checkout| {
            self.run_own(client, checkout, async |checkout: &mut Checkout| checkout.prepare(key.text()).await)
                .await
        };
        let id = prepare_in(checkout, key, (&want, &memory), means, prepare).await?;
        self.steering.in_time(self.state.flavor())?;
        Ok(id)
    }
}
