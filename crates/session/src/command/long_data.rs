//! COM_STMT_SEND_LONG_DATA: a piece of a parameter, sent ahead and without an answer. It goes straight to the
//! connection that will run the statement, to which the session is pinned until then.

use std::rc::Rc;

use delphinus_pool::{Checkout, StatementKey};
use delphinus_wire::command::ClientStmtId;

use crate::client_error::ProxyError;
use crate::io::Client;
use crate::statements::{ClientStatements, Own};
use crate::watch::Watch;

/// There is no answer to a piece that is missing: the error is that of the statement, when it runs without it.
pub(super) fn miss_piece(statements: &mut ClientStatements, id: ClientStmtId, error: ProxyError) {
    if let Some(found) = statements.find(id) {
        found.late_error = Some(Box::new(error));
    }
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
