//! A byte stream as libraries on this runtime want it: polled, with TLS below it. For protocols that are not MySQL's.

use std::io::{self, IoSlice};
use std::net::IpAddr;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpStream, UnixStream};
use tokio::time::{Sleep, sleep};
use tokio_rustls::{TlsAcceptor, TlsConnector};

use crate::dial::Address;
use crate::error::NetError;
use crate::listen::{Accepted, Peer};
use crate::tls::{ClientTls, ServerTls};

/// The first byte of a TLS connection: a record of the handshake.
const HANDSHAKE: u8 = 0x16;

/// What is read and written.
trait Bytes: AsyncRead + AsyncWrite + Unpin + Send {}

impl<T: AsyncRead + AsyncWrite + Unpin + Send> Bytes for T {}

/// A connected stream. A write that is not done within its limit fails.
pub struct ByteStream {
    io: Box<dyn Bytes>,
    is_tls: bool,
    write_limit: Duration,
    /// Set while there are bytes that the peer has not taken.
    deadline: Option<Pin<Box<Sleep>>>,
}

impl ByteStream {
    fn new(
        io: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
        is_tls: bool,
        write_limit: Duration,
    ) -> Self {
        Self { io: Box::new(io), is_tls, write_limit, deadline: None }
    }

    /// Takes in a client. Where there is a certificate, one that begins with TLS gets it; without `must`, others are let in, too.
    /// All that is written at a time has to be taken within `write_limit`.
    pub async fn accept(
        peer: Peer,
        tls: Option<&ServerTls>,
        must: bool,
        write_limit: Duration,
    ) -> Result<Self, NetError> {
        let socket = match peer.socket {
            Accepted::Unix(socket) => {
                return Ok(Self::new(UnixStream::from_std(socket)?, false, write_limit));
            }
            Accepted::Tcp(socket) => TcpStream::from_std(socket)?,
        };
        // A socket that refuses the option is slower, not wrong.
        let _ = socket.set_nodelay(true);
        let Some(tls) = tls else { return Ok(Self::new(socket, false, write_limit)) };
        let mut first = [0];
        let begins_with_tls = socket.peek(&mut first).await? == 1 && first[0] == HANDSHAKE;
        if !begins_with_tls && !must {
            return Ok(Self::new(socket, false, write_limit));
        }
        let acceptor = TlsAcceptor::from(tls.config());
        let stream = acceptor.accept(socket).await.map_err(|error| NetError::Tls(error.to_string()))?;
        Ok(Self::new(stream, true, write_limit))
    }

    /// Connects.
    pub async fn connect(address: &Address, tls: Option<&ClientTls>) -> Result<Self, NetError> {
        const LIMIT: Duration = Duration::from_mins(1);
        let (host, socket) = match address {
            Address::Unix(path) => return Ok(Self::new(UnixStream::connect(path).await?, false, LIMIT)),
            Address::Tcp(host, port) => (host, TcpStream::connect((host.as_str(), *port)).await?),
        };
        let _ = socket.set_nodelay(true);
        let Some(tls) = tls else { return Ok(Self::new(socket, false, LIMIT)) };
        let (config, name) = tls.config_for(host)?;
        let connected = TlsConnector::from(config).connect(name, socket).await;
        Ok(Self::new(connected.map_err(|error| NetError::Tls(error.to_string()))?, true, LIMIT))
    }

    /// True with TLS.
    pub fn is_tls(&self) -> bool {
        self.is_tls
    }

    /// What one step of writing has come to, against the clock.
    fn in_time<T>(&mut self, context: &mut Context<'_>, done: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if done.is_ready() {
            return done;
        }
        let limit = self.write_limit;
        let deadline = self.deadline.get_or_insert_with(|| Box::pin(sleep(limit)));
        deadline.as_mut().poll(context).map(|()| Err(io::ErrorKind::TimedOut.into()))
    }
}

impl AsyncRead for ByteStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut *self.io).poll_read(context, into)
    }
}

impl AsyncWrite for ByteStream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let done = Pin::new(&mut *self.io).poll_write(context, bytes);
        self.in_time(context, done)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let done = Pin::new(&mut *self.io).poll_write_vectored(context, bytes);
        self.in_time(context, done)
    }

    fn is_write_vectored(&self) -> bool {
        self.io.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let done = Pin::new(&mut *self.io).poll_flush(context);
        if done.is_ready() {
            // All has been taken: the next answer has its own time.
            self.deadline = None;
        }
        self.in_time(context, done)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let done = Pin::new(&mut *self.io).poll_shutdown(context);
        self.in_time(context, done)
    }
}

impl std::fmt::Debug for ByteStream {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ByteStream").field("is_tls", &self.is_tls).finish_non_exhaustive()
    }
}

/// True for an address of this machine alone; `None`: a Unix socket.
pub fn is_local(ip: Option<IpAddr>) -> bool {
    ip.is_none_or(|ip| ip.to_canonical().is_loopback())
}
