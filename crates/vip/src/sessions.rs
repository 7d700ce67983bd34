//! The TCP connections on an address, found and ended by the kernel's `sock_diag`: both ends are told at once (the other one by a RST), while
//! connections on the host's own address stay. Source: <https://man7.org/linux/man-pages/man7/sock_diag.7.html>

use std::io;
use std::net::{IpAddr, SocketAddr};

use netlink_packet_sock_diag::constants::{
    AF_INET, AF_INET6, IPPROTO_TCP, TCP_CLOSING, TCP_FIN_WAIT2, TCP_LAST_ACK, TCP_SYN_RECV,
};
use netlink_packet_sock_diag::inet::{ExtensionFlags, InetRequest, SocketId, StateFlags};
use netlink_packet_sock_diag::{SockDiagDestroy, SockDiagMessage};
use netlink_sys::protocols::NETLINK_SOCK_DIAG;

use crate::netlink::{list, tell};

/// A connection whose local end is on the address.
#[derive(Debug, Clone)]
pub(crate) struct Connection {
    family: u8,
    state: u8,
    id: SocketId,
}

impl Connection {
    /// The client.
    pub(crate) fn peer(&self) -> SocketAddr {
        SocketAddr::new(self.id.destination_address.to_canonical(), self.id.destination_port)
    }

    /// A session may be on it, or its client has not got all of its answers yet. Where this end has closed it, and the client has got
    /// everything or is gone, nothing is waited for: a client that does not look may leave it so for a minute.
    pub(crate) fn is_open(&self) -> bool {
        !matches!(self.state, TCP_SYN_RECV | TCP_FIN_WAIT2 | TCP_CLOSING | TCP_LAST_ACK)
    }

    /// The client has not finished connecting: it has been answered, and believes to be connected as soon as it hears that.
    pub(crate) fn is_coming(&self) -> bool {
        self.state == TCP_SYN_RECV
    }
}

/// All connections on an address, but for those that only wait for their end.
pub(crate) fn on(address: IpAddr) -> io::Result<Vec<Connection>> {
    let mut found = Vec::new();
    let states = StateFlags::all() - StateFlags::LISTEN - StateFlags::TIME_WAIT - StateFlags::CLOSE;
    each(&states, |family, state, id| {
        if id.source_address.to_canonical() == address {
            found.push(Connection { family, state, id });
        }
    })?;
    Ok(found)
}

/// The addresses on which a process of this host lets clients in at a port.
pub(crate) fn listening_at(port: u16) -> io::Result<Vec<IpAddr>> {
    let mut found = Vec::new();
    each(&StateFlags::LISTEN, |_, _, id| {
        if id.source_port == port {
            found.push(id.source_address.to_canonical());
        }
    })?;
    Ok(found)
}

fn each(states: &StateFlags, mut found: impl FnMut(u8, u8, SocketId)) -> io::Result<()> {
    // A socket that listens on [::] takes IPv4 clients as mapped addresses.
    for family in [AF_INET, AF_INET6] {
        let socket_id = if family == AF_INET { SocketId::new_v4() } else { SocketId::new_v6() };
        let request = InetRequest {
            family,
            protocol: IPPROTO_TCP,
            extensions: ExtensionFlags::empty(),
            states: states.clone(),
            socket_id,
        };
        list(NETLINK_SOCK_DIAG, SockDiagMessage::InetRequest(request), |message| {
            if let SockDiagMessage::InetResponse(one) = message {
                found(family, one.header.state, one.header.socket_id);
            }
        })?;
    }
    Ok(())
}

/// Ends connections on an address, whatever becomes of the others; the first error.
pub(crate) fn cut(address: IpAddr, which: impl Fn(&Connection) -> bool) -> io::Result<()> {
    let all = on(address)?;
    all.iter().filter(|one| which(one)).map(destroy).fold(Ok(()), io::Result::and)
}

/// Ends a connection; one that has ended by itself is fine.
fn destroy(connection: &Connection) -> io::Result<()> {
    let request = InetRequest {
        family: connection.family,
        protocol: IPPROTO_TCP,
        extensions: ExtensionFlags::empty(),
        states: StateFlags::all(),
        socket_id: connection.id.clone(),
    };
    let gone = tell(NETLINK_SOCK_DIAG, SockDiagDestroy::new(SockDiagMessage::InetRequest(request)), 0);
    match gone {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        // What the kernel keeps of a connection that only its client has not closed yet is not a whole socket: Linux 6.1 does not end it.
        // Its client is told by the address's next host.
        Err(_) if connection.state == TCP_FIN_WAIT2 => Ok(()),
        other => other,
    }
}
