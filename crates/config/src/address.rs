//! Addresses as they are written in the file: where to listen, where the backends are.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::str::FromStr;

/// Longest path that fits into a socket address of the kernel, without the final NUL.
const SOCKET_PATH_MAX: usize = 107;

/// Where a listener waits for clients.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum ListenAddress {
    /// IP address and port; port 0 lets the kernel choose one.
    Tcp(SocketAddr),
    /// Absolute path of a Unix socket.
    Unix(PathBuf),
}

/// Where a backend is reached.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum BackendAddress {
    /// Host name or IP address (IPv6 without brackets), and port.
    Tcp {
        /// Host name or IP address.
        host: String,
        /// Port, never 0.
        port: u16,
    },
    /// Absolute path of a Unix socket.
    Unix(PathBuf),
}

/// True if this host, a name or an IP address, is this machine for certain: what goes there leaves it not, and nobody can stand between.
pub fn is_this_machine(host: &str) -> bool {
    host.eq_ignore_ascii_case("localhost")
        || host.parse().is_ok_and(|ip: IpAddr| ip.to_canonical().is_loopback())
}

impl BackendAddress {
    /// True if it may be on another machine.
    pub fn is_remote(&self) -> bool {
        match self {
            Self::Tcp { host, .. } => !is_this_machine(host),
            Self::Unix(_) => false,
        }
    }
}

/// A block of IP addresses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Network {
    /// The first of them.
    pub ip: IpAddr,
    /// How many bits of an address count.
    pub prefix: u8,
}

impl FromStr for Network {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (ip, prefix) = text.split_once('/').map_or((text, None), |(ip, prefix)| (ip, Some(prefix)));
        let Ok(ip) = ip.parse::<IpAddr>() else {
            return Err(
                "write networks like \"10.0.0.0/8\" or \"fd00::/8\", or single IP addresses".to_owned()
            );
        };
        let longest = if ip.is_ipv4() { 32 } else { 128 };
        let Some(prefix) = prefix else { return Ok(Self { ip, prefix: longest }) };
        let is_number = prefix.bytes().all(|byte| byte.is_ascii_digit());
        match prefix.parse() {
            Ok(prefix) if is_number && prefix <= longest => Ok(Self { ip, prefix }),
            _ => Err(format!("write a number from 0 to {longest} after the slash")),
        }
    }
}

impl fmt::Display for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.ip, self.prefix)
    }
}

impl FromStr for ListenAddress {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if let Some(path) = text.strip_prefix("unix:") {
            return socket_path(path).map(Self::Unix);
        }
        if let Ok(address) = text.parse() {
            return Ok(Self::Tcp(address));
        }
        match split_host_port(text) {
            Ok((_, port)) => Err(format!(
                "a listener needs an IP address, not a name: write \"127.0.0.1:{port}\", or \"0.0.0.0:{port}\" for all interfaces"
            )),
            Err(instead) => Err(instead),
        }
    }
}

impl FromStr for BackendAddress {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if let Some(path) = text.strip_prefix("unix:") {
            return socket_path(path).map(Self::Unix);
        }
        let (host, port) = split_host_port(text)?;
        if port == 0 {
            return Err(format!("port 0 cannot be connected to: write \"{host}:3306\""));
        }
        Ok(Self::Tcp { host: host.to_owned(), port })
    }
}

impl fmt::Display for ListenAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(address) => address.fmt(f),
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

impl fmt::Display for BackendAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp { host, port } if host.contains(':') => write!(f, "[{host}]:{port}"),
            Self::Tcp { host, port } => write!(f, "{host}:{port}"),
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

