//! The first packet of the answer to COM_STMT_PREPARE.

use crate::command::BackendStmtId;
use crate::cursor::{Malformed, Reader};

/// The length of an OK packet that says no more than OK.
const PLAIN_OK: usize = 7;

/// How many definitions follow, and the statement's id.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PrepareOk {
    /// The id that the server gave.
    pub id: BackendStmtId,
    /// Column definitions that follow the parameters'.
    pub columns: u16,
    /// Parameter definitions that follow.
    pub params: u16,
    /// Warnings of the preparation.
    pub warnings: u16,
}

impl PrepareOk {
    /// Reads a payload that starts with 0x00. `None` for an ordinary OK in its place: nothing was prepared. MySQL sends one
    /// where an account prepares SET GLOBAL without the right (9.7, see docs/protocol-notes.md).
    ///
    /// # Errors
    ///
    /// [`Malformed`] for anything else.
    pub fn parse(payload: &[u8]) -> Result<Option<Self>, Malformed> {
        if payload.len() == PLAIN_OK {
            return Ok(None);
        }
        let mut reader = Reader::new(payload);
        if reader.u8()? != super::OK {
            return Err(Malformed("not an answer to COM_STMT_PREPARE"));
        }
        let id = BackendStmtId(reader.u32()?);
        let columns = reader.u16()?;
        let params = reader.u16()?;
        let _filler = reader.u8()?;
        Ok(Some(Self { id, columns, params, warnings: reader.u16().unwrap_or(0) }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_ordinary_ok_has_prepared_nothing() {
        // Captured: MySQL 9.7.4, COM_STMT_PREPARE of `SET GLOBAL max_connections = 10` without the right.
        assert_eq!(PrepareOk::parse(&[0; 7]), Ok(None));
        let captured = b"\x00\x08\x00\x00\x00\x01\x00\x00\x00\x00\x00\x00";
        let ok = PrepareOk { id: BackendStmtId(8), columns: 1, params: 0, warnings: 0 };
        assert_eq!(PrepareOk::parse(captured), Ok(Some(ok)));
        assert!(PrepareOk::parse(&captured[..8]).is_err());
    }
}
