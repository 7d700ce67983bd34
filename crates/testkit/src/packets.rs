//! Packets over a blocking Unix socket: whole payloads, sequence ids checked.

use std::io::{BufReader, Read, Write};
use std::os::unix::net::UnixStream;

use anyhow::{Context, Result, ensure};
use delphinus_wire::{HEADER_LEN, parse_header, put_packet};

/// The two directions of one connection.
#[derive(Debug)]
pub(crate) struct Packets {
    stream: BufReader<UnixStream>,
    seq: u8,
}

impl Packets {
    pub(crate) fn new(stream: UnixStream) -> Self {
        Self { stream: BufReader::new(stream), seq: 0 }
    }

    /// A new command: sequence ids start over.
    pub(crate) fn command(&mut self, payload: &[u8]) -> Result<()> {
        self.seq = 0;
        self.write(payload)
    }

    /// Sends a payload with the next sequence id.
    pub(crate) fn write(&mut self, payload: &[u8]) -> Result<()> {
        let mut bytes = Vec::with_capacity(payload.len() + HEADER_LEN);
        self.seq = put_packet(&mut bytes, self.seq, payload);
        self.stream.get_mut().write_all(&bytes).context("cannot send")
    }

    /// Sends bytes that need not be packets.
    pub(crate) fn write_bytes(&mut self, bytes: &[u8]) -> Result<()> {
        self.stream.get_mut().write_all(bytes).context("cannot send")
    }

    /// Sequence ids start over, without a packet yet.
    pub(crate) fn begin(&mut self) {
        self.seq = 0;
    }

    /// A payload and its (last) sequence id.
    pub(crate) fn read_numbered(&mut self) -> Result<(u8, Vec<u8>)> {
        let payload = self.read()?;
        Ok((self.seq.wrapping_sub(1), payload))
    }

    /// Reads a payload, however many packets it comes in.
    pub(crate) fn read(&mut self) -> Result<Vec<u8>> {
        let mut payload = Vec::new();
        loop {
            let mut header = [0; HEADER_LEN];
            self.stream.read_exact(&mut header).context("cannot read a packet")?;
            let frame = parse_header(&header).context("no header")?;
            ensure!(frame.seq == self.seq, "sequence id {} instead of {}", frame.seq, self.seq);
            self.seq = frame.seq.wrapping_add(1);
            let at = payload.len();
            payload.resize(at + frame.len, 0);
            self.stream.read_exact(&mut payload[at..]).context("cannot read a payload")?;
            if !frame.is_continued() {
                return Ok(payload);
            }
        }
    }

    /// Reads one packet; gives it with its header.
    pub(crate) fn read_raw(&mut self) -> Result<Vec<u8>> {
        let mut packet = vec![0; HEADER_LEN];
        self.stream.read_exact(&mut packet).context("cannot read a packet")?;
        let frame = parse_header(&packet).context("no header")?;
        packet.resize(HEADER_LEN + frame.len, 0);
        self.stream.read_exact(&mut packet[HEADER_LEN..]).context("cannot read a payload")?;
        self.seq = frame.seq.wrapping_add(1);
        Ok(packet)
    }

    /// Sends `ping`, whose answer is an OK, and appends all packets that come before that answer. It is the packet that begins
    /// the sequence ids anew.
    pub(crate) fn capture_to_ping(&mut self, ping: &[u8], captured: &mut Vec<u8>) -> Result<()> {
        let mut expected = if captured.is_empty() { 1 } else { self.seq };
        self.seq = 0;
        self.write(ping)?;
        loop {
            let packet = self.read_raw()?;
            if packet[3] == 1 && packet[3] != expected && packet[HEADER_LEN] == 0 {
                return Ok(());
            }
            ensure!(captured.len() < 1 << 20, "no end of the answer");
            expected = packet[3].wrapping_add(1);
            captured.extend_from_slice(&packet);
        }
    }

    /// True if the other side has closed the connection and sent nothing before that.
    pub(crate) fn is_at_end(&mut self) -> Result<bool> {
        let mut byte = [0];
        Ok(self.stream.read(&mut byte)? == 0)
    }
}
