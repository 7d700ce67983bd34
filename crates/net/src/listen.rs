//! Listening sockets. Accepted sockets leave here as plain ones, which the acceptor hands to a worker.

use std::fmt;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::path::{Path, PathBuf};

use delphinus_kernel::Filter;
use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};

use crate::stream::Stream;

/// Where clients connect.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ListenAddress {
    /// IP address and port.
    Tcp(SocketAddr),
    /// The same where the address is a virtual one, which may be on another host now.
    Virtual(SocketAddr),
    /// Path of a Unix socket and its permission bits.
    Unix(PathBuf, u32),
}

impl fmt::Display for ListenAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(address) | Self::Virtual(address) => address.fmt(f),
            Self::Unix(path, _) => write!(f, "unix:{}", path.display()),
        }
    }
}

/// A bound socket.
#[derive(Debug)]
pub struct Listener {
    socket: Bound,
    path: Option<PathBuf>,
}

#[derive(Debug)]
enum Bound {
    Tcp(TcpListener),
    Unix(UnixListener),
}

/// An accepted client on its way to a worker.
#[derive(Debug)]
pub struct Peer {
    pub(crate) socket: Accepted,
    /// The client's IP address; `None` on a Unix socket.
    pub ip: Option<IpAddr>,
    /// The address of this host that it has come to; `None` on a Unix socket.
    pub local: Option<IpAddr>,
    /// The id of the system user at the other end of a Unix socket.
    pub system_user: Option<u32>,
}

/// A socket without a runtime.
#[derive(Debug)]
pub(crate) enum Accepted {
    Tcp(std::net::TcpStream),
    Unix(std::os::unix::net::UnixStream),
}

/// How many clients may wait to be accepted.
const BACKLOG: i32 = 4096;

impl Listener {
    /// Binds. A Unix socket that nobody listens on any more is replaced.
    pub fn bind(wanted: &ListenAddress) -> io::Result<Self> {
        match wanted {
            ListenAddress::Tcp(address) | ListenAddress::Virtual(address) => {
                let domain = socket2::Domain::for_address(*address);
                let socket = socket2::Socket::new(domain, socket2::Type::STREAM, None)?;
                socket.set_reuse_address(true)?;
                if matches!(wanted, ListenAddress::Virtual(_)) {
                    // IP_FREEBIND: the address comes, and goes, while the socket listens.
                    match address {
                        SocketAddr::V4(_) => socket.set_freebind_v4(true)?,
                        SocketAddr::V6(_) => socket.set_freebind_v6(true)?,
                    }
                }
                socket.set_nonblocking(true)?;
                socket.bind(&(*address).into())?;
                socket.listen(BACKLOG)?;
                let listener = TcpListener::from_std(socket.into())?;
                Ok(Self { socket: Bound::Tcp(listener), path: None })
            }
            ListenAddress::Unix(path, mode) => {
                remove_stale(path)?;
                let socket = bind_unix(path, *mode)?;
                Ok(Self { socket: Bound::Unix(UnixListener::from_std(socket)?), path: Some(path.clone()) })
            }
        }
    }

    /// The address really bound, which matters with port 0.
    pub fn local_address(&self) -> io::Result<ListenAddress> {
        Ok(match (&self.socket, &self.path) {
            (Bound::Tcp(listener), _) => ListenAddress::Tcp(listener.local_addr()?),
            (Bound::Unix(_), path) => ListenAddress::Unix(path.clone().unwrap_or_default(), 0),
        })
    }

    /// Has the kernel keep out who comes to one of these addresses from now on: what opens a connection is dropped without an answer. Those
    /// who are in, or wait to be accepted, stay. With none, all are let in.
    ///
    /// # Errors
    /// The kernel's.
    pub fn keep_out(&self, addresses: &[IpAddr]) -> io::Result<()> {
        match &self.socket {
            Bound::Tcp(listener) if addresses.is_empty() => Filter::detach(listener),
            Bound::Tcp(listener) => Filter::no_openings(addresses).attach(listener),
            Bound::Unix(_) => Ok(()),
        }
    }

    /// Waits for the next client.
    pub async fn accept(&self) -> io::Result<Peer> {
        Ok(match &self.socket {
            Bound::Tcp(listener) => {
                let (socket, address) = listener.accept().await?;
                let ip = Some(address.ip().to_canonical());
                let local = socket.local_addr().ok().map(|address| address.ip().to_canonical());
                Peer { socket: Accepted::Tcp(socket.into_std()?), ip, local, system_user: None }
            }
            Bound::Unix(listener) => {
                let (socket, _) = listener.accept().await?;
                let system_user = socket.peer_cred().ok().map(|peer| peer.uid());
                Peer { socket: Accepted::Unix(socket.into_std()?), ip: None, local: None, system_user }
            }
        })
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        if let Some(path) = &self.path {
            let _ = std::fs::remove_file(path);
        }
    }
}

impl Peer {
    /// Registers the socket with this thread's runtime.
    pub fn into_stream(self) -> io::Result<Stream> {
        Ok(match self.socket {
            Accepted::Tcp(socket) => Stream::tcp(TcpStream::from_std(socket)?),
            Accepted::Unix(socket) => Stream::unix(UnixStream::from_std(socket)?),
        })
    }

    /// The client's host as MySQL writes it in errors: an address, or `localhost`.
    pub fn host(&self) -> String {
        self.ip.map_or_else(|| "localhost".to_owned(), |ip| ip.to_string())
    }
}

/// The mode is the socket's before it has a name: there is no moment at which others could connect. What the umask has taken of it
/// is given afterwards.
fn bind_unix(path: &Path, mode: u32) -> io::Result<std::os::unix::net::UnixListener> {
    let socket = socket2::Socket::new(socket2::Domain::UNIX, socket2::Type::STREAM, None)?;
    socket.set_nonblocking(true)?;
    rustix::fs::fchmod(&socket, rustix::fs::Mode::from_raw_mode(mode))?;
    socket.bind(&socket2::SockAddr::unix(path)?)?;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode))?;
    socket.listen(BACKLOG)?;
    Ok(socket.into())
}

fn remove_stale(path: &Path) -> io::Result<()> {
    match std::fs::metadata(path) {
        Ok(found) if found.file_type().is_socket() => {
            if std::os::unix::net::UnixStream::connect(path).is_ok() {
                return Err(io::Error::new(
                    io::ErrorKind::AddrInUse,
                    "another process listens on this socket",
                ));
            }
            std::fs::remove_file(path)
        }
        Ok(_) => Err(io::Error::new(io::ErrorKind::AlreadyExists, "the path exists and is not a socket")),
        Err(_) => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whoever looks all the time never finds a socket that more may use than its mode says.
    #[test]
    fn a_unix_socket_is_born_with_its_mode() {
        let path = std::env::temp_dir().join(format!("delphinus-mode-{}", std::process::id()));
        let done = std::sync::atomic::AtomicBool::new(false);
        let widest = std::thread::scope(|scope| {
            let looks = scope.spawn(|| {
                let mut widest = 0;
                while !done.load(std::sync::atomic::Ordering::Relaxed) {
                    widest |= std::fs::symlink_metadata(&path).map_or(0, |found| found.permissions().mode());
                }
                widest & 0o777
            });
            for _ in 0..2000 {
                drop(bind_unix(&path, 0o600).unwrap());
                std::fs::remove_file(&path).unwrap();
            }
            done.store(true, std::sync::atomic::Ordering::Relaxed);
            looks.join().unwrap()
        });
        assert_eq!(widest & !0o600, 0, "{widest:o}");
    }
}
