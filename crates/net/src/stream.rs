//! A byte stream to a client or a backend: TCP or Unix socket, with or without TLS.

use std::future::poll_fn;
use std::io;
use std::ops::Range;
use std::task::{Context, Poll};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpStream, UnixStream};

use crate::buffer::Buffer;
use crate::error::NetError;
use crate::tls::TlsLayer;

/// A connected socket.
#[derive(Debug)]
pub struct Stream {
    io: Socket,
    tls: Option<Box<TlsLayer>>,
}

/// The socket below TLS.
#[derive(Debug)]
pub(crate) enum Socket {
    Tcp(TcpStream),
    Unix(UnixStream),
}

/// Smallest room a read starts with.
const READ_ROOM: usize = 4096;

impl Socket {
    pub(crate) async fn read(&mut self, into: &mut Vec<u8>) -> io::Result<usize> {
        match self {
            Self::Tcp(socket) => socket.read_buf(into).await,
            Self::Unix(socket) => socket.read_buf(into).await,
        }
    }

    pub(crate) async fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        match self {
            Self::Tcp(socket) => socket.write_all(bytes).await,
            Self::Unix(socket) => socket.write_all(bytes).await,
        }
    }

    /// Reads what is there, without waiting. No system call where nothing has arrived.
    pub(crate) fn try_read(&self, into: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Tcp(socket) => socket.try_read(into),
            Self::Unix(socket) => socket.try_read(into),
        }
    }

    /// Writes what fits without waiting.
    fn try_write(&self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Tcp(socket) => socket.try_write(bytes),
            Self::Unix(socket) => socket.try_write(bytes),
        }
    }

    // By `poll_read_ready`, which has a place for one waiter, and not `readable`, which keeps a list of them.
    fn poll_readable(&self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self {
            Self::Tcp(socket) => socket.poll_read_ready(context),
            Self::Unix(socket) => socket.poll_read_ready(context),
        }
    }
}

impl Stream {
    /// Wraps a TCP socket; small packets are sent at once (TCP_NODELAY).
    pub fn tcp(socket: TcpStream) -> Self {
        // A socket that refuses the option is slower, not wrong.
        let _ = socket.set_nodelay(true);
        Self { io: Socket::Tcp(socket), tls: None }
    }

    /// Wraps a Unix socket.
    pub fn unix(socket: UnixStream) -> Self {
        Self { io: Socket::Unix(socket), tls: None }
    }

    /// Two ends of a new connection inside this process, for tests.
    pub fn pair() -> io::Result<(Self, Self)> {
        let (a, b) = UnixStream::pair()?;
        Ok((Self::unix(a), Self::unix(b)))
    }

    /// Starts TLS. `early` are bytes already read that belong to the first record.
    pub async fn start_tls(&mut self, mut layer: TlsLayer, early: &[u8]) -> Result<(), NetError> {
        layer.shake_hands(&mut self.io, early).await?;
        self.tls = Some(Box::new(layer));
        Ok(())
    }

    /// True with TLS.
    pub fn is_tls(&self) -> bool {
        self.tls.is_some()
    }

    /// True if nobody on a network can listen: TLS, or a Unix socket.
    pub fn is_secure(&self) -> bool {
        self.is_tls() || matches!(self.io, Socket::Unix(_))
    }

    /// True on a Unix socket.
    pub fn is_unix(&self) -> bool {
        matches!(self.io, Socket::Unix(_))
    }

    /// Waits until a read would find something (or the end), without holding a buffer.
    pub async fn readable(&mut self) -> io::Result<()> {
        if self.tls.as_mut().is_some_and(|tls| tls.has_plaintext()) {
            return Ok(());
        }
        poll_fn(|context| self.io.poll_readable(context)).await
    }

    /// True if the peer has sent nothing and has not closed: what an idle backend connection must be like.
    pub fn is_quiet(&mut self) -> bool {
        match &mut self.tls {
            Some(tls) => tls.is_quiet(&self.io),
            None => self.io.try_read(&mut [0]).is_err_and(|error| error.kind() == io::ErrorKind::WouldBlock),
        }
    }

    /// Appends what has arrived to `buffer`; 0 is the end of the stream.
    #[inline]
    pub async fn read(&mut self, mut buffer: Buffer) -> (io::Result<usize>, Buffer) {
        if buffer.spare() < READ_ROOM / 4 {
            buffer.reserve(READ_ROOM);
        }
        let result = match &mut self.tls {
            None => self.io.read(buffer.tail()).await,
            Some(tls) => tls.read(&mut self.io, buffer.tail()).await,
        };
        (result, buffer)
    }

    /// Writes as much of `bytes` as goes without waiting, which may be nothing.
    #[inline]
    pub fn write_now(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.tls.is_some() {
            return Ok(0);
        }
        match self.io.try_write(bytes) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(0),
            result => result,
        }
    }

    /// Writes these bytes of `buffer`, which stay in it.
    #[inline]
    pub async fn write(&mut self, buffer: Buffer, part: Range<usize>) -> (io::Result<()>, Buffer) {
        let bytes = &buffer.data()[part];
        let result = match &mut self.tls {
            None => self.io.write_all(bytes).await,
            Some(tls) => tls.write_all(&mut self.io, bytes).await,
        };
        (result, buffer)
    }

    /// Writes `bytes`: for packets made by the proxy itself, off the path of a query.
    pub async fn write_bytes(&mut self, bytes: &[u8]) -> io::Result<()> {
        match &mut self.tls {
            None => self.io.write_all(bytes).await,
            Some(tls) => tls.write_all(&mut self.io, bytes).await,
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
            tls.close(&mut self.io).await;
        }
        let _ = match &mut self.io {
            Socket::Tcp(socket) => socket.shutdown().await,
            Socket::Unix(socket) => socket.shutdown().await,
        };
    }
}
