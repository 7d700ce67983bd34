//! Who is connected, over all workers: for limits, KILL and the process list. Locked when a client comes or
//! goes and when somebody asks, never on the path of a query.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use delphinus_net::rt::Bell;
use delphinus_state::Pin;
use delphinus_topology::BackendId;

use crate::inquiry::Inquiry;

/// A client connection's id: what the client sees as its connection id.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ClientConnId(pub u32);

/// What others may know of a session, and how they reach it.
#[derive(Debug)]
pub struct SessionInfo {
    /// Its id.
    pub id: ClientConnId,
    /// Its user; changes with COM_CHANGE_USER.
    user: Mutex<Arc<str>>,
    /// The client's host.
    pub host: String,
    /// The schema that it is in; changes rarely.
    schema: Mutex<Option<Arc<str>>>,
    /// The oldest of its pins.
    pin: Mutex<Option<Pin>>,
    /// Where its statement runs: backend in the high half, thread id there in the low half; 0 is nowhere, `WAITING` not
    /// yet anywhere.
    running: AtomicU64,
    /// When it last began a command, by the registry's clock.
    active_s: AtomicU32,
    /// What others want of it: the bits below.
    signals: AtomicU8,
    bell: Bell,
}

/// A command has begun, and is on no backend: the session waits for a connection, as a rule.
const WAITING: u64 = 1;

/// The session has to end.
const KILLED: u8 = 1;
/// What it runs on a backend has to end.
const KILL_QUERY: u8 = 2;
/// It shall tell what only it knows: see `inquiry`.
const TELL: u8 = 4;

/// What somebody wanted of a session that has heard it now.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Wanted(u8);

impl Wanted {
    /// The statement has to end.
    pub(crate) fn kills_query(self) -> bool {
        self.0 & KILL_QUERY != 0
    }

    /// Somebody asks.
    pub(crate) fn asks(self) -> bool {
        self.0 & TELL != 0
    }
}

impl SessionInfo {
    /// Notes that a command begins.
    #[inline]
    pub(crate) fn touch(&self, clock_s: u32) {
        self.active_s.store(clock_s, Ordering::Relaxed);
        self.running.store(WAITING, Ordering::Relaxed);
    }

    /// Makes the session look whether it has to end.
    pub fn disturb(&self) {
        self.bell.ring();
    }

