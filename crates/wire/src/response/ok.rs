//! The OK packet: also the last packet of a result set where DEPRECATE_EOF was agreed.
//! Source: <https://dev.mysql.com/doc/dev/mysql-server/latest/page_protocol_basic_ok_packet.html>

use super::{SessionChanges, Status};
use crate::capability::Capabilities;
use crate::cursor::{Malformed, Put, Reader};

/// An OK packet. `info` and `changes` point into the payload.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct OkPacket<'a> {
    /// Rows changed (or found, with FOUND_ROWS).
    pub affected_rows: u64,
    /// The first AUTO_INCREMENT value made, or the argument of LAST_INSERT_ID(expr).
    pub last_insert_id: u64,
    /// Status flags.
    pub status: Status,
    /// Warnings of the statement.
    pub warnings: u16,
    /// Human-readable remark, as `Rows matched: 1  Changed: 1  Warnings: 0`.
    pub info: &'a [u8],
    /// What changed in the session, not yet read.
    pub changes: SessionChanges<'a>,
}

impl<'a> OkPacket<'a> {
    /// Reads a payload that starts with 0x00 or 0xFE.
    pub fn parse(payload: &'a [u8], capabilities: Capabilities) -> Result<Self, Malformed> {
        let mut reader = Reader::new(payload);
        if !matches!(reader.u8()?, super::OK | super::EOF) {
            return Err(Malformed("not an OK packet"));
        }
        let mut ok = OkPacket {
            affected_rows: reader.lenenc_int()?,
            last_insert_id: reader.lenenc_int()?,
            status: Status(reader.u16()?),
            warnings: reader.u16()?,
            ..Self::default()
        };
        // The manual says string<EOF> for clients that do not track; every server sends a length, and clients read it.
        if !reader.is_empty() {
            ok.info = reader.lenenc_bytes()?;
            let tracks = capabilities.contains(Capabilities::SESSION_TRACK);
            if tracks && ok.status.contains(Status::SESSION_STATE_CHANGED) {
                ok.changes = SessionChanges::new(reader.lenenc_bytes()?);
            }
        }
        Ok(ok)
    }

    /// Takes the changes out of a payload in place, and clears their flag; returns how long it is now.
    pub fn strip_changes(payload: &mut [u8]) -> Result<usize, Malformed> {
        let len = payload.len();
        let mut reader = Reader::new(payload);
        reader.u8()?;
        reader.lenenc_int()?;
        reader.lenenc_int()?;
        let status_at = len - reader.remaining();
        let status = Status(reader.u16()?).without(Status::SESSION_STATE_CHANGED);
        reader.u16()?;
        let mut kept = len - reader.remaining();
        // An empty remark is there only to stand before the changes.
        if !reader.is_empty() && !reader.lenenc_bytes()?.is_empty() {
            kept = len - reader.remaining();
        }
        payload[status_at..status_at + 2].copy_from_slice(&status.0.to_le_bytes());
        Ok(kept)
    }

    /// Appends the payload with `first` (0x00, or 0xFE at the end of a result set) for a client of these
    /// capabilities; changes are left out, and their flag is cleared, where the client did not ask for them.
    pub fn put(&self, out: &mut Vec<u8>, first: u8, capabilities: Capabilities) {
        let tracks = capabilities.contains(Capabilities::SESSION_TRACK);
        let changes = if tracks { self.changes.bytes() } else { &[] };
        let status = if changes.is_empty() {
            self.status.without(Status::SESSION_STATE_CHANGED)
        } else {
            self.status.with(Status::SESSION_STATE_CHANGED)
        };
        out.put_u8(first);
        out.put_lenenc_int(self.affected_rows);
        out.put_lenenc_int(self.last_insert_id);
        out.put_u16(status.0);
        out.put_u16(self.warnings);
        if !changes.is_empty() {
            out.put_lenenc_bytes(self.info);
            out.put_lenenc_bytes(changes);
        } else if !self.info.is_empty() {
            out.put_lenenc_bytes(self.info);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TRACK: Capabilities = Capabilities::SESSION_TRACK;

    #[test]
    fn an_ok_comes_back() {
        let changes = [1, 4, 3, b'a', b'p', b'p'];
        let ok = OkPacket {
            affected_rows: 300,
            last_insert_id: 70_000,
            status: Status(2).with(Status::SESSION_STATE_CHANGED),
            warnings: 1,
            info: b"remark",
            changes: SessionChanges::new(&changes),
        };
        let mut out = Vec::new();
        ok.put(&mut out, 0, TRACK);
        assert_eq!(OkPacket::parse(&out, TRACK), Ok(ok));
        for cut in 0..out.len() {
            let _ = OkPacket::parse(&out[..cut], TRACK);
        }
    }

    #[test]
    fn stripped_in_place_is_the_same_as_written_anew_for_a_client_that_does_not_track() {
        let changes = [1, 4, 3, b'a', b'p', b'p'];
        let status = Status(2).with(Status::SESSION_STATE_CHANGED);
        for info in [&b"remark"[..], b""] {
            let ok = OkPacket { affected_rows: 300, status, info, ..OkPacket::default() };
            let ok = OkPacket { changes: SessionChanges::new(&changes), ..ok };
            let (mut stripped, mut anew) = (Vec::new(), Vec::new());
            ok.put(&mut stripped, 0, TRACK);
            ok.put(&mut anew, 0, Capabilities::default());
            let len = OkPacket::strip_changes(&mut stripped).expect("an OK packet");
            assert_eq!(stripped[..len], anew);
        }
        for cut in 0..7 {
            assert!(OkPacket::strip_changes(&mut [0u8; 7][..cut]).is_err());
        }
    }

    #[test]
    fn a_client_that_does_not_track_sees_neither_changes_nor_their_flag() {
        let changes = [1, 4, 3, b'a', b'p', b'p'];
        let status = Status(2).with(Status::SESSION_STATE_CHANGED);
        let ok =
            OkPacket { status, info: b"r", changes: SessionChanges::new(&changes), ..OkPacket::default() };
        let mut out = Vec::new();
        ok.put(&mut out, 0, Capabilities::default());
        assert_eq!(out, [0, 0, 0, 2, 0, 0, 0, 1, b'r']);
    }
}
