//! Frames to and from one network interface, below IP (`AF_PACKET`): what ARP needs.
//! Source: <https://man7.org/linux/man-pages/man7/packet.7.html>

use std::io;
use std::os::fd::AsFd;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use socket2::{Domain, Protocol, SockAddr, SockAddrStorage, Socket, Type};

/// A socket for one protocol on one interface. It needs CAP_NET_RAW.
#[derive(Debug)]
pub struct LinkSocket {
    socket: Socket,
    address: SockAddr,
}

impl LinkSocket {
    /// For frames with this number of a protocol (`0x0806` is ARP), which are sent to all hosts of the link.
    pub fn open(protocol: u16, interface: u32) -> io::Result<Self> {
        let number = Protocol::from(i32::from(protocol.to_be()));
        let socket = Socket::new(Domain::PACKET, Type::DGRAM.nonblocking(), Some(number))?;
        let address = everyone(protocol, interface);
        socket.bind(&address)?;
        Ok(Self { socket, address })
    }

    /// Sends what follows the frame's head.
    pub fn send(&self, payload: &[u8]) -> io::Result<()> {
        self.socket.send_to(payload, &self.address).map(drop)
    }

    /// Waits for a frame of the protocol, and copies what follows its head. None: there was none in time.
    pub fn receive(&self, into: &mut [u8], limit: Duration) -> io::Result<Option<usize>> {
        let limit = Timespec::try_from(limit).unwrap_or_default();
        let mut watched = [PollFd::new(&self.socket, PollFlags::IN)];
        if poll(&mut watched, Some(&limit))? == 0 {
            return Ok(None);
        }
        let (read, _) = rustix::net::recv(self.socket.as_fd(), into, rustix::net::RecvFlags::empty())?;
        Ok(Some(read))
    }
}

/// All hosts of an interface's link.
fn everyone(protocol: u16, interface: u32) -> SockAddr {
    let mut storage = SockAddrStorage::zeroed();
    let length = size_of::<libc::sockaddr_ll>() as libc::socklen_t;
    // SAFETY: `sockaddr_ll` is a plain C struct for which all bit patterns are valid, it is smaller than the storage, and the
    // storage is aligned for every kind of address.
    let link = unsafe { storage.view_as::<libc::sockaddr_ll>() };
    link.sll_family = libc::AF_PACKET as libc::sa_family_t;
    link.sll_protocol = protocol.to_be();
    link.sll_ifindex = interface.cast_signed();
    link.sll_halen = 6;
    link.sll_addr = [0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0, 0];
    // SAFETY: the storage holds a `sockaddr_ll`, whose family and length these are.
    unsafe { SockAddr::new(storage, length) }
}