    /// Its user.
    pub fn user(&self) -> Arc<str> {
        self.user.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The schema that it is in.
    pub fn schema(&self) -> Option<Arc<str>> {
        self.schema.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Notes that it is in another schema.
    pub(crate) fn enters(&self, schema: Option<&str>) {
        *self.schema.lock().unwrap_or_else(PoisonError::into_inner) = schema.map(Arc::from);
    }

    /// Why it keeps its connection, since when, and because of which statement: the oldest of its pins.
    pub fn pin(&self) -> Option<Pin> {
        self.pin.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Notes its oldest pin.
    pub(crate) fn is_pinned(&self, pin: Option<Pin>) {
        *self.pin.lock().unwrap_or_else(PoisonError::into_inner) = pin;
    }

    /// Seconds since it last began a command.
    pub fn since_s(&self, now_s: u32) -> u32 {
        now_s.saturating_sub(self.active_s.load(Ordering::Relaxed))
    }

    /// Says where its statement runs now.
    #[inline]
    pub fn runs_on(&self, backend: BackendId, thread_id: u32) {
        let place = (u64::from(backend.0) + 1) << 32 | u64::from(thread_id);
        self.running.store(place, Ordering::Relaxed);
    }

    /// Says that no statement runs.
    #[inline]
    pub fn runs_nowhere(&self) {
        self.running.store(0, Ordering::Relaxed);
    }

    /// Where its statement runs.
    pub fn place(&self) -> Option<(BackendId, u32)> {
        let place = self.running.load(Ordering::Relaxed);
        let backend = u16::try_from(place >> 32).ok()?.checked_sub(1)?;
        Some((BackendId(backend), place as u32))
    }

    /// True if a command has begun that is on no backend yet.
    pub fn is_waiting(&self) -> bool {
        self.running.load(Ordering::Relaxed) == WAITING
    }

    /// True if the session has to end.
    pub fn is_killed(&self) -> bool {
        self.signals.load(Ordering::Relaxed) & KILLED != 0
    }

    /// Ends the session as soon as it can see it: when its statement has come to its end.
    pub fn kill(&self) {
        self.signal(KILLED);
    }

    /// Makes the session end its statement on the backend, and itself as well if `ends_session`.
    pub fn kill_from_outside(&self, ends_session: bool) {
        self.signal(if ends_session { KILLED | KILL_QUERY } else { KILL_QUERY });
    }

    /// Makes the session tell what it knows.
    pub(crate) fn ask(&self) {
        self.signal(TELL);
    }

    fn signal(&self, bits: u8) {
        self.signals.fetch_or(bits, Ordering::Relaxed);
        self.bell.ring();
    }

    /// What others want of the session, taken note of.
    pub(crate) fn take_wanted(&self) -> Wanted {
        Wanted(self.signals.fetch_and(KILLED, Ordering::Relaxed))
    }

    /// Waits until somebody wants something of this session.
    pub(crate) async fn disturbed(&self) {
        self.bell.rung().await;
    }
}

/// All sessions.
#[derive(Debug, Default)]
pub struct Registry {
    sessions: Mutex<HashMap<ClientConnId, Arc<SessionInfo>>>,
    next_id: AtomicU32,
    waiting: AtomicU32,
    connected: AtomicU32,
    /// Seconds since the start, advanced by `tick`: reading a clock for each command would cost more.
    clock_s: AtomicU32,
    pub(crate) inquiry: Inquiry,
}

/// Counts one client as connected, from accept to the end.
#[derive(Debug)]
pub struct Connected(Arc<Registry>);

impl Drop for Connected {
    fn drop(&mut self) {
        self.0.connected.fetch_sub(1, Ordering::AcqRel);
    }
}

/// A place among the statements that wait for a primary.
#[derive(Debug)]
pub(crate) struct WaitPlace(Arc<Registry>);

impl Drop for WaitPlace {
    fn drop(&mut self) {
        self.0.waiting.fetch_sub(1, Ordering::AcqRel);
    }
}

impl Registry {
    /// A place among the statements that wait for a primary, if less than `limit` do.
    pub(crate) fn wait_place(self: &Arc<Self>, limit: u32) -> Option<WaitPlace> {
        let add = |n| (n < limit).then_some(n + 1);
        self.waiting
            .fetch_update(Ordering::AcqRel, Ordering::Relaxed, add)
            .ok()
            .map(|_| WaitPlace(self.clone()))
    }

    /// How many statements wait for a primary.
    pub fn waiting(&self) -> u32 {
        self.waiting.load(Ordering::Relaxed)
    }

    fn sessions(&self) -> MutexGuard<'_, HashMap<ClientConnId, Arc<SessionInfo>>> {
        self.sessions.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Seconds since the start.
    #[inline]
    pub fn clock_s(&self) -> u32 {
        self.clock_s.load(Ordering::Relaxed)
    }

    /// Advances the clock, ends the sessions that have been idle for `limit_s`, and wakes those whose statement has run
    /// for a second and more: they look whether their client is still there.
    pub fn tick(&self, now_s: u32, limit_s: u64) {
        self.clock_s.store(now_s, Ordering::Relaxed);
        for info in self.sessions().values() {
            let since_s = now_s.saturating_sub(info.active_s.load(Ordering::Relaxed));
            match info.place() {
                None if u64::from(since_s) >= limit_s => info.kill(),
                Some(_) if since_s >= 1 => info.disturb(),
                _ => {}
            }
        }
    }

    /// Wakes the sessions whose statement runs where nothing will come from any more.
    pub fn disturb_those_on(&self, is_hung: impl Fn(BackendId) -> bool) {
        for info in self.sessions().values() {
            if info.place().is_some_and(|(backend, _)| is_hung(backend)) {
                info.disturb();
            }
        }
    }

    /// A new id: never 0, and not one in use.
    pub fn next_id(&self) -> ClientConnId {
        loop {
            let id = ClientConnId(self.next_id.fetch_add(1, Ordering::Relaxed).wrapping_add(1));
            if id.0 != 0 && !self.sessions().contains_key(&id) {
                return id;
            }
        }
    }

    /// Counts a client, if there are less than `limit`.
    pub fn connect(self: &Arc<Self>, limit: u32) -> Option<Connected> {
        self.connected
            .fetch_update(Ordering::AcqRel, Ordering::Relaxed, |n| (n < limit).then_some(n + 1))
            .ok()
            .map(|_| Connected(self.clone()))
    }

    /// How many clients are connected.
    pub fn connected(&self) -> u32 {
        self.connected.load(Ordering::Relaxed)
    }

    /// Enters a session that has logged in, unless its user has `limit` already.
    pub(crate) fn enter(
        &self,
        id: ClientConnId,
        user: &Arc<str>,
        host: String,
        limit: Option<u32>,
    ) -> Option<Arc<SessionInfo>> {
        let mut sessions = self.sessions();
        if !has_room(&sessions, user, limit) {
            return None;
        }
        let info = Arc::new(SessionInfo {
            id,
            user: Mutex::new(user.clone()),
            host,
            schema: Mutex::default(),
            pin: Mutex::default(),
            running: AtomicU64::new(0),
            active_s: AtomicU32::new(self.clock_s()),
            signals: AtomicU8::new(0),
            bell: Bell::default(),
        });
        sessions.insert(id, info.clone());
        Some(info)
    }

    /// Changes a session's user, unless the new one has `limit` already.
    pub(crate) fn change_user(&self, info: &SessionInfo, user: &Arc<str>, limit: Option<u32>) -> bool {
        let sessions = self.sessions();
        let room = info.user() == *user || has_room(&sessions, user, limit);
        if room {
            *info.user.lock().unwrap_or_else(PoisonError::into_inner) = user.clone();
        }
        room
    }

    /// Removes a session.
    pub(crate) fn leave(&self, id: ClientConnId) {
        self.sessions().remove(&id);
    }

    /// The session with this id.
    pub fn find(&self, id: ClientConnId) -> Option<Arc<SessionInfo>> {
        self.sessions().get(&id).cloned()
    }

    /// All sessions, by id.
    pub fn list(&self) -> Vec<Arc<SessionInfo>> {
        let mut list: Vec<_> = self.sessions().values().cloned().collect();
        list.sort_by_key(|info| info.id);
        list
    }
}

fn has_room(sessions: &HashMap<ClientConnId, Arc<SessionInfo>>, user: &Arc<str>, limit: Option<u32>) -> bool {
    limit.is_none_or(|limit| {
        let count = sessions.values().filter(|info| info.user() == *user).count();
        u32::try_from(count).is_ok_and(|count| count < limit)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_hold_and_places_are_kept() {
        let registry = Arc::new(Registry::default());
        let one = registry.connect(1);
        assert!(one.is_some() && registry.connect(1).is_none());
        drop(one);
        assert!(registry.connect(1).is_some());

        let user: Arc<str> = "app".into();
        let id = registry.next_id();
        let info = registry.enter(id, &user, "h".into(), Some(1)).expect("room for one");
        assert!(registry.enter(registry.next_id(), &user, "h".into(), Some(1)).is_none());
        assert_eq!(info.place(), None);
        info.runs_on(BackendId(0), 7);
        assert_eq!(info.place(), Some((BackendId(0), 7)));
        info.runs_nowhere();
        assert_eq!((info.place(), info.is_waiting()), (None, false));
        info.touch(1);
        assert_eq!((info.place(), info.is_waiting()), (None, true));
        info.kill_from_outside(false);
        info.ask();
        let wanted = info.take_wanted();
        assert!(wanted.kills_query() && wanted.asks() && !info.is_killed());
        info.kill_from_outside(true);
        assert!(info.take_wanted().kills_query() && !info.take_wanted().kills_query() && info.is_killed());
        registry.leave(id);
        assert!(registry.find(id).is_none());
    }
}
