//! Column definitions: read where the proxy asks on its own account, written where it answers by itself.
//! Source: <https://dev.mysql.com/doc/dev/mysql-server/latest/page_protocol_com_query_response_text_resultset_column_definition.html>

use crate::capability::Capabilities;
use crate::cursor::{Malformed, Put, Reader};

/// What the proxy has to know of a column's type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ColumnKind {
    /// Whole numbers.
    Integer,
    /// DECIMAL.
    Decimal,
    /// FLOAT and DOUBLE.
    Real,
    /// Everything that is a string of bytes.
    Bytes,
    /// NULL without a type.
    Null,
}

/// A column definition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Column {
    /// Name or alias.
    pub name: Vec<u8>,
    /// Collation id.
    pub collation: u16,
    /// Display width.
    pub length: u32,
    /// Type code.
    pub kind: u8,
    /// Flags: 1 is NOT NULL, 32 is UNSIGNED.
    pub flags: u16,
    /// Decimals shown.
    pub decimals: u8,
}

const LONGLONG: u8 = 8;
const VAR_STRING: u8 = 253;

impl Column {
    /// A BIGINT column as functions such as ROW_COUNT() have it.
    pub fn integer(name: &[u8]) -> Self {
        Self { name: name.to_vec(), collation: 63, length: 21, kind: LONGLONG, flags: 0x81, decimals: 0 }
    }

    /// A string column of at most `chars` characters.
    pub fn text(name: &[u8], chars: u32, collation: u16) -> Self {
        Self { name: name.to_vec(), collation, length: chars * 4, kind: VAR_STRING, flags: 1, decimals: 31 }
    }

    /// Reads a definition; schema and table are passed over.
    pub fn parse(payload: &[u8]) -> Result<Self, Malformed> {
        let mut reader = Reader::new(payload);
        for _catalog_schema_table_org_table in 0..4 {
            reader.lenenc_bytes()?;
        }
        let name = reader.lenenc_bytes()?.to_vec();
        reader.lenenc_bytes()?;
        let fixed = reader.lenenc_bytes()?;
        // MariaDB's extended metadata stands before the fixed part, as one more string.
        let mut fixed = Reader::new(if reader.is_empty() { fixed } else { reader.lenenc_bytes()? });
        let collation = fixed.u16()?;
        let length = fixed.u32()?;
        Ok(Self { name, collation, length, kind: fixed.u8()?, flags: fixed.u16()?, decimals: fixed.u8()? })
    }

    /// Appends the payload for a client of these capabilities.
    pub fn put(&self, out: &mut Vec<u8>, capabilities: Capabilities) {
        out.put_lenenc_bytes(b"def");
        for _schema_table_org_table in 0..3 {
            out.put_u8(0);
        }
        out.put_lenenc_bytes(&self.name);
        out.put_u8(0);
        if capabilities.contains(Capabilities::MARIADB_EXTENDED_METADATA) {
            out.put_u8(0);
        }
        out.put_u8(12);
        out.put_u16(self.collation);
        out.put_u32(self.length);
        out.put_u8(self.kind);
        out.put_u16(self.flags);
        out.put_u8(self.decimals);
        out.put_u16(0);
    }

    /// True for integers without sign.
    pub fn is_unsigned(&self) -> bool {
        self.flags & 32 != 0
    }

    /// The kind of its values.
    pub fn value_kind(&self) -> ColumnKind {
        match self.kind {
            1 | 2 | 3 | 8 | 9 | 13 => ColumnKind::Integer,
            0 | 246 => ColumnKind::Decimal,
            4 | 5 => ColumnKind::Real,
            6 => ColumnKind::Null,
            _ => ColumnKind::Bytes,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_definition_comes_back() {
        let column = Column::integer(b"ROW_COUNT()");
        let mut plain = Vec::new();
        column.put(&mut plain, Capabilities(0));
        let mut extended = Vec::new();
        column.put(&mut extended, Capabilities::MARIADB_EXTENDED_METADATA);
        assert_eq!(extended.len(), plain.len() + 1, "an empty string more");
        for out in [plain, extended] {
            assert_eq!(Column::parse(&out), Ok(column.clone()));
            for cut in 0..out.len() - 2 {
                assert!(Column::parse(&out[..cut]).is_err());
            }
        }
    }
}
