//! Accepts operators. Their connections are counted by themselves: applications cannot take their places. Those that come by
//! TCP and those of Unix sockets have places of their own, and a login that takes long makes way for a newer one: who connects
//! and says nothing keeps nobody out.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use delphinus_clients::{ListenerSettings, LoginPlace};
use delphinus_net::rt::Bell;
use delphinus_net::{Listener, Peer, rt};
use delphinus_telemetry::Pace;

use crate::connection;
use crate::console::Console;

/// Where accepting fails, it fails ten times a second.
const TELL_EVERY: Duration = Duration::from_secs(10);

/// The error for a connection too many, as servers send it before their greeting: without SQLSTATE.
const TOO_MANY: &[u8] = b"\x17\x00\x00\x00\xff\x10\x04Too many connections";
/// The longest login by TCP, and on a Unix socket.
const LOGIN_LIMITS: [Duration; 2] = [Duration::from_secs(5), Duration::from_secs(2)];

impl Console {
    /// Accepts on one listener until the task is ended.
    pub async fn accept(self: Rc<Self>, listener: Listener, current: Rc<RefCell<Arc<ListenerSettings>>>) {
        let mut pace = Pace::of(TELL_EVERY);
        loop {
            let accepted = listener.accept().await;
            let settings = current.borrow().clone();
            match accepted {
                Ok(peer) => match Place::take(&self, Way::of(&peer)) {
                    Some(place) => {
                        rt::spawn_local(connection::run(self.clone(), peer, settings, place));
                    }
                    None => {
                        rt::spawn_local(refuse(peer));
                    }
                },
                Err(error) => {
                    if let Some(held_back) = pace.step(rt::now()) {
                        tracing::warn!(listener = %settings.name, %error, held_back, "cannot accept an operator");
                    }
                    rt::sleep(Duration::from_millis(100)).await;
                }
            }
        }
    }

    /// Connections of operators that are open.
    pub(crate) fn open(&self) -> u64 {
        let of = |one: &RefCell<AtOneWay>| one.borrow().inside as usize + one.borrow().logins.len();
        self.places.iter().map(of).sum::<usize>() as u64
    }
}

async fn refuse(peer: Peer) {
    if let Ok(mut stream) = peer.into_stream() {
        // A client that is gone cannot be told.
        let _ = rt::timeout(Duration::from_secs(1), stream.write_bytes(TOO_MANY)).await;
        stream.close().await;
    }
}

/// How an operator comes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Way {
    Tcp = 0,
    Unix = 1,
}

impl Way {
    fn of(peer: &Peer) -> Self {
        if peer.ip.is_some() { Self::Tcp } else { Self::Unix }
    }
}

/// The connections that came by one way.
#[derive(Debug, Default)]
pub(crate) struct AtOneWay {
    /// Those that are logged in.
    inside: u32,
    next: u64,
    /// Logins under way, the oldest first, that have a place.
    logins: BTreeMap<u64, Rc<Bell>>,
}

impl AtOneWay {
    /// Makes room for one more; false if all places are of those that are logged in.
    fn make_room(&mut self, max: u32) -> bool {
        if self.inside as usize + self.logins.len() < max as usize {
            return true;
        }
        let oldest = self.logins.pop_first();
        oldest.inspect(|(_, bell)| bell.ring()).is_some()
    }
}

/// What a connection is on its way to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    LoggingIn,
    Resting,
    Inside,
}

/// The place of a connection, for as long as it lives.
pub(crate) struct Place {
    console: Rc<Console>,
    way: Way,
    number: u64,
    evicted: Rc<Bell>,
    state: Cell<State>,
}

impl Place {
    fn take(console: &Rc<Console>, way: Way) -> Option<Self> {
        let mut at = console.places[way as usize].borrow_mut();
        if !at.make_room(console.times().max_connections) {
            return None;
        }
        let (number, evicted) = (at.next, Rc::new(Bell::default()));
        at.next += 1;
        at.logins.insert(number, evicted.clone());
        drop(at);
        Some(Self { console: console.clone(), way, number, evicted, state: Cell::new(State::LoggingIn) })
    }

    /// How long the login may take.
    pub(crate) fn login_limit(&self) -> Duration {
        self.console.times().connect_timeout.min(LOGIN_LIMITS[self.way as usize])
    }

    /// Waits until the login has to make way for a newer one.
    pub(crate) async fn evicted(&self) {
        self.evicted.rung().await;
    }

    /// The operator has logged in; false if the login had to make way at that moment.
    pub(crate) fn enter(&self) -> bool {
        let mut at = self.at().borrow_mut();
        let is_here = at.logins.remove(&self.number).is_some();
        if is_here {
            at.inside += 1;
            self.state.set(State::Inside);
        }
        is_here
    }

    fn at(&self) -> &RefCell<AtOneWay> {
        &self.console.places[self.way as usize]
    }
}

impl LoginPlace for Place {
    fn rest(&self) {
        self.at().borrow_mut().logins.remove(&self.number);
        self.state.set(State::Resting);
    }

    fn resume(&self) -> bool {
        let mut at = self.at().borrow_mut();
        let has_room =
            self.state.get() == State::Resting && at.make_room(self.console.times().max_connections);
        if has_room {
            at.logins.insert(self.number, self.evicted.clone());
            self.state.set(State::LoggingIn);
        }
        has_room
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut at = self.at().borrow_mut();
        match self.state.get() {
            State::LoggingIn => drop(at.logins.remove(&self.number)),
            State::Resting => {}
            State::Inside => at.inside -= 1,
        }
    }
}
