//! TABLE_MAP: the table of the rows that follow.
//! Source: <https://dev.mysql.com/doc/dev/mysql-server/latest/classmysql_1_1binlog_1_1event_1_1Table__map__event.html>

use crate::{Malformed, Reader};

/// What TABLE_MAP says, as far as it is needed here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TableMap<'a> {
    /// The table's schema.
    pub schema: &'a [u8],
    /// Its name.
    pub table: &'a [u8],
}

impl<'a> TableMap<'a> {
    /// Reads the front of the body; what follows the names may be cut.
    pub fn parse(body: &'a [u8]) -> Result<Self, Malformed> {
        let mut reader = Reader::new(body);
        // The table's number, flags.
        reader.bytes(6 + 2)?;
        let mut name = || {
            let len = usize::from(reader.u8()?);
            let name = reader.bytes(len)?;
            reader.u8()?;
            Ok(name)
        };
        Ok(Self { schema: name()?, table: name()? })
    }
}
