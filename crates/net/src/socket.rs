//! The socket below a stream: reads and writes without waiting, and waiting for either. What the outbox could not
//! send stays here until there is room.

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use rustix::buffer::spare_capacity;
use rustix::net::{RecvFlags, SendFlags, Shutdown, recv, send, shutdown};
use socket2::{SockRef, TcpKeepalive};
use tokio::io::Interest;
use tokio::net::{TcpStream, UnixStream};

use crate::outbox;

/// A host that is cut off, or has lost its power, says no goodbye: after a minute in which nothing comes it is asked, and if it answers none of
/// six questions the connection is over, two and a half minutes after its last byte.
const KEEPALIVE: TcpKeepalive = TcpKeepalive::new()
    .with_time(Duration::from_mins(1))
    .with_interval(Duration::from_secs(15))
    .with_retries(6);

/// A connected socket, TCP or Unix, of one thread.
#[derive(Debug)]
pub(crate) struct Socket {
    io: Io,
    posted: Cell<Posted>,
    backlog: RefCell<Vec<u8>>,
}

#[derive(Debug)]
enum Io {
    Tcp(TcpStream),
    Unix(UnixStream),
}

/// What has become of bytes that were posted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Posted {
    /// There are none.
    Nothing,
    /// They wait in this thread's outbox.
    InOutbox,
    /// There was no room: the rest waits in the backlog.
    Stuck,
    /// They could not be sent, for this reason.
    Failed(io::ErrorKind),
}

impl Socket {
    /// Small packets are sent at once, and a peer that is not there any more is found out.
    pub(crate) fn tcp(socket: TcpStream) -> Self {
        // A socket that refuses the options is slower, not wrong.
        let _ = socket.set_nodelay(true);
        let _ = SockRef::from(&socket).set_tcp_keepalive(&KEEPALIVE);
        Self::new(Io::Tcp(socket))
    }

    pub(crate) fn unix(socket: UnixStream) -> Self {
        Self::new(Io::Unix(socket))
    }

    fn new(io: Io) -> Self {
        Self { io, posted: Cell::new(Posted::Nothing), backlog: RefCell::default() }
    }

    pub(crate) fn is_unix(&self) -> bool {
        matches!(self.io, Io::Unix(_))
    }

    /// The other end's address, on TCP.
    pub(crate) fn peer_address(&self) -> Option<SocketAddr> {
        match &self.io {
            Io::Tcp(socket) => socket.peer_addr().ok(),
            Io::Unix(_) => None,
        }
    }

    /// Appends what has arrived, up to the room there is; waits for it if nothing has. 0 is the end.
    #[inline]
    pub(crate) async fn read(&self, into: &mut Vec<u8>) -> io::Result<usize> {
        poll_fn(|context| self.poll_read(context, into)).await
    }

    /// The same, polled.
    pub(crate) fn poll_read(&self, context: &mut Context<'_>, into: &mut Vec<u8>) -> Poll<io::Result<usize>> {
        loop {
            ready!(self.poll_readable(context))?;
            match self.take_in(into) {
                Err(error) if can_wait(&error) => {}
                result => return Poll::Ready(result),
            }
        }
    }

    /// Appends what has arrived, up to the room there is, without waiting. 0 is the end.
    pub(crate) fn take_in(&self, into: &mut Vec<u8>) -> io::Result<usize> {
        // Without room, nothing read would look like the end.
        into.reserve(1);
        let room = into.capacity() - into.len();
        let mut got = None;
        let result = self.try_io(Interest::READABLE, || {
            let n = recv(self, spare_capacity(into), RecvFlags::empty())?.0;
            got = Some(n);
            // That was all there is: asking once more would be a system call for nothing.
            if 0 < n && n < room { Err(io::ErrorKind::WouldBlock.into()) } else { Ok(()) }
        });
        got.map_or_else(|| result.map(|()| 0), Ok)
    }

    /// Reads what is there, without waiting. No system call where nothing has arrived.
    pub(crate) fn try_read(&self, into: &mut [u8]) -> io::Result<usize> {
        self.try_io(Interest::READABLE, || Ok(recv(self, into, RecvFlags::empty())?.0))
    }

    /// Writes what fits without waiting.
    pub(crate) fn try_write(&self, bytes: &[u8]) -> io::Result<usize> {
        self.try_io(Interest::WRITABLE, || Ok(send(self, bytes, SendFlags::NOSIGNAL)?))
    }

    /// Sends what fits without waiting, and without asking the runtime first whether there is room.
    pub(crate) fn send_now(&self, bytes: &[u8]) -> io::Result<usize> {
        Ok(send(self, bytes, SendFlags::NOSIGNAL | SendFlags::DONTWAIT)?)
    }

