//! Events into packets: each event is the payload of one packet behind an OK byte, or of several where it is longer than a
//! packet may be. Owns sequence numbers and the cuts; must not know where events come from. Pieces of an event may come one after
//! the other, so that no event has to be whole in memory.
//! Source: <https://dev.mysql.com/doc/dev/mysql-server/latest/page_protocol_basic_packets.html>

use delphinus_wire::{MAX_PAYLOAD, header};

/// The byte in front of each event: no error, not the end.
const OK: u8 = 0;

/// Puts events into packets.
#[derive(Debug)]
pub(crate) struct Framer {
    seq: u8,
    /// Bytes of the payload that are not put yet.
    left: u64,
    /// And of them those that belong into the packet that is open.
    in_packet: usize,
    /// The packet that is open is as long as one may be: another one follows, though it may be empty.
    is_full: bool,
}

impl Framer {
    /// The next packet has this sequence number.
    pub(crate) fn new(seq: u8) -> Self {
        Self { seq, left: 0, in_packet: 0, is_full: false }
    }

    /// The sequence number of the next packet.
    pub(crate) fn seq(&self) -> u8 {
        self.seq
    }

    /// Bytes of the event that is open.
    pub(crate) fn left(&self) -> u64 {
        self.left
    }

    /// Begins an event of `size` bytes.
    pub(crate) fn begin(&mut self, out: &mut Vec<u8>, size: u32) {
        debug_assert_eq!(self.left, 0, "an event begins inside of another");
        self.left = u64::from(size) + 1;
        self.open(out);
        self.take(out, &[OK]);
    }

    /// Puts the next bytes of the event.
    pub(crate) fn put(&mut self, out: &mut Vec<u8>, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            if self.in_packet == 0 {
                self.open(out);
            }
            let (now, rest) = bytes.split_at(bytes.len().min(self.in_packet));
            self.take(out, now);
            bytes = rest;
        }
        if self.left == 0 && self.is_full {
            self.open(out);
        }
    }

    /// Puts a whole event.
    pub(crate) fn put_whole(&mut self, out: &mut Vec<u8>, event: &[u8]) {
        self.begin(out, event.len() as u32);
        self.put(out, event);
    }

    fn open(&mut self, out: &mut Vec<u8>) {
        self.in_packet = self.left.min(MAX_PAYLOAD as u64) as usize;
        self.is_full = self.in_packet == MAX_PAYLOAD;
        out.extend_from_slice(&header(self.in_packet, self.seq));
        self.seq = self.seq.wrapping_add(1);
    }

    fn take(&mut self, out: &mut Vec<u8>, bytes: &[u8]) {
        out.extend_from_slice(bytes);
        self.in_packet -= bytes.len();
        self.left -= bytes.len() as u64;
    }
}

#[cfg(test)]
mod tests {
    use delphinus_wire::{HEADER_LEN, parse_header, put_packet};

    use super::*;

    /// What the codec of whole packets makes of the same events.
    fn expected(events: &[Vec<u8>]) -> Vec<u8> {
        let (mut out, mut seq) = (Vec::new(), 1);
        for event in events {
            seq = put_packet(&mut out, seq, &[&[OK][..], event].concat());
        }
        out
    }

    #[test]
    fn pieces_of_any_size_make_the_same_packets() {
        let events: Vec<Vec<u8>> =
            [19, 300, 65_536, MAX_PAYLOAD - 2, MAX_PAYLOAD - 1, MAX_PAYLOAD, 2 * MAX_PAYLOAD - 1, 40]
                .iter()
                .enumerate()
                .map(|(at, len)| vec![at as u8; *len])
                .collect();
        let whole = expected(&events);
        for piece in [7919, 262_144, usize::MAX] {
            let (mut out, mut framer) = (Vec::new(), Framer::new(1));
            for event in &events {
                framer.begin(&mut out, event.len() as u32);
                for part in event.chunks(piece.min(event.len())) {
                    framer.put(&mut out, part);
                }
                assert_eq!(framer.left(), 0);
            }
            assert!(out == whole, "pieces of {piece}");
        }
    }

    #[test]
    fn an_event_that_fills_packets_is_followed_by_an_empty_one() {
        let (mut out, mut framer) = (Vec::new(), Framer::new(255));
        framer.put_whole(&mut out, &vec![1; MAX_PAYLOAD - 1]);
        let last = parse_header(&out[out.len() - HEADER_LEN..]).map(|frame| (frame.len, frame.seq));
        assert_eq!((last, framer.seq()), (Some((0, 0)), 1));
    }
}
