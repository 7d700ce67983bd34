//! What still comes for an address that has left this host in order. A client that connects before another host has announced the address sends
//! to this one; its first packet (SYN) would be lost, and it sends it again after a second only (RFC 6298, section 2). Here such packets are kept
//! until the address is announced, and passed on to the host that has it now. Nothing else is passed on: no session outlives a move.

use std::io;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use delphinus_kernel::{Filter, LinkSocket};

use crate::addresses::Interface;
use crate::announce::ARP;

const IPV4: u16 = 0x0800;
const IPV6: u16 = 0x86dd;

/// Another host takes the address within this time, or what has come has waited for so long that its sender repeats it.
const PATIENCE: Duration = Duration::from_millis(1200);
/// Neighbours that have missed the first announcements hear of later ones.
const AFTERWARDS: Duration = Duration::from_millis(400);
/// What opens a connection has 120 bytes at most with IPv4, and little more with IPv6. With data in it (TCP Fast Open) it is the sender's
/// affair.
const LONGEST: usize = 256;
/// How many are kept; more are lost, as all would be.
const MOST: usize = 1024;
/// Before the thread looks again whether it has to end.
const LOOK: Duration = Duration::from_millis(50);

/// Keeps, and passes on.
#[derive(Debug)]
pub(crate) struct Onward {
    is_over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Onward {
    /// Begins to keep what comes for the address by this interface. It ends by itself.
    pub(crate) fn begin(address: IpAddr, interface: &Interface) -> io::Result<Self> {
        let is_over = Arc::<AtomicBool>::default();
        let Some(mac) = interface.mac.filter(|_| !interface.is_loopback) else {
            return Ok(Self { is_over, thread: None });
        };
        let openings = Filter::openings(address);
        let open = |protocol, filter| LinkSocket::open_for(protocol, interface.index, filter);
        let sockets = match address {
            IpAddr::V4(_) => vec![open(IPV4, Some(&openings))?, open(ARP, None)?],
            IpAddr::V6(_) => vec![open(IPV6, Some(&openings))?],
        };
        let passing = Passing { address, mac, sockets, kept: Vec::new(), to: None, is_over: is_over.clone() };
        let thread = thread::Builder::new().name("vip-onward".into()).spawn(move || passing.run())?;
        Ok(Self { is_over, thread: Some(thread) })
    }

    /// The address stays on this host: what has come is not passed on.
    pub(crate) fn forget(self) {
        self.is_over.store(true, Ordering::Relaxed);
    }

    /// Waits for its end.
    pub(crate) fn finish(&mut self) {
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

struct Passing {
    address: IpAddr,
    mac: [u8; 6],
    /// The first has packets of IP, and sends them.
    sockets: Vec<LinkSocket>,
    kept: Vec<Vec<u8>>,
    /// Who has announced the address.
    to: Option<[u8; 6]>,
    is_over: Arc<AtomicBool>,
}

impl Passing {
    fn run(mut self) {
        let mut until = Instant::now() + PATIENCE;
        let mut passed = 0;
        while !self.is_over.load(Ordering::Relaxed) {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() || LinkSocket::wait(&self.sockets, left.min(LOOK)).is_err() {
                break;
            }
            let was_known = self.to.is_some();
            self.take_in();
            let Some(to) = self.to else { continue };
            if !was_known {
                until = Instant::now() + AFTERWARDS;
            }
            for packet in self.kept.drain(..) {
                // One that is lost is sent again by its sender.
                passed += usize::from(self.sockets[0].send_to(&packet, to).is_ok());
            }
        }
        if passed > 0 {
            tracing::info!(address = %self.address, passed, "clients that came too early were passed on to the virtual IP's next host");
        }
    }

    fn take_in(&mut self) {
        let mut frame = [0; LONGEST];
        for socket in &self.sockets {
            // Bounded: the thread looks at its time in between.
            for _ in 0..MOST {
                let Ok(Some(read)) = socket.take(&mut frame) else { break };
                if let Some(host) = announced(&frame[..read], self.address) {
                    self.to = Some(host).filter(|host| *host != self.mac).or(self.to);
                } else if let Some(packet) = opening(&mut frame[..read], self.address)
                    && self.kept.len() < MOST
                {
                    self.kept.push(packet.to_vec());
                }
            }
        }
    }
}

/// The hardware address that a frame announces for the address: an ARP packet whose sender and target it is, or an unsolicited
/// neighbour advertisement.
fn announced(frame: &[u8], address: IpAddr) -> Option<[u8; 6]> {
    match address {
        IpAddr::V4(address) => {
            let is_arp = frame.starts_with(&[0, 1, 8, 0, 6, 4, 0]);
            let own = address.octets();
            let is_it = frame.get(14..18)? == own && frame.get(24..28)? == own;
            (is_arp && is_it).then(|| frame[8..14].try_into().ok()).flatten()
        }
        IpAddr::V6(address) => {
            let is_advertisement = *frame.get(6)? == 58 && *frame.get(40)? == 136;
            let is_it = frame.get(48..64)? == address.octets();
            let option = frame.get(64..72)?;
            (is_advertisement && is_it && option[..2] == [2, 1])
                .then(|| option[2..].try_into().ok())
                .flatten()
        }
    }
}

/// A packet that opens a connection to the address, without what the link has added behind it, and with its checksum: a packet that has not
/// left a machine yet (a container, a virtual machine) has none. The kernel's filter has looked at flags and address.
fn opening(frame: &mut [u8], address: IpAddr) -> Option<&[u8]> {
    let (header, length, ends) = match address {
        IpAddr::V4(_) => {
            let header = usize::from(*frame.first()? & 0xf) * 4;
            let length = usize::from(u16::from_be_bytes(frame.get(2..4)?.try_into().ok()?));
            (header, length, 12..20)
        }
        IpAddr::V6(_) => {
            let length = usize::from(u16::from_be_bytes(frame.get(4..6)?.try_into().ok()?)) + 40;
            (40, length, 8..40)
        }
    };
    let packet = frame.get_mut(..length)?;
    let is_tcp = packet.get(if address.is_ipv4() { 9 } else { 6 })? == &6;
    if !is_tcp || header < 20 || length < header + 20 {
        return None;
    }
    packet[header + 16..header + 18].fill(0);
    let segment = &packet[header..];
    let count = u64::try_from(segment.len()).ok()?;
    let sum = words(&packet[ends]) + 6 + count + words(segment);
    let checksum = !folded(sum);
    packet[header + 16..header + 18].copy_from_slice(&checksum.to_be_bytes());
    Some(packet)
}

/// The sum of numbers of two bytes (RFC 1071).
fn words(bytes: &[u8]) -> u64 {
    let one = |pair: &[u8]| u64::from(pair[0]) << 8 | u64::from(pair.get(1).copied().unwrap_or(0));
    bytes.chunks(2).map(one).sum()
}

fn folded(mut sum: u64) -> u16 {
    while sum >> 16 != 0 {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    u16::try_from(sum).unwrap_or(u16::MAX)
}

#[cfg(test)]
mod tests;
