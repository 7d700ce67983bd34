//! The first packet of the answer to COM_STMT_PREPARE.

use crate::command::BackendStmtId;
use crate::cursor::{Malformed, Reader};

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
    /// Reads a payload that starts with 0x00.
    pub fn parse(payload: &[u8]) -> Result<Self, Malformed> {
        let mut reader = Reader::new(payload);
        if reader.u8()? != super::OK {
            return Err(Malformed("not an answer to COM_STMT_PREPARE"));
        }
        let id = BackendStmtId(reader.u32()?);
        let columns = reader.u16()?;
        let params = reader.u16()?;
        let _filler = reader.u8()?;
        Ok(Self { id, columns, params, warnings: reader.u16().unwrap_or(0) })
    }
}
