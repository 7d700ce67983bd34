//! The binary protocol: parameters, and rows as text.
//! Source: <https://dev.mysql.com/doc/dev/mysql-server/latest/page_protocol_binary_resultset.html>

use anyhow::{Result, bail, ensure};
use delphinus_wire::{Put, Reader};

use crate::reply::ColumnShape;

const UNSIGNED: u16 = 32;

/// A parameter of a prepared statement.
#[derive(Debug, Clone, PartialEq)]
pub enum Param {
    /// NULL.
    Null,
    /// BIGINT.
    Int(i64),
    /// BIGINT UNSIGNED.
    Unsigned(u64),
    /// DOUBLE.
    Double(f64),
    /// A string in the client's character set.
    Text(String),
    /// BLOB.
    Bytes(Vec<u8>),
}

impl Param {
    /// Type code, and 0x80 in the second byte for unsigned.
    fn type_bytes(&self) -> [u8; 2] {
        match self {
            Self::Null => [6, 0],
            Self::Int(_) => [8, 0],
            Self::Unsigned(_) => [8, 0x80],
            Self::Double(_) => [5, 0],
            Self::Text(_) => [253, 0],
            Self::Bytes(_) => [252, 0],
        }
    }

    fn put(&self, out: &mut Vec<u8>) {
        match self {
            Self::Null => {}
            Self::Int(value) => out.extend_from_slice(&value.to_le_bytes()),
            Self::Unsigned(value) => out.put_u64(*value),
            Self::Double(value) => out.extend_from_slice(&value.to_le_bytes()),
            Self::Text(text) => out.put_lenenc_bytes(text.as_bytes()),
            Self::Bytes(bytes) => out.put_lenenc_bytes(bytes),
        }
    }
}

/// Appends everything that follows the iteration count of a COM_STMT_EXECUTE.
pub(crate) fn put_params(out: &mut Vec<u8>, params: &[Param], with_types: bool) {
    if params.is_empty() {
        return;
    }
    let mut nulls = vec![0u8; params.len().div_ceil(8)];
    for (at, _) in params.iter().enumerate().filter(|(_, param)| **param == Param::Null) {
        nulls[at / 8] |= 1 << (at % 8);
    }
    out.extend_from_slice(&nulls);
    out.put_u8(u8::from(with_types));
    if with_types {
        for param in params {
            out.extend_from_slice(&param.type_bytes());
        }
    }
    for param in params {
        param.put(out);
    }
}

/// A row of the binary protocol, its values as the text protocol would show them (fractions of seconds aside).
pub(crate) fn binary_row(packet: &[u8], columns: &[ColumnShape]) -> Result<Vec<Option<Vec<u8>>>> {
    let mut reader = Reader::new(packet);
    ensure!(reader.u8()? == 0, "not a binary row");
    let nulls = reader.bytes((columns.len() + 2).div_ceil(8))?;
    let is_null = |at: usize| nulls[(at + 2) / 8] & 1 << ((at + 2) % 8) != 0;
    let row: Result<Vec<_>> = columns
        .iter()
        .enumerate()
        .map(|(at, column)| if is_null(at) { Ok(None) } else { value(&mut reader, column).map(Some) })
        .collect();
    ensure!(reader.is_empty(), "bytes after the last value of a row");
    row
}

fn value(reader: &mut Reader<'_>, column: &ColumnShape) -> Result<Vec<u8>> {
    let is_unsigned = column.flags & UNSIGNED != 0;
    let text = match column.kind {
        1 if is_unsigned => reader.u8()?.to_string(),
        1 => reader.u8()?.cast_signed().to_string(),
        2 | 13 if is_unsigned => reader.u16()?.to_string(),
        2 | 13 => reader.u16()?.cast_signed().to_string(),
        3 | 9 if is_unsigned => reader.u32()?.to_string(),
        3 | 9 => reader.u32()?.cast_signed().to_string(),
        8 if is_unsigned => reader.u64()?.to_string(),
        8 => reader.u64()?.cast_signed().to_string(),
        4 => f32::from_bits(reader.u32()?).to_string(),
        5 => f64::from_bits(reader.u64()?).to_string(),
        7 | 10 | 12 => date_time(reader, column.kind)?,
        11 => time(reader)?,
        6 => bail!("a value in a NULL column"),
        _ => return Ok(reader.lenenc_bytes()?.to_vec()),
    };
    Ok(text.into_bytes())
}

