//! A relay between two Unix sockets that breaks a connection after an exact number of bytes.

use std::collections::HashSet;
use std::io::{Read, Write};
use std::net::Shutdown;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anyhow::Result;

use crate::poll::until;

/// Which way bytes go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    /// From the one who connects to the one who listens.
    Forth,
    /// Back.
    Back,
}

/// Where counting begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum From {
    /// With the first byte that the next connection carries.
    NextConnection,
    /// With the next command on a connection that is there already, of the user that [`Relay::only_of`] named.
    /// COM_QUIT is left out: no answer comes back.
    NextCommand,
}

#[derive(Debug)]
struct Armed {
    way: Way,
    after: u64,
    from: From,
    /// Connections with lower numbers were there before.
    first_new: u64,
    /// The connection that is counted, once it is known.
    chosen: Option<u64>,
    counted: u64,
    is_cut: bool,
}

#[derive(Debug, Default)]
struct State {
    connections: u64,
    armed: Option<Armed>,
    /// What is cut whoever sends it, and how often.
    unwanted: Option<(Vec<u8>, u32)>,
    /// The user whose commands can be chosen, and the connections on which the name went forth.
    only_of: Option<(Vec<u8>, HashSet<u64>)>,
    /// What is kept to itself whoever sends it, with all that comes behind it, until once it has come.
    held: Option<Vec<u8>>,
}

/// Passes bytes on, and cuts when told to. Its threads end with their connections.
#[derive(Debug)]
pub struct Relay {
    /// Where it listens.
    pub path: PathBuf,
    state: Arc<Mutex<State>>,
}

/// What is passed on, and whether the connection is cut then.
struct Verdict {
    len: usize,
    cut: bool,
}

impl Relay {
    /// Listens at `path` for connections to `target`.
    pub fn start(path: &Path, target: &Path) -> Result<Self> {
        let listener = UnixListener::bind(path)?;
        let state = Arc::<Mutex<State>>::default();
        let (shared, target) = (state.clone(), target.to_owned());
        std::thread::spawn(move || {
            while let Ok((near, _)) = listener.accept() {
                if let Ok(far) = UnixStream::connect(&target) {
                    connect(&shared, &near, &far);
                }
            }
        });
        Ok(Self { path: path.to_owned(), state })
    }

    /// Commands are counted on connections of this user only: a monitor asks when it likes. Call it before the first
    /// connection; logins have to be readable.
    pub fn only_of(&self, user: &str) {
        lock(&self.state).only_of = Some((user.as_bytes().to_owned(), HashSet::new()));
    }

    /// From now on counts the bytes that go this way on one connection, and cuts it after so many.
    pub fn arm(&self, way: Way, from: From, after: u64) {
        let mut state = lock(&self.state);
        let first_new = state.connections;
        state.armed = Some(Armed { way, after, from, first_new, chosen: None, counted: 0, is_cut: false });
    }

    /// Ends that. How many bytes went that way, and whether the connection was cut.
    pub fn disarm(&self) -> (u64, bool) {
        lock(&self.state).armed.take().map_or((0, false), |armed| (armed.counted, armed.is_cut))
    }

    /// From now on each connection on which this goes forth is cut in its place, so many times.
    pub fn cut_on(&self, text: &[u8], times: u32) {
        lock(&self.state).unwanted = Some((text.to_owned(), times));
    }

    /// How often that is still to come.
    pub fn cuts_left(&self) -> u32 {
        lock(&self.state).unwanted.as_ref().map_or(0, |(_, times)| *times)
    }

    /// The next time that this goes forth it does not arrive, nor does anything behind it, and the connection stays as it is.
    pub fn hold_on(&self, text: &[u8]) {
        lock(&self.state).held = Some(text.to_owned());
    }

    /// Waits until that has come.
    pub fn wait_until_held(&self, limit: Duration) -> Result<()> {
        until(limit, "something to be held", || Ok(lock(&self.state).held.is_none()))
    }

    /// Waits until the connection is cut.
    pub fn wait_until_cut(&self, limit: Duration) -> Result<()> {
        until(limit, "the cut", || Ok(lock(&self.state).armed.as_ref().is_none_or(|armed| armed.is_cut)))
    }
}

fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

fn connect(state: &Arc<Mutex<State>>, near: &UnixStream, far: &UnixStream) {
    let number = {
        let mut state = lock(state);
        state.connections += 1;
        state.connections - 1
    };
    for way in [Way::Forth, Way::Back] {
        let (Ok(near), Ok(far)) = (near.try_clone(), far.try_clone()) else { return };
        let state = state.clone();
        std::thread::spawn(move || {
            let (mut input, mut output) = if way == Way::Forth { (&near, &far) } else { (&far, &near) };
            let mut bytes = [0; 4096];
            while let Ok(count @ 1..) = input.read(&mut bytes) {
                let verdict = judge(&mut lock(&state), number, way, &bytes[..count]);
                let is_unwanted = way == Way::Forth && is_unwanted(&mut lock(&state), &bytes[..count]);
                if is_unwanted {
                    break;
                }
                if way == Way::Forth && is_held(&mut lock(&state), &bytes[..count]) {
                    while let Ok(1..) = input.read(&mut bytes) {}
                    break;
                }
                let written = output.write_all(&bytes[..verdict.len]);
                if verdict.cut || written.is_err() {
                    break;
                }
            }
            let _ = (near.shutdown(Shutdown::Both), far.shutdown(Shutdown::Both));
        });
    }
}

fn is_held(state: &mut State, bytes: &[u8]) -> bool {
    let is_it =
        state.held.as_ref().is_some_and(|text| bytes.windows(text.len()).any(|window| window == text));
    if is_it {
        state.held = None;
    }
    is_it
}

fn is_unwanted(state: &mut State, bytes: &[u8]) -> bool {
    let Some((text, times @ 1..)) = &mut state.unwanted else { return false };
    let is_it = bytes.windows(text.len()).any(|window| window == text);
    *times -= u32::from(is_it);
    is_it
}

/// True if commands of this connection can be chosen.
fn is_of_the_user(state: &mut State, number: u64, way: Way, bytes: &[u8]) -> bool {
    let Some((user, connections)) = &mut state.only_of else { return true };
    if way == Way::Forth && bytes.windows(user.len()).any(|window| window == user) {
        connections.insert(number);
    }
    connections.contains(&number)
}

fn judge(state: &mut State, number: u64, way: Way, bytes: &[u8]) -> Verdict {
    const COM_QUIT: [u8; 5] = [1, 0, 0, 0, 1];
    let count = bytes.len();
    let all = Verdict { len: count, cut: false };
    let may_be_chosen = is_of_the_user(state, number, way, bytes);
    let Some(armed) = &mut state.armed else { return all };
    let is_new = number >= armed.first_new;
    let may_begin = match armed.from {
        From::NextConnection => is_new,
        From::NextCommand => !is_new && way == Way::Forth && may_be_chosen && bytes != COM_QUIT,
    };
    if armed.chosen.is_none() && may_begin {
        armed.chosen = Some(number);
    }
    if armed.chosen != Some(number) || armed.is_cut {
        return all;
    }
    if way != armed.way {
        // Nothing at all comes back.
        armed.is_cut = armed.after == 0 && armed.from == From::NextCommand;
        return Verdict { len: count, cut: armed.is_cut };
    }
    let len = usize::try_from(armed.after - armed.counted).unwrap_or(count).min(count);
    armed.counted += len as u64;
    armed.is_cut = armed.counted == armed.after;
    Verdict { len, cut: armed.is_cut }
}
