//! The header of the PROXY protocol, version 1 (text) and 2 (binary): what a load balancer puts before everything else
//! on a connection to tell where its client comes from. Who may be believed is the caller's affair.
//! Source: <https://www.haproxy.org/download/3.0/doc/proxy-protocol.txt>

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use crate::cursor::{Malformed, Reader};

/// Longest header of version 1, in bytes, with its line end.
const LONGEST_V1: usize = 107;
/// Longest header of version 2 that is taken, in bytes: addresses and anything else that may follow them.
const LONGEST_V2: usize = 4096;

const START_V1: &[u8] = b"PROXY ";
const START_V2: &[u8] = b"\r\n\r\n\0\r\nQUIT\n";
/// The beginning, version and command, family, length.
const FIXED_V2: usize = START_V2.len() + 4;

const LOCAL: u8 = 0x20;
const PROXY: u8 = 0x21;
const TCP4: u8 = 0x11;
const TCP6: u8 = 0x21;
const UNIX: u8 = 0x31;

/// Which form a header is written in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProxyVersion {
    /// A line of text.
    V1,
    /// Binary.
    V2,
}

/// Where a connection comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProxyOrigin {
    /// From whoever holds its other end: it is a check of a load balancer, or the origin is not known.
    Own,
    /// From this address to that one.
    Ip {
        /// The client.
        source: SocketAddr,
        /// Where it connected to.
        destination: SocketAddr,
    },
    /// From a process on the load balancer's machine, by a Unix socket.
    Unix,
}

/// The form that `bytes` are the beginning of; `None` if they are no header, or less than four bytes.
pub fn version_of(bytes: &[u8]) -> Option<ProxyVersion> {
    let begins = |start: &[u8]| {
        let n = bytes.len().min(start.len());
        n >= 4 && bytes[..n] == start[..n]
    };
    if begins(START_V1) {
        Some(ProxyVersion::V1)
    } else if begins(START_V2) {
        Some(ProxyVersion::V2)
    } else {
        None
    }
}

/// Reads the header at the start of `bytes`; gives the origin and the header's length, or `None` if its end is still
/// to come.
pub fn parse(bytes: &[u8]) -> Result<Option<(ProxyOrigin, usize)>, Malformed> {
    if bytes.len() < 4 {
        let may_be = START_V1.starts_with(bytes) || START_V2.starts_with(bytes);
        return if may_be { Ok(None) } else { Err(Malformed("no PROXY protocol header")) };
    }
    match version_of(bytes) {
        Some(ProxyVersion::V1) => parse_v1(bytes),
        Some(ProxyVersion::V2) => parse_v2(bytes),
        None => Err(Malformed("no PROXY protocol header")),
    }
}

fn parse_v1(bytes: &[u8]) -> Result<Option<(ProxyOrigin, usize)>, Malformed> {
    let window = &bytes[..bytes.len().min(LONGEST_V1)];
    let Some(end) = memchr::memchr(b'\n', window) else {
        let is_open = bytes.len() < LONGEST_V1;
        return if is_open { Ok(None) } else { Err(Malformed("PROXY protocol line without an end")) };
    };
    let line = window[..end].strip_suffix(b"\r").ok_or(Malformed("PROXY protocol line without a CR"))?;
    let line = std::str::from_utf8(line).map_err(|_| Malformed("PROXY protocol line is no text"))?;
    let words: Vec<&str> = line.split(' ').collect();
    let origin = match words[..] {
        ["PROXY", "UNKNOWN", ..] => ProxyOrigin::Own,
        ["PROXY", "TCP4", source, destination, from, to] => ProxyOrigin::Ip {
            source: SocketAddr::new(IpAddr::V4(word(source)?), port(from)?),
            destination: SocketAddr::new(IpAddr::V4(word(destination)?), port(to)?),
        },
        ["PROXY", "TCP6", source, destination, from, to] => ProxyOrigin::Ip {
            source: SocketAddr::new(canonical(word(source)?), port(from)?),
            destination: SocketAddr::new(canonical(word(destination)?), port(to)?),
        },
        _ => return Err(Malformed("PROXY protocol line with wrong words")),
    };
    Ok(Some((origin, end + 1)))
}

fn word<T: std::str::FromStr>(text: &str) -> Result<T, Malformed> {
    text.parse().map_err(|_| Malformed("PROXY protocol header with a wrong address"))
}

fn port(text: &str) -> Result<u16, Malformed> {
    let is_plain = text.bytes().all(|byte| byte.is_ascii_digit()) && (text == "0" || !text.starts_with('0'));
    text.parse().ok().filter(|_| is_plain).ok_or(Malformed("PROXY protocol header with a wrong port"))
}

