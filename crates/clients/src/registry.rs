//! Who is connected, over all workers: for limits, KILL and the process list. Locked when a client comes or
//! goes and when somebody asks, never on the path of a query.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use delphinus_net::Network;
use delphinus_net::rt::Bell;
use delphinus_topology::{BackendId, ClusterId};

use crate::activity::{Activity, ClientConnId, Entry};
use crate::admission::{Admission, Attendance, ClientLimits, Newcomer, Refusal, Source};
use crate::failed_logins::{FailedLogins, LoginDelays};
use crate::inquiry::Inquiry;
use crate::login_attempt::LoginPlace;

/// All sessions.
#[derive(Debug, Default)]
pub struct Registry {
    sessions: Mutex<HashMap<ClientConnId, Arc<Activity>>>,
    next_id: AtomicU32,
    connected: AtomicU32,
    admission: Admission,
    failed_logins: FailedLogins,
    /// Seconds since the start, advanced by `tick`: reading a clock for each command would cost more.
    clock_s: AtomicU32,
    /// Operators want no more clients.
    offline: AtomicBool,
    /// Those that are let in all the same.
    exempt: Mutex<Vec<Network>>,
    pub(crate) inquiry: Inquiry,
}

/// Counts one client as connected, from accept to the end, and holds its place: that of its login, then that of its session. With
/// it the place goes back, however the client comes to its end: a login that has entered may still run out of time.
#[derive(Debug)]
pub struct Connected {
    registry: Arc<Registry>,
    number: u64,
    evicted: Arc<Bell>,
    /// Its session, once it has entered.
    entered: OnceLock<ClientConnId>,
}

impl Connected {
    /// Waits until its login has to make way for that of another.
    pub async fn evicted(&self) {
        self.evicted.rung().await;
    }

    /// Says where the client comes from; an error if too many do.
    pub fn is_from(&self, ip: Option<IpAddr>) -> Result<(), Refusal> {
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
        // As a rule the session has left by itself.
        if let Some(id) = self.entered.get() {
            self.registry.leave(*id);
        }
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

    /// Follows other limits. Who is in stays, also beyond them.
    pub fn follow(&self, limits: ClientLimits, delays: LoginDelays, exempt: Vec<Network>) {
        self.admission.follow(limits);
        self.failed_logins.follow(delays);
        *self.exempt.lock().unwrap_or_else(PoisonError::into_inner) = exempt;
    }

    /// Lets clients in, or none but those that are exempt.
    pub fn set_offline(&self, is_offline: bool) {
        self.offline.store(is_offline, Ordering::Relaxed);
    }

    /// True if operators want no more clients.
    pub fn is_offline(&self) -> bool {
        self.offline.load(Ordering::Relaxed)
    }

    /// True if a client that comes from there is not let in for that reason.
    pub fn is_offline_for(&self, ip: Option<IpAddr>) -> bool {
        let is_exempt = |ip| {
            let exempt = self.exempt.lock().unwrap_or_else(PoisonError::into_inner);
            exempt.iter().any(|network| network.contains(ip))
        };
        self.is_offline() && !ip.is_some_and(is_exempt)
    }

    /// The limits.
    pub fn limits(&self) -> ClientLimits {
        self.admission.limits()
    }

    /// How many clients of which kind there are.
    pub fn attendance(&self) -> Attendance {
        self.admission.attendance()
    }

    /// Where logins have failed.
    pub fn failed_logins(&self) -> &FailedLogins {
        &self.failed_logins
    }

    fn sessions(&self) -> MutexGuard<'_, HashMap<ClientConnId, Arc<Activity>>> {
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
        for activity in self.sessions().values() {
            let since_s = activity.since_s(now_s);
            match activity.place() {
                // One that waits is not idle.
                None if u64::from(since_s) >= limit_s && !activity.is_waiting() => activity.kill(),
                Some(_) if since_s >= 1 => activity.disturb(),
                _ => {}
            }
        }
    }

