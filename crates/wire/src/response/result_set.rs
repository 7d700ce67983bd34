//! A small text result, written whole: for answers that the proxy gives by itself.

use super::{Column, EofPacket, OkPacket, Status};
use crate::capability::Capabilities;
use crate::cursor::Put;
use crate::frame::{begin_packet, end_packet};

/// Columns and rows of a text result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TextResult {
    /// Column definitions.
    pub columns: Vec<Column>,
    /// Rows; `None` is NULL.
    pub rows: Vec<Vec<Option<Vec<u8>>>>,
}

impl TextResult {
    /// Appends all packets for a client of these capabilities; `seq` is the first sequence id.
    pub fn put(&self, out: &mut Vec<u8>, seq: u8, status: Status, capabilities: Capabilities) {
        self.put_packets(out, seq, (status, capabilities), put_row);
    }

    /// The same as a prepared statement's answer. Of numbers, columns of INT, BIGINT and DOUBLE are known.
    pub fn put_binary(&self, out: &mut Vec<u8>, seq: u8, status: Status, capabilities: Capabilities) {
        self.put_packets(out, seq, (status, capabilities), |out, row| {
            put_binary_row(out, &self.columns, row);
        });
    }

    fn put_packets(
        &self,
        out: &mut Vec<u8>,
        mut seq: u8,
        (status, capabilities): (Status, Capabilities),
        put_row: impl Fn(&mut Vec<u8>, &[Option<Vec<u8>>]),
    ) {
        let deprecate_eof = capabilities.contains(Capabilities::DEPRECATE_EOF);
        let mut packet = |out: &mut Vec<u8>, write: &dyn Fn(&mut Vec<u8>)| {
            let at = begin_packet(out);
            write(out);
            end_packet(out, at, seq);
            seq = seq.wrapping_add(1);
        };
        let eof = EofPacket { warnings: 0, status };
        packet(out, &|out| out.put_lenenc_int(self.columns.len() as u64));
        for column in &self.columns {
            packet(out, &|out| column.put(out, capabilities));
        }
        if !deprecate_eof {
            packet(out, &|out| eof.put(out));
        }
        for row in &self.rows {
            packet(out, &|out| put_row(out, row));
        }
        if deprecate_eof {
            let ok = OkPacket { status, ..OkPacket::default() };
            packet(out, &|out| ok.put(out, super::EOF, capabilities));
        } else {
            packet(out, &|out| eof.put(out));
        }
    }
}

/// The types of the columns whose values are not text.
const LONG: u8 = 3;
const LONGLONG: u8 = 8;
const DOUBLE: u8 = 5;

fn put_binary_row(out: &mut Vec<u8>, columns: &[Column], row: &[Option<Vec<u8>>]) {
    out.put_u8(0);
    let nulls_at = out.len();
    out.resize(nulls_at + (columns.len() + 9) / 8, 0);
    for (at, (column, value)) in columns.iter().zip(row).enumerate() {
        let Some(value) = value else {
            let bit = at + 2;
            out[nulls_at + bit / 8] |= 1 << (bit % 8);
            continue;
        };
        let number =
            || std::str::from_utf8(value).ok().and_then(|text| text.parse::<i64>().ok()).unwrap_or(0);
        match column.kind {
            LONG => out.extend_from_slice(&number().to_le_bytes()[..4]),
            LONGLONG => out.extend_from_slice(&number().to_le_bytes()),
            DOUBLE => out.extend_from_slice(&real(value).to_le_bytes()),
            _ => out.put_lenenc_bytes(value),
        }
    }
}

fn real(text: &[u8]) -> f64 {
    std::str::from_utf8(text).ok().and_then(|text| text.parse().ok()).unwrap_or(0.0)
}

fn put_row(out: &mut Vec<u8>, row: &[Option<Vec<u8>>]) {
    for value in row {
        match value {
            Some(value) => out.put_lenenc_bytes(value),
            None => out.put_u8(0xfb),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_of_prepared_statements_have_numbers_and_a_map_of_nulls() {
        let long = Column { kind: LONG, ..Column::integer(b"Code") };
        let columns = [Column::text(b"Level", 7, 45), long, Column::integer(b"n"), Column::integer(b"m")];
        let row = [Some(b"Note".to_vec()), Some(b"1051".to_vec()), Some(b"-1".to_vec()), None];
        let mut out = Vec::new();
        put_binary_row(&mut out, &columns, &row);
        let mut expected = b"\x00\x20\x04Note\x1b\x04\0\0".to_vec();
        expected.extend([0xff; 8]);
        assert_eq!(out, expected);
        let double = Column { kind: DOUBLE, ..Column::integer(b"d") };
        let mut out = Vec::new();
        put_binary_row(&mut out, &[double], &[Some(b"1.5".to_vec())]);
        assert_eq!(out, [&[0, 0][..], &1.5_f64.to_le_bytes()].concat());
    }
}
