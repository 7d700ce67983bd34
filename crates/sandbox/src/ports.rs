//! Ports that no other sandbox on this machine will take.

use std::hash::{BuildHasher, Hasher};
use std::net::{Ipv4Addr, TcpListener};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener};

use anyhow::{Result, bail};

/// Below 32768, where the kernel begins to give ports to outgoing connections: one of those could
/// take a server's port while the server is restarted.
const FIRST: u16 = 12_000;
const COUNT: u16 = 20_000;

/// A TCP port on 127.0.0.1 that belongs to this process until the lease is dropped.
///
/// The claim is an abstract Unix socket named after the port: the kernel gives it to one process
/// only and takes it back when that process ends, so two sandboxes never choose the same port, even
/// before their servers listen on it.
#[derive(Debug)]
pub struct PortLease {
    port: u16,
    _claim: UnixListener,
}

impl PortLease {
    /// Finds a port that nobody claims and nobody listens on.
    pub fn take() -> Result<Self> {
        Self::take_below(FIRST + COUNT)
    }

    /// The same with a smaller number than this.
    pub fn take_below(limit: u16) -> Result<Self> {
        let count = limit.saturating_sub(FIRST).min(COUNT);
        let start = random() % u64::from(count.max(1));
        for step in 0..u64::from(count) {
            let port =
                FIRST + u16::try_from((start + step) % u64::from(count)).expect("invariant: below COUNT");
            if let Some(lease) = Self::claim(port)? {
                return Ok(lease);
            }
        }
        bail!("no free port between {FIRST} and {limit}")
    }

    /// The port's number.
    pub fn port(&self) -> u16 {
        self.port
    }

    fn claim(port: u16) -> Result<Option<Self>> {
        let name = SocketAddr::from_abstract_name(format!("delphinus-sandbox-port-{port}"))?;
        let Ok(claim) = UnixListener::bind_addr(&name) else { return Ok(None) };
        let free = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok();
        Ok(free.then_some(Self { port, _claim: claim }))
    }
}

/// A number that differs between processes and between calls.
pub(crate) fn random() -> u64 {
    std::hash::RandomState::new().build_hasher().finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_claimed_port_is_not_given_twice() {
        let lease = PortLease::take().unwrap();
        assert!(PortLease::claim(lease.port()).unwrap().is_none());
        let port = lease.port();
        drop(lease);
        assert!(claimed_soon(port), "port {port} stays claimed");
    }

    /// Tries for 5 s: a child that another test has just forked holds every file until it calls exec.
    fn claimed_soon(port: u16) -> bool {
        (0..500).any(|_| {
            let claimed = PortLease::claim(port).unwrap().is_some();
            if !claimed {
                std::thread::sleep(std::time::Duration::from_millis(10));
            }
            claimed
        })
    }

    #[test]
    fn a_port_in_use_is_not_given() {
        let lease = PortLease::take().unwrap();
        let port = lease.port();
        drop(lease);
        let _listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).unwrap();
        assert!(PortLease::claim(port).unwrap().is_none());
    }
}