/// Splits `host:port` and `[v6]:port`; the error says what to write.
fn split_host_port(text: &str) -> Result<(&str, u16), String> {
    let (host, port) = text.rsplit_once(':').unwrap_or((text, ""));
    let bare = host.strip_prefix('[').and_then(|h| h.strip_suffix(']'));
    if bare.is_none() && host.contains(':') {
        return Err("write an IPv6 address in brackets, \"[::1]:3306\"".to_owned());
    }
    let name = bare.unwrap_or(host);
    if !is_host(name, bare.is_some()) {
        return Err("write \"host:port\", \"[ipv6]:port\" or \"unix:/path/to.sock\"".to_owned());
    }
    match port.parse() {
        Ok(port) => Ok((name, port)),
        Err(_) => Err(format!("write a port from 1 to 65535 after the host, \"{host}:3306\"")),
    }
}

fn is_host(name: &str, in_brackets: bool) -> bool {
    if in_brackets {
        return name.parse::<std::net::Ipv6Addr>().is_ok();
    }
    // Four numbers can only be meant as an IPv4 address, and then must be one.
    if !name.is_empty() && name.chars().all(|c| c.is_ascii_digit() || c == '.') {
        return name.parse::<std::net::Ipv4Addr>().is_ok();
    }
    let legal = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_');
    !name.is_empty() && name.len() <= 253 && name.chars().all(legal) && !name.starts_with(['.', '-'])
}

fn socket_path(path: &str) -> Result<PathBuf, String> {
    if !Path::new(path).is_absolute() {
        return Err("write the whole path of the socket, \"unix:/run/delphinus.sock\"".to_owned());
    }
    if path.len() > SOCKET_PATH_MAX {
        return Err(format!(
            "the kernel allows {SOCKET_PATH_MAX} bytes for the path of a socket: write a shorter one"
        ));
    }
    Ok(PathBuf::from(path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn backend_addresses_come_back_as_written() {
        for text in ["db1.example:3306", "10.0.0.1:1", "[::1]:65535", "unix:/run/m.sock", "my_host-1:3307"] {
            assert_eq!(text.parse::<BackendAddress>().unwrap().to_string(), text);
        }
    }

    #[test]
    fn listen_addresses_come_back_as_written() {
        for text in ["127.0.0.1:6446", "[::1]:6446", "0.0.0.0:0", "unix:/run/x.sock"] {
            assert_eq!(text.parse::<ListenAddress>().unwrap().to_string(), text);
        }
    }

    #[test]
    fn what_may_be_on_another_machine() {
        for (text, is_remote) in [
            ("127.0.0.1:1", false),
            ("127.8.0.1:1", false),
            ("[::1]:1", false),
            ("[::ffff:127.0.0.1]:1", false),
            ("localhost:1", false),
            ("unix:/run/m.sock", false),
            ("10.0.0.1:1", true),
            ("db1:1", true),
            ("[fd00::1]:1", true),
        ] {
            assert_eq!(text.parse::<BackendAddress>().unwrap().is_remote(), is_remote, "{text}");
        }
    }

    #[test]
    fn networks_come_back_as_written() {
        for text in ["10.0.0.0/8", "0.0.0.0/0", "fd00::/8", "::1/128"] {
            assert_eq!(text.parse::<Network>().unwrap().to_string(), text);
        }
        assert_eq!("10.1.2.3".parse::<Network>().unwrap().to_string(), "10.1.2.3/32");
        for text in ["", "10.0.0.0/33", "10.0.0/8", "::/129", "10.0.0.0/", "10.0.0.0/+8", "lb1/8", "*"] {
            assert!(text.parse::<Network>().is_err(), "{text}");
        }
    }

    #[test]
    fn wrong_addresses_are_refused() {
        for text in [
            "",
            "db1",
            "db1:",
            "db1:x",
            "db1:65536",
            "db1:0",
            "::1:3306",
            "[::1]",
            "[db]:3306",
            "10.0.0:1",
            "a b:1",
        ] {
            assert!(text.parse::<BackendAddress>().is_err(), "{text}");
        }
        let long = format!("unix:/{}", "x".repeat(107));
        for text in ["localhost:6446", "6446", "unix:x.sock", "127.0.0.1", long.as_str()] {
            assert!(text.parse::<ListenAddress>().is_err(), "{text}");
        }
    }
}
