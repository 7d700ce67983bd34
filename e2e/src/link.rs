//! A network link to a server, in the form of a relay: it can lose everything in one direction or in both without a word,
//! be slow, and reset connections. What a cut link holds back arrives when it is whole again, as it does where TCP sends again.

mod pipe;

use std::collections::HashSet;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use anyhow::Result;
use socket2::SockRef;

use crate::relay::Way;
use pipe::Pipe;

/// Connections that wait to be accepted by a whole link.
const BACKLOG: i32 = 1024;
/// A connection that is not taken for so long meets a full queue.
const REFUSED: Duration = Duration::from_millis(50);

/// How slow a link is.
#[derive(Debug, Clone, Copy)]
pub struct Slowness {
    /// What each way adds.
    pub delay: Duration,
    /// What all connections together may carry each way.
    pub bytes_per_second: u32,
}

#[derive(Debug, Default)]
struct State {
    /// Ways on which nothing arrives.
    cut: Vec<Way>,
    slowness: Option<Slowness>,
    /// Until when each way is taken by what was sent last.
    busy_until: [Option<Instant>; 2],
    /// The next answer that is longer is broken off after so many bytes.
    reset_after: Option<u64>,
    resets: u64,
    pipes: Vec<Weak<Pipe>>,
    /// The thread that accepts waits for the link to be whole.
    is_parked: bool,
    /// Where our own connections come from that fill the queue of a cut link.
    stuffing: HashSet<SocketAddr>,
}

#[derive(Debug)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
    listener: TcpListener,
    target: (String, u16),
}

/// A link to a server. Its threads end with the process.
#[derive(Debug)]
pub struct Link {
    /// Where to connect on 127.0.0.1.
    pub port: u16,
    shared: Arc<Shared>,
}

impl Link {
    /// Leads to this host and port.
    pub fn to(host: &str, port: u16) -> Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        SockRef::from(&listener).listen(BACKLOG)?;
        let own = listener.local_addr()?.port();
        let target = (host.to_owned(), port);
        let shared = Arc::new(Shared { state: Mutex::default(), changed: Condvar::new(), listener, target });
        let accepting = shared.clone();
        std::thread::spawn(move || accepting.accept_all());
        Ok(Self { port: own, shared })
    }

    /// From now on nothing arrives that goes these ways, and no connection is made. Nobody is told.
    pub fn cut(&self, ways: &[Way]) -> Result<()> {
        self.shared.state().cut = ways.to_vec();
        // The kernel takes connections by itself until the queue is full; then it drops what asks for one.
        SockRef::from(&self.shared.listener).listen(0)?;
        let own = self.shared.listener.local_addr()?;
        let mut all = Vec::new();
        loop {
            // Before that, the thread that accepts may still make room.
            let is_parked = self.shared.state().is_parked;
            match TcpStream::connect_timeout(&own, REFUSED) {
                Ok(one) => {
                    self.shared.state().stuffing.insert(one.local_addr()?);
                    all.push(one);
                }
                Err(_) if is_parked => break,
                Err(_) => {}
            }
        }
        // They stay in the queue after their end.
        drop(all);
        Ok(())
    }

    /// The link is whole and quick again.
    pub fn heal(&self) -> Result<()> {
        SockRef::from(&self.shared.listener).listen(BACKLOG)?;
        let mut state = self.shared.state();
        state.cut.clear();
        state.slowness = None;
        state.reset_after = None;
        self.shared.changed.notify_all();
        Ok(())
    }

    /// From now on it is slow.
    pub fn slow(&self, slowness: Slowness) {
        self.shared.state().slowness = Some(slowness);
    }

    /// The next answer that is longer than this ends there with a reset.
    pub fn reset_answer_after(&self, bytes: u64) {
        self.shared.state().reset_after = Some(bytes);
    }

    /// Resets the connection that has been answered last.
    pub fn reset_one(&self) {
        let mut state = self.shared.state();
        state.pipes.retain(|pipe| pipe.strong_count() > 0);
        let latest = state.pipes.iter().filter_map(Weak::upgrade).max_by_key(|pipe| pipe.answered_at());
        if let Some(pipe) = latest {
            state.resets += 1;
            pipe.reset();
        }
    }

    /// How many connections it has reset.
    pub fn resets(&self) -> u64 {
        self.shared.state().resets
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn accept_all(self: Arc<Self>) {
        loop {
            // While the link is cut, nobody may make room in the queue.
            self.park();
            let Ok((near, from)) = self.listener.accept() else { return };
            // It may have been cut meanwhile; then the other side waits for the greeting in vain.
            self.park();
            if self.state().stuffing.remove(&from) {
                continue;
            }
            match TcpStream::connect((self.target.0.as_str(), self.target.1)) {
                Ok(far) => self.pass_on(near, far),
                Err(_) => pipe::abort(&near),
            }
        }
    }

    fn pass_on(self: &Arc<Self>, near: TcpStream, far: TcpStream) {
        let _ = (near.set_nodelay(true), far.set_nodelay(true));
        let pipe = Arc::new(Pipe::new(near, far));
        self.state().pipes.push(Arc::downgrade(&pipe));
        for way in [Way::Forth, Way::Back] {
            let (pipe, shared) = (pipe.clone(), self.clone());
            std::thread::spawn(move || pipe.carry(way, &shared));
        }
    }

    /// Waits until the link is whole.
    fn park(&self) {
        let is_cut = |state: &mut State| {
            state.is_parked = !state.cut.is_empty();
            state.is_parked
        };
        drop(self.changed.wait_while(self.state(), is_cut));
    }

    /// Returns when something may arrive that goes this way.
    fn wait_until_open(&self, way: Way) {
        drop(self.changed.wait_while(self.state(), |state| state.cut.contains(&way)));
    }

    /// When so many bytes arrive that were sent now.
    fn arrival(&self, way: Way, count: u32) -> Instant {
        let mut state = self.state();
        let now = Instant::now();
        let Some(slowness) = state.slowness else { return now };
        let busy_until = &mut state.busy_until[usize::from(way == Way::Back)];
        let takes = Duration::from_secs(1).mul_f64(f64::from(count) / f64::from(slowness.bytes_per_second));
        let sent = busy_until.unwrap_or(now).max(now) + takes;
        *busy_until = Some(sent);
        sent + slowness.delay
    }

    /// True if an answer that has come to so many bytes ends here.
    fn breaks_off(&self, answered: u64) -> bool {
        let mut state = self.state();
        let is_long = state.reset_after.is_some_and(|after| answered > after);
        if is_long {
            state.reset_after = None;
            state.resets += 1;
        }
        is_long
    }
}

#[cfg(test)]
mod tests;
