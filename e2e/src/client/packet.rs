//! Packets over a socket, and the integers and strings in them.

use std::io::{ErrorKind, Read, Write};
use std::net::{TcpStream, ToSocketAddrs as _};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};

use super::ServerError;

/// A payload of this size is continued in the next packet.
const FULL: usize = 0xff_ffff;
/// Nothing in these tests takes longer, unless it hangs.
pub(crate) const IO_LIMIT: Duration = Duration::from_mins(1);

/// Where to connect.
#[derive(Debug, Clone)]
pub(crate) enum Target {
    Tcp(String, u16),
    Unix(PathBuf),
}

/// A byte stream of either kind.
#[derive(Debug)]
pub enum Wire {
    /// Over TCP.
    Tcp(TcpStream),
    /// Over a Unix socket.
    Unix(UnixStream),
}

impl Wire {
    /// Limits how long a read or a write may take.
    pub fn set_limit(&self, limit: Duration) -> Result<()> {
        match self {
            Self::Tcp(stream) => {
                stream.set_read_timeout(Some(limit))?;
                stream.set_write_timeout(Some(limit))?;
            }
            Self::Unix(stream) => {
                stream.set_read_timeout(Some(limit))?;
                stream.set_write_timeout(Some(limit))?;
            }
        }
        Ok(())
    }
}

impl Read for Wire {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        match self {
            Self::Tcp(stream) => stream.read(buffer),
            Self::Unix(stream) => stream.read(buffer),
        }
    }
}

