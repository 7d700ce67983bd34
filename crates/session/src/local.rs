//! Answers that the proxy gives by itself, and the values that it puts into a text in the place of functions
//! whose answer only the proxy knows.

use delphinus_sql::{LexOptions, SessionFunction, builtin_calls};
use delphinus_wire::response::{EofPacket, OkPacket, TextResult};
use delphinus_wire::{Capabilities, begin_packet, end_packet};

use crate::client_error::{ClientError, ProxyError};
use crate::session::Session;

impl Session {
    /// An OK packet.
    pub(crate) async fn answer_ok(&mut self) -> Result<(), delphinus_net::NetError> {
        let mut out = Vec::new();
        let ok = OkPacket { status: self.status, ..OkPacket::default() };
        let at = begin_packet(&mut out);
        ok.put(&mut out, 0, self.capabilities());
        end_packet(&mut out, at, 1);
        self.write_client_bytes(&out).await
    }

    /// What ends a COM_SET_OPTION: an EOF packet, or the OK packet that has taken its place.
    pub(crate) async fn answer_eof(&mut self) -> Result<(), delphinus_net::NetError> {
        let mut out = Vec::new();
        let at = begin_packet(&mut out);
        if self.capabilities().contains(Capabilities::DEPRECATE_EOF) {
            let ok = OkPacket { status: self.status, ..OkPacket::default() };
            ok.put(&mut out, delphinus_wire::response::EOF, self.capabilities());
        } else {
            EofPacket { warnings: 0, status: self.status }.put(&mut out);
        }
        end_packet(&mut out, at, 1);
        self.write_client_bytes(&out).await
    }

    /// A result set.
    pub(crate) async fn answer_rows(&mut self, result: &TextResult) -> Result<(), delphinus_net::NetError> {
        let mut out = Vec::new();
        result.put(&mut out, 1, self.status, self.capabilities());
        self.write_client_bytes(&out).await
    }

    /// An error, behind which the session goes on or ends.
    pub(crate) async fn answer_error(
        &mut self,
        error: &ProxyError,
        ends: bool,
    ) -> Result<(), delphinus_net::NetError> {
        // After part of a packet, only the end of the connection is an error.
        let Some(seq) = self.error_seq else { return Ok(()) };
        let mut out = Vec::new();
        let error = ClientError::from(error);
        let error = if ends { error.that_ends() } else { error.that_goes_on() };
        error.put(&mut out, seq, self.capabilities());
        self.write_client_bytes(&out).await
    }
}

/// What the proxy knows of its session, for `splice`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Known {
    pub connection_id: u32,
    /// FOUND_ROWS(), if it has to come from memory.
    pub found_rows: Option<u64>,
    /// ROW_COUNT(), likewise.
    pub row_count: Option<i64>,
}

/// The text with the functions that the proxy knows the answer of replaced by it; `None` if there are none. A
/// function that is a whole column keeps its name.
pub(crate) fn splice(sql: &[u8], options: LexOptions, known: Known) -> Option<Vec<u8>> {
    let mut out = Vec::with_capacity(sql.len() + 32);
    let mut copied = 0;
    for span in builtin_calls(sql, options) {
        let value = match span.function {
            SessionFunction::ConnectionId => Some(typed("CONNECTION_ID()", known.connection_id)),
            SessionFunction::FoundRows => known.found_rows.map(|rows| typed("FOUND_ROWS()", rows)),
            SessionFunction::RowCount => known.row_count.map(|rows| typed("ROW_COUNT()", rows)),
            SessionFunction::LastInsertId => None,
        };
        let Some(value) = value else { continue };
        out.extend_from_slice(&sql[copied..span.start]);
        out.extend_from_slice(value.as_bytes());
        if is_whole_column(&sql[..span.start], &sql[span.end..]) {
            let name = String::from_utf8_lossy(&sql[span.start..span.end]).replace('`', "``");
            out.extend_from_slice(format!(" AS `{name}`").as_bytes());
        }
        copied = span.end;
    }
    if copied == 0 {
        return None;
    }
    out.extend_from_slice(&sql[copied..]);
    Some(out)
}

/// The text with this client's id in the place of CONNECTION_ID(), as a bare number; `None` if it is not there.
pub(crate) fn with_own_id(sql: &[u8], options: LexOptions, id: u32) -> Option<Vec<u8>> {
    let span = builtin_calls(sql, options)
        .into_iter()
        .find(|span| span.function == SessionFunction::ConnectionId)?;
    Some([&sql[..span.start], id.to_string().as_bytes(), &sql[span.end..]].concat())
}

/// A value with the type that the function has, which a bare number would not have.
fn typed(function: &str, value: impl std::fmt::Display) -> String {
    format!("({function}*0+{value})")
}

/// True if what stands between is all of a column of the outermost SELECT list: without an alias of its own.
fn is_whole_column(before: &[u8], after: &[u8]) -> bool {
    let before = before.trim_ascii_end();
    let count = |wanted| before.split(|byte| *byte == wanted).count();
    let is_outermost = count(b'(') == count(b')') && !before.iter().any(|byte| matches!(byte, b'\'' | b'"'));
    let begins = before.last() == Some(&b',')
        || before.len() >= 6 && before[before.len() - 6..].eq_ignore_ascii_case(b"select");
    let after = after.trim_ascii_start();
    let ends = after.is_empty()
        || matches!(after[0], b',' | b';')
        || after.len() >= 4 && after[..4].eq_ignore_ascii_case(b"from");
    begins && ends && is_outermost
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spliced(sql: &str, counts: Option<(u64, i64)>) -> Option<String> {
        let (found_rows, row_count) = counts.unzip();
        let known = Known { connection_id: 42, found_rows, row_count };
        splice(sql.as_bytes(), LexOptions::default(), known)
            .map(|out| String::from_utf8_lossy(&out).into_owned())
    }

    #[test]
    fn functions_are_replaced_and_columns_keep_their_names() {
        assert_eq!(
            spliced("SELECT CONNECTION_ID()", None).as_deref(),
            Some("SELECT (CONNECTION_ID()*0+42) AS `CONNECTION_ID()`")
        );
        assert_eq!(
            spliced("SELECT connection_id() AS id", None).as_deref(),
            Some("SELECT (CONNECTION_ID()*0+42) AS id")
        );
        assert_eq!(
            spliced("SELECT 1, ROW_COUNT(), FOUND_ROWS() + 1", Some((7, -1))).as_deref(),
            Some("SELECT 1, (ROW_COUNT()*0+-1) AS `ROW_COUNT()`, (FOUND_ROWS()*0+7) + 1")
        );
        assert_eq!(
            spliced("SELECT FOUND_ROWS(), ROW_COUNT()", Some((7, -1))).as_deref(),
            Some("SELECT (FOUND_ROWS()*0+7) AS `FOUND_ROWS()`, (ROW_COUNT()*0+-1) AS `ROW_COUNT()`")
        );
        assert_eq!(
            spliced("SELECT * FROM t WHERE a IN (SELECT CONNECTION_ID())", None).as_deref(),
            Some("SELECT * FROM t WHERE a IN (SELECT (CONNECTION_ID()*0+42))")
        );
        assert_eq!(spliced("SELECT 'CONNECTION_ID()'", None), None);
        assert_eq!(spliced("SELECT ROW_COUNT()", None), None);
    }
}
