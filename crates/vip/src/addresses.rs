//! Addresses and interfaces in the kernel. A virtual IP is added with a lifetime, and the kernel removes it by itself when nobody
//! refreshes it: that holds when this process hangs or is dead.

use std::io;
use std::net::IpAddr;
use std::time::Duration;

use netlink_packet_core::{NLM_F_CREATE, NLM_F_REPLACE};
use netlink_packet_route::address::{
    AddressAttribute, AddressFlags, AddressHeaderFlags, AddressMessage, AddressScope, CacheInfo,
};
use netlink_packet_route::link::{LinkAttribute, LinkFlags, LinkMessage};
use netlink_packet_route::{AddressFamily, RouteNetlinkMessage};
use netlink_sys::protocols::NETLINK_ROUTE;

use crate::netlink::{list, tell};

/// A network interface.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Interface {
    /// Its number.
    pub index: u32,
    /// Its name.
    pub name: String,
    /// Its hardware address, if it has one of six bytes.
    pub mac: Option<[u8; 6]>,
    /// It is up, and connected.
    pub is_up: bool,
    /// It is the loopback interface.
    pub is_loopback: bool,
    /// Its addresses, with the length of the network's prefix.
    pub addresses: Vec<(IpAddr, u8)>,
}

/// All interfaces of this host, or of this network namespace.
pub fn interfaces() -> io::Result<Vec<Interface>> {
    /// Interfaces of containers come and go.
    const TRIES: usize = 5;
    for _ in 1..TRIES {
        match look() {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            looked => return looked,
        }
    }
    look()
}

fn look() -> io::Result<Vec<Interface>> {
    let mut found: Vec<Interface> = Vec::new();
    list(NETLINK_ROUTE, RouteNetlinkMessage::GetLink(LinkMessage::default()), |message| {
        if let RouteNetlinkMessage::NewLink(link) = message {
            found.push(interface(&link));
        }
    })?;
    list(NETLINK_ROUTE, RouteNetlinkMessage::GetAddress(AddressMessage::default()), |message| {
        if let RouteNetlinkMessage::NewAddress(address) = message
            && let Some(ip) = ip_of(&address)
            && let Some(one) = found.iter_mut().find(|one| one.index == address.header.index)
        {
            one.addresses.push((ip, address.header.prefix_len));
        }
    })?;
    Ok(found)
}

fn interface(link: &LinkMessage) -> Interface {
    let mut name = String::new();
    let mut mac = None;
    for attribute in &link.attributes {
        match attribute {
            LinkAttribute::IfName(found) => name.clone_from(found),
            LinkAttribute::Address(bytes) => mac = <[u8; 6]>::try_from(bytes.as_slice()).ok(),
            _ => {}
        }
    }
    Interface {
        index: link.header.index,
        name,
        mac,
        is_up: link.header.flags.contains(LinkFlags::Up | LinkFlags::LowerUp),
        is_loopback: link.header.flags.contains(LinkFlags::Loopback),
        addresses: Vec::new(),
    }
}

fn ip_of(message: &AddressMessage) -> Option<IpAddr> {
    let find = |wanted: fn(&AddressAttribute) -> Option<IpAddr>| message.attributes.iter().find_map(wanted);
    // On a point-to-point link `Address` is the other end.
    find(|one| if let AddressAttribute::Local(ip) = one { Some(*ip) } else { None })
        .or_else(|| find(|one| if let AddressAttribute::Address(ip) = one { Some(*ip) } else { None }))
}

/// The interface with that name, or the one whose network the address belongs to.
pub(crate) fn choose<'a>(
    all: &'a [Interface],
    address: IpAddr,
    name: Option<&str>,
) -> Result<&'a Interface, String> {
    if let Some(name) = name {
        let found = all.iter().find(|one| one.name == name);
        let found = found.ok_or_else(|| format!("there is no interface {name}"))?;
        return if found.is_up {
            Ok(found)
        } else {
            Err(format!("interface {name} is down, or not connected"))
        };
    }
    let is_near = |(ip, prefix): &(IpAddr, u8)| *prefix < full(*ip) && is_in(address, (*ip, *prefix));
    all.iter().find(|one| one.is_up && one.addresses.iter().any(is_near)).ok_or_else(|| {
        format!(
            "no interface that is up has an address in the network of {address}: name one with `interface`"
        )
    })
}

/// The length of a prefix that is one address.
pub(crate) fn full(ip: IpAddr) -> u8 {
    if ip.is_ipv4() { 32 } else { 128 }
}

fn is_in(address: IpAddr, (network, prefix): (IpAddr, u8)) -> bool {
    match (address, network) {
        (IpAddr::V4(address), IpAddr::V4(network)) => {
            let shift = 32 - u32::from(prefix.min(32));
            (address.to_bits() ^ network.to_bits()).checked_shr(shift).unwrap_or(0) == 0
        }
        (IpAddr::V6(address), IpAddr::V6(network)) => {
            let shift = 128 - u32::from(prefix.min(128));
            (address.to_bits() ^ network.to_bits()).checked_shr(shift).unwrap_or(0) == 0
        }
        _ => false,
    }
}

/// Adds an address, or gives one that is there another lifetime. Whole seconds count.
pub(crate) fn keep(address: IpAddr, interface: u32, lifetime: Duration) -> io::Result<()> {
    let message = RouteNetlinkMessage::NewAddress(virtual_one(address, interface, lifetime));
    tell(NETLINK_ROUTE, message, NLM_F_CREATE | NLM_F_REPLACE)
}

