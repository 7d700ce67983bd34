//! The EOF packet of connections without DEPRECATE_EOF.

use super::Status;
use crate::cursor::{Malformed, Put, Reader};

/// Ends the column definitions, and the rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct EofPacket {
    /// Warnings of the statement.
    pub warnings: u16,
    /// Status flags.
    pub status: Status,
}

impl EofPacket {
    /// Reads a payload that starts with 0xFE and is shorter than 9 bytes.
    pub fn parse(payload: &[u8]) -> Result<Self, Malformed> {
        let mut reader = Reader::new(payload);
        if reader.u8()? != super::EOF {
            return Err(Malformed("not an EOF packet"));
        }
        Ok(Self { warnings: reader.u16()?, status: Status(reader.u16()?) })
    }

    /// Appends the payload.
    pub fn put(&self, out: &mut Vec<u8>) {
        out.put_u8(super::EOF);
        out.put_u16(self.warnings);
        out.put_u16(self.status.0);
    }
}
