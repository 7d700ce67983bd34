//! Connecting to a backend, with a deadline.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use tokio::net::{TcpStream, UnixStream};

use crate::error::NetError;
use crate::rt;
use crate::stream::Stream;

/// Where a backend listens.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Address {
    /// Host name or IP address, and port.
    Tcp(String, u16),
    /// Path of a Unix socket.
    Unix(PathBuf),
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(host, port) if host.contains(':') => write!(f, "[{host}]:{port}"),
            Self::Tcp(host, port) => write!(f, "{host}:{port}"),
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

impl Address {
    /// The name that a certificate must carry.
    pub fn host(&self) -> &str {
        match self {
            Self::Tcp(host, _) => host,
            Self::Unix(_) => "localhost",
        }
    }
}

/// Opens a connection, or fails after `limit`.
pub async fn dial(address: &Address, limit: Duration) -> Result<Stream, NetError> {
    let connect = async {
        match address {
            Address::Tcp(host, port) => TcpStream::connect((host.as_str(), *port)).await.map(Stream::tcp),
            Address::Unix(path) => UnixStream::connect(path).await.map(Stream::unix),
        }
    };
    let stream = rt::timeout(limit, connect).await.ok_or(NetError::TimedOut(limit.as_millis() as u64))??;
    Ok(stream)
}
