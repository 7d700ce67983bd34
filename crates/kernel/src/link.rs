//! Frames to and from one network interface, below IP (`AF_PACKET`): what ARP needs, and who passes packets on.
//! Source: <https://man7.org/linux/man-pages/man7/packet.7.html>

use std::io;
use std::os::fd::AsFd;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use socket2::{Domain, Protocol, SockAddr, SockAddrStorage, Socket, Type};

use crate::filter::Filter;

/// A socket for one protocol on one interface. It needs CAP_NET_RAW.
#[derive(Debug)]
pub struct LinkSocket {
    socket: Socket,
    protocol: u16,
    interface: u32,
}

impl LinkSocket {
    /// For frames with this number of a protocol (`0x0806` is ARP).
    pub fn open(protocol: u16, interface: u32) -> io::Result<Self> {
        Self::open_for(protocol, interface, None)
    }

    /// The same for those frames alone that pass the filter.
    pub fn open_for(protocol: u16, interface: u32, filter: Option<&Filter>) -> io::Result<Self> {
        // Without a protocol it gets nothing before it is bound.
        let none = Some(Protocol::from(0));
        let socket = Socket::new(Domain::PACKET, Type::DGRAM.nonblocking(), none)?;
        if let Some(filter) = filter {
            filter.attach(&socket)?;
        }
        socket.bind(&host(protocol, interface, EVERYONE))?;
        Ok(Self { socket, protocol, interface })
    }

    /// Sends what follows the frame's head to all hosts of the link.
    pub fn send(&self, payload: &[u8]) -> io::Result<()> {
        self.send_to(payload, EVERYONE)
    }

    /// Sends it to one host.
    pub fn send_to(&self, payload: &[u8], mac: [u8; 6]) -> io::Result<()> {
        self.socket.send_to(payload, &host(self.protocol, self.interface, mac)).map(drop)
    }

    /// Waits for a frame of the protocol, and copies what follows its head. None: there was none in time.
    pub fn receive(&self, into: &mut [u8], limit: Duration) -> io::Result<Option<usize>> {
        let limit = Timespec::try_from(limit).unwrap_or_default();
        let mut watched = [PollFd::new(&self.socket, PollFlags::IN)];
        if poll(&mut watched, Some(&limit))? == 0 {
            return Ok(None);
        }
        self.take(into)
    }

    /// Copies what follows the head of a frame that is there. None: there is none. What is longer than the room for it is cut off.
    pub fn take(&self, into: &mut [u8]) -> io::Result<Option<usize>> {
        match rustix::net::recv(self.socket.as_fd(), into, rustix::net::RecvFlags::empty()) {
            Ok((read, _)) => Ok(Some(read)),
            Err(rustix::io::Errno::AGAIN) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Waits until one of them has a frame.
    pub fn wait(sockets: &[Self], limit: Duration) -> io::Result<()> {
        let limit = Timespec::try_from(limit).unwrap_or_default();
        let mut watched: Vec<_> = sockets.iter().map(|one| PollFd::new(&one.socket, PollFlags::IN)).collect();
        poll(&mut watched, Some(&limit))?;
        Ok(())
    }
}

const EVERYONE: [u8; 6] = [0xff; 6];

/// A host of an interface's link, by its hardware address.
fn host(protocol: u16, interface: u32, mac: [u8; 6]) -> SockAddr {
    let mut storage = SockAddrStorage::zeroed();
    let length = size_of::<libc::sockaddr_ll>() as libc::socklen_t;
    // SAFETY: `sockaddr_ll` is a plain C struct for which all bit patterns are valid, it is smaller than the storage, and the
    // storage is aligned for every kind of address.
    let link = unsafe { storage.view_as::<libc::sockaddr_ll>() };
    link.sll_family = libc::AF_PACKET as libc::sa_family_t;
    link.sll_protocol = protocol.to_be();
    link.sll_ifindex = interface.cast_signed();
    link.sll_halen = 6;
    link.sll_addr[..6].copy_from_slice(&mac);
    // SAFETY: the storage holds a `sockaddr_ll`, whose family and length these are.
    unsafe { SockAddr::new(storage, length) }
}
