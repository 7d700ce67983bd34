//! The header of a packet: payload length (3 bytes) and sequence id (1 byte). A payload of 2^24-1 bytes is
//! followed by another packet that continues it.
//! Source: <https://dev.mysql.com/doc/dev/mysql-server/latest/page_protocol_basic_packets.html>

use crate::cursor::Put;

/// Bytes of a packet header.
pub const HEADER_LEN: usize = 4;

/// The largest payload of one packet. A payload of exactly this length is continued by the next packet.
pub const MAX_PAYLOAD: usize = 0xff_ffff;

/// What a packet header says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Frame {
    /// Payload length in bytes, at most `MAX_PAYLOAD`.
    pub len: usize,
    /// Sequence id.
    pub seq: u8,
}

impl Frame {
    /// True if the next packet continues this one's payload.
    pub fn is_continued(self) -> bool {
        self.len == MAX_PAYLOAD
    }
}

/// Reads the header at the start of `bytes`, if all of it is there.
#[inline]
pub fn parse_header(bytes: &[u8]) -> Option<Frame> {
    let &[a, b, c, seq] = bytes.first_chunk::<HEADER_LEN>()?;
    Some(Frame { len: u32::from_le_bytes([a, b, c, 0]) as usize, seq })
}

/// The header of a payload of `len` bytes (at most `MAX_PAYLOAD`).
#[inline]
pub fn header(len: usize, seq: u8) -> [u8; HEADER_LEN] {
    debug_assert!(len <= MAX_PAYLOAD);
    let [a, b, c, _] = (len as u32).to_le_bytes();
    [a, b, c, seq]
}

/// Leaves room for a header at the end of `out` and returns where it is; `end_packet` fills it in.
pub fn begin_packet(out: &mut Vec<u8>) -> usize {
    let at = out.len();
    out.extend_from_slice(&[0; HEADER_LEN]);
    at
}

/// Fills in the header left at `at` for all that was written since. The payload must be shorter than
/// `MAX_PAYLOAD`: longer ones go through `put_packet`.
pub fn end_packet(out: &mut [u8], at: usize, seq: u8) {
    let len = out.len() - at - HEADER_LEN;
    assert!(len < MAX_PAYLOAD, "invariant: only short packets are written in place");
    out[at..at + HEADER_LEN].copy_from_slice(&header(len, seq));
}

/// Appends `payload` as one packet, or as several if it is long; returns the next sequence id.
pub fn put_packet(out: &mut Vec<u8>, mut seq: u8, payload: &[u8]) -> u8 {
    let mut rest = payload;
    loop {
        let (chunk, tail) = rest.split_at(rest.len().min(MAX_PAYLOAD));
        out.put_u24(chunk.len() as u32);
        out.put_u8(seq);
        out.extend_from_slice(chunk);
        seq = seq.wrapping_add(1);
        if chunk.len() < MAX_PAYLOAD {
            return seq;
        }
        rest = tail;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_come_back() {
        assert_eq!(parse_header(&header(0x12_3456, 7)), Some(Frame { len: 0x12_3456, seq: 7 }));
        assert_eq!(parse_header(&[1, 0, 0]), None);
    }

    #[test]
    fn a_payload_of_exactly_the_maximum_is_followed_by_an_empty_packet() {
        let mut out = Vec::new();
        assert_eq!(put_packet(&mut out, 255, &vec![7; MAX_PAYLOAD]), 1);
        assert_eq!(out.len(), MAX_PAYLOAD + 2 * HEADER_LEN);
        assert_eq!(parse_header(&out), Some(Frame { len: MAX_PAYLOAD, seq: 255 }));
        assert_eq!(parse_header(&out[MAX_PAYLOAD + HEADER_LEN..]), Some(Frame { len: 0, seq: 0 }));
    }

    #[test]
    fn packets_written_in_place_get_their_length() {
        let mut out = vec![9];
        let at = begin_packet(&mut out);
        out.extend_from_slice(b"abc");
        end_packet(&mut out, at, 3);
        assert_eq!(out, [9, 3, 0, 0, 3, b'a', b'b', b'c']);
    }
}
