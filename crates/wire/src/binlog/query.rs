//! QUERY: its database and its text.
//! Source: <https://dev.mysql.com/doc/dev/mysql-server/latest/classmysql_1_1binlog_1_1event_1_1Query__event.html>

use super::Kind;
use crate::{Malformed, Reader};

/// What QUERY, and LOAD DATA as a statement, say.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Query<'a> {
    /// The current database; may be empty.
    pub schema: &'a [u8],
    /// The statement. Compressed, with MariaDB's head of 2 to 5 bytes, in QUERY_COMPRESSED. Cut where the body was.
    pub text: &'a [u8],
}

impl<'a> Query<'a> {
    /// Reads the body of QUERY, QUERY_COMPRESSED or EXECUTE_LOAD_QUERY. A body that is cut within the text is read as well.
    pub fn parse(kind: Kind, body: &'a [u8]) -> Result<Self, Malformed> {
        let mut reader = Reader::new(body);
        // Thread, seconds.
        reader.bytes(8)?;
        let schema_len = usize::from(reader.u8()?);
        // Error number.
        reader.u16()?;
        let status_len = usize::from(reader.u16()?);
        if kind == Kind::EXECUTE_LOAD_QUERY {
            // File, first and last byte of the file's name in the text, what to do with duplicates.
            reader.bytes(4 + 4 + 4 + 1)?;
        }
        reader.bytes(status_len)?;
        let schema = reader.bytes(schema_len)?;
        reader.u8()?;
        Ok(Self { schema, text: reader.rest() })
    }

    /// True if the text is this, in any case. It must not be longer.
    pub fn is(&self, text: &str) -> bool {
        self.text.eq_ignore_ascii_case(text.as_bytes())
    }

    /// True if the text begins with this, in any case.
    pub fn begins_with(&self, text: &str) -> bool {
        self.text.get(..text.len()).is_some_and(|head| head.eq_ignore_ascii_case(text.as_bytes()))
    }
}
