//! Connections that log in and then do nothing.

use std::net::Ipv4Addr;
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result};

use super::session::{Session, Target};

/// Logins that run at the same time.
const THREADS: usize = 8;
/// Connections from one address, well below the number of ports that the kernel gives out.
const PER_SOURCE: usize = 8_000;

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
        let open = |index: usize| {
            let number = u8::try_from(index / PER_SOURCE + 2).unwrap_or(u8::MAX);
            let target = Target { source: Some(Ipv4Addr::new(127, 0, 0, number)), ..target.clone() };
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
