//! COM_STMT_CLOSE: no answer. Backend connections keep the statement for others.

use delphinus_wire::command::ClientStmtId;

use crate::input::Input;
use crate::serve::{Outcome, Served};
use crate::session::Session;

impl Session {
    pub(crate) async fn stmt_close(&mut self, input: Input, id: ClientStmtId) -> Outcome {
        self.skip(input).await?;
        let Some(closed) = self.statements.remove(id) else { return Ok(Served::Answered) };
        let Some(backend_id) = closed.pinned_id else { return Ok(Served::Answered) };
        if let Ok(Some(mut checkout)) = self.take_bound() {
            // It has an open cursor or pieces of a parameter, which nobody else may find.
            let _ = checkout.connection().statements.forget(&closed.key);
            if checkout.close_statement(backend_id).await.is_err() {
                return Ok(Served::End);
            }
            self.update_statement_pins(closed.key.text());
            self.keep_or_give_back(checkout);
        }
        Ok(Served::Answered)
    }
}
