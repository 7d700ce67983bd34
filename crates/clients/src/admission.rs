//! Which clients get in: limits on clients, on users and on addresses, over all workers. Locked when a client comes,
//! logs in and goes, never on the path of a query.
//!
//! Who a client is shows only at the end of its login. So that clients who take every place do not keep an operator
//! out, there is more room for logins than for sessions, and when that is taken, too, the login that has been under way
//! for the longest makes way for the newest. A place is given out when a login succeeds.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use delphinus_net::rt::Bell;

/// The limits.
#[derive(Debug, Clone, Copy)]
pub struct ClientLimits {
    /// Clients at the same time.
    pub max_connections: u32,
    /// How many of these only administrators may take.
    pub reserved: u32,
    /// Sessions of each user that has no limit of its own.
    pub per_user: Option<u32>,
    /// Clients of each address.
    pub per_address: Option<u32>,
}

impl Default for ClientLimits {
    fn default() -> Self {
        Self { max_connections: u32::MAX, reserved: 0, per_user: None, per_address: None }
    }
}

/// What a user may do about connections.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Rank {
    /// What everybody may.
    #[default]
    Ordinary,
    /// Takes what is reserved, sees all sessions and may end them.
    ConnectionAdmin,
}

/// Why a client is not let in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusal {
    /// All places are taken.
    Clients,
    /// The user has reached its own limit.
    User(u32),
    /// The user has reached the limit that every user has.
    EveryUser(u32),
    /// The address has reached its limit.
    Address(u32),
}

/// Who wants to come in, at the end of a login.
#[derive(Debug, Clone)]
pub struct Newcomer {
    pub(crate) user: Arc<str>,
    pub(crate) rank: Rank,
    /// The user's own limit.
    pub(crate) limit: Option<u32>,
    pub(crate) source: Source,
}

/// What clients are counted by: an address, the network of one, or a Unix socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub(crate) struct Source(Option<IpAddr>);

impl Source {
    /// Whoever has one address of an IPv6 network has all 2^64 of them.
    pub(crate) fn of(ip: Option<IpAddr>) -> Self {
        Self(ip.map(|ip| match ip.to_canonical() {
            IpAddr::V6(ip) => IpAddr::V6(Ipv6Addr::from_bits(ip.to_bits() >> 64 << 64)),
            v4 @ IpAddr::V4(_) => v4,
        }))
    }
}

/// More logins than places, where some are reserved.
const MORE_LOGINS: u32 = 128;
/// Among so many of the oldest logins the one is looked for that makes way.
const LOOKED_AT: usize = 64;

/// All who are in, or on their way.
#[derive(Debug, Default)]
pub(crate) struct Admission {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    limits: ClientLimits,
    next: u64,
    /// Logins under way, the oldest first.
    logins: BTreeMap<u64, Login>,
    /// Of these, so many wait because others have failed, and have no place while they do.
    resting: u32,
    sessions: Sessions,
    users: HashMap<Arc<str>, u32>,
    sources: HashMap<Source, AtSource>,
}

#[derive(Debug, Default)]
struct Sessions {
    ordinary: u32,
    administrators: u32,
}

#[derive(Debug)]
struct Login {
    source: Source,
    evicted: Arc<Bell>,
    is_resting: bool,
}

/// Of one address.
#[derive(Debug, Default)]
struct AtSource {
    logins: u32,
    /// Those of administrators do not count.
    sessions: u32,
}

/// How many there are at this moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Attendance {
    /// Logins under way.
    pub logins: u32,
    /// Sessions of users with `connection_admin`.
    pub administrators: u32,
    /// The most clients that one address has.
    pub busiest_address: u32,
}

