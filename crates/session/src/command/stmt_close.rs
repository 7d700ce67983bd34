//! COM_STMT_CLOSE: no answer. Backend connections keep the statement for others.

use delphinus_wire::command::ClientStmtId;

use crate::hold::Held;
use crate::rescue::take_bound;
use crate::served::Served;
use crate::state::Wanted;
use crate::statements::ClientStatements;

/// Closes a statement.
pub(super) async fn close(
    id: ClientStmtId,
    statements: &mut ClientStatements,
    held: &mut Held,
    state: &mut Wanted,
) -> Served {
    // What is counted of it ends here.
    let closed = statements.remove(id);
    let Some((own, text)) = closed.and_then(|closed| Some((closed.own?, closed.key.text().clone()))) else {
        return Served::Answered;
    };
    match take_bound(held, state) {
        // It has an open cursor or pieces of a parameter, which nobody else may find.
        Ok(Some(mut checkout)) => {
            if checkout.close_statement(own.statement.id).await.is_err() {
                return Served::End;
            }
            statements.pin(&text, state);
            held.keep_or_give_back(checkout, state);
            Served::Answered
        }
        Ok(None) => Served::Answered,
        // What the session was pinned for is lost; there is no answer that could say so.
        Err(_) => Served::End,
    }
}
