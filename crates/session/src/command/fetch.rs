//! COM_STMT_FETCH: more rows of an open cursor, from the connection that has it.

use delphinus_state::Shape;
use delphinus_wire::command::ClientStmtId;
use delphinus_wire::response::Status;

use crate::client_error::ProxyError;
use crate::io::Input;
use crate::io::{Cut, Relayed};
use crate::rescue::take_bound;
use crate::served::{Outcome, Served};
use crate::session::Session;

impl Session {
    pub(crate) async fn fetch(&mut self, input: Input, id: ClientStmtId) -> Outcome {
        let Some(found) = self.statements.find(id) else {
            return self.refuse(input, ProxyError::UnknownStatement(id.0, "mysqld_stmt_fetch")).await;
        };
        let Some(own) = found.own.as_ref().map(|own| own.statement.id) else {
            return self.refuse(input, ProxyError::NoOpenCursor(id.0)).await;
        };
        let mut checkout = match take_bound(&mut self.held, &mut self.state) {
            Ok(Some(checkout)) => checkout,
            Ok(None) => return self.refuse(input, ProxyError::NoOpenCursor(id.0)).await,
            Err(error) => return self.refuse(input, error).await,
        };
        self.client.write_stmt_id(own);
        let Relayed { response, rest, len, .. } = match self.forward(&mut checkout, input, Shape::Rows).await
        {
            Ok(relayed) => relayed,
            Err(Cut::Client(error)) => return Err(error),
            Err(Cut::Backend { error, .. }) => {
                // The cursor is gone, whatever else there was.
                return Ok(self.stakes().after_loss(&error));
            }
        };
        let at_end = response.status.is_none_or(|status| status.contains(Status::LAST_ROW_SENT));
        if at_end && let Some(found) = self.statements.find(id) {
            found.has_cursor.set(false);
        }
        if let Some(status) = response.status {
            self.state.status = status.of_session();
        }
        self.update_statement_pins(&mut checkout, id).await;
        self.held.keep_or_give_back(checkout, &mut self.state);
        let rest = self.client.write(rest, len).await?;
        self.worker.buffers.give(rest);
        Ok(Served::Answered)
    }
}
