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
    pub fn put(&self, out: &mut Vec<u8>, mut seq: u8, status: Status, capabilities: Capabilities) {
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

fn put_row(out: &mut Vec<u8>, row: &[Option<Vec<u8>>]) {
    for value in row {
        match value {
            Some(value) => out.put_lenenc_bytes(value),
            None => out.put_u8(0xfb),
        }
    }
}
