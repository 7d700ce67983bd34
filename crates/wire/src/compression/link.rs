//! A connection that is compressed: the numbers of frames and of the packets in them, in both directions.
//!
//! Frames are numbered like packets: from 0 with each command, and on from side to side. Servers and clients that
//! compress look at the numbers of frames only and let those of packets run away: after a command of several frames,
//! or the first of several results, they are others than without compression. The other side of the proxy may be
//! without compression, and strict; so what comes out of here is numbered anew, as it has to be.

use super::codec::{Codec, Header};
use super::packets::Packets;
use super::{Algorithm, FRAME_HEADER_LEN};
use crate::cursor::Malformed;
use crate::response::LOCAL_INFILE;

/// Most bytes that are compressed as one frame: the other connections of the thread wait meanwhile.
const PIECE: usize = 64 * 1024;

/// Which side of the connection this is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// The one that sends commands.
    Client,
    /// The one that answers.
    Server,
}

/// The state of one compressed connection.
#[derive(Debug)]
pub struct CompressedLink {
    algorithm: Algorithm,
    side: Side,
    numbers: Numbers,
    incoming: Packets,
    outgoing: Packets,
    /// A frame has been sent since one came.
    has_turned: bool,
}

#[derive(Debug, Default)]
struct Numbers {
    frame: u8,
    packet: u8,
}

impl CompressedLink {
    /// A connection on which nothing has been said since its login.
    pub fn new(algorithm: Algorithm, side: Side) -> Self {
        Self {
            algorithm,
            side,
            numbers: Numbers::default(),
            incoming: Packets::default(),
            outgoing: Packets::default(),
            has_turned: true,
        }
    }

    /// What it is compressed with.
    pub fn algorithm(&self) -> Algorithm {
        self.algorithm
    }

    /// Appends frames with `bytes`, the next piece of the packets to send.
    pub fn encode(&mut self, codec: &mut Codec, bytes: &[u8], out: &mut Vec<u8>) {
        let (mut at, mut sent) = (0, 0);
        while let Some(found) = self.outgoing.next(bytes, &mut at) {
            let seq = bytes[found.seq_at];
            match self.side {
                Side::Client => {
                    let begins = found.begins && !in_file(&mut self.incoming, found.is_empty) && seq == 0;
                    if begins {
                        self.put(codec, &bytes[sent..found.start], out);
                        sent = found.start;
                        self.numbers.frame = 0;
                    }
                }
                // What nobody asked for, such as a goodbye, has the number 0.
                Side::Server if seq == 0 && self.numbers.packet != 0 => self.numbers.frame = 0,
                Side::Server => {}
            }
            self.numbers.packet = seq.wrapping_add(1);
        }
        self.put(codec, &bytes[sent..], out);
    }

    fn put(&mut self, codec: &mut Codec, bytes: &[u8], out: &mut Vec<u8>) {
        for piece in bytes.chunks(PIECE) {
            codec.put(out, self.algorithm, self.numbers.frame, piece);
            self.numbers.frame = self.numbers.frame.wrapping_add(1);
            self.has_turned = true;
        }
    }

    /// How long the frame at the start of `bytes` is, header included, once all of that is there.
    pub fn frame_len(bytes: &[u8]) -> Option<usize> {
        let len = FRAME_HEADER_LEN + Header::parse(bytes)?.len;
        (bytes.len() >= len).then_some(len)
    }

    /// Replaces `out` by the packets in `frame`, which is as long as `frame_len` says. Fails with what breaks the
    /// protocol; the connection is of no use then.
    pub fn decode(&mut self, codec: &mut Codec, frame: &[u8], out: &mut Vec<u8>) -> Result<(), Malformed> {
        let header = Header::parse(frame).ok_or(Malformed("compressed packet that ends too early"))?;
        self.check(header.seq)?;
        codec.take(out, self.algorithm, header, &frame[FRAME_HEADER_LEN..])?;
        let mut at = 0;
        while let Some(found) = self.incoming.next(out, &mut at) {
            let seq = &mut out[found.seq_at];
            if self.side == Side::Server
                && found.begins
                && !in_file(&mut self.outgoing, found.is_empty)
                && *seq == 0
            {
                self.numbers.packet = 0;
            }
            *seq = self.numbers.packet;
            self.numbers.packet = self.numbers.packet.wrapping_add(1);
        }
        Ok(())
    }

    /// A client's frame goes on from the last one or begins a command. A server may answer, with an error, before it
    /// has read all of a command, so the first frame of an answer may have an earlier number.
    fn check(&mut self, seq: u8) -> Result<(), Malformed> {
        let is_right = seq == self.numbers.frame
            || match self.side {
                Side::Client => std::mem::take(&mut self.has_turned),
                Side::Server => seq == 0,
            };
        if !is_right {
            return Err(Malformed("compressed packet out of order"));
        }
        self.has_turned = false;
        self.numbers.frame = seq.wrapping_add(1);
        Ok(())
    }
}

/// True if the server's last packet has asked for a file: then what the client sends is no command until it has sent
/// an empty packet. (A row can begin with the same byte, but is not the last packet of an answer.)
fn in_file(server: &mut Packets, is_empty: bool) -> bool {
    let asked = server.first_byte == Some(LOCAL_INFILE);
    if asked && is_empty {
        server.first_byte = None;
    }
    asked
}