/// It is deprecated from the start, so that the host's own connections, such as replication, do not leave from it. IPv6 does not look
/// for duplicates: that would cost more than a second, and the lease has settled it.
fn virtual_one(address: IpAddr, interface: u32, lifetime: Duration) -> AddressMessage {
    let seconds = u32::try_from(lifetime.as_secs()).unwrap_or(u32::MAX - 1);
    let mut message = message(address, interface);
    let mut times = CacheInfo::default();
    times.ifa_valid = seconds;
    times.ifa_preferred = 0;
    message.attributes.push(AddressAttribute::CacheInfo(times));
    let mut flags = AddressFlags::Noprefixroute;
    if address.is_ipv6() {
        flags |= AddressFlags::Nodad;
    }
    message.attributes.push(AddressAttribute::Flags(flags));
    message
}

/// Why an address cannot be a virtual one here: it belongs to the host itself, with the prefix of its network. The kernel would not remove
/// it when the lease is lost.
pub(crate) fn own_of_host(all: &[Interface], address: IpAddr) -> Option<String> {
    let is_own = |(ip, prefix): &&(IpAddr, u8)| *ip == address && *prefix < full(*ip);
    all.iter().find_map(|one| {
        let (_, prefix) = one.addresses.iter().find(is_own)?;
        let name = &one.name;
        Some(format!(
            "{address}/{prefix} is an address of this host, on {name}: another host may have the virtual IP at the same time. \
             Remove it there (ip address del {address}/{prefix} dev {name}), or choose another virtual IP"
        ))
    })
}

/// Removes an address from all interfaces that have it, but for one, whoever has added it. One of the host itself stays, and is an error.
pub(crate) fn remove_everywhere(all: &[Interface], address: IpAddr, but: Option<u32>) -> io::Result<()> {
    let has = |one: &&Interface| but != Some(one.index) && one.addresses.contains(&(address, full(address)));
    let gone = all.iter().filter(has).map(|one| remove(address, one.index)).fold(Ok(()), io::Result::and);
    gone.and(own_of_host(all, address).map_or(Ok(()), |why| Err(io::Error::other(why))))
}

/// Removes an address; none is removed if it is not there.
pub(crate) fn remove(address: IpAddr, interface: u32) -> io::Result<()> {
    let gone = tell(NETLINK_ROUTE, RouteNetlinkMessage::DelAddress(message(address, interface)), 0);
    match gone {
        Err(error) if error.raw_os_error() == Some(rustix::io::Errno::ADDRNOTAVAIL.raw_os_error()) => Ok(()),
        other => other,
    }
}

fn message(address: IpAddr, interface: u32) -> AddressMessage {
    let mut message = AddressMessage::default();
    message.header.family = if address.is_ipv4() { AddressFamily::Inet } else { AddressFamily::Inet6 };
    message.header.prefix_len = full(address);
    message.header.flags = AddressHeaderFlags::empty();
    message.header.scope = AddressScope::Universe;
    message.header.index = interface;
    message.attributes.push(AddressAttribute::Address(address));
    message.attributes.push(AddressAttribute::Local(address));
    message
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ip(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    #[test]
    fn an_interface_is_found_by_its_network() {
        let one = |name: &str, addresses: &[(&str, u8)]| Interface {
            index: 1,
            name: name.into(),
            mac: None,
            is_up: true,
            is_loopback: false,
            addresses: addresses.iter().map(|(text, prefix)| (ip(text), *prefix)).collect(),
        };
        let all = [
            one("eth0", &[("10.0.0.7", 24), ("fd00::7", 64)]),
            one("eth1", &[("10.0.1.7", 24), ("10.0.2.9", 32)]),
        ];
        let name = |address, wanted| choose(&all, ip(address), wanted).map(|one| one.name.as_str());
        assert_eq!(name("10.0.0.100", None), Ok("eth0"));
        assert_eq!(name("10.0.1.100", None), Ok("eth1"));
        assert_eq!(name("fd00::100", None), Ok("eth0"));
        assert!(name("10.0.2.9", None).is_err(), "another virtual IP says nothing of a network");
        assert_eq!(name("10.0.2.9", Some("eth1")), Ok("eth1"));
        let mut down = all.clone();
        down[1].is_up = false;
        assert!(choose(&down, ip("10.0.2.9"), Some("eth1")).is_err());
        assert!(own_of_host(&all, ip("10.0.0.7")).is_some_and(|why| why.contains("10.0.0.7/24 dev eth0")));
        assert_eq!(own_of_host(&all, ip("10.0.2.9")), None, "with the prefix of a virtual IP it is one");
        assert!(name("10.0.2.9", Some("eth7")).is_err());
    }

    /// Replication that leaves from a virtual IP breaks when the address moves.
    #[test]
    fn the_host_takes_no_virtual_ip_as_its_source() {
        for (text, prefix) in [("10.0.0.100", 32), ("fd00::100", 128)] {
            let message = virtual_one(ip(text), 7, Duration::from_secs(5));
            let times = message.attributes.iter().find_map(|one| match one {
                AddressAttribute::CacheInfo(times) => Some((times.ifa_preferred, times.ifa_valid)),
                _ => None,
            });
            assert_eq!(times, Some((0, 5)), "{text}");
            assert_eq!((message.header.prefix_len, message.header.index), (prefix, 7), "{text}");
        }
    }

    #[test]
    fn loopback_is_listed() {
        let all = interfaces().unwrap();
        let lo = all.iter().find(|one| one.is_loopback).unwrap();
        assert_eq!(lo.name, "lo");
    }
}
