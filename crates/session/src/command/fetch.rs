//! COM_STMT_FETCH: more rows of an open cursor, from the connection that has it.

use delphinus_state::{Response, Shape};
use delphinus_wire::command::ClientStmtId;
use delphinus_wire::response::Status;

use crate::client_error::ProxyError;
use crate::run::AboutOwn;
use crate::statements::ClientStatement;

pub(super) const FETCH: AboutOwn = AboutOwn { shape: Shape::Rows, unknown, gone, done };

fn unknown(id: ClientStmtId) -> ProxyError {
    ProxyError::UnknownStatement(id.0, "mysqld_stmt_fetch")
}

fn gone(id: ClientStmtId) -> ProxyError {
    ProxyError::NoOpenCursor(id.0)
}

fn done(statement: &mut ClientStatement, response: &Response) {
    let is_at_end = response.status.is_none_or(|status| status.contains(Status::LAST_ROW_SENT));
    if is_at_end {
        statement.has_cursor.set(false);
    }
}
