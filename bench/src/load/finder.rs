//! Finds where the answer to a command ends, in bytes that come in pieces of any size, and counts its rows.
//!
//! It keeps no rows: a packet of a row is skipped as soon as its first byte is seen. What it knows is written
//! independently of the proxy's own tracker, so that a mistake there shows here.

use anyhow::{Result, bail, ensure};
use delphinus_wire::response::{self, EofPacket, ErrPacket, OkPacket, Status};
use delphinus_wire::{Capabilities, HEADER_LEN, MAX_PAYLOAD, Reader, parse_header};

/// What a whole answer was.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Answer {
    /// Rows of all result sets.
    pub rows: u64,
    /// Rows changed, as all OK packets say.
    pub affected_rows: u64,
}

/// What the next packet is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Expect {
    /// OK, ERR or a number of columns.
    First,
    /// So many definitions.
    Columns(u64),
    /// The EOF behind the definitions, where DEPRECATE_EOF was not agreed.
    ColumnsEnd,
    Rows,
}

/// The packet that is being read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Packet {
    /// Its payload is collected.
    Kept,
    /// Only its end is looked for.
    Skipped,
    /// Continues the packet before it.
    Continued,
}

/// The state of one connection's answer.
#[derive(Debug)]
pub(super) struct Finder {
    capabilities: Capabilities,
    expect: Expect,
    header: [u8; HEADER_LEN],
    header_len: usize,
    /// Bytes of the payload still to come.
    rest: usize,
    packet: Option<Packet>,
    is_continued: bool,
    kept: Vec<u8>,
    answer: Answer,
}

impl Finder {
    /// For a connection that agreed on these.
    pub(super) fn new(capabilities: Capabilities) -> Self {
        Self {
            capabilities,
            expect: Expect::First,
            header: [0; HEADER_LEN],
            header_len: 0,
            rest: 0,
            packet: None,
            is_continued: false,
            kept: Vec::new(),
            answer: Answer::default(),
        }
    }

    /// Takes the next bytes; gives the answer when they end it. An ERR packet is an error here, and so are bytes behind
    /// the end, since nobody asked for them.
    pub(super) fn feed(&mut self, mut bytes: &[u8]) -> Result<Option<Answer>> {
        while !bytes.is_empty() {
            if self.header_len < HEADER_LEN {
                bytes = self.header(bytes);
            } else {
                let (now, later) = bytes.split_at(self.rest.min(bytes.len()));
                self.payload(now);
                bytes = later;
            }
            // An empty payload has no bytes to wait for.
            let is_whole = self.header_len == HEADER_LEN && self.rest == 0;
            if !is_whole || !self.is_packet_over()? {
                continue;
            }
            ensure!(bytes.is_empty(), "{} bytes behind the end of an answer", bytes.len());
            self.expect = Expect::First;
            return Ok(Some(std::mem::take(&mut self.answer)));
        }
        Ok(None)
    }

    /// Collects a header; gives what is behind it.
    fn header<'a>(&mut self, bytes: &'a [u8]) -> &'a [u8] {
        let (now, later) = bytes.split_at((HEADER_LEN - self.header_len).min(bytes.len()));
        self.header[self.header_len..self.header_len + now.len()].copy_from_slice(now);
        self.header_len += now.len();
        if let Some(frame) = parse_header(&self.header).filter(|_| self.header_len == HEADER_LEN) {
            self.rest = frame.len;
            self.packet = self.is_continued.then_some(Packet::Continued);
            self.is_continued = frame.is_continued();
        }
        later
    }

    fn payload(&mut self, bytes: &[u8]) {
        let packet = *self.packet.get_or_insert_with(|| match self.expect {
            Expect::Columns(_) => Packet::Skipped,
            // Longer packets that begin like an end are rows with a very long first value.
            Expect::Rows => match bytes[0] {
                response::ERR => Packet::Kept,
                response::EOF if self.rest < MAX_PAYLOAD => Packet::Kept,
                _ => Packet::Skipped,
            },
            Expect::First | Expect::ColumnsEnd => Packet::Kept,
        });
        if packet == Packet::Kept {
            self.kept.extend_from_slice(bytes);
        }
        self.rest -= bytes.len();
    }

    /// The packet is complete; true when the answer is, too.
    fn is_packet_over(&mut self) -> Result<bool> {
        self.header_len = 0;
        let packet = self.packet.take();
        if packet == Some(Packet::Continued) {
            return Ok(false);
        }
        let kept = std::mem::take(&mut self.kept);
        let is_over = self.packet(packet == Some(Packet::Kept), &kept);
        self.kept = kept;
        self.kept.clear();
        is_over
    }

    fn packet(&mut self, is_kept: bool, payload: &[u8]) -> Result<bool> {
        if is_kept && payload.first() == Some(&response::ERR) {
            let error = ErrPacket::parse(payload)?;
            bail!("error {}: {}", error.code, error.text());
        }
        match self.expect {
            Expect::First => self.first(payload),
            Expect::Columns(1) if self.capabilities.contains(Capabilities::DEPRECATE_EOF) => {
                self.expect = Expect::Rows;
                Ok(false)
            }
            Expect::Columns(1) => {
                self.expect = Expect::ColumnsEnd;
                Ok(false)
            }
            Expect::Columns(count) => {
                self.expect = Expect::Columns(count - 1);
                Ok(false)
            }
            Expect::ColumnsEnd => {
                EofPacket::parse(payload)?;
                self.expect = Expect::Rows;
                Ok(false)
            }
            Expect::Rows if is_kept => self.rows_end(payload),
            Expect::Rows => {
                self.answer.rows += 1;
                Ok(false)
            }
        }
    }

    fn first(&mut self, payload: &[u8]) -> Result<bool> {
        match payload.first() {
            Some(&response::OK) => {
                let ok = OkPacket::parse(payload, self.capabilities)?;
                self.answer.affected_rows += ok.affected_rows;
                Ok(!ok.status.contains(Status::MORE_RESULTS))
            }
            Some(&response::LOCAL_INFILE) => bail!("the other side asks for a file"),
            _ => {
                let count = Reader::new(payload).lenenc_int()?;
                ensure!(count > 0, "a result without columns");
                self.expect = Expect::Columns(count);
                Ok(false)
            }
        }
    }

    fn rows_end(&mut self, payload: &[u8]) -> Result<bool> {
        let status = if self.capabilities.contains(Capabilities::DEPRECATE_EOF) {
            OkPacket::parse(payload, self.capabilities)?.status
        } else {
            EofPacket::parse(payload)?.status
        };
        self.expect = Expect::First;
        Ok(!status.contains(Status::MORE_RESULTS))
    }
}

#[cfg(test)]
mod tests;