fn date_time(reader: &mut Reader<'_>, kind: u8) -> Result<String> {
    let len = reader.u8()?;
    let mut date = (0, 0, 0);
    let mut clock = String::new();
    if len >= 4 {
        date = (reader.u16()?, reader.u8()?, reader.u8()?);
    }
    if len >= 7 {
        clock = format!(" {:02}:{:02}:{:02}", reader.u8()?, reader.u8()?, reader.u8()?);
    } else if kind != 10 {
        " 00:00:00".clone_into(&mut clock);
    }
    if len >= 11 {
        let micros = reader.u32()?;
        clock = format!("{clock}.{micros:06}");
    }
    Ok(format!("{:04}-{:02}-{:02}{clock}", date.0, date.1, date.2))
}

fn time(reader: &mut Reader<'_>) -> Result<String> {
    let len = reader.u8()?;
    if len == 0 {
        return Ok("00:00:00".to_owned());
    }
    let sign = if reader.u8()? == 1 { "-" } else { "" };
    let hours = reader.u32()? * 24 + u32::from(reader.u8()?);
    let mut text = format!("{sign}{hours:02}:{:02}:{:02}", reader.u8()?, reader.u8()?);
    if len >= 12 {
        let micros = reader.u32()?;
        text = format!("{text}.{micros:06}");
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn column(kind: u8, flags: u16) -> ColumnShape {
        ColumnShape { name: "c".to_owned(), kind, collation: 63, flags, decimals: 0 }
    }

    #[test]
    fn parameters_are_written_with_nulls_types_and_values() {
        let mut out = Vec::new();
        put_params(&mut out, &[Param::Int(-1), Param::Null, Param::Text("ab".to_owned())], true);
        assert_eq!(out, [&[2, 1, 8, 0, 6, 0, 253, 0][..], &[255; 8], &[2, b'a', b'b']].concat());
        out.clear();
        put_params(&mut out, &[Param::Unsigned(7)], false);
        assert_eq!(out, [0, 0, 7, 0, 0, 0, 0, 0, 0, 0]);
    }

    #[test]
    fn the_ninth_parameter_has_its_own_null_byte() {
        let mut out = Vec::new();
        put_params(&mut out, &vec![Param::Null; 9], false);
        assert_eq!(out, [255, 1, 0]);
    }

    #[test]
    fn rows_become_text() {
        let columns =
            [column(3, 0), column(3, 32), column(253, 0), column(6, 0), column(12, 0), column(11, 0)];
        let mut row = vec![0, 0b10_0000];
        row.extend_from_slice(&(-5i32).to_le_bytes());
        row.extend_from_slice(&u32::MAX.to_le_bytes());
        row.extend_from_slice(&[2, b'h', b'i']);
        row.extend_from_slice(&[7, 0xea, 7, 2, 3, 4, 5, 6]);
        row.extend_from_slice(&[8, 1, 1, 0, 0, 0, 2, 3, 4]);
        let found = binary_row(&row, &columns).expect("a row");
        let texts: Vec<_> = found
            .iter()
            .map(|value| value.as_ref().map(|value| String::from_utf8_lossy(value).into_owned()))
            .collect();
        let want = [
            Some("-5"),
            Some("4294967295"),
            Some("hi"),
            None,
            Some("2026-02-03 04:05:06"),
            Some("-26:03:04"),
        ];
        assert_eq!(texts, want.map(|value| value.map(str::to_owned)));
    }

    #[test]
    fn a_row_that_ends_early_or_late_is_an_error() {
        assert!(binary_row(&[0, 0, 1, 0, 0], &[column(3, 0)]).is_err());
        assert!(binary_row(&[0, 0, 1, 0, 0, 0, 9], &[column(3, 0)]).is_err());
        assert!(binary_row(&[1, 0], &[]).is_err());
    }
}
