//! COM_STMT_SEND_LONG_DATA: a piece of a parameter, sent ahead and without an answer. It goes straight to the
//! connection that will run the statement, to which the session is pinned until then.

use delphinus_wire::command::ClientStmtId;

use crate::client_error::ProxyError;
use crate::forward::Cut;
use crate::input::Input;
use crate::serve::{Outcome, Served};
use crate::session::Session;

impl Session {
    pub(crate) async fn long_data(&mut self, input: Input, id: ClientStmtId) -> Outcome {
        // There is no answer: what goes wrong is told when the statement runs.
        let Some(found) = self.statements.find(id) else {
            self.skip(input).await?;
            self.late_error = Some(ProxyError::UnknownStatement(id.0, "mysqld_stmt_send_long_data"));
            return Ok(Served::Answered);
        };
        let (statement, key, pinned_id) = (found.statement, found.key.clone(), found.pinned_id);
        let mut checkout = match self.connection_for(&statement).await {
            Ok(checkout) => checkout,
            Err(error) => {
                self.skip(input).await?;
                self.late_error = Some(error);
                return Ok(Served::Answered);
            }
        };
        let backend_id = match pinned_id {
            Some(backend_id) => backend_id,
            None => match self.ensure_prepared(&mut checkout, &key).await {
                Ok(backend_id) => backend_id,
                Err(error) => {
                    self.keep_or_give_back(checkout);
                    self.skip(input).await?;
                    self.late_error = Some(ProxyError::Pool(error));
                    return Ok(Served::Answered);
                }
            },
        };
        self.write_stmt_id(backend_id);
        match self.send(&mut checkout, input).await {
            Ok(()) => {}
            Err(Cut::Client(error)) => return Err(error),
            Err(Cut::Backend { .. }) => return Ok(Served::End),
        }
        self.drop_kept();
        if let Some(found) = self.statements.find(id) {
            found.has_long_data = true;
            found.pinned_id = Some(backend_id);
        }
        self.update_statement_pins(&key.text);
        self.keep_or_give_back(checkout);
        Ok(Served::Answered)
    }
}
