//! One connection over a link.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use socket2::SockRef;

use super::Shared;
use crate::relay::Way;

/// Both its ends. They are closed when both ways have ended.
#[derive(Debug)]
pub(super) struct Pipe {
    near: TcpStream,
    far: TcpStream,
    began: Instant,
    is_reset: AtomicBool,
    /// Bytes that came back since something went forth.
    answered: AtomicU64,
    /// In microseconds since it began.
    answered_at: AtomicU64,
}

impl Pipe {
    pub(super) fn new(near: TcpStream, far: TcpStream) -> Self {
        Self {
            near,
            far,
            began: Instant::now(),
            is_reset: AtomicBool::new(false),
            answered: AtomicU64::new(0),
            answered_at: AtomicU64::new(0),
        }
    }

    pub(super) fn answered_at(&self) -> Instant {
        self.began + Duration::from_micros(self.answered_at.load(Ordering::Relaxed))
    }

    /// Both ends see a reset as soon as both threads have let go of it.
    pub(super) fn reset(&self) {
        self.is_reset.store(true, Ordering::SeqCst);
        abort(&self.near);
        abort(&self.far);
    }

    /// Carries what goes one way until it ends.
    pub(super) fn carry(&self, way: Way, link: &Shared) {
        let (mut from, mut to) =
            if way == Way::Forth { (&self.near, &self.far) } else { (&self.far, &self.near) };
        let mut bytes = [0; 16 * 1024];
        loop {
            let count = from.read(&mut bytes);
            if self.is_reset.load(Ordering::SeqCst) {
                return;
            }
            let bytes_read = count.as_ref().ok().and_then(|count| u32::try_from(*count).ok());
            let arrival = link.arrival(way, bytes_read.unwrap_or(0));
            std::thread::sleep(arrival.saturating_duration_since(Instant::now()));
            link.wait_until_open(way);
            match count {
                Ok(0) => {
                    let _ = to.shutdown(Shutdown::Write);
                    return;
                }
                Ok(count) => {
                    let written = to.write_all(&bytes[..count]);
                    if written.is_err() || self.is_broken_off(way, count, link) {
                        return self.reset();
                    }
                }
                Err(_) => return self.reset(),
            }
        }
    }

    fn is_broken_off(&self, way: Way, count: usize, link: &Shared) -> bool {
        if way == Way::Forth {
            self.answered.store(0, Ordering::Relaxed);
            return false;
        }
        let now_us = u64::try_from(self.began.elapsed().as_micros()).unwrap_or(u64::MAX);
        self.answered_at.store(now_us, Ordering::Relaxed);
        let count = count as u64;
        link.breaks_off(self.answered.fetch_add(count, Ordering::Relaxed) + count)
    }
}

/// Closing it sends a reset from now on, and who reads from it is woken.
pub(super) fn abort(socket: &TcpStream) {
    let _ = SockRef::from(socket).set_linger(Some(Duration::ZERO));
    let _ = socket.shutdown(Shutdown::Read);
}
