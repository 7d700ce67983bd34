//! Connections that log in and then do nothing.

use std::net::Ipv4Addr;
use std::process;
use std::sync::atomic::{AtomicU8, Ordering};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result};

use super::session::{Session, Target};

/// Logins that run at the same time.
const THREADS: usize = 8;
/// Connections from one address, well below the number of ports that the kernel gives out.
const PER_SOURCE: usize = 8_000;

/// How often connections were opened. Each time has addresses of its own: a port of the time before is in use for another
/// minute (TIME_WAIT) to whoever binds its address.
static OPENINGS: AtomicU8 = AtomicU8::new(0);

/// So often a connection is tried.
const ATTEMPTS: usize = 4;
/// Between two attempts.
const PAUSE: Duration = Duration::from_millis(250);

/// Open connections; dropping them says good-bye and closes them.
#[derive(Debug)]
pub(crate) struct IdleConnections {
    sessions: Vec<Session>,
}

impl IdleConnections {
    /// Opens `count` connections, from several addresses of loopback.
    pub(crate) fn open(target: &Target, count: usize) -> Result<Self> {
        let opening = OPENINGS.fetch_add(1, Ordering::Relaxed);
        let open = |index: usize| {
            let target = Target { source: Some(source(opening, index)), ..target.clone() };
            open_patiently(&target).with_context(|| format!("idle connection {} of {count}", index + 1))
        };
        let sessions: Result<Vec<_>> = thread::scope(|scope| {
            let some = |first: usize| {
                scope.spawn(move || (first..count).step_by(THREADS).map(open).collect::<Result<Vec<_>>>())
            };
            let threads: Vec<_> = (0..THREADS).map(some).collect();
            threads
                .into_iter()
                .map(|thread| thread.join().expect("invariant: no panic in a thread of logins"))
                .collect()
        });
        Ok(Self { sessions: sessions?.into_iter().flatten().collect() })
    }

    /// How many are open.
    pub(crate) fn count(&self) -> usize {
        self.sessions.len()
    }
}

/// An address of loopback: not that of another opening, nor, as good as always, of a run shortly before.
fn source(opening: u8, index: usize) -> Ipv4Addr {
    let [.., run] = process::id().to_be_bytes();
    let part = u8::try_from(index / PER_SOURCE + 2).unwrap_or(u8::MAX);
    Ipv4Addr::new(127, run.max(1), opening, part)
}

/// One connection. Of thousands that are opened at once a proxy or its server may turn one away: it is tried again.
fn open_patiently(target: &Target) -> Result<Session> {
    for _ in 1..ATTEMPTS {
        if let Ok(session) = Session::open(target) {
            return Ok(session);
        }
        thread::sleep(PAUSE);
    }
    Session::open(target)
}

impl Drop for IdleConnections {
    fn drop(&mut self) {
        self.sessions.drain(..).for_each(Session::quit);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn openings_share_no_address_and_an_address_has_ports_enough() {
        let first: HashSet<_> = (0..10_000).map(|index| source(0, index)).collect();
        let second: HashSet<_> = (0..10_000).map(|index| source(1, index)).collect();
        assert_eq!((first.len(), first.intersection(&second).count()), (2, 0));
        assert!(first.iter().chain(&second).all(Ipv4Addr::is_loopback));
    }
}
