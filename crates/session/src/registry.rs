//! Who is connected, over all workers: for limits, KILL and the process list. Locked when a client comes or
//! goes and when somebody asks, never on the path of a query.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::atomic::{AtomicU8, AtomicU16, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use delphinus_net::rt::Bell;
use delphinus_pool::Thread;
use delphinus_state::Pin;
use delphinus_topology::{BackendId, ClusterId};

use crate::admission::{Admission, Attendance, ClientLimits, Newcomer, Rank, Refusal, Source};
use crate::failed_logins::{FailedLogins, LoginDelays, Visitor};
use crate::inquiry::Inquiry;
use crate::login_attempt::LoginPlace;

/// A client connection's id: what the client sees as its connection id.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ClientConnId(pub u32);

/// What others may know of a session, and how they reach it.
#[derive(Debug)]
pub struct SessionInfo {
    /// Its id.
    pub id: ClientConnId,
    /// Its user, and what that may do; changes with COM_CHANGE_USER.
    user: Mutex<(Arc<str>, Rank)>,
    /// The client's host.
    pub host: String,
    /// By which it is counted.
    pub(crate) visitor: Visitor,
    /// Whose backends it uses; changes with COM_CHANGE_USER.
    cluster: AtomicU16,
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
        self.user.lock().unwrap_or_else(PoisonError::into_inner).0.clone()
    }

    /// What its user may do.
    pub fn rank(&self) -> Rank {
        self.user.lock().unwrap_or_else(PoisonError::into_inner).1
    }

    /// The cluster whose backends it uses.
    pub fn cluster(&self) -> ClusterId {
        ClusterId(self.cluster.load(Ordering::Relaxed))
    }

    /// Notes that it has moved to another cluster. It runs nothing then.
    pub(crate) fn moves_to(&self, cluster: ClusterId) {
        self.cluster.store(cluster.0, Ordering::Relaxed);
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
    pub fn runs_on(&self, backend: BackendId, thread: Thread) {
        let place = u64::from(thread.moves) << 48 | (u64::from(backend.0) + 1) << 32 | u64::from(thread.id);
        self.running.store(place, Ordering::Relaxed);
    }

    /// Says that no statement runs.
    #[inline]
    pub fn runs_nowhere(&self) {
        self.running.store(0, Ordering::Relaxed);
    }

    /// Says that its statement runs on no backend any more, and is to run again: a KILL has to reach the session itself.
    pub(crate) fn waits_again(&self) {
        self.running.store(WAITING, Ordering::Relaxed);
    }

    /// Where its statement runs.
    pub fn place(&self) -> Option<(BackendId, Thread)> {
        let place = self.running.load(Ordering::Relaxed);
        let backend = ((place >> 32) as u16).checked_sub(1)?;
        Some((BackendId(backend), Thread { id: place as u32, moves: (place >> 48) as u16 }))
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
    connected: AtomicU32,
    admission: Admission,
    pub(crate) failed_logins: FailedLogins,
    /// Seconds since the start, advanced by `tick`: reading a clock for each command would cost more.
    clock_s: AtomicU32,
    pub(crate) inquiry: Inquiry,
}

/// Counts one client as connected, from accept to the end.
#[derive(Debug)]
pub struct Connected {
    registry: Arc<Registry>,
    number: u64,
    evicted: Arc<Bell>,
}

impl Connected {
    /// Waits until its login has to make way for that of another.
    pub(crate) async fn evicted(&self) {
        self.evicted.rung().await;
    }

    /// Says where the client comes from; an error if too many do.
    pub(crate) fn is_from(&self, ip: Option<IpAddr>) -> Result<(), Refusal> {
        self.registry.admission.is_from(self.number, Source::of(ip))
    }
}

impl LoginPlace for Connected {
    fn rest(&self) {
        self.registry.admission.rest(self.number);
    }

    fn resume(&self) -> bool {
        self.registry.admission.resume(self.number).is_ok()
    }
}

impl Drop for Connected {
    fn drop(&mut self) {
        self.registry.admission.login_ends(self.number);
        self.registry.connected.fetch_sub(1, Ordering::AcqRel);
    }
}

impl Registry {
    /// With these limits.
    pub fn new(limits: ClientLimits, delays: LoginDelays) -> Self {
        let (admission, failed_logins) = (Admission::new(limits), FailedLogins::new(delays));
        Self { admission, failed_logins, ..Self::default() }
    }

    /// The limits.
    pub fn limits(&self) -> ClientLimits {
        self.admission.limits()
    }

    /// How many clients of which kind there are.
    pub fn attendance(&self) -> Attendance {
        self.admission.attendance()
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
        self.failed_logins.tick(delphinus_net::rt::now());
        for info in self.sessions().values() {
            let since_s = now_s.saturating_sub(info.active_s.load(Ordering::Relaxed));
            match info.place() {
                None if u64::from(since_s) >= limit_s => info.kill(),
                Some(_) if since_s >= 1 => info.disturb(),
                _ => {}
            }
        }
    }

    /// Wakes the sessions of a cluster whose statement runs where nothing will come from any more.
    pub fn disturb_those_on(&self, cluster: ClusterId, is_hung: impl Fn(BackendId) -> bool) {
        for info in self.sessions().values().filter(|info| info.cluster() == cluster) {
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

    /// Counts a client that comes from this address, as far as is known yet; `None` if there is no room.
    pub fn connect(self: &Arc<Self>, ip: Option<IpAddr>) -> Option<Connected> {
        let (number, evicted) = self.admission.arrive(Source::of(ip))?;
        self.connected.fetch_add(1, Ordering::AcqRel);
        Some(Connected { registry: self.clone(), number, evicted })
    }

    /// How many clients are connected.
    pub fn connected(&self) -> u32 {
        self.connected.load(Ordering::Relaxed)
    }

    /// Enters a session that has logged in, unless a limit has been reached.
    pub(crate) fn enter(
        &self,
        connected: &Connected,
        id: ClientConnId,
        newcomer: Newcomer,
        (host, visitor, cluster): (String, Visitor, ClusterId),
    ) -> Result<Arc<SessionInfo>, Refusal> {
        self.admission.enter(connected.number, &newcomer)?;
        let info = Arc::new(SessionInfo {
            id,
            user: Mutex::new((newcomer.user, newcomer.rank)),
            host,
            visitor,
            cluster: AtomicU16::new(cluster.0),
            schema: Mutex::default(),
            pin: Mutex::default(),
            running: AtomicU64::new(0),
            active_s: AtomicU32::new(self.clock_s()),
            signals: AtomicU8::new(0),
            bell: Bell::default(),
        });
        self.sessions().insert(id, info.clone());
        Ok(info)
    }

    /// Changes a session's user, unless a limit has been reached.
    pub(crate) fn change_user(
        &self,
        info: &SessionInfo,
        (user, rank, limit): (&Arc<str>, Rank, Option<u32>),
    ) -> Result<(), Refusal> {
        let mut now = info.user.lock().unwrap_or_else(PoisonError::into_inner);
        let newcomer = Newcomer { user: user.clone(), rank, limit, source: info.visitor.source() };
        self.admission.change((&now.0, now.1), &newcomer)?;
        *now = (newcomer.user, rank);
        Ok(())
    }

    /// Removes a session.
    pub(crate) fn leave(&self, id: ClientConnId) {
        let left = self.sessions().remove(&id);
        if let Some(info) = left {
            self.admission.leave(&info.user(), info.rank(), info.visitor.source());
        }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_hold_and_places_are_kept() {
        let registry = Arc::new(Registry::new(
            ClientLimits { max_connections: 1, ..ClientLimits::default() },
            LoginDelays::default(),
        ));
        let one = registry.connect(None);
        assert!(one.is_some() && registry.connect(None).is_none());
        drop(one);
        let connected = registry.connect(None).expect("room again");
        assert_eq!(registry.connected(), 1);

        let id = registry.next_id();
        let newcomer =
            Newcomer { user: "app".into(), rank: Rank::Ordinary, limit: Some(1), source: Source::default() };
        let info = registry
            .enter(&connected, id, newcomer, ("h".into(), Visitor::of(None, None), ClusterId(1)))
            .expect("room for one");
        assert!(registry.connect(None).is_none());
        assert_eq!(info.place(), None);
        let thread = Thread { id: 7, moves: u16::MAX };
        info.runs_on(BackendId(0), thread);
        assert_eq!(info.place(), Some((BackendId(0), thread)));
        info.runs_nowhere();
        assert_eq!((info.place(), info.is_waiting()), (None, false));
        info.touch(1);
        assert_eq!((info.place(), info.is_waiting()), (None, true));
        info.runs_on(BackendId(0), thread);
        info.waits_again();
        assert_eq!((info.place(), info.is_waiting()), (None, true));
        info.kill_from_outside(false);
        info.ask();
        let wanted = info.take_wanted();
        assert!(wanted.kills_query() && wanted.asks() && !info.is_killed());
        info.kill_from_outside(true);
        assert!(info.take_wanted().kills_query() && !info.take_wanted().kills_query() && info.is_killed());
        registry.leave(id);
        assert!(registry.find(id).is_none());
        assert!(registry.connect(None).is_some());
    }
}