impl Admission {
    pub(crate) fn new(limits: ClientLimits) -> Self {
        Self { state: Mutex::new(State { limits, ..State::default() }) }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn limits(&self) -> ClientLimits {
        self.state().limits
    }

    /// Follows other limits.
    pub(crate) fn follow(&self, limits: ClientLimits) {
        self.state().limits = limits;
    }

    /// A client wants to log in: its number, and the bell that rings when it has to make way. `None`: there is no room.
    pub(crate) fn arrive(&self, source: Source) -> Option<(u64, Arc<Bell>)> {
        let mut state = self.state();
        if !state.has_room() {
            return None;
        }
        let number = state.next;
        state.next += 1;
        let evicted = Arc::<Bell>::default();
        state.logins.insert(number, Login { source, evicted: evicted.clone(), is_resting: false });
        state.sources.entry(source).or_default().logins += 1;
        Some((number, evicted))
    }

    /// The client of this login turns out to come from `source`.
    pub(crate) fn is_from(&self, number: u64, source: Source) -> Result<(), Refusal> {
        let mut state = self.state();
        let Some(login) = state.logins.get_mut(&number) else { return Err(Refusal::Clients) };
        let before = std::mem::replace(&mut login.source, source);
        state.change_source(before, |at| at.logins -= 1);
        state.sources.entry(source).or_default().logins += 1;
        let limits = state.limits;
        let Some(limit) = limits.per_address.filter(|_| source.0.is_some()) else { return Ok(()) };
        let more = if limits.reserved > 0 { MORE_LOGINS } else { 0 };
        let here = state.sources.get(&source).map_or(0, |at| at.logins + at.sessions);
        if here > limit.saturating_add(more) && !(more > 0 && state.evict(Some((source, number)))) {
            return Err(Refusal::Address(limit));
        }
        Ok(())
    }

    /// The login waits for longer, and gives its place to others meanwhile.
    pub(crate) fn rest(&self, number: u64) {
        let mut state = self.state();
        let Some(login) = state.logins.get_mut(&number).filter(|login| !login.is_resting) else { return };
        login.is_resting = true;
        let source = login.source;
        state.resting += 1;
        state.change_source(source, |at| at.logins -= 1);
    }

    /// It goes on, if there is still room.
    pub(crate) fn resume(&self, number: u64) -> Result<(), Refusal> {
        let mut state = self.state();
        if !state.has_room() {
            return Err(Refusal::Clients);
        }
        let Some(login) = state.logins.get_mut(&number).filter(|login| login.is_resting) else {
            return Err(Refusal::Clients);
        };
        login.is_resting = false;
        let source = login.source;
        state.resting -= 1;
        state.sources.entry(source).or_default().logins += 1;
        Ok(())
    }

    /// The login with this number has succeeded: the client gets its place, unless a limit has been reached.
    pub(crate) fn enter(&self, number: u64, newcomer: &Newcomer) -> Result<(), Refusal> {
        let mut state = self.state();
        if !state.logins.contains_key(&number) {
            return Err(Refusal::Clients);
        }
        state.check(newcomer)?;
        state.forget_login(number);
        state.add(&newcomer.user, newcomer.rank, newcomer.source);
        Ok(())
    }

    /// A login ends, with a session or without.
    pub(crate) fn login_ends(&self, number: u64) {
        self.state().forget_login(number);
    }

    /// A session ends.
    pub(crate) fn leave(&self, user: &str, rank: Rank, source: Source) {
        self.state().remove(user, rank, source);
    }

    /// A session of `user` and `rank` becomes that of somebody else, unless a limit has been reached.
    pub(crate) fn change(&self, (user, rank): (&str, Rank), newcomer: &Newcomer) -> Result<(), Refusal> {
        let mut state = self.state();
        state.remove(user, rank, newcomer.source);
        let checked = state.check(newcomer);
        match checked {
            Ok(()) => state.add(&newcomer.user, newcomer.rank, newcomer.source),
            Err(_) => state.add(&user.into(), rank, newcomer.source),
        }
        checked
    }

    /// How many there are.
    pub(crate) fn attendance(&self) -> Attendance {
        let state = self.state();
        let addresses = state.sources.iter().filter(|(source, _)| source.0.is_some());
        Attendance {
            logins: u32::try_from(state.logins.len()).unwrap_or(u32::MAX),
            administrators: state.sessions.administrators,
            busiest_address: addresses.map(|(_, at)| at.logins + at.sessions).max().unwrap_or(0),
        }
    }
}

impl State {
    fn clients(&self) -> u32 {
        let logins = u32::try_from(self.logins.len()).unwrap_or(u32::MAX);
        (logins - self.resting)
            .saturating_add(self.sessions.ordinary)
            .saturating_add(self.sessions.administrators)
    }

