//! Moves frames of the compressed protocol between a socket, or the TLS on it, and `wire`, which does no I/O.

use std::cell::RefCell;
use std::future::poll_fn;
use std::io;

use delphinus_memory::{Account, Owner, Permit};
use delphinus_wire::compression::{Algorithm, Codec, CompressedLink};

use crate::buffer::Buffer;
use crate::socket::Socket;
use crate::tls::TlsLayer;

thread_local! {
    /// One for all connections of a worker: it is of the size of megabytes, and nothing of a frame stays in it.
    static CODEC: RefCell<Codec> = RefCell::default();
}

/// How much is read from below at once.
const CHUNK: usize = 16 * 1024;
/// So much is not counted.
const FREE: usize = 2 * CHUNK;
/// Longest piece that is compressed before it is written.
const LONGEST_WRITE: usize = 256 * 1024;

/// The compression of one connection. Holds no memory while nothing is under way.
#[derive(Debug)]
pub(crate) struct CompressionLayer {
    link: CompressedLink,
    /// Read and not whole yet.
    incoming: Buffer,
    /// What was in the last frame, and how much of it has been taken.
    unpacked: Vec<u8>,
    taken: usize,
    has_ended: bool,
    /// The room that a client's packets take while they are unpacked.
    room: Option<Permit>,
}

/// What is below the compression.
pub(crate) struct Lower<'a> {
    pub(crate) io: &'a Socket,
    pub(crate) tls: Option<&'a mut TlsLayer>,
}

impl Lower<'_> {
    async fn readable(&mut self) -> io::Result<()> {
        let io = self.io;
        match &mut self.tls {
            None => poll_fn(|context| io.poll_readable(context)).await,
            // Half a record is nothing yet: no buffer is taken for that.
            Some(tls) => poll_fn(|context| tls.poll_readable(io, context)).await,
        }
    }

    async fn read(&mut self, into: &mut Vec<u8>) -> io::Result<usize> {
        match &mut self.tls {
            None => self.io.read(into).await,
            Some(tls) => tls.read(self.io, into).await,
        }
    }

    async fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        match &mut self.tls {
            None => self.io.write_all(bytes).await,
            Some(tls) => tls.write_all(self.io, bytes).await,
        }
    }
}

impl CompressionLayer {
    /// `early` are bytes already read that belong to the first frame.
    pub(crate) fn new(link: CompressedLink, early: &[u8]) -> Self {
        let mut incoming = Buffer::default();
        incoming.extend(early);
        Self { link, incoming, unpacked: Vec::new(), taken: 0, has_ended: false, room: None }
    }

    /// What it unpacks takes room of this account: for clients, who may send what unpacks to very much.
    pub(crate) fn limit_to(&mut self, account: &Account) {
        self.room = Some(account.open(Owner::Unpacked));
    }

    /// Takes the room for `more` bytes beside what has been read.
    fn take_room(&mut self, more: usize) -> io::Result<()> {
        let bytes = self.incoming.capacity() + more;
        let has_room = bytes <= FREE || self.room.as_mut().is_none_or(|room| room.grow_to(bytes));
        let full = || io::Error::other("memory_limit is reached: there is no room to unpack a packet");
        has_room.then_some(()).ok_or_else(full)
    }

    /// True if nothing is left of what has been read.
    pub(crate) fn is_drained(&self) -> bool {
        self.taken == self.unpacked.len() && self.incoming.is_empty() && !self.has_ended
    }

    /// True if a read would find something without more from below.
    pub(crate) fn has_more(&self) -> bool {
        self.taken < self.unpacked.len() || CompressedLink::frame_len(self.incoming.data()).is_some()
    }

    /// What it is compressed with.
    pub(crate) fn algorithm(&self) -> Algorithm {
        self.link.algorithm()
    }

    /// The answer to the last command is a stream without end.
    pub(crate) fn begin_flow(&mut self) {
        self.link.begin_flow();
    }

    /// Waits until a read would find something (or the end). May be dropped and begun again.
    pub(crate) async fn fill(&mut self, mut lower: Lower<'_>) -> io::Result<()> {
        while self.taken == self.unpacked.len() && !self.has_ended {
            if let Some(len) = CompressedLink::frame_len(self.incoming.data()) {
                self.unpack(len)?;
                continue;
            }
            if self.incoming.is_empty() {
                lower.readable().await?;
            }
            self.incoming.reserve(CHUNK);
            self.take_room(0)?;
            self.has_ended = lower.read(self.incoming.tail()).await? == 0;
        }
        Ok(())
    }

    fn unpack(&mut self, len: usize) -> io::Result<()> {
        self.taken = 0;
        self.take_room(CompressedLink::unpacked_len(self.incoming.data()))?;
        let frame = &self.incoming.data()[..len];
        CODEC
            .with_borrow_mut(|codec| self.link.decode(codec, frame, &mut self.unpacked))
            .map_err(|malformed| io::Error::new(io::ErrorKind::InvalidData, malformed))?;
        self.incoming.consume(len);
        if self.incoming.is_empty() {
            self.incoming = Buffer::default();
        }
        Ok(())
    }

    /// Appends what has arrived, as far as there is room; 0 is the end of the stream.
    pub(crate) async fn read(&mut self, lower: Lower<'_>, into: &mut Vec<u8>) -> io::Result<usize> {
        self.fill(lower).await?;
        Ok(self.take(into).unwrap_or_default())
    }

    /// The same without waiting: `None` where nothing has been unpacked yet.
    pub(crate) fn take(&mut self, into: &mut Vec<u8>) -> Option<usize> {
        if self.taken == self.unpacked.len() && !self.has_ended {
            return None;
        }
        let rest = &self.unpacked[self.taken..];
        let n = rest.len().min((into.capacity() - into.len()).max(1024));
        into.extend_from_slice(&rest[..n]);
        self.taken += n;
        if self.taken == self.unpacked.len() {
            self.unpacked = Vec::new();
            self.taken = 0;
            if let Some(room) = &mut self.room {
                room.shrink_to(if self.incoming.is_empty() { 0 } else { self.incoming.capacity() });
            }
        }
        Some(n)
    }

    /// What has been written ends a result.
    pub(crate) fn end_result(&mut self) {
        self.link.end_result();
    }

    /// Writes `bytes` in frames.
    pub(crate) async fn write_all(&mut self, mut lower: Lower<'_>, bytes: &[u8]) -> io::Result<()> {
        let mut frames = Vec::new();
        for piece in bytes.chunks(LONGEST_WRITE) {
            frames.clear();
            CODEC.with_borrow_mut(|codec| self.link.encode(codec, piece, &mut frames));
            lower.write_all(&frames).await?;
        }
        Ok(())
    }
}

#[cfg(test)]
pub(crate) mod tests;
