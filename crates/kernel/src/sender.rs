//! Sends small packets to many sockets with one system call, by io_uring. The kernel is given pointers, and this file sees
//! to it that what they point to is there until the kernel is done with it.
//! Source: <https://man7.org/linux/man-pages/man7/io_uring.7.html>

use std::fmt;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

use io_uring::types::Fd;
use io_uring::{IoUring, opcode, squeue};
use rustix::net::SendFlags;

/// Sends with one system call for many packets. Belongs to the thread that made it.
pub struct Sender {
    /// None while it is in use, and after it failed.
    ring: Option<IoUring>,
}

/// Packets in one system call.
const ENTRIES: u32 = 128;

/// Never waits for room, and never raises SIGPIPE: with these, the kernel is done with a send before the system call
/// that submitted it returns.
const FLAGS: SendFlags = SendFlags::DONTWAIT.union(SendFlags::NOSIGNAL);

impl Sender {
    /// Fails where the kernel has no io_uring, or does not let this process use it, as in many containers.
    pub fn new() -> io::Result<Self> {
        let mut builder = IoUring::builder();
        builder.setup_single_issuer().setup_submit_all();
        // A kernel older than 6.0 does not know these.
        let ring = builder.build(ENTRIES).or_else(|_| IoUring::new(ENTRIES))?;
        Ok(Self { ring: Some(ring) })
    }

    /// Sends `count` packets, the one at `at` being `packet(at)`, without waiting for room, and tells `done` for each
    /// how many of its bytes were taken, or why none were: `WouldBlock` if there is no room.
    ///
    /// An error means that sending this way does not work any more: those that `done` was not told of were not sent,
    /// and neither are later ones.
    pub fn send_all<'a>(
        &mut self,
        count: usize,
        packet: impl Fn(usize) -> (BorrowedFd<'a>, &'a [u8]),
        mut done: impl FnMut(usize, io::Result<usize>),
    ) -> io::Result<()> {
        // Should anything go wrong in between, the ring is dropped, and with it what was not submitted.
        let mut ring = self.ring.take().ok_or(io::ErrorKind::Unsupported)?;
        let mut next = 0;
        while next < count {
            let first = next;
            while next < count && next - first < ENTRIES as usize {
                let (socket, bytes) = packet(next);
                push(&mut ring, next, socket, bytes)?;
                next += 1;
            }
            complete(&mut ring, next - first, &mut done)?;
        }
        self.ring = Some(ring);
        Ok(())
    }
}

impl fmt::Debug for Sender {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sender").field("works", &self.ring.is_some()).finish()
    }
}

fn push(ring: &mut IoUring, at: usize, socket: BorrowedFd<'_>, bytes: &[u8]) -> io::Result<()> {
    let len = u32::try_from(bytes.len()).map_err(|_| io::ErrorKind::InvalidInput)?;
    let entry: squeue::Entry = opcode::Send::new(Fd(socket.as_raw_fd()), bytes.as_ptr(), len)
        .flags(FLAGS.bits().cast_signed())
        .build()
        .user_data(at as u64);
    // SAFETY: the socket and the bytes are borrowed for 'a, which outlives `send_all`. Of what was pushed the kernel
    // sees nothing before `complete` submits it; `complete` returns when all of it is done, or fails, and then the
    // ring is dropped and never submits the rest. A send that was submitted does not go on in the background: with
    // MSG_DONTWAIT the kernel either takes the bytes at once or refuses.
    unsafe { ring.submission().push(&entry) }.map_err(|_| io::ErrorKind::OutOfMemory.into())
}

fn complete(
    ring: &mut IoUring,
    mut pending: usize,
    done: &mut impl FnMut(usize, io::Result<usize>),
) -> io::Result<()> {
    while pending > 0 {
        match ring.submit_and_wait(pending) {
            Err(error) if error.kind() != io::ErrorKind::Interrupted => return Err(error),
            _ => {}
        }
        for completion in ring.completion() {
            let at = usize::try_from(completion.user_data()).unwrap_or(usize::MAX);
            done(at, taken(completion.result()));
            pending -= 1;
        }
    }
    Ok(())
}

fn taken(result: i32) -> io::Result<usize> {
    usize::try_from(result).map_err(|_| io::Error::from_raw_os_error(-result))
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::os::fd::AsFd;
    use std::os::unix::net::UnixStream;

    use super::*;

    fn sender() -> Option<Sender> {
        // Where this process may not use io_uring there is nothing to test; the proxy works without it.
        Sender::new().ok()
    }

    fn pairs(count: usize) -> Vec<(UnixStream, UnixStream)> {
        (0..count).map(|_| UnixStream::pair().unwrap()).collect()
    }

    #[test]
    fn each_socket_gets_its_own() {
        let Some(mut sender) = sender() else { return };
        let mut pairs = pairs(300);
        let packets: Vec<Vec<u8>> = (0..300).map(|at| format!("packet {at}").into_bytes()).collect();
        for _ in 0..3 {
            let mut taken = vec![0; 300];
            let packet = |at: usize| (pairs[at].0.as_fd(), packets[at].as_slice());
            sender.send_all(300, packet, |at, result| taken[at] += result.unwrap()).unwrap();
            for (at, (_, end)) in pairs.iter_mut().enumerate() {
                let mut got = vec![0; 100];
                let n = end.read(&mut got).unwrap();
                assert_eq!((n, &got[..n]), (taken[at], packets[at].as_slice()));
            }
        }
        sender.send_all(0, |_| unreachable!(), |_, _| unreachable!()).unwrap();
    }

    #[test]
    fn a_full_or_closed_socket_harms_no_other() {
        let Some(mut sender) = sender() else { return };
        let mut pairs = pairs(3);
        let big = vec![7; 64 * 1024];
        let (closed, _) = UnixStream::pair().unwrap();
        let sockets = [pairs[0].0.as_fd(), closed.as_fd(), pairs[1].0.as_fd()];
        let (mut taken, mut refused, mut broken) = (0, 0, 0);
        for _ in 0..100 {
            let packet = |at: usize| (sockets[at], if at == 2 { &b"x"[..] } else { &big });
            let done = |at: usize, result: io::Result<usize>| match (at, result.map_err(|error| error.kind()))
            {
                (0, Ok(n)) => taken += n,
                (0, Err(io::ErrorKind::WouldBlock)) => refused += 1,
                (1, Err(io::ErrorKind::BrokenPipe)) => broken += 1,
                (2, Ok(1)) => {}
                other => panic!("{other:?}"),
            };
            sender.send_all(3, packet, done).unwrap();
        }
        assert!(taken > 0 && refused > 0 && broken == 100);
        let mut got = vec![0; 1000];
        assert_eq!(pairs[1].1.read(&mut got).unwrap(), 100);
        drop(pairs.remove(0).0);
    }
}
