//! What an OK packet says about changes of the session.
//! Sources: <https://dev.mysql.com/doc/dev/mysql-server/latest/page_protocol_basic_ok_packet.html>,
//! <https://mariadb.com/docs/server/reference/clientserver-protocol/4-server-response-packets/ok_packet>

use crate::cursor::{Malformed, Reader};

/// The list of changes of one OK packet, as bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SessionChanges<'a> {
    bytes: &'a [u8],
}

/// One change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SessionChange<'a> {
    /// A system variable has a new value.
    SystemVariable {
        /// Name, in lower case.
        name: &'a [u8],
        /// Value as text.
        value: &'a [u8],
    },
    /// The current schema; empty when there is none any more.
    Schema(&'a [u8]),
    /// Something about the session changed (`session_track_state_change`).
    State,
    /// GTIDs of this session's transactions, as text.
    Gtids(&'a [u8]),
    /// The statements that would start a transaction like the present one.
    TransactionCharacteristics(&'a [u8]),
    /// One letter for each property of the transaction.
    TransactionState(&'a [u8]),
    /// A kind this proxy does not know.
    Other(u8),
}

impl<'a> SessionChanges<'a> {
    /// Wraps the bytes without reading them.
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { bytes }
    }

    /// The bytes, as they stand in the packet.
    pub fn bytes(self) -> &'a [u8] {
        self.bytes
    }

    /// True if there is nothing in it but the number that MySQL 9 gives to each statement, which no client asks for.
    #[inline]
    pub fn is_statement_id(self) -> bool {
        // Kind, length, and a name with its length; one entry of MySQL holds one variable.
        self.bytes.first() == Some(&0)
            && self.bytes.get(1).is_some_and(|len| usize::from(*len) + 2 == self.bytes.len())
            && self.bytes.get(2..15) == Some(b"\x0cstatement_id")
    }

    /// Reads the changes one by one; ends after the first that is malformed.
    pub fn iter(self) -> impl Iterator<Item = Result<SessionChange<'a>, Malformed>> {
        let mut entries = Entries { reader: Reader::new(self.bytes), kind: None };
        std::iter::from_fn(move || entries.next().transpose())
    }
}

/// One entry may hold several variables (MariaDB): `kind` is its open rest.
struct Entries<'a> {
    reader: Reader<'a>,
    kind: Option<Reader<'a>>,
}

impl<'a> Entries<'a> {
    fn next(&mut self) -> Result<Option<SessionChange<'a>>, Malformed> {
        let result = self.advance();
        if result.is_err() {
            *self = Self { reader: Reader::new(&[]), kind: None };
        }
        result
    }

    fn advance(&mut self) -> Result<Option<SessionChange<'a>>, Malformed> {
        if let Some(variables) = &mut self.kind {
            if !variables.is_empty() {
                return variable(variables).map(Some);
            }
            self.kind = None;
        }
        if self.reader.is_empty() {
            return Ok(None);
        }
        let kind = self.reader.u8()?;
        let mut data = Reader::new(self.reader.lenenc_bytes()?);
        Ok(Some(match kind {
            0 => {
                let change = variable(&mut data)?;
                self.kind = Some(data);
                change
            }
            1 => SessionChange::Schema(data.lenenc_bytes()?),
            2 => SessionChange::State,
            3 => {
                let _encoding = data.u8()?;
                SessionChange::Gtids(data.lenenc_bytes()?)
            }
            4 => SessionChange::TransactionCharacteristics(data.lenenc_bytes()?),
            5 => SessionChange::TransactionState(data.lenenc_bytes()?),
            other => SessionChange::Other(other),
        }))
    }
}

fn variable<'a>(data: &mut Reader<'a>) -> Result<SessionChange<'a>, Malformed> {
    Ok(SessionChange::SystemVariable { name: data.lenenc_bytes()?, value: data.lenenc_bytes()? })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(bytes: &[u8]) -> Vec<Result<SessionChange<'_>, Malformed>> {
        SessionChanges::new(bytes).iter().collect()
    }

    #[test]
    fn several_variables_in_one_entry_are_all_seen() {
        let bytes = b"\x00\x08\x01a\x01b\x01c\x01d\x01\x04\x03app\x02\x02\x011";
        let variable = |name, value| Ok(SessionChange::SystemVariable { name, value });
        assert_eq!(
            read(bytes),
            [
                variable(&b"a"[..], &b"b"[..]),
                variable(b"c", b"d"),
                Ok(SessionChange::Schema(b"app")),
                Ok(SessionChange::State)
            ]
        );
    }

    #[test]
    fn gtids_come_without_their_encoding_byte() {
        assert_eq!(read(b"\x03\x05\x00\x030-1"), [Ok(SessionChange::Gtids(b"0-1"))]);
    }

    #[test]
    fn a_malformed_entry_is_an_error_and_the_end() {
        assert_eq!(read(b"\x01\x09\x03app").len(), 1);
        assert!(read(b"\x01\x09\x03app")[0].is_err());
    }
}