fn parse_v2(bytes: &[u8]) -> Result<Option<(ProxyOrigin, usize)>, Malformed> {
    let Some(fixed) = bytes.get(START_V2.len()..FIXED_V2) else { return Ok(None) };
    let &[command, family, high, low] = fixed else { return Err(Malformed("invariant: four bytes")) };
    let total = FIXED_V2 + usize::from(u16::from_be_bytes([high, low]));
    if !matches!(command, LOCAL | PROXY) {
        return Err(Malformed("PROXY protocol header of another version or command"));
    }
    if total > LONGEST_V2 {
        return Err(Malformed("PROXY protocol header that is too long"));
    }
    let Some(body) = bytes.get(FIXED_V2..total) else { return Ok(None) };
    // What follows the addresses (TLVs) says nothing that is needed here.
    let mut reader = Reader::new(body);
    let origin = match (command, family) {
        (LOCAL, _) | (_, 0) => ProxyOrigin::Own,
        (_, TCP4) => {
            let (source, destination) = (v4(&mut reader)?, v4(&mut reader)?);
            with_ports(source, destination, &mut reader)?
        }
        (_, TCP6) => {
            let (source, destination) = (v6(&mut reader)?, v6(&mut reader)?);
            with_ports(source, destination, &mut reader)?
        }
        (_, UNIX) => {
            reader.bytes(2 * 108)?;
            ProxyOrigin::Unix
        }
        _ => return Err(Malformed("PROXY protocol header for something else than a stream")),
    };
    Ok(Some((origin, total)))
}

fn v4(reader: &mut Reader<'_>) -> Result<IpAddr, Malformed> {
    let bytes: [u8; 4] = reader.bytes(4)?.try_into().map_err(|_| Malformed("invariant: four bytes"))?;
    Ok(IpAddr::V4(Ipv4Addr::from(bytes)))
}

fn v6(reader: &mut Reader<'_>) -> Result<IpAddr, Malformed> {
    let bytes: [u8; 16] = reader.bytes(16)?.try_into().map_err(|_| Malformed("invariant: sixteen bytes"))?;
    Ok(canonical(Ipv6Addr::from(bytes)))
}

/// An IPv4 address in the clothes of IPv6 is one.
fn canonical(ip: Ipv6Addr) -> IpAddr {
    IpAddr::V6(ip).to_canonical()
}

fn with_ports(
    source: IpAddr,
    destination: IpAddr,
    reader: &mut Reader<'_>,
) -> Result<ProxyOrigin, Malformed> {
    let mut port = || Ok(reader.u16()?.swap_bytes());
    let (from, to) = (port()?, port()?);
    Ok(ProxyOrigin::Ip {
        source: SocketAddr::new(source, from),
        destination: SocketAddr::new(destination, to),
    })
}

/// The header for a connection from `source` to `destination`, or, with `None`, for one of the sender's own.
pub fn encode(version: ProxyVersion, ends: Option<(SocketAddr, SocketAddr)>) -> Vec<u8> {
    match version {
        ProxyVersion::V1 => encode_v1(ends),
        ProxyVersion::V2 => encode_v2(ends),
    }
}

fn encode_v1(ends: Option<(SocketAddr, SocketAddr)>) -> Vec<u8> {
    let Some((source, destination)) = ends else { return b"PROXY UNKNOWN\r\n".to_vec() };
    let (from, to) = (source.port(), destination.port());
    match (source.ip(), destination.ip()) {
        (IpAddr::V4(source), IpAddr::V4(destination)) => {
            format!("PROXY TCP4 {source} {destination} {from} {to}\r\n")
        }
        (source, destination) => {
            format!("PROXY TCP6 {} {} {from} {to}\r\n", as_v6(source), as_v6(destination))
        }
    }
    .into_bytes()
}

fn encode_v2(ends: Option<(SocketAddr, SocketAddr)>) -> Vec<u8> {
    let mut body = Vec::new();
    let (command, family) = match ends.map(|(source, destination)| (source.ip(), destination.ip())) {
        None => (LOCAL, 0),
        Some((IpAddr::V4(source), IpAddr::V4(destination))) => {
            body.extend_from_slice(&source.octets());
            body.extend_from_slice(&destination.octets());
            (PROXY, TCP4)
        }
        Some((source, destination)) => {
            body.extend_from_slice(&as_v6(source).octets());
            body.extend_from_slice(&as_v6(destination).octets());
            (PROXY, TCP6)
        }
    };
    if let Some((source, destination)) = ends {
        body.extend_from_slice(&source.port().to_be_bytes());
        body.extend_from_slice(&destination.port().to_be_bytes());
    }
    let mut out = START_V2.to_vec();
    out.extend_from_slice(&[command, family]);
    out.extend_from_slice(&(body.len() as u16).to_be_bytes());
    out.extend_from_slice(&body);
    out
}

/// Both ends have to be of one family.
fn as_v6(ip: IpAddr) -> Ipv6Addr {
    match ip {
        IpAddr::V4(ip) => ip.to_ipv6_mapped(),
        IpAddr::V6(ip) => ip,
    }
}

#[cfg(test)]
mod tests;
