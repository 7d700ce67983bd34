//! COM_STMT_RESET: closes the cursor and drops the long data of a statement.

use delphinus_state::Shape;
use delphinus_wire::command::ClientStmtId;

use crate::answer::give_ok;
use crate::client_error::ProxyError;
use crate::io::Input;
use crate::io::{Cut, Relayed};
use crate::rescue::take_bound;
use crate::served::{Outcome, Served};
use crate::session::Session;

impl Session {
    pub(crate) async fn stmt_reset(&mut self, input: Input, id: ClientStmtId) -> Outcome {
        let Some(found) = self.statements.find(id) else {
            return self.refuse(input, ProxyError::UnknownStatement(id.0, "mysqld_stmt_reset")).await;
        };
        found.late_error = None;
        let Some(own) = found.own.as_ref().map(|own| own.statement.id) else {
            self.client.skip(input).await?;
            self.worker.counters.routed_local.increment();
            give_ok(&mut self.client, self.state.status, &self.held.memory).await?;
            return Ok(Served::Answered);
        };
        let mut checkout = match take_bound(&mut self.held, &mut self.state) {
            Ok(Some(checkout)) => checkout,
            Ok(None) => {
                return self.refuse(input, ProxyError::UnknownStatement(id.0, "mysqld_stmt_reset")).await;
            }
            Err(error) => return self.refuse(input, error).await,
        };
        self.client.write_stmt_id(own);
        let Relayed { rest, len, .. } = match self.forward(&mut checkout, input, Shape::Single).await {
            Ok(relayed) => relayed,
            Err(Cut::Client(error)) => return Err(error),
            Err(Cut::Backend { error, .. }) => {
                return Ok(self.stakes().after_loss(&error));
            }
        };
        if let Some(found) = self.statements.find(id) {
            found.has_cursor.set(false);
            found.has_long_data.set(false);
        }
        self.update_statement_pins(&mut checkout, id).await;
        self.held.keep_or_give_back(checkout, &mut self.state);
        let rest = self.client.write(rest, len).await?;
        self.worker.buffers.give(rest);
        Ok(Served::Answered)
    }
}
