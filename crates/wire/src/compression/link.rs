//! A connection that is compressed: the numbers of frames and of the packets in them, in both directions.
//!
//! Frames are numbered like packets: from 0 with each command, and on from side to side. Servers number the first packet of
//! each result like the frame that it begins, and the others on from there: after a command of several frames, or the
//! first of several results, they are others than without compression. The other side of the proxy may be without
//! compression, and strict; so what comes out of here is numbered as it has to be there. Some clients that compress are
//! strict, too; so what goes to them is numbered as servers do it.

use std::borrow::Cow;

use super::codec::{Codec, Header};
use super::packets::Packets;
use super::{Algorithm, FRAME_HEADER_LEN};
use crate::cursor::Malformed;
use crate::frame::{HEADER_LEN, parse_header};
use crate::response::LOCAL_INFILE;

/// Most bytes that are compressed as one frame: the other connections of the thread wait meanwhile.
const PIECE: usize = 64 * 1024;

/// Longest packet of an answer, in bytes, that is sent in one frame: compressing it takes some 10 ms.
const LONGEST_HELD: usize = 2 * 1024 * 1024;

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
    /// By how much the packets of this result have other numbers than without compression; known with its first one.
    shift: Option<u8>,
    /// The beginning of a packet of an answer.
    held: Vec<u8>,
    /// Bytes of a packet that are still to come, after it was too long to be held back.
    long_left: usize,
    /// The answer is a stream without end.
    flows: bool,
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
            shift: None,
            held: Vec::new(),
            long_left: 0,
            flows: false,
        }
    }

    /// The answer to the command that was sent is a stream without end, as a binary log. Its pieces are sent as they are: nothing of a
    /// packet is held back. And the numbers of its frames are not looked at: a source that waits for acknowledgements (semi-sync) begins
    /// to count packets anew behind each event that is to be acknowledged. It ends with the next command.
    pub fn begin_flow(&mut self) {
        self.flows = true;
    }

    /// What it is compressed with.
    pub fn algorithm(&self) -> Algorithm {
        self.algorithm
    }

    /// What has been encoded ends a result, and another one follows. Servers begin a frame with each.
    pub fn end_result(&mut self) {
        self.shift = None;
    }

    /// Appends frames with `bytes`, the next piece of the packets to send. Of an answer, the beginning of a packet is
    /// held back until the rest comes.
    pub fn encode(&mut self, codec: &mut Codec, bytes: &[u8], out: &mut Vec<u8>) {
        match self.side {
            Side::Client => self.encode_command(codec, bytes, out),
            Side::Server if self.flows && self.held.is_empty() => self.put(codec, bytes, out),
            Side::Server if self.held.is_empty() => {
                let rest = self.encode_answer(codec, bytes, out);
                self.held = bytes[rest..].to_vec();
            }
            Side::Server => {
                let mut held = std::mem::take(&mut self.held);
                held.extend_from_slice(bytes);
                let rest = self.encode_answer(codec, &held, out);
                held.drain(..rest);
                if !held.is_empty() {
                    self.held = held;
                }
            }
        }
    }

    fn encode_command(&mut self, codec: &mut Codec, bytes: &[u8], out: &mut Vec<u8>) {
        let (mut at, mut sent) = (0, 0);
        while let Some(found) = self.outgoing.next(bytes, &mut at) {
            let seq = bytes[found.seq_at];
            if found.begins && !in_file(&mut self.incoming.first_byte, found.is_empty) && seq == 0 {
                self.put(codec, &bytes[sent..found.start], out);
                sent = found.start;
                self.numbers.frame = 0;
            }
            self.numbers.packet = seq.wrapping_add(1);
        }
        self.put(codec, &bytes[sent..], out);
    }

    /// `bytes` begin with a packet, or with more of a very long one. Gives how many of them are done with.
    fn encode_answer(&mut self, codec: &mut Codec, bytes: &[u8], out: &mut Vec<u8>) -> usize {
        let mut at = self.long_left.min(bytes.len());
        self.put(codec, &bytes[..at], out);
        self.long_left -= at;
        let mut sent = at;
        while let Some(frame) = parse_header(&bytes[at..]) {
            let end = at + HEADER_LEN + frame.len;
            if end > bytes.len() && bytes.len() - at <= LONGEST_HELD {
                break;
            }
            // What nobody asked for, such as a goodbye, has the number 0.
            if frame.seq == 0 && self.numbers.packet != 0 {
                self.numbers.frame = 0;
                self.shift = None;
            }
            let number = self.numbers.frame;
            self.shift.get_or_insert_with(|| number.wrapping_sub(frame.seq));
            self.numbers.packet = frame.seq.wrapping_add(1);
            self.outgoing.first_byte = bytes.get(at + HEADER_LEN).copied().filter(|_| frame.len > 0);
            self.long_left = end.saturating_sub(bytes.len());
            at = end.min(bytes.len());
            if at - sent >= PIECE {
                self.put_whole(codec, &bytes[sent..at], out);
                sent = at;
            }
        }
        self.put_whole(codec, &bytes[sent..at], out);
        at
    }

    /// `bytes` begin with a packet. Some clients want the header of a packet in one frame, and the packet in not more than two.
    fn put_whole(&mut self, codec: &mut Codec, bytes: &[u8], out: &mut Vec<u8>) {
        let bytes = renumbered(bytes, self.shift.unwrap_or_default());
        if self.long_left == 0 && !bytes.is_empty() && bytes.len() <= LONGEST_HELD + PIECE {
            codec.put(out, self.algorithm, self.numbers.frame, &bytes);
            self.numbers.frame = self.numbers.frame.wrapping_add(1);
        } else {
            self.put(codec, &bytes, out);
        }
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

    /// How long what is in the frame at the start of `bytes` is, as its header says.
    pub fn unpacked_len(bytes: &[u8]) -> usize {
        Header::parse(bytes).map_or(0, |header| header.original_len.max(header.len))
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
                && !in_file(&mut self.outgoing.first_byte, found.is_empty)
                && (*seq == 0 || header.seq == 0)
            {
                // Servers look at the frame's number only, and MariaDB Connector/J counts packets on from the command before.
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
                Side::Client => std::mem::take(&mut self.has_turned) || self.flows,
                Side::Server => seq == 0,
            };
        if self.side == Side::Server {
            self.flows = false;
        }
        if !is_right {
            return Err(Malformed("compressed packet out of order"));
        }
        self.has_turned = false;
        self.shift = None;
        self.numbers.frame = seq.wrapping_add(1);
        Ok(())
    }
}

/// The packets that `bytes` begin with, with these higher numbers.
fn renumbered(bytes: &[u8], shift: u8) -> Cow<'_, [u8]> {
    if shift == 0 {
        return Cow::Borrowed(bytes);
    }
    let mut bytes = bytes.to_vec();
    let mut at = 0;
    while let Some(frame) = bytes.get(at..).and_then(parse_header) {
        bytes[at + HEADER_LEN - 1] = frame.seq.wrapping_add(shift);
        at += HEADER_LEN + frame.len;
    }
    Cow::Owned(bytes)
}

/// True if the server's last packet has asked for a file: then what the client sends is no command until it has sent
/// an empty packet. (A row can begin with the same byte, but is not the last packet of an answer.)
fn in_file(last: &mut Option<u8>, is_empty: bool) -> bool {
    let asked = *last == Some(LOCAL_INFILE);
    if asked && is_empty {
        *last = None;
    }
    asked
}
