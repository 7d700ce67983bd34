//! Tells the neighbours that an address is here now. Without it they send to where it was until their caches age. Sources: RFC 5227
//! (ARP announcement), RFC 4861 section 7.2.6 (unsolicited neighbour advertisement).

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddrV6};

use delphinus_kernel::LinkSocket;
use socket2::{Domain, Protocol, Socket, Type};

use crate::addresses::Interface;

pub(crate) const ARP: u16 = 0x0806;

/// After so many milliseconds from when an address has come it is announced: a burst, then for a while, because a switch or a neighbour
/// may have missed it.
pub(crate) const AT_MS: [u64; 14] =
    [0, 20, 100, 250, 500, 1_000, 2_000, 3_000, 4_000, 5_000, 7_000, 10_000, 15_000, 20_000];

/// Announces an address once. An interface without a hardware address, such as loopback, has no neighbours.
pub(crate) fn announce(address: IpAddr, interface: &Interface) -> io::Result<()> {
    let Some(mac) = interface.mac.filter(|_| !interface.is_loopback) else { return Ok(()) };
    match address {
        IpAddr::V4(address) => {
            LinkSocket::open(ARP, interface.index)?.send(&arp_request(address, address, mac))
        }
        IpAddr::V6(address) => advertise(address, interface.index, mac),
    }
}

/// Asks for `target` in the name of `sender`; with both the same it is an announcement.
pub(crate) fn arp_request(sender: Ipv4Addr, target: Ipv4Addr, mac: [u8; 6]) -> [u8; 28] {
    let mut packet = [0; 28];
    // Ethernet, IPv4, lengths of their addresses, a request.
    packet[..8].copy_from_slice(&[0, 1, 8, 0, 6, 4, 0, 1]);
    packet[8..14].copy_from_slice(&mac);
    packet[14..18].copy_from_slice(&sender.octets());
    packet[24..28].copy_from_slice(&target.octets());
    packet
}

/// To all nodes of the link, from the address itself, with a hop limit of 255: others are dropped.
fn advertise(address: Ipv6Addr, interface: u32, mac: [u8; 6]) -> io::Result<()> {
    let socket = Socket::new(Domain::IPV6, Type::RAW, Some(Protocol::ICMPV6))?;
    socket.set_multicast_hops_v6(255)?;
    socket.set_multicast_if_v6(interface)?;
    socket.set_multicast_loop_v6(false)?;
    socket.bind(&SocketAddrV6::new(address, 0, 0, interface).into())?;
    let everyone = SocketAddrV6::new(Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1), 0, 0, interface);
    // The kernel fills in the checksum.
    socket.send_to(&advertisement(address, mac), &everyone.into()).map(drop)
}

fn advertisement(address: Ipv6Addr, mac: [u8; 6]) -> [u8; 32] {
    let mut packet = [0; 32];
    packet[0] = 136;
    // Override: what a cache has is replaced.
    packet[4] = 0x20;
    packet[8..24].copy_from_slice(&address.octets());
    // Option 2, one unit of eight bytes: the hardware address.
    packet[24..26].copy_from_slice(&[2, 1]);
    packet[26..32].copy_from_slice(&mac);
    packet
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAC: [u8; 6] = [2, 0, 0, 0, 0, 7];

    #[test]
    fn an_announcement_names_the_address_as_sender_and_target() {
        let address = Ipv4Addr::new(10, 0, 0, 100);
        let packet = arp_request(address, address, MAC);
        assert_eq!(packet[..8], [0, 1, 8, 0, 6, 4, 0, 1]);
        assert_eq!(packet[8..14], MAC);
        assert_eq!((&packet[14..18], &packet[24..28]), (&[10, 0, 0, 100][..], &[10, 0, 0, 100][..]));
        assert_eq!(packet[18..24], [0; 6]);
    }

    #[test]
    fn an_advertisement_overrides_and_has_the_hardware_address() {
        let packet = advertisement("fd00::100".parse().unwrap(), MAC);
        assert_eq!((packet[0], packet[1], packet[4]), (136, 0, 0x20));
        assert_eq!(packet[8], 0xfd);
        assert_eq!(packet[24..], [2, 1, 2, 0, 0, 0, 0, 7]);
    }
}
