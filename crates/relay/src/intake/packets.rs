//! Packets of a replication stream: what they carry, piece by piece, since an event may have a gigabyte.
//! Source: <https://dev.mysql.com/doc/dev/mysql-server/latest/page_protocol_basic_packets.html>

use delphinus_wire::binlog::{HEADER_LEN, Header, dump};
use delphinus_wire::response::{EOF, ERR, ErrPacket, OK};
use delphinus_wire::{HEADER_LEN as FRAME_LEN, MAX_PAYLOAD, Malformed, parse_header};

use super::IntakeError;

/// A part of an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Piece<'a> {
    /// Its bytes.
    pub(crate) bytes: &'a [u8],
    /// The event ends with it.
    pub(crate) is_last: bool,
    /// The source waits for an acknowledgement of this event.
    pub(crate) wants_ack: bool,
}

/// The largest ERR or EOF packet.
const LONGEST_ERROR: usize = 4096;
/// So many bytes of a payload tell what it is: OK, semi-sync's two, the event's head.
const FRONT: usize = 1 + 2 + HEADER_LEN;

/// Takes packets apart.
#[derive(Debug, Default)]
#[expect(clippy::struct_excessive_bools, reason = "independent facts about the current packet and its event")]
pub(crate) struct Packets {
    /// Bytes of the current packet that are still to come.
    left: usize,
    /// The current packet's payload goes on in the next one.
    is_continued: bool,
    /// An event is open.
    is_inside: bool,
    wants_ack: bool,
    /// Nobody has asked for semi-sync's marks: there are none.
    is_bare: bool,
    /// Where the next event begins in the source's file, modulo 2^32; 0: not known.
    at: u32,
}

impl Packets {
    /// Packets of a connection that has not asked for semi-sync.
    pub(crate) fn bare() -> Self {
        Self { is_bare: true, ..Self::default() }
    }

    /// The next event begins here in the source's file, unless it was made for the connection.
    pub(crate) fn expect(&mut self, at: u64) {
        self.at = at as u32;
    }

    /// Takes what it can from the front of `bytes`: how many bytes it has used, and the piece in them. No bytes are used where more are
    /// needed.
    pub(crate) fn next<'a>(&mut self, bytes: &'a [u8]) -> Result<(usize, Option<Piece<'a>>), IntakeError> {
        if self.left > 0 {
            let len = bytes.len().min(self.left);
            self.left -= len;
            return Ok((len, (len > 0).then(|| self.piece(&bytes[..len]))));
        }
        let Some(frame) = parse_header(bytes) else { return Ok((0, None)) };
        if self.is_inside {
            // The next packet of the same payload; it may be empty.
            (self.left, self.is_continued) = (frame.len, frame.len == MAX_PAYLOAD);
            return Ok((FRAME_LEN, Some(self.piece(&[]))));
        }
        let body = &bytes[FRAME_LEN..];
        if body.len() < frame.len.min(FRONT) {
            return Ok((0, None));
        }
        let front = &body[..frame.len.min(FRONT)];
        match front.first() {
            Some(&OK) => {}
            Some(&(ERR | EOF)) if frame.len > LONGEST_ERROR => {
                return Err(Malformed("very long error").into());
            }
            Some(&(ERR | EOF)) if body.len() < frame.len => return Ok((0, None)),
            Some(&ERR) => return Err(IntakeError::Refused(ErrPacket::parse(&body[..frame.len])?)),
            Some(&EOF) => return Err(IntakeError::Ended),
            _ => return Err(Malformed("a packet that is no event").into()),
        }
        let skipped = 1 + self.mark(&front[1..], frame.len)?;
        (self.left, self.is_continued) = (frame.len - skipped, frame.len == MAX_PAYLOAD);
        self.is_inside = true;
        Ok((FRAME_LEN + skipped, Some(self.piece(&[]))))
    }

    /// Sees whether semi-sync's two bytes are there, and gives their number. A source adds them as long as it has semi-sync on; an
    /// event may begin with the same bytes, but then its length does not fit the packet's. The first packet of a very large event does not
    /// tell its length: there the event's place in the file decides.
    fn mark(&mut self, front: &[u8], len: usize) -> Result<usize, Malformed> {
        let fits = |event: &[u8], before: usize| {
            let size = Header::parse(event).map(|header| header.size as usize);
            size.is_ok_and(
                |size| if len == MAX_PAYLOAD { size >= len - before } else { size == len - before },
            )
        };
        let follows = |event: &[u8]| {
            Header::parse(event).is_ok_and(|header| header.log_pos.wrapping_sub(header.size) == self.at)
        };
        if !self.is_bare
            && let Ok((event, wants_ack)) = dump::take_semi_sync(front)
            && fits(event, 3)
            && (len < MAX_PAYLOAD || !fits(front, 1) || follows(event) || !follows(front))
        {
            self.wants_ack = wants_ack;
            return Ok(2);
        }
        self.wants_ack = false;
        if fits(front, 1) { Ok(0) } else { Err(Malformed("an event of another length than its packet")) }
    }

    /// A piece that ends where what has come ends.
    fn piece<'a>(&mut self, bytes: &'a [u8]) -> Piece<'a> {
        let is_last = self.left == 0 && !self.is_continued;
        self.is_inside = !is_last;
        Piece { bytes, is_last, wants_ack: self.wants_ack }
    }
}

#[cfg(test)]
mod tests {
    use delphinus_wire::binlog::Kind;

    use super::*;

    const LARGE: u32 = 17 << 20;

    /// The first packet of a very large event, up to its head.
    fn first_packet(mark: &[u8], timestamp: u32, at: u32) -> Vec<u8> {
        let log_pos = at + LARGE;
        let header =
            Header { timestamp, kind: Kind::WRITE_ROWS, server_id: 1, size: LARGE, log_pos, flags: 0 };
        let mut packet = vec![0xff, 0xff, 0xff, 1, 0];
        packet.extend_from_slice(mark);
        header.put(&mut packet);
        packet.extend_from_slice(&[7; 64]);
        packet
    }

    #[test]
    fn a_large_event_that_begins_like_a_mark_loses_nothing() {
        for (second, at) in [(0_u32, 70_000_u32), (1, 70_000), (0x77, 70_000)] {
            let timestamp = 0x6a00_0000 | second << 8 | 0xef;
            for mut packets in [Packets::bare(), Packets::default()] {
                packets.expect(u64::from(at));
                let packet = first_packet(&[], timestamp, at);
                let (used, piece) = packets.next(&packet).unwrap();
                assert_eq!((used, piece.unwrap().wants_ack), (FRAME_LEN + 1, false), "{second}");
            }
            for flag in [0, 1] {
                let mut packets = Packets::default();
                packets.expect(u64::from(at));
                let packet = first_packet(&[0xef, flag], timestamp, at);
                let (used, piece) = packets.next(&packet).unwrap();
                assert_eq!((used, piece.unwrap().wants_ack), (FRAME_LEN + 3, flag == 1), "{second}");
            }
        }
    }
}
