//! Whole packets, for everything off the path of a query: logins, fix-ups, probes. Payloads are held whole,
//! so each read names the largest that it accepts.

use std::io;

use delphinus_wire::{HEADER_LEN, MAX_PAYLOAD, parse_header, put_packet};

use crate::buffer::Buffer;
use crate::error::NetError;
use crate::rt;
use crate::stream::Stream;

/// After so many bytes of one packet others of the thread have their turn: what has arrived already is read without waiting.
const TURN: usize = 256 << 10;

/// A payload and the sequence id of its last packet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Packet {
    /// Sequence id of the last packet.
    pub seq: u8,
    /// The payload, joined.
    pub payload: Vec<u8>,
}

/// A payload that was passed over: nothing of it is held.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Passed {
    /// Its first byte.
    pub first: Option<u8>,
    /// How long it was.
    pub len: usize,
}

/// Reads and writes whole packets on a stream; `buffer` keeps what was read too much.
#[derive(Debug)]
pub struct PacketIo<'a> {
    stream: &'a mut Stream,
    buffer: &'a mut Buffer,
    seq: u8,
}

impl<'a> PacketIo<'a> {
    /// Starts with sequence id `seq` for the next packet written.
    pub fn new(stream: &'a mut Stream, buffer: &'a mut Buffer, seq: u8) -> Self {
        Self { stream, buffer, seq }
    }

    /// The stream, for TLS.
    pub fn stream(&mut self) -> &mut Stream {
        self.stream
    }

    /// What was read beyond the last packet, taken out.
    pub fn take_rest(&mut self) -> Vec<u8> {
        let rest = self.buffer.data().to_vec();
        self.buffer.clear();
        rest
    }

    /// The sequence id that the next packet written will have.
    pub fn seq(&self) -> u8 {
        self.seq
    }

    /// Starts a new command: sequence ids begin at 0 again.
    pub fn restart(&mut self) {
        self.seq = 0;
    }

    /// Waits until there is something to read.
    pub async fn wait(&mut self) -> Result<(), NetError> {
        if self.buffer.is_empty() {
            self.stream.readable().await?;
        }
        Ok(())
    }

    /// Reads a payload of at most `limit` bytes; the next packet written follows it in sequence.
    pub async fn read(&mut self, limit: usize) -> Result<Packet, NetError> {
        let mut payload = Vec::new();
        let seq = self.read_into(limit, &mut payload).await?;
        Ok(Packet { seq, payload })
    }

    /// The same into a buffer that is used again, whose old contents go; gives back the sequence id of the last packet.
    pub async fn read_into(&mut self, limit: usize, payload: &mut Vec<u8>) -> Result<u8, NetError> {
        self.read_frames(limit, payload, |_| true).await?.ok_or_else(no_room)
    }

    /// The same as `read`, if there is room for it: `take_room` is told its length, as far as that is known, before it is read.
    pub async fn read_within(
        &mut self,
        limit: usize,
        take_room: impl FnMut(usize) -> bool,
    ) -> Result<Packet, NetError> {
        let mut payload = Vec::new();
        let seq = self.read_frames(limit, &mut payload, take_room).await?.ok_or_else(no_room)?;
        Ok(Packet { seq, payload })
    }

    /// The same; a payload for which there is no room is passed over, if it is no longer than the second limit.
    pub async fn read_or_pass_over(
        &mut self,
        (limit, most_passed): (usize, usize),
        take_room: impl FnMut(usize) -> bool,
    ) -> Result<Result<Packet, Passed>, NetError> {
        let mut payload = Vec::new();
        if let Some(seq) = self.read_frames(limit, &mut payload, take_room).await? {
            return Ok(Ok(Packet { seq, payload }));
        }
        let begun = Passed { first: payload.first().copied(), len: payload.len() };
        drop(payload);
        self.pass_over_rest(begun, limit.min(most_passed)).await.map(Err)
    }

    /// Reads a payload of at most `limit` bytes and holds nothing of it.
    pub async fn pass_over(&mut self, limit: usize) -> Result<Passed, NetError> {
        self.pass_over_rest(Passed::default(), limit).await
    }

    async fn pass_over_rest(&mut self, mut passed: Passed, limit: usize) -> Result<Passed, NetError> {
        loop {
            let frame = self.header().await?;
            if passed.len + frame.len > limit {
                return Err(NetError::TooLarge(passed.len + frame.len));
            }
            self.buffer.consume(HEADER_LEN);
            let end = passed.len + frame.len;
            while passed.len < end {
                self.fill(1).await?;
                let n = self.buffer.len().min(end - passed.len);
                passed.first = passed.first.or(self.buffer.data().first().copied());
                self.buffer.consume(n);
                let turn = passed.len / TURN;
                passed.len += n;
                if passed.len / TURN != turn {
                    rt::yield_now().await;
                }
            }
            self.seq = frame.seq.wrapping_add(1);
            if frame.len < MAX_PAYLOAD {
                return Ok(passed);
            }
        }
    }

    /// The sequence id of the last packet; `None` where there is no room for the next one, which is not read then.
    async fn read_frames(
        &mut self,
        limit: usize,
        payload: &mut Vec<u8>,
        mut take_room: impl FnMut(usize) -> bool,
    ) -> Result<Option<u8>, NetError> {
        payload.clear();
        loop {
            let frame = self.header().await?;
            let len = payload.len() + frame.len;
            if len > limit {
                return Err(NetError::TooLarge(len));
            }
            if !take_room(len) {
                return Ok(None);
            }
            self.fill(HEADER_LEN + frame.len).await?;
            payload.extend_from_slice(&self.buffer.data()[HEADER_LEN..HEADER_LEN + frame.len]);
            self.buffer.consume(HEADER_LEN + frame.len);
            self.seq = frame.seq.wrapping_add(1);
            if frame.len < MAX_PAYLOAD {
                return Ok(Some(frame.seq));
            }
        }
    }

    async fn header(&mut self) -> Result<delphinus_wire::Frame, NetError> {
        loop {
            if let Some(frame) = parse_header(self.buffer.data()) {
                return Ok(frame);
            }
            self.fill(HEADER_LEN).await?;
        }
    }

    async fn fill(&mut self, len: usize) -> Result<(), NetError> {
        let mut turn = self.buffer.len() + TURN;
        while self.buffer.len() < len {
            let buffer = std::mem::take(self.buffer);
            let (result, buffer) = self.stream.read(buffer).await;
            *self.buffer = buffer;
            if result? == 0 {
                return Err(NetError::Closed);
            }
            if self.buffer.len() > turn {
                turn = self.buffer.len() + TURN;
                rt::yield_now().await;
            }
        }
        Ok(())
    }

    /// Writes `payload` with the next sequence id.
    pub async fn write(&mut self, payload: &[u8]) -> Result<(), NetError> {
        let mut bytes = Vec::with_capacity(payload.len() + HEADER_LEN);
        self.seq = put_packet(&mut bytes, self.seq, payload);
        self.stream.write_bytes(&bytes).await?;
        Ok(())
    }
}

fn no_room() -> NetError {
    io::Error::other("memory_limit is reached: there is no room for a packet").into()
}
