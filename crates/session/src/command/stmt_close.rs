//! COM_STMT_CLOSE: no answer. Backend connections keep the statement for others.

use delphinus_wire::command::ClientStmtId;

use crate::io::Input;
use crate::rescue::take_bound;
use crate::served::{Outcome, Served};
use crate::session::Session;

impl Session {
    pub(crate) async fn stmt_close(&mut self, input: Input, id: ClientStmtId) -> Outcome {
        self.client.skip(input).await?;
        // What is counted of it ends here.
        let closed = self.statements.remove(id);
        let Some((own, text)) = closed.and_then(|closed| Some((closed.own?, closed.key.text().clone())))
        else {
            return Ok(Served::Answered);
        };
        match take_bound(&mut self.held, &mut self.state) {
            // It has an open cursor or pieces of a parameter, which nobody else may find.
            Ok(Some(mut checkout)) => {
                if checkout.close_statement(own.statement.id).await.is_err() {
                    return Ok(Served::End);
                }
                self.pin_for_statements(&text);
                self.held.keep_or_give_back(checkout, &mut self.state);
                Ok(Served::Answered)
            }
            Ok(None) => Ok(Served::Answered),
            // What the session was pinned for is lost; there is no answer that could say so.
            Err(_) => Ok(Served::End),
        }
    }
}
