//! Connecting to a backend, with a deadline.

use std::fmt;
use std::net::IpAddr;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use tokio::net::{TcpStream, UnixStream};

use delphinus_wire::proxy_header::ProxyVersion;

use crate::error::NetError;
use crate::place::Spot;
use crate::proxy_protocol::write_proxy_header;
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

/// A text that is no address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NoAddress;

impl fmt::Display for NoAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("no address: write host:port, [ipv6]:port or unix:/path")
    }
}

/// What `Display` has written. What people write into the file, `delphinus_config` reads, which tells them what is wrong.
impl FromStr for Address {
    type Err = NoAddress;

    fn from_str(text: &str) -> Result<Self, NoAddress> {
        if let Some(path) = text.strip_prefix("unix:") {
            return if path.starts_with('/') { Ok(Self::Unix(path.into())) } else { Err(NoAddress) };
        }
        let (host, port) = text.rsplit_once(':').ok_or(NoAddress)?;
        let in_brackets = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
        let bare = in_brackets.unwrap_or(host);
        if bare.is_empty() || in_brackets.is_some() != bare.contains(':') {
            return Err(NoAddress);
        }
        let port = port.parse().ok().filter(|port| *port != 0).ok_or(NoAddress)?;
        Ok(Self::Tcp(bare.to_owned(), port))
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

/// What a backend is told, by the PROXY protocol, of where a connection comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Announce {
    /// In which form.
    pub version: ProxyVersion,
    /// The client's address; `None` for a connection of the proxy's own, or a client on a Unix socket.
    pub client: Option<IpAddr>,
}

/// The same for a backend, at the address that its name leads to now.
pub async fn dial_at(spot: &Spot, announce: Option<Announce>, limit: Duration) -> Result<Stream, NetError> {
    match (&spot.address, spot.ip) {
        (Some(Address::Tcp(_, port)), Some(ip)) => {
            dial(&Address::Tcp(ip.to_string(), *port), announce, limit).await
        }
        (Some(address), _) => dial(address, announce, limit).await,
        (None, _) => Err(NetError::NoAddress),
    }
}

/// Opens a connection, or fails after `limit`. Says first whom it is for, where the backend wants to know.
pub async fn dial(
    address: &Address,
    announce: Option<Announce>,
    limit: Duration,
) -> Result<Stream, NetError> {
    let connect = async {
        let mut stream = match address {
            Address::Tcp(host, port) => TcpStream::connect((host.as_str(), *port)).await.map(Stream::tcp)?,
            Address::Unix(path) => UnixStream::connect(path).await.map(Stream::unix)?,
        };
        if let Some(Announce { version, client }) = announce {
            write_proxy_header(&mut stream, version, client).await?;
        }
        Ok(stream)
    };
    rt::timeout(limit, connect).await.ok_or(NetError::TimedOut(limit.as_millis() as u64))?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_read_as_it_was_written() {
        for text in ["db1.example:3306", "10.0.0.1:1", "[::1]:65535", "unix:/run/m.sock"] {
            assert_eq!(text.parse::<Address>().unwrap().to_string(), text);
        }
        for text in
            ["", "db1", "db1:", ":3306", "db1:0", "db1:65536", "::1:3306", "[]:1", "[db1]:1", "unix:m.sock"]
        {
            assert_eq!(text.parse::<Address>(), Err(NoAddress), "{text}");
        }
    }
}
