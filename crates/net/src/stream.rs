//! A byte stream to a client or a backend: TCP or Unix socket, with or without TLS, with or without compression.

use std::io;
use std::net::SocketAddr;
use std::ops::Range;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll};

use tokio::net::{TcpStream, UnixStream};

use delphinus_memory::Account;
use delphinus_wire::auth::Fingerprint;
use delphinus_wire::compression::{Algorithm, CompressedLink};

use crate::buffer::Buffer;
use crate::compression::{CompressionLayer, Lower};
use crate::error::NetError;
use crate::outbox;
use crate::socket::{Posted, Socket, can_wait};
use crate::tls::TlsLayer;

/// A connected socket.
#[derive(Debug)]
pub struct Stream {
    io: Rc<Socket>,
    tls: Option<Box<TlsLayer>>,
    compression: Option<Box<CompressionLayer>>,
}

/// Smallest room a read starts with.
const READ_ROOM: usize = 4096;

impl Stream {
    /// Wraps a TCP socket; small packets are sent at once (TCP_NODELAY).
    pub fn tcp(socket: TcpStream) -> Self {
        Self { io: Rc::new(Socket::tcp(socket)), tls: None, compression: None }
    }

    /// Wraps a Unix socket.
    pub fn unix(socket: UnixStream) -> Self {
        Self { io: Rc::new(Socket::unix(socket)), tls: None, compression: None }
    }

    /// Two ends of a new connection inside this process, for tests.
    pub fn pair() -> io::Result<(Self, Self)> {
        let (a, b) = UnixStream::pair()?;
        Ok((Self::unix(a), Self::unix(b)))
    }

    /// Starts TLS. `early` are bytes already read that belong to the first record.
    pub async fn start_tls(&mut self, mut layer: TlsLayer, early: &[u8]) -> Result<(), NetError> {
        layer.shake_hands(&self.io, early).await?;
        self.tls = Some(Box::new(layer));
        Ok(())
    }

    /// Compresses from now on, inside TLS if that is there. `early` are bytes already read that are compressed.
    pub fn start_compression(&mut self, link: CompressedLink, early: &[u8]) {
        self.compression = Some(Box::new(CompressionLayer::new(link, early)));
    }

    /// What is unpacked takes room of this account from now on.
    pub fn limit_unpacked(&mut self, account: &Account) {
        if let Some(layer) = &mut self.compression {
            layer.limit_to(account);
        }
    }

    /// True with compression.
    pub fn is_compressed(&self) -> bool {
        self.compression.is_some()
    }

    /// What it is compressed with, if it is.
    pub fn compression(&self) -> Option<Algorithm> {
        Some(self.compression.as_ref()?.algorithm())
    }

    /// The answer to the command that was sent is a stream without end, as a binary log: see `CompressedLink::begin_flow`.
    pub fn begin_flow(&mut self) {
        if let Some(layer) = &mut self.compression {
            layer.begin_flow();
        }
    }

    /// What has been written ends a result, and another one follows: with compression, packets are numbered anew.
    pub fn end_result(&mut self) {
        if let Some(layer) = &mut self.compression {
            layer.end_result();
        }
    }

    /// The other end's IP address and port, on TCP.
    pub fn peer_address(&self) -> Option<SocketAddr> {
        self.io.peer_address()
    }

    /// The compression, if there is one, and what is below it.
    fn compressed(&mut self) -> Option<(&mut CompressionLayer, Lower<'_>)> {
        let layer = self.compression.as_deref_mut()?;
        Some((layer, Lower { io: &self.io, tls: self.tls.as_deref_mut() }))
    }

    /// The fingerprint of the certificate that the other side has shown.
    pub fn certificate(&self) -> Option<Fingerprint> {
        self.tls.as_ref()?.peer_certificate()
    }

    /// True with TLS.
    pub fn is_tls(&self) -> bool {
        self.tls.is_some()
    }

