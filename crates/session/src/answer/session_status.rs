//! SHOW SESSION STATUS: the counters of a session. Servers count for a connection, which is shared.
//!
//! A session that asks for counters keeps its connection from then on (pin `session_status`), and sees what the server counts
//! there. What the server says of TLS is about the connection between proxy and backend: the proxy answers for the client's own.

use delphinus_net::Stream;
use delphinus_sql::{Class, SqlText, Statement, Uses, shows_counters_of_session, status_named};
use delphinus_wire::response::TextResult;

use super::{Answer, List, TextShape};

/// True for a statement after which its session keeps the connection whose counters it has seen, or has set to 0.
pub(crate) fn shows_counters(statement: &Statement, text: &SqlText<'_>) -> bool {
    statement.uses.contains(Uses::SESSION_STATUS)
        && (statement.class != Class::Show || shows_counters_of_session(text.sql, text.lex))
}

/// What SHOW STATUS says of the client's own TLS; `None` if the statement asks for something else.
pub(crate) fn about_tls(text: &SqlText<'_>, stream: &Stream, shape: TextShape) -> Option<Answer> {
    let asked = status_named(text.sql, text.lex)?;
    let name = ["Ssl_version", "Ssl_cipher"].into_iter().find(|name| name.eq_ignore_ascii_case(&asked))?;
    let value = match name {
        "Ssl_version" => stream.tls_version().unwrap_or_default().to_owned(),
        _ => stream.tls_cipher().unwrap_or_default(),
    };
    let columns = vec![shape.column(b"Variable_name", 64), shape.column(b"Value", 2048)];
    let rows = vec![vec![Some(name.into()), Some(value.into_bytes())]];
    // To both servers, a table stands behind it.
    Some(Answer { found_rows: Some(1), list: List::Emptied, ..Answer::rows(TextResult { columns, rows }) })
}