impl Write for Wire {
    fn write(&mut self, buffer: &[u8]) -> std::io::Result<usize> {
        match self {
            Self::Tcp(stream) => stream.write(buffer),
            Self::Unix(stream) => stream.write(buffer),
        }
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// Payloads in packets, with their sequence numbers.
#[derive(Debug)]
pub struct Packets {
    /// The stream below, for tests that break the rules.
    pub wire: Wire,
    sequence: u8,
}

impl Packets {
    /// `limit` is for each read and write, and for the connection.
    pub(crate) fn open(target: &Target, limit: Duration) -> Result<Self> {
        let wire = match target {
            Target::Tcp(host, port) => {
                let address = (host.as_str(), *port).to_socket_addrs()?.next().context("no such host")?;
                let stream = TcpStream::connect_timeout(&address, limit).context("cannot connect")?;
                stream.set_nodelay(true)?;
                Wire::Tcp(stream)
            }
            Target::Unix(path) => Wire::Unix(
                UnixStream::connect(path).with_context(|| format!("cannot connect to {}", path.display()))?,
            ),
        };
        wire.set_limit(limit)?;
        Ok(Self { wire, sequence: 0 })
    }

    /// Over TCP, before any packet.
    pub fn tcp(host: &str, port: u16) -> Result<Self> {
        Self::open(&Target::Tcp(host.to_owned(), port), IO_LIMIT)
    }

    /// The next packet begins a command.
    pub fn restart(&mut self) {
        self.sequence = 0;
    }

    /// The next packet is the first one that answers a command of one packet.
    pub fn expect_answer(&mut self) {
        self.sequence = 1;
    }

    /// Writes a payload of any size.
    pub fn write(&mut self, payload: &[u8]) -> Result<()> {
        let mut bytes = Vec::with_capacity(payload.len() + 8);
        let mut parts = payload.chunks(FULL).peekable();
        let mut last_is_full = payload.is_empty();
        while let Some(part) = parts.next() {
            self.header(&mut bytes, part.len());
            bytes.extend_from_slice(part);
            last_is_full = parts.peek().is_none() && part.len() == FULL;
        }
        if last_is_full {
            self.header(&mut bytes, 0);
        }
        self.wire.write_all(&bytes).context("cannot write")
    }

    /// Reads a payload of any size.
    pub fn read(&mut self) -> Result<Vec<u8>> {
        let mut payload = Vec::new();
        loop {
            let mut header = [0; 4];
            self.wire.read_exact(&mut header).context("the connection ended, or nothing came")?;
            ensure!(header[3] == self.sequence, "packet number {}, wanted {}", header[3], self.sequence);
            self.sequence = self.sequence.wrapping_add(1);
            let length = usize::from(header[0]) | usize::from(header[1]) << 8 | usize::from(header[2]) << 16;
            let start = payload.len();
            payload.resize(start + length, 0);
            self.wire.read_exact(&mut payload[start..]).context("the connection ended inside a packet")?;
            if length < FULL {
                return Ok(payload);
            }
        }
    }

    /// Reads a payload that is not empty and no error.
    pub fn read_checked(&mut self) -> Result<Vec<u8>> {
        let payload = self.read()?;
        match payload.first() {
            None => bail!("an empty packet"),
            Some(0xff) => Err(server_error(&payload)?.into()),
            Some(_) => Ok(payload),
        }
    }

    /// True if the other side has closed the connection; waits until it does, or says something.
    pub fn is_at_end(&mut self) -> Result<bool> {
        match self.wire.read(&mut [0]) {
            Ok(count) => Ok(count == 0),
            Err(error) if matches!(error.kind(), ErrorKind::ConnectionReset | ErrorKind::BrokenPipe) => {
                Ok(true)
            }
            Err(error) => Err(error).context("neither an end nor a byte"),
        }
    }

    fn header(&mut self, bytes: &mut Vec<u8>, length: usize) {
        bytes.extend_from_slice(&length.to_le_bytes()[..3]);
        bytes.push(self.sequence);
        self.sequence = self.sequence.wrapping_add(1);
    }
}

/// The error in an ERR packet. Before the login there is no SQLSTATE in it.
pub(crate) fn server_error(payload: &[u8]) -> Result<ServerError> {
    let mut reader = Reader::new(&payload[1..]);
    let code = reader.u16()?;
    let rest = reader.rest();
    let (sqlstate, message) = match rest.strip_prefix(b"#") {
        Some(rest) if rest.len() >= 5 => rest.split_at(5),
        _ => (&b""[..], rest),
    };
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    Ok(ServerError { code, sqlstate: text(sqlstate), message: text(message) })
}

/// Reads what is in a payload.
#[derive(Debug)]
pub(crate) struct Reader<'a> {
    bytes: &'a [u8],
}

impl<'a> Reader<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self { bytes }
    }

    pub(crate) fn take(&mut self, count: usize) -> Result<&'a [u8]> {
        ensure!(self.bytes.len() >= count, "a packet that is too short");
        let (taken, rest) = self.bytes.split_at(count);
        self.bytes = rest;
        Ok(taken)
    }

    pub(crate) fn rest(&mut self) -> &'a [u8] {
        std::mem::take(&mut self.bytes)
    }

    pub(crate) fn u8(&mut self) -> Result<u8> {
        Ok(self.take(1)?[0])
    }

    pub(crate) fn u16(&mut self) -> Result<u16> {
        Ok(u16::try_from(self.integer(2)?)?)
    }

    pub(crate) fn u32(&mut self) -> Result<u32> {
        Ok(u32::try_from(self.integer(4)?)?)
    }

    fn integer(&mut self, width: usize) -> Result<u64> {
        Ok(self.take(width)?.iter().rev().fold(0, |sum, byte| sum << 8 | u64::from(*byte)))
    }

    pub(crate) fn lenenc(&mut self) -> Result<u64> {
        match self.u8()? {
            0xfc => self.integer(2),
            0xfd => self.integer(3),
            0xfe => self.integer(8),
            byte => Ok(u64::from(byte)),
        }
    }

    pub(crate) fn until_nul(&mut self) -> Result<&'a [u8]> {
        let end = self.bytes.iter().position(|byte| *byte == 0).context("a string without an end")?;
        let taken = self.take(end)?;
        self.take(1)?;
        Ok(taken)
    }

    pub(crate) fn text_row(&mut self) -> Result<Vec<Option<String>>> {
        let mut row = Vec::new();
        while let Some(first) = self.bytes.first() {
            if *first == 0xfb {
                self.u8()?;
                row.push(None);
                continue;
            }
            let length = usize::try_from(self.lenenc()?)?;
            row.push(Some(String::from_utf8_lossy(self.take(length)?).into_owned()));
        }
        Ok(row)
    }
}