    /// Wakes the sessions of a cluster whose statement runs where nothing will come from any more.
    pub fn disturb_those_on(&self, cluster: ClusterId, is_hung: impl Fn(BackendId) -> bool) {
        for activity in self.sessions().values().filter(|activity| activity.cluster() == cluster) {
            if activity.place().is_some_and(|(backend, _)| is_hung(backend)) {
                activity.disturb();
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
        Some(Connected { registry: self.clone(), number, evicted, entered: OnceLock::new() })
    }

    /// How many clients are connected.
    pub fn connected(&self) -> u32 {
        self.connected.load(Ordering::Relaxed)
    }

    /// Enters a session that has logged in, unless a limit has been reached. It stays until it leaves, and no longer than `connected`.
    pub fn enter(
        &self,
        connected: &Connected,
        newcomer: Newcomer,
        entry: Entry,
    ) -> Result<Arc<Activity>, Refusal> {
        self.admission.enter(connected.number, &newcomer)?;
        let activity = Arc::new(Activity::new(entry, newcomer, self.clock_s()));
        self.sessions().insert(activity.id, activity.clone());
        // A login enters once: its number is gone now.
        let _ = connected.entered.set(activity.id);
        Ok(activity)
    }

    /// Changes a session's user, unless a limit has been reached.
    pub fn change_user(&self, activity: &Activity, newcomer: Newcomer) -> Result<(), Refusal> {
        self.admission.change((&activity.user(), activity.rank()), &newcomer)?;
        activity.is_now(newcomer.user, newcomer.rank);
        Ok(())
    }

    /// Removes a session, if it is still there.
    pub fn leave(&self, id: ClientConnId) {
        let left = self.sessions().remove(&id);
        if let Some(activity) = left {
            self.admission.leave(&activity.user(), activity.rank(), activity.visitor.source());
        }
    }

    /// The session with this id.
    pub fn find(&self, id: ClientConnId) -> Option<Arc<Activity>> {
        self.sessions().get(&id).cloned()
    }

    /// The sessions that run a command, or have a transaction open.
    pub fn active(&self) -> Vec<Arc<Activity>> {
        self.sessions().values().filter(|activity| activity.is_active()).cloned().collect()
    }

    /// All sessions, by id.
    pub fn list(&self) -> Vec<Arc<Activity>> {
        let mut list: Vec<_> = self.sessions().values().cloned().collect();
        list.sort_by_key(|activity| activity.id);
        list
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::admission::Rank;
    use crate::failed_logins::Visitor;

    fn for_one() -> Arc<Registry> {
        let limits = ClientLimits { max_connections: 1, ..ClientLimits::default() };
        Arc::new(Registry::new(limits, LoginDelays::default()))
    }

    fn enter(registry: &Registry, connected: &Connected) -> ClientConnId {
        let id = registry.next_id();
        let newcomer =
            Newcomer { user: "app".into(), rank: Rank::Ordinary, limit: Some(1), source: Source::default() };
        let visitor = Visitor::of(None, None);
        let entry = Entry { id, host: "h".into(), visitor, cluster: ClusterId(1) };
        registry.enter(connected, newcomer, entry).expect("room for one");
        id
    }

    #[test]
    fn limits_hold_and_places_are_kept() {
        let registry = for_one();
        let one = registry.connect(None);
        assert!(one.is_some() && registry.connect(None).is_none());
        drop(one);
        let connected = registry.connect(None).expect("room again");
        assert_eq!(registry.connected(), 1);

        let id = enter(&registry, &connected);
        assert!(registry.connect(None).is_none());
        registry.leave(id);
        assert!(registry.find(id).is_none());
        assert!(registry.connect(None).is_some());
    }

    /// As a login that runs out of time behind its password: its future is dropped, and no session has begun that could leave.
    #[test]
    fn a_client_that_goes_before_its_session_begins_leaves_no_place_taken() {
        let registry = for_one();
        let connected = registry.connect(None).expect("room for one");
        let id = enter(&registry, &connected);
        assert!(registry.find(id).is_some());
        drop(connected);
        assert!(registry.find(id).is_none());
        assert_eq!((registry.connected(), registry.list().len()), (0, 0));

        // Neither a place among all nor one of the user's is missing, and none is given back twice.
        let connected = registry.connect(None).expect("room again");
        let id = enter(&registry, &connected);
        registry.leave(id);
        drop(connected);
        let connected = registry.connect(None).expect("room still");
        enter(&registry, &connected);
        assert!(registry.connect(None).is_none());
    }
}