    /// True if one more login may be under way; where some is reserved, another makes way for it.
    fn has_room(&mut self) -> bool {
        let limits = self.limits;
        let is_reserving = limits.reserved > 0;
        let room = limits.max_connections.saturating_add(if is_reserving { MORE_LOGINS } else { 0 });
        self.clients() < room || (is_reserving && self.evict(None))
    }

    fn check(&self, newcomer: &Newcomer) -> Result<(), Refusal> {
        let limits = self.limits;
        let Sessions { ordinary, administrators } = self.sessions;
        let is_admin = newcomer.rank == Rank::ConnectionAdmin;
        let has_place = ordinary + administrators < limits.max_connections
            && (is_admin || ordinary < limits.max_connections - limits.reserved);
        if !has_place {
            return Err(Refusal::Clients);
        }
        let of_user = self.users.get(&newcomer.user).copied().unwrap_or(0);
        match (newcomer.limit, limits.per_user) {
            (Some(own), _) if of_user >= own => return Err(Refusal::User(own)),
            (None, Some(every)) if of_user >= every && !is_admin => return Err(Refusal::EveryUser(every)),
            _ => {}
        }
        let here = self.sources.get(&newcomer.source).map_or(0, |at| at.sessions);
        match limits.per_address.filter(|_| newcomer.source.0.is_some()) {
            Some(limit) if here >= limit && !is_admin => Err(Refusal::Address(limit)),
            _ => Ok(()),
        }
    }

    fn add(&mut self, user: &Arc<str>, rank: Rank, source: Source) {
        *self.users.entry(user.clone()).or_default() += 1;
        match rank {
            Rank::Ordinary => {
                self.sessions.ordinary += 1;
                self.sources.entry(source).or_default().sessions += 1;
            }
            Rank::ConnectionAdmin => self.sessions.administrators += 1,
        }
    }

    fn remove(&mut self, user: &str, rank: Rank, source: Source) {
        if let Some(count) = self.users.get_mut(user) {
            *count -= 1;
            if *count == 0 {
                self.users.remove(user);
            }
        }
        match rank {
            Rank::Ordinary => {
                self.sessions.ordinary -= 1;
                self.change_source(source, |at| at.sessions -= 1);
            }
            Rank::ConnectionAdmin => self.sessions.administrators -= 1,
        }
    }

    fn forget_login(&mut self, number: u64) {
        if let Some(login) = self.logins.remove(&number) {
            if login.is_resting {
                self.resting -= 1;
            } else {
                self.change_source(login.source, |at| at.logins -= 1);
            }
        }
    }

    fn change_source(&mut self, source: Source, change: impl FnOnce(&mut AtSource)) {
        if let Some(at) = self.sources.get_mut(&source) {
            change(at);
            if at.logins == 0 && at.sessions == 0 {
                self.sources.remove(&source);
            }
        }
    }

    /// Makes one login end, if there is one: of the oldest, one from the address that has the most. Within an address, the
    /// oldest but the one with the number beside it.
    fn evict(&mut self, within: Option<(Source, u64)>) -> bool {
        let busy = |login: &Login| self.sources.get(&login.source).map_or(0, |at| at.logins);
        let found = match within {
            Some((source, newest)) => self
                .logins
                .iter()
                .find(|(number, login)| login.source == source && **number != newest && !login.is_resting),
            // Of equals the oldest.
            None => self
                .logins
                .iter()
                .filter(|(_, login)| !login.is_resting)
                .take(LOOKED_AT)
                .min_by_key(|(_, login)| Reverse(busy(login))),
        };
        let Some((number, login)) = found.map(|(number, login)| (*number, login.evicted.clone())) else {
            return false;
        };
        login.ring();
        self.forget_login(number);
        true
    }
}

#[cfg(test)]
mod tests;
