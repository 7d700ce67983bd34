//! The PROXY protocol on a stream: takes a load balancer's header from a client's connection, puts one on a backend's.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use delphinus_wire::proxy_header::{self, ProxyOrigin, ProxyVersion};

use crate::buffer::Buffer;
use crate::error::NetError;
use crate::rt;
use crate::stream::Stream;

/// A block of addresses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Network {
    ip: IpAddr,
    prefix: u8,
}

impl std::fmt::Display for Network {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}", self.ip, self.prefix)
    }
}

impl Network {
    /// The addresses that begin with the first `prefix` bits of `ip`.
    pub fn new(ip: IpAddr, prefix: u8) -> Self {
        Self { ip, prefix }
    }

    /// True if `ip` is one of them.
    pub fn contains(self, ip: IpAddr) -> bool {
        match (self.ip, ip) {
            (IpAddr::V4(own), IpAddr::V4(ip)) => {
                let shift = 32_u32.saturating_sub(u32::from(self.prefix));
                (own.to_bits() ^ ip.to_bits()).checked_shr(shift).unwrap_or(0) == 0
            }
            (IpAddr::V6(own), IpAddr::V6(ip)) => {
                let shift = 128_u32.saturating_sub(u32::from(self.prefix));
                (own.to_bits() ^ ip.to_bits()).checked_shr(shift).unwrap_or(0) == 0
            }
            _ => false,
        }
    }
}

/// Reads the header that a connection begins with. What was read beyond it stays in `buffer`.
pub async fn read_proxy_header(
    stream: &mut Stream,
    buffer: &mut Buffer,
    limit: Duration,
) -> Result<ProxyOrigin, NetError> {
    let read = async {
        loop {
            if let Some((origin, len)) = proxy_header::parse(buffer.data())? {
                buffer.consume(len);
                return Ok(origin);
            }
            if buffer.is_empty() {
                // Without a buffer while nothing comes.
                stream.readable().await?;
            }
            let (result, read) = stream.read(std::mem::take(buffer)).await;
            *buffer = read;
            if result? == 0 {
                return Err(NetError::Closed);
            }
        }
    };
    rt::timeout(limit, read).await.unwrap_or(Err(NetError::TimedOut(limit.as_millis() as u64)))
}

/// Tells a backend that the connection is for the client at `ip`, or for the proxy itself. The client's port is not
/// told, it is 0: a connection serves all sessions from an address.
pub(crate) async fn write_proxy_header(
    stream: &mut Stream,
    version: ProxyVersion,
    ip: Option<IpAddr>,
) -> Result<(), NetError> {
    let ends = ip.map(|ip| {
        let source = SocketAddr::new(ip, 0);
        let nowhere = SocketAddr::new(std::net::Ipv4Addr::UNSPECIFIED.into(), 0);
        (source, stream.peer_address().unwrap_or(nowhere))
    });
    stream.write_bytes(&proxy_header::encode(version, ends)).await?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn network(ip: &str, prefix: u8) -> Network {
        Network::new(ip.parse().unwrap(), prefix)
    }

    #[test]
    fn networks_contain_what_begins_like_them() {
        for (network, inside, outside) in [
            (network("10.0.0.0", 8), "10.255.1.2", "11.0.0.0"),
            (network("10.1.2.3", 32), "10.1.2.3", "10.1.2.2"),
            (network("fd00::", 8), "fdff::1", "fe00::1"),
            (network("::1", 128), "::1", "::2"),
            (network("0.0.0.0", 0), "255.1.2.3", "::1"),
            (network("::", 0), "ff::1", "1.2.3.4"),
        ] {
            assert!(network.contains(inside.parse().unwrap()), "{network:?} {inside}");
            assert!(!network.contains(outside.parse().unwrap()), "{network:?} {outside}");
        }
    }

    #[test]
    fn a_header_in_pieces_is_read_and_the_rest_stays() {
        let test = async {
            let (mut balancer, mut proxy) = Stream::pair().unwrap();
            let limit = Duration::from_secs(9);
            let mut buffer = Buffer::default();
            let write = async {
                write_proxy_header(&mut balancer, ProxyVersion::V2, Some("10.1.2.3".parse().unwrap()))
                    .await
                    .unwrap();
                balancer.write_bytes(b"login").await.unwrap();
            };
            let (origin, ()) = tokio::join!(read_proxy_header(&mut proxy, &mut buffer, limit), write);
            let ProxyOrigin::Ip { source, .. } = origin.unwrap() else { panic!("an address") };
            assert_eq!(source.to_string(), "10.1.2.3:0");
            while buffer.len() < 5 {
                let (result, read) = proxy.read(buffer).await;
                assert!(result.unwrap() > 0);
                buffer = read;
            }
            assert_eq!(buffer.data(), b"login");
            let silent =
                read_proxy_header(&mut proxy, &mut Buffer::default(), Duration::from_millis(20)).await;
            assert!(matches!(silent, Err(NetError::TimedOut(20))), "{silent:?}");
            balancer.close().await;
            let gone = read_proxy_header(&mut proxy, &mut Buffer::default(), limit).await;
            assert!(matches!(gone, Err(NetError::Closed)), "{gone:?}");
        };
        rt::block_on(test).unwrap();
    }
}
