//! COM_STMT_RESET: closes the cursor and drops the long data of a statement.

use delphinus_state::{Response, Shape};
use delphinus_wire::command::ClientStmtId;

use crate::client_error::ProxyError;
use crate::run::AboutOwn;
use crate::statements::ClientStatement;

/// Where the statement has either, on the connection that has them.
pub(super) const RESET: AboutOwn = AboutOwn { shape: Shape::Single, unknown, gone: unknown, done };

fn unknown(id: ClientStmtId) -> ProxyError {
    ProxyError::UnknownStatement(id.0, "mysqld_stmt_reset")
}

fn done(statement: &mut ClientStatement, _: &Response) {
    statement.has_cursor.set(false);
    statement.has_long_data.set(false);
}