    fn try_io<R>(&self, interest: Interest, call: impl FnOnce() -> io::Result<R>) -> io::Result<R> {
        match &self.io {
            Io::Tcp(socket) => socket.try_io(interest, call),
            Io::Unix(socket) => socket.try_io(interest, call),
        }
    }

    /// Waits until a read would find something, or the end.
    // By `poll_read_ready`, which has a place for one waiter, and not `readable`, which keeps a list of them.
    #[inline]
    pub(crate) fn poll_readable(&self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &self.io {
            Io::Tcp(socket) => socket.poll_read_ready(context),
            Io::Unix(socket) => socket.poll_read_ready(context),
        }
    }

    async fn writable(&self) -> io::Result<()> {
        match &self.io {
            Io::Tcp(socket) => socket.writable().await,
            Io::Unix(socket) => socket.writable().await,
        }
    }

    /// Writes all of it, behind what was posted before.
    pub(crate) async fn write_all(&self, mut bytes: &[u8]) -> io::Result<()> {
        self.write_posted().await?;
        while !bytes.is_empty() {
            match self.try_write(bytes) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(n) => bytes = &bytes[n..],
                Err(error) if can_wait(&error) => self.writable().await?,
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Waits until what was posted has been written.
    pub(crate) async fn write_posted(&self) -> io::Result<()> {
        loop {
            match self.posted.get() {
                Posted::Nothing => return Ok(()),
                Posted::InOutbox => outbox::flush(),
                Posted::Failed(kind) => return Err(kind.into()),
                Posted::Stuck => {
                    self.writable().await?;
                    self.write_backlog();
                }
            }
        }
    }

    /// Writes what it can of the backlog.
    fn write_backlog(&self) {
        let mut backlog = self.backlog.borrow_mut();
        while !backlog.is_empty() {
            match self.try_write(&backlog) {
                Ok(0) => return self.posted.set(Posted::Failed(io::ErrorKind::WriteZero)),
                Ok(n) => drop(backlog.drain(..n)),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Err(error) => return self.posted.set(Posted::Failed(error.kind())),
            }
        }
        *backlog = Vec::new();
        self.posted.set(Posted::Nothing);
    }

    /// What has become of bytes that were posted.
    pub(crate) fn posted(&self) -> Posted {
        self.posted.get()
    }

    /// The outbox has taken bytes for this socket.
    pub(crate) fn has_posted(&self) {
        self.posted.set(Posted::InOutbox);
    }

    /// The outbox has sent as much of `bytes` as `result` says. Bytes of one socket come in their order.
    pub(crate) fn was_sent(&self, bytes: &[u8], result: io::Result<usize>) {
        let sent = match result {
            Ok(n) => n,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => 0,
            Err(error) => return self.posted.set(Posted::Failed(error.kind())),
        };
        match self.posted.get() {
            Posted::InOutbox if sent == bytes.len() => self.posted.set(Posted::Nothing),
            Posted::InOutbox => {
                self.backlog.borrow_mut().extend_from_slice(&bytes[sent..]);
                self.posted.set(Posted::Stuck);
            }
            _ => {}
        }
    }

    /// Closes both directions, for everybody who has this socket.
    pub(crate) fn cut(&self) {
        let _ = shutdown(self, Shutdown::Both);
    }

    /// Says that no more bytes will come.
    pub(crate) fn end(&self) {
        let _ = shutdown(self, Shutdown::Write);
    }
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match &self.io {
            Io::Tcp(socket) => socket.as_fd(),
            Io::Unix(socket) => socket.as_fd(),
        }
    }
}

pub(crate) fn can_wait(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted)
}

#[cfg(test)]
mod tests {
    use tokio::net::TcpListener;

    use super::*;
    use crate::rt;

    #[test]
    fn a_peer_that_says_nothing_is_asked_whether_it_is_there() {
        let test = async {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let address = listener.local_addr().unwrap();
            let (near, far) = tokio::join!(TcpStream::connect(address), listener.accept());
            for socket in [Socket::tcp(near.unwrap()), Socket::tcp(far.unwrap().0)] {
                let socket = SockRef::from(&socket);
                assert!(socket.keepalive().unwrap());
                assert_eq!(socket.tcp_keepalive_time().unwrap(), Duration::from_mins(1));
                assert_eq!(socket.tcp_keepalive_interval().unwrap(), Duration::from_secs(15));
                assert_eq!(socket.tcp_keepalive_retries().unwrap(), 6);
            }
        };
        rt::block_on(test).unwrap();
    }
}
