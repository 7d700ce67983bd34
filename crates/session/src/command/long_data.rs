//! COM_STMT_SEND_LONG_DATA: a piece of a parameter, sent ahead and without an answer. It goes straight to the
//! connection that will run the statement, to which the session is pinned until then.

use std::rc::Rc;

use delphinus_net::NetError;
use delphinus_pool::{Checkout, StatementKey};
use delphinus_wire::command::ClientStmtId;
use delphinus_wire::{Command, HEADER_LEN};

use crate::client_error::ProxyError;
use crate::io::{Client, Input};
use crate::served::Served;
use crate::session::Session;
use crate::statements::{ClientStatements, Own};
use crate::watch::Watch;

/// There is no answer to a piece that is missing: the error is that of the statement, when it runs without it.
pub(super) fn miss_piece(statements: &mut ClientStatements, id: ClientStmtId, error: ProxyError) {
    if let Some(found) = statements.find(id) {
        found.late_error = Some(Box::new(error));
    }
}

/// The command is a piece that there is no room for. To answer it would be an answer too many.
pub(crate) async fn refuse_piece(
    session: &mut Session,
    input: Input,
    error: ProxyError,
) -> Result<(), NetError> {
    let payload = session.client.buffer.data().get(HEADER_LEN..input.held).unwrap_or_default();
    if let Ok(Command::StmtSendLongData(id)) = Command::parse(payload) {
        let id = session.statements.meant_by(id, session.state.flavor());
        miss_piece(&mut session.statements, id, error);
    }
    session.client.skip(input).await
}

/// An execution was answered so. What was sent ahead for it is gone, as on a server.
pub(crate) async fn end_execution(session: &mut Session, served: Served) -> Served {
    if let Some(id) = session.costs.prepared() {
        drop_pieces(session, id).await;
    }
    served
}

/// Drops the pieces of a parameter that were sent ahead, as servers do behind each execution, also behind one that fails: the
/// client does not expect them in the next one.
pub(crate) async fn drop_pieces(session: &mut Session, id: ClientStmtId) {
    let Some(found) = session.statements.find(id) else { return };
    found.late_error = None;
    if !found.has_long_data.is_set() {
        return;
    }
    found.has_long_data.set(false);
    found.has_cursor.set(false);
    let is_large = found.is_large();
    let own = if is_large { found.own.clone() } else { found.own.take() };
    let text = found.key.text().clone();
    session.statements.pin(&text, &mut session.state);
    let Some(mut checkout) = session.held.bound.take() else { return };
    if let Some(Own { statement, .. }) = own {
        // A large one is all that there is of its text. An error shows when the connection is used next.
        let _ = if is_large {
            checkout.reset_statement(statement.id).await
        } else {
            checkout.close_statement(statement.id).await
        };
    }
    session.held.keep_or_give_back(checkout, &mut session.state);
}

/// Prepares a statement for pieces. One that has run with numbers would take them for the digits of one, on MariaDB 10.11, whoever
/// ran it: then it is prepared anew.
pub(super) async fn prepare(
    key: &Rc<StatementKey>,
    checkout: &mut Checkout,
    client: &Client,
    watch: &mut Watch<'_>,
) -> Result<Own, ProxyError> {
    let statements = &mut checkout.connection().statements;
    let has_values = statements.find(key).is_some_and(|statement| statement.has_run_with_values);
    if has_values && let Some(old) = statements.take(key) {
        checkout.close_statement(old.id).await?;
    }
    watch.ensure_prepared(client, checkout, key).await?;
    // From here on nobody else may use it.
    let own = checkout.connection().statements.take(key).expect("invariant: it was just prepared");
    Ok(Own { key: key.clone(), statement: own })
}
