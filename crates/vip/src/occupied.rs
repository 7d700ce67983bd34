//! Whether another host has an address already: an ARP probe (RFC 5227), or for IPv6 a connection that nobody would answer, which
//! makes the kernel ask for the neighbour.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::time::{Duration, Instant};

use delphinus_kernel::LinkSocket;
use netlink_packet_route::neighbour::{
    NeighbourAddress, NeighbourAttribute, NeighbourMessage, NeighbourState,
};
use netlink_packet_route::{AddressFamily, RouteNetlinkMessage};
use netlink_sys::protocols::NETLINK_ROUTE;

use crate::addresses::Interface;
use crate::announce::{ARP, arp_request};
use crate::netlink::{list, tell};

/// The hardware address of a host that answers for the address; none within `limit`.
pub(crate) fn by_whom(
    address: IpAddr,
    interface: &Interface,
    limit: Duration,
) -> io::Result<Option<[u8; 6]>> {
    let Some(mac) = interface.mac.filter(|_| !interface.is_loopback) else { return Ok(None) };
    match address {
        IpAddr::V4(address) => probe(address, interface.index, mac, limit),
        IpAddr::V6(address) => neighbour(address, interface.index, limit),
    }
}

fn probe(address: Ipv4Addr, interface: u32, mac: [u8; 6], limit: Duration) -> io::Result<Option<[u8; 6]>> {
    let socket = LinkSocket::open(ARP, interface)?;
    // A probe has no sender, so that nobody's cache learns from it.
    socket.send(&arp_request(Ipv4Addr::UNSPECIFIED, address, mac))?;
    let until = Instant::now() + limit;
    let mut frame = [0; 64];
    loop {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Ok(None);
        }
        let Some(read) = socket.receive(&mut frame, left)? else { return Ok(None) };
        if read >= 28 && frame[14..18] == address.octets() {
            let whose: [u8; 6] = frame[8..14].try_into().unwrap_or_default();
            if whose != mac {
                return Ok(Some(whose));
            }
        }
    }
}

fn neighbour(address: Ipv6Addr, interface: u32, limit: Duration) -> io::Result<Option<[u8; 6]>> {
    forget(address, interface)?;
    // To the port of `discard`: what matters is that the kernel has to find the neighbour.
    let socket = std::net::UdpSocket::bind("[::]:0")?;
    let _ = socket.send_to(&[0], (IpAddr::V6(address), 9));
    let until = Instant::now() + limit;
    while Instant::now() < until {
        let mut found = None;
        list(NETLINK_ROUTE, RouteNetlinkMessage::GetNeighbour(NeighbourMessage::default()), |message| {
            if let RouteNetlinkMessage::NewNeighbour(one) = message
                && one.header.ifindex == interface
            {
                found = found.or(hardware_address(&one, address));
            }
        })?;
        if found.is_some() {
            return Ok(found);
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    Ok(None)
}

/// What the kernel has learnt of that neighbour: it may be from a host that had the address and is dead. An entry that somebody has made
/// stays. Who may not do that asks with what is known.
fn forget(address: Ipv6Addr, interface: u32) -> io::Result<()> {
    let mut is_learnt = false;
    list(NETLINK_ROUTE, RouteNetlinkMessage::GetNeighbour(NeighbourMessage::default()), |message| {
        if let RouteNetlinkMessage::NewNeighbour(one) = message {
            let is_made = one.header.state == NeighbourState::Permanent;
            is_learnt |=
                one.header.ifindex == interface && !is_made && hardware_address(&one, address).is_some();
        }
    })?;
    if is_learnt {
        let mut entry = NeighbourMessage::default();
        (entry.header.family, entry.header.ifindex) = (AddressFamily::Inet6, interface);
        entry.attributes.push(NeighbourAttribute::Destination(NeighbourAddress::Inet6(address)));
        let _ = tell(NETLINK_ROUTE, RouteNetlinkMessage::DelNeighbour(entry), 0);
    }
    Ok(())
}

fn hardware_address(entry: &NeighbourMessage, address: Ipv6Addr) -> Option<[u8; 6]> {
    let wanted = NeighbourAttribute::Destination(NeighbourAddress::Inet6(address));
    let is_it = entry.attributes.contains(&wanted);
    let mac = entry.attributes.iter().find_map(|one| match one {
        NeighbourAttribute::LinkLayerAddress(bytes) => <[u8; 6]>::try_from(bytes.as_slice()).ok(),
        _ => None,
    });
    mac.filter(|_| is_it)
}
