//! Finds the packets in a stream that comes in pieces.

use crate::frame::{HEADER_LEN, MAX_PAYLOAD, parse_header};

/// The header of a packet that has come to its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Found {
    /// Where its number is in the piece.
    pub(super) seq_at: usize,
    /// Where it begins in the piece; 0 if that was in an earlier one.
    pub(super) start: usize,
    /// The packet begins a payload, and does not continue one of 16 MiB.
    pub(super) begins: bool,
    /// The packet has no payload.
    pub(super) is_empty: bool,
}

/// Where a stream of packets stands.
#[derive(Debug, Default)]
pub(super) struct Packets {
    header: [u8; HEADER_LEN],
    /// Bytes of the header seen.
    seen: usize,
    /// Bytes of the payload still to come.
    left: usize,
    /// The next packet continues the payload.
    continued: bool,
    /// The next byte is the first of a payload.
    at_first: bool,
    /// First byte of the payload that came last.
    pub(super) first_byte: Option<u8>,
}

impl Packets {
    /// Goes on in `piece` from `at` behind the next header, or to the end of the piece.
    pub(super) fn next(&mut self, piece: &[u8], at: &mut usize) -> Option<Found> {
        loop {
            let rest = piece.get(*at..)?;
            let &first = rest.first()?;
            if self.left > 0 {
                if std::mem::take(&mut self.at_first) {
                    self.first_byte = Some(first);
                }
                let n = self.left.min(rest.len());
                self.left -= n;
                *at += n;
                continue;
            }
            let n = (HEADER_LEN - self.seen).min(rest.len());
            self.header[self.seen..self.seen + n].copy_from_slice(&rest[..n]);
            self.seen += n;
            *at += n;
            if self.seen == HEADER_LEN {
                return self.found(*at);
            }
        }
    }

    fn found(&mut self, end: usize) -> Option<Found> {
        self.seen = 0;
        self.left = parse_header(&self.header)?.len;
        let begins = !self.continued;
        self.continued = self.left == MAX_PAYLOAD;
        self.at_first = begins;
        if begins {
            self.first_byte = None;
        }
        let is_empty = self.left == 0;
        Some(Found { seq_at: end - 1, start: end.saturating_sub(HEADER_LEN), begins, is_empty })
    }
}
