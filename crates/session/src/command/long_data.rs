//! COM_STMT_SEND_LONG_DATA: a piece of a parameter, sent ahead and without an answer. It goes straight to the
//! connection that will run the statement, to which the session is pinned until then.

use std::rc::Rc;

use delphinus_net::NetError;
use delphinus_pool::{Checkout, StatementKey};
use delphinus_sql::Statement;
use delphinus_wire::command::ClientStmtId;

use super::execute::pinning;
use crate::client_error::ProxyError;
use crate::io::Cut;
use crate::io::Input;
use crate::served::{Outcome, Served};
use crate::session::Session;
use crate::statements::Own;

impl Session {
    pub(crate) async fn long_data(&mut self, input: Input, id: ClientStmtId) -> Outcome {
        let Some(found) = self.statements.find(id).filter(|found| found.late_error.is_none()) else {
            // Servers say nothing of one that they do not know; an earlier piece is missing to the other one.
            self.client.skip(input).await?;
            return Ok(Served::Answered);
        };
        let (statement, key, own) = (found.statement, found.key.clone(), found.own.clone());
        if let Some(why) = self.held.why_unbound(&self.state) {
            // What is lost with it is told by whatever comes next: here is no answer that could say so.
            self.held.bound = None;
            return self.miss_piece(input, id, ProxyError::LostHarmless(why.to_owned())).await;
        }
        let mut checkout = match self.choose(&pinning(statement), &mut self.tries()).await {
            Ok(checkout) => checkout,
            Err(error) => return self.miss_piece(input, id, error).await,
        };
        let prepared = match own {
            Some(own) => Ok(own),
            None => self.prepare_in_time(&mut checkout, &key, &statement).await,
        };
        let own = match prepared {
            Ok(own) => own,
            Err(error) => {
                self.held.leave_without(checkout, &error, &mut self.state);
                return self.miss_piece(input, id, error).await;
            }
        };
        self.client.write_stmt_id(own.statement.id);
        match self.client.send(&mut checkout, input).await {
            Ok(()) => {}
            Err(Cut::Client(error)) => return Err(error),
            Err(Cut::Backend { .. }) => return Ok(Served::End),
        }
        self.client.drop_kept();
        if let Some(found) = self.statements.find(id) {
            found.has_long_data.set(true);
            found.own = Some(own);
        }
        self.statements.pin(key.text(), &mut self.state);
        self.held.keep_or_give_back(checkout, &mut self.state);
        Ok(Served::Answered)
    }

    /// There is no answer to the piece: the error is that of the statement, when it runs without it.
    async fn miss_piece(&mut self, input: Input, id: ClientStmtId, error: ProxyError) -> Outcome {
        if matches!(error, ProxyError::ClientGone) {
            return Err(NetError::Closed);
        }
        self.client.skip(input).await?;
        if let Some(found) = self.statements.find(id) {
            found.late_error = Some(Box::new(error));
        }
        Ok(Served::Answered)
    }

    /// When it runs, the statement has its time anew: nobody knows how long its client takes until then.
    async fn prepare_in_time(
        &mut self,
        checkout: &mut Checkout,
        key: &Rc<StatementKey>,
        statement: &Statement,
    ) -> Result<Own, ProxyError> {
        self.steering.timeout = self.time_limit(key.text(), statement);
        let prepared = self.prepare_for_long_data(checkout, key).await;
        self.steering.timeout = None;
        prepared
    }

    /// A statement that has run with numbers would take the pieces for the digits of one, on MariaDB 10.11, whoever
    /// ran it: then it is prepared anew.
    async fn prepare_for_long_data(
        &mut self,
        checkout: &mut Checkout,
        key: &Rc<StatementKey>,
    ) -> Result<Own, ProxyError> {
        let statements = &mut checkout.connection().statements;
        let has_values = statements.find(key).is_some_and(|statement| statement.has_run_with_values);
        if has_values && let Some(old) = statements.take(key) {
            checkout.close_statement(old.id).await?;
        }
        let (client, mut watch) = self.watch();
        watch.ensure_prepared(client, checkout, key).await?;
        // From here on nobody else may use it.
        let own = checkout.connection().statements.take(key).expect("invariant: it was just prepared");
        Ok(Own { key: key.clone(), statement: own })
    }
}