    /// The version of TLS, as OpenSSL and so MySQL names it.
    pub fn tls_version(&self) -> Option<&'static str> {
        self.tls.as_ref()?.version()
    }

    /// The cipher of TLS, as OpenSSL and so MySQL names it.
    pub fn tls_cipher(&self) -> Option<String> {
        self.tls.as_ref()?.cipher()
    }

    /// True if nobody on a network can listen: TLS, or a Unix socket.
    pub fn is_secure(&self) -> bool {
        self.is_tls() || self.io.is_unix()
    }

    /// True on a Unix socket.
    pub fn is_unix(&self) -> bool {
        self.io.is_unix()
    }

    /// Waits until a read would find something (or the end), without holding a buffer. Half a record of TLS, or half a frame of the compressed
    /// protocol, is nothing yet: no read waits for the rest of it.
    #[inline]
    pub fn readable(&mut self) -> Readable<'_> {
        Readable(match self.compression {
            None => Wait::Stream(self),
            Some(ref mut layer) => {
                let lower = Lower { io: &self.io, tls: self.tls.as_deref_mut() };
                // Boxed, here and below, so that connections without compression do not carry the room of it.
                Wait::Fill(Box::pin(layer.fill(lower)))
            }
        })
    }

    /// The same without compression.
    #[inline]
    fn poll_readable(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.tls {
            None => self.io.poll_readable(context),
            Some(tls) => tls.poll_readable(&self.io, context),
        }
    }

    /// True if the peer has sent nothing and has not closed: what an idle backend connection must be like.
    pub fn is_quiet(&mut self) -> bool {
        if self.compression.as_ref().is_some_and(|layer| !layer.is_drained()) {
            return false;
        }
        match &mut self.tls {
            Some(tls) => tls.is_quiet(&self.io),
            None => self.io.try_read(&mut [0]).is_err_and(|error| error.kind() == io::ErrorKind::WouldBlock),
        }
    }

    /// True if the peer has closed, or at least will send no more: also where bytes that it sent before are unread, and
    /// with TLS. One system call.
    pub fn is_gone(&self) -> bool {
        use rustix::event::{PollFd, PollFlags, Timespec, poll};
        let watched = PollFlags::RDHUP;
        let mut socket = [PollFd::new(&*self.io, watched)];
        let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
        let gone = watched | PollFlags::HUP | PollFlags::ERR;
        poll(&mut socket, Some(&at_once)).is_ok() && socket[0].revents().intersects(gone)
    }

    /// True if more has arrived than was read, as far as that can be seen without reading: with TLS or compression it may be nothing for its
    /// user. One system call at most.
    pub fn has_arrived(&mut self) -> bool {
        use rustix::event::{PollFd, PollFlags, Timespec, poll};
        let has_more = self.compression.as_ref().is_some_and(|layer| layer.has_more());
        if has_more || self.tls.as_ref().is_some_and(|tls| tls.has_more()) {
            return true;
        }
        let mut socket = [PollFd::new(&*self.io, PollFlags::IN)];
        let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
        poll(&mut socket, Some(&at_once)).is_ok_and(|ready| ready > 0)
    }

    /// Appends what has arrived to `buffer`; 0 is the end of the stream. Dropping the future loses the buffer, and nothing that has not
    /// been read into it.
    #[inline]
    pub async fn read(&mut self, mut buffer: Buffer) -> (io::Result<usize>, Buffer) {
        make_room(&mut buffer);
        if let Some((layer, lower)) = self.compressed() {
            let result = Box::pin(layer.read(lower, buffer.tail())).await;
            return (result, buffer);
        }
        let result = match &mut self.tls {
            None => self.io.read(buffer.tail()).await,
            Some(tls) => tls.read(&self.io, buffer.tail()).await,
        };
        (result, buffer)
    }

    /// The same without waiting, for who has waited with `readable`. `None` where nothing has arrived after all: what was read completely
    /// may still look as if there were more. Then there is to be waited again.
    #[inline]
    pub fn read_at_once(&mut self, buffer: &mut Buffer) -> Option<io::Result<usize>> {
        make_room(buffer);
        match (&mut self.compression, &mut self.tls) {
            (Some(layer), _) => layer.take(buffer.tail()).map(Ok),
            (None, Some(tls)) => tls.take(buffer.tail()).transpose(),
            (None, None) => {
                Some(self.io.take_in(buffer.tail())).filter(|result| !result.as_ref().is_err_and(can_wait))
            }
        }
    }

    /// Takes a copy of a small packet, which is sent before this thread sleeps; false if it has to be written. Should it
    /// not reach the peer, the next read or write says so.
    #[inline]
    pub fn post(&mut self, bytes: &[u8]) -> bool {
        match &mut self.tls {
            _ if self.compression.is_some() => false,
            None => outbox::post(&self.io, bytes),
            Some(tls) => tls.post(&self.io, bytes),
        }
    }

    /// The same without a copy where nothing encrypts or compresses.
    #[inline]
    pub fn post_shared(&mut self, bytes: &Arc<[u8]>) -> bool {
        match &mut self.tls {
            _ if self.compression.is_some() => false,
            None => outbox::post_shared(&self.io, bytes),
            Some(tls) => tls.post(&self.io, bytes),
        }
    }

    /// Waits until everything posted has been written.
    pub async fn write_posted(&mut self) -> io::Result<()> {
        self.io.write_posted().await
    }

    /// Writes these bytes of `buffer`, which stay in it.
    #[inline]
    pub async fn write(&mut self, buffer: Buffer, part: Range<usize>) -> (io::Result<()>, Buffer) {
        let bytes = &buffer.data()[part];
        if let Some((layer, lower)) = self.compressed() {
            let result = Box::pin(layer.write_all(lower, bytes)).await;
            return (result, buffer);
        }
        let result = match &mut self.tls {
            None => self.io.write_all(bytes).await,
            Some(tls) => tls.write_all(&self.io, bytes).await,
        };
        (result, buffer)
    }

    /// Writes `bytes`: for packets made by the proxy itself, off the path of a query.
    pub async fn write_bytes(&mut self, bytes: &[u8]) -> io::Result<()> {
        if let Some((layer, lower)) = self.compressed() {
            return Box::pin(layer.write_all(lower, bytes)).await;
        }
        match &mut self.tls {
            None => self.io.write_all(bytes).await,
            Some(tls) => tls.write_all(&self.io, bytes).await,
        }
    }

    /// Ends the sending side and reads until the peer has closed too: what is unread when a socket is closed
    /// makes the kernel reset the connection, and the peer may then never see the last bytes sent.
    pub async fn finish(&mut self) {
        self.shut_down().await;
        let mut rest = Vec::with_capacity(1024);
        while self.io.read(&mut rest).await.is_ok_and(|n| n > 0) {
            rest.clear();
        }
    }

    /// Says goodbye in TLS and shuts the socket's sending side; errors do not matter any more.
    pub async fn close(mut self) {
        self.shut_down().await;
    }

    async fn shut_down(&mut self) {
        if let Some(tls) = &mut self.tls {
            tls.close(&self.io).await;
        }
        let _ = self.io.write_posted().await;
        self.io.end();
    }
}

fn make_room(buffer: &mut Buffer) {
    if buffer.spare() < READ_ROOM / 4 {
        buffer.reserve(READ_ROOM);
    }
}

/// The future of `Stream::readable`.
// By hand: it is polled four times for a statement, and an async function would keep a state of its own each time.
#[must_use = "futures do nothing unless they are awaited"]
pub struct Readable<'a>(Wait<'a>);

/// What is waited for.
enum Wait<'a> {
    /// The socket, or a record of TLS.
    Stream(&'a mut Stream),
    /// A frame of the compressed protocol.
    Fill(Pin<Box<dyn Future<Output = io::Result<()>> + 'a>>),
}

impl Future for Readable<'_> {
    type Output = io::Result<()>;

    #[inline]
    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        match &mut self.get_mut().0 {
            Wait::Stream(stream) => stream.poll_readable(context),
            Wait::Fill(fill) => fill.as_mut().poll(context),
        }
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        if self.io.posted() == Posted::Stuck {
            self.io.cut();
        }
    }
}
