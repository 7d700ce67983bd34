//! The thread that adds, refreshes and removes this host's virtual IPs. It looks several times a second at the lease, at what this host is
//! fit for and at its peers, asks `delphinus_topology` what follows, and does that.

mod parting;
mod place;

use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use delphinus_lease::{Lease, View, boot_now};
use delphinus_topology::{
    Assigning, BootTime, Fitness, Holders, Peer, Standing, Step, Vip, VipRole, assign, step, tells,
};

use crate::addresses;
use place::Place;

/// Between two looks, if nothing has changed.
const TICK: Duration = Duration::from_millis(200);

/// What was said of this host's fitness counts no longer than this: the part that says it may hang.
const STALE: Duration = Duration::from_secs(3);

/// After a start it may take so long until that is known. What the process before this one has left stays meanwhile.
const GRACE: Duration = Duration::from_secs(5);

/// Folders of keys in the lease store.
const MEMBERS: &str = "members/";
const VIPS: &str = "vips/";
/// Below it, the member that an operator wants to have each virtual IP.
pub const PREFERRED: &str = "preferred/";
/// It is there: operators want no moves.
pub const FROZEN: &str = "frozen";

/// What happens to the sessions on an address that moves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KillOnMove {
    /// Nothing. A client that sends gets a reset from the address's next host; one that waits hangs until its keepalive notices. What is
    /// left on the old host ends when the address comes back there.
    None,
    /// They end between transactions, within a bound; then the rest is cut.
    Transactions,
    /// They are cut at once.
    All,
}

/// A virtual IP.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Spec {
    /// Its name and its role.
    pub vip: Vip,
    /// One address or several that move together.
    pub addresses: Vec<IpAddr>,
    /// The interface; without it the one whose network the address belongs to.
    pub interface: Option<String>,
    /// What happens to the sessions when it moves.
    pub kill_on_move: KillOnMove,
    /// How long sessions may take to end between transactions.
    pub drain: Duration,
}

/// How the virtual IPs are kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// This member's name; unique among those that share the store.
    pub member: Arc<str>,
    /// All virtual IPs of the cluster; every member has the same.
    pub vips: Vec<Spec>,
    /// How many replicas there are when none is lost.
    pub usual_replicas: usize,
    /// A virtual IP is taken from a member that can have it only for one that has been fit for so long.
    pub rebalance_after: Duration,
}

/// What this host is fit for, told by the part that knows.
#[derive(Debug, Default)]
pub struct Health(Mutex<Option<(Fitness, BootTime)>>);

impl Health {
    /// Says it. It has to be said again within three seconds.
    pub fn is(&self, fitness: Fitness) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some((fitness, boot_now()));
    }

    /// None: it has not been said yet. What was said too long ago may have changed since.
    fn now(&self, now: BootTime) -> Option<Fitness> {
        let (fitness, said) = (*self.0.lock().unwrap_or_else(PoisonError::into_inner))?;
        Some(if now.since(said) < STALE { fitness } else { fitness.in_doubt() })
    }
}

/// Whoever knows the sessions on an address.
pub trait Sessions: Send {
    /// Asks those that can end by themselves to do so, and returns those that may be cut now: they are in no statement and no
    /// transaction. Called several times while an address is about to go: sessions that have come since the call with `begins` are not
    /// meant.
    fn leave(&self, address: IpAddr, clients: &[SocketAddr], begins: bool) -> Vec<SocketAddr>;

    /// Lets no client in any more that comes to one of these addresses, or lets all in again. Those who are in stay. True if this process
    /// is who lets them in, and does not now.
    fn shut(&self, addresses: &[IpAddr], is_shut: bool) -> bool;
}

/// Where a virtual IP is on its way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Condition {
    /// It is not on this host.
    Elsewhere,
    /// It is on this host.
    Here,
    /// It is on this host and about to go.
    Leaving,
    /// It should be here, and the kernel refuses.
    Failed,
}

/// A virtual IP, for tables.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shown {
    /// Its name.
    pub name: Arc<str>,
    /// Where it has to be.
    pub role: &'static str,
    /// Its addresses.
    pub addresses: Vec<IpAddr>,
    /// The member that has its key.
    pub holder: Option<String>,
    /// The member that should have it.
    pub wanted: Option<String>,
    /// How it stands on this host.
    pub condition: Condition,
    /// Since when that holds.
    pub since: Duration,
    /// How long this host may keep it without another word of the store.
    pub left: Duration,
    /// Grows each time that it is taken.
    pub epoch: Option<u64>,
    /// What went wrong last.
    pub error: Option<String>,
}

/// The thread. Dropping it releases all addresses in order, within their bounds.
#[derive(Debug)]
pub struct Keeper {
    shared: Arc<Shared>,
    lease: Arc<Lease>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    shown: Vec<Shown>,
    next: Option<Settings>,
    stops: bool,
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Keeper {
    /// Starts the thread.
    pub fn start(
        settings: Settings,
        lease: Arc<Lease>,
        health: Arc<Health>,
        sessions: Box<dyn Sessions>,
    ) -> io::Result<Self> {
        let shared = Arc::<Shared>::default();
        let work = Work::new(settings, lease.clone(), health, sessions);
        let told = shared.clone();
        let thread = thread::Builder::new().name("vip".into()).spawn(move || work.run(&told))?;
        Ok(Self { shared, lease, thread: Some(thread) })
    }

    /// How all of them stand.
    pub fn shown(&self) -> Vec<Shown> {
        self.shared.state().shown.clone()
    }

    /// Goes by other settings from now on. An address that is not in them any more is released.
    pub fn follow(&self, settings: Settings) {
        self.shared.state().next = Some(settings);
        self.lease.nudge();
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        self.shared.state().stops = true;
        self.lease.nudge();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

struct Work {
    settings: Settings,
    lease: Arc<Lease>,
    health: Arc<Health>,
    sessions: Box<dyn Sessions>,
    places: Vec<Place>,
    /// Those that are not in the settings any more.
    leaving: Vec<Place>,
    /// Since when each member says what it says.
    fit: BTreeMap<Arc<str>, (String, Instant)>,
    started: Instant,
    stops: bool,
}

/// What is to be done with all of them, from one view.
struct Outlook {
    view: Arc<View>,
    now: BootTime,
    held: Holders,
    wanted: Holders,
}

impl Work {
    fn new(settings: Settings, lease: Arc<Lease>, health: Arc<Health>, sessions: Box<dyn Sessions>) -> Self {
        let mut work = Self {
            places: Vec::new(),
            leaving: Vec::new(),
            settings,
            lease,
            health,
            sessions,
            fit: BTreeMap::new(),
            started: Instant::now(),
            stops: false,
        };
        work.seat();
        work
    }

    fn run(mut self, shared: &Shared) {
        let mut generation = 0;
        loop {
            self.take_orders(shared);
            self.turn();
            shared.state().shown = self.shown();
            if self.stops && self.places.iter().chain(&self.leaving).all(|place| !place.is_here()) {
                break;
            }
            let pace = self.places.iter().chain(&self.leaving).filter_map(Place::pace).min();
            generation = self.lease.wait(generation, pace.unwrap_or(TICK));
        }
        self.lease.give_up(&self.own_key());
        // Another host takes them meanwhile.
        self.places.iter_mut().chain(&mut self.leaving).for_each(Place::finish);
    }

    fn take_orders(&mut self, shared: &Shared) {
        let mut state = shared.state();
        self.stops = state.stops;
        let next = state.next.take();
        drop(state);
        if let Some(next) = next {
            self.settings = next;
            self.seat();
        }
    }

    /// A place for each virtual IP of the settings; those that are there stay.
    fn seat(&mut self) {
        let interfaces = addresses::interfaces().unwrap_or_default();
        let mut before = std::mem::take(&mut self.places);
        for spec in &self.settings.vips {
            if let Some(at) = before.iter().position(|place| place.is_of(spec)) {
                let (place, leaving) = before.swap_remove(at).with(spec.clone());
                self.places.push(place);
                self.leaving.extend(leaving);
                continue;
            }
            // What is in the kernel now leaves first.
            let is_left = before.iter().chain(&self.leaving).any(|place| place.is_before(spec));
            self.places.push(Place::new(
                spec.clone(),
                if is_left { &[] } else { &interfaces },
                self.lease.ttl(),
            ));
        }
        self.leaving.extend(before);
    }

    fn own_key(&self) -> String {
        format!("{MEMBERS}{}", self.settings.member)
    }

    fn turn(&mut self) {
        let now = boot_now();
        let fitness = self.fitness(now);
        if let Some(fitness) = fitness {
            let cannot = self.places.iter_mut().filter_map(Place::cannot);
            let told = tells(fitness, cannot);
            self.lease.want(&self.own_key(), &told);
        }
        let outlook = self.look(now);
        if outlook.view.listed.is_none() && !self.stops {
            // What the process before this one has left in the kernel ends there in time; it may be this one's.
            return;
        }
        let ends = outlook.view.until();
        // A process that stops gives up what its server may still serve.
        let has_now = self.health.now(now);
        for place in &mut self.places {
            if !place.is_here() && self.leaving.iter().any(|before| before.is_before(place.spec())) {
                continue;
            }
            let name = place.name().clone();
            let key = format!("{VIPS}{name}");
            let is_ours = outlook.view.held(&key).is_some() || outlook.view.is_kept(&key, now);
            let wanted = match fitness {
                // It cannot be told yet who should have it.
                None => is_ours.then_some(&self.settings.member),
                Some(_) => outlook.wanted.get(&name).filter(|_| !self.stops),
            };
            let standing = Standing {
                holder: outlook.held.get(&name).map(|holder| &**holder),
                wanted: wanted.map(|member| &**member),
                is_ours,
                is_here: place.is_here(),
            };
            let next = step(&self.settings.member, standing, (outlook.now, ends));
            let goes_on = wanted.is_some_and(|member| *member != self.settings.member);
            let on_move = OnMove {
                has_lost_role: has_lost_role(place.spec().vip.role, has_now, goes_on),
                sessions: &*self.sessions,
                until: ends.unwrap_or(now),
            };
            let holding = Holding { lease: &self.lease, key: &key, member: &self.settings.member };
            act(place, next, &holding, &on_move);
        }
        for place in &mut self.leaving {
            let key = format!("{VIPS}{}", place.name());
            let is_ours = outlook.view.held(&key).is_some() || outlook.view.is_kept(&key, now);
            let next = if is_ours { Step::Release } else { Step::Drop };
            let until = ends.unwrap_or(now);
            let on_move = OnMove { has_lost_role: false, sessions: &*self.sessions, until };
            if self.places.iter().any(|now| now.is_here() && now.name() == place.name()) {
                // Other addresses stay under the same key.
                place.leave(on_move.until, on_move.has_lost_role, on_move.sessions);
            } else {
                let holding = Holding { lease: &self.lease, key: &key, member: &self.settings.member };
                act(place, next, &holding, &on_move);
            }
        }
        self.leaving.retain(Place::is_here);
    }

    /// What this host is fit for; none while that cannot be known.
    fn fitness(&self, now: BootTime) -> Option<Fitness> {
        if self.stops {
            return Some(Fitness::default());
        }
        let is_early = self.started.elapsed() < GRACE;
        self.health.now(now).or((!is_early).then(Fitness::default))
    }

    fn look(&mut self, now: BootTime) -> Outlook {
        let view = self.lease.view();
        let peers = self.peers(&view);
        let pairs = |folder| view.below(folder).map(|(key, entry)| (key.into(), entry.value.as_str().into()));
        let held: Holders = pairs(VIPS).collect();
        let preferred: Holders = pairs(PREFERRED).collect();
        let vips: Vec<Vip> = self.settings.vips.iter().map(|spec| spec.vip.clone()).collect();
        let facts = Assigning {
            vips: &vips,
            peers: &peers,
            held: &held,
            preferred: &preferred,
            is_frozen: view.entries.contains_key(FROZEN),
            usual_replicas: self.settings.usual_replicas,
        };
        let wanted = assign(&facts);
        Outlook { view, now, held, wanted }
    }

    fn peers(&mut self, view: &View) -> Vec<Peer> {
        let now = Instant::now();
        let mut fit = BTreeMap::new();
        let mut peers = Vec::new();
        for (name, entry) in view.below(MEMBERS) {
            let (name, told): (Arc<str>, &str) = (name.into(), &entry.value);
            let before = self.fit.get(&name).filter(|(before, _)| before == told);
            let since = before.map_or(now, |(_, since)| *since);
            let is_steady = now.duration_since(since) >= self.settings.rebalance_after;
            fit.insert(name.clone(), (told.to_owned(), since));
            peers.push(Peer::told(name, told, is_steady));
        }
        self.fit = fit;
        peers
    }

    fn shown(&mut self) -> Vec<Shown> {
        let outlook = self.look(boot_now());
        let left = outlook.view.left(outlook.now);
        let one = |place: &Place| {
            let name = place.name();
            let entry = outlook.view.entries.get(&format!("{VIPS}{name}"));
            Shown {
                name: name.clone(),
                role: place.spec().vip.role.as_str(),
                addresses: place.spec().addresses.clone(),
                holder: outlook.held.get(name).map(ToString::to_string),
                wanted: outlook.wanted.get(name).map(ToString::to_string),
                condition: place.condition(),
                since: place.since(),
                left: if place.is_here() { left } else { Duration::ZERO },
                epoch: entry.map(|entry| entry.epoch),
                error: place.error().map(str::to_owned),
            }
        };
        self.places.iter().chain(&self.leaving).map(one).collect()
    }
}

/// What matters when an address goes in order.
struct OnMove<'a> {
    has_lost_role: bool,
    sessions: &'a dyn Sessions,
    /// Until when this host may keep it.
    until: BootTime,
}

/// Whether an address leads to a server that is known not to be any more what it is for. `goes_on`: another member is to have the address.
fn has_lost_role(role: VipRole, fitness: Option<Fitness>, goes_on: bool) -> bool {
    // What is not known is not lost.
    let knows =
        |is_lost: fn(Fitness) -> bool| fitness.is_some_and(|now| !now.is_slow_for(role) && is_lost(now));
    match role {
        VipRole::Proxy => false,
        // Only another primary gets it from one that is slow.
        VipRole::Primary => {
            knows(|now| !now.is_primary()) || goes_on && !fitness.is_some_and(Fitness::is_primary)
        }
        VipRole::Replica(_) => knows(|now| now.server.is_none()),
    }
}

/// What of the store an address is held by.
struct Holding<'a> {
    lease: &'a Lease,
    key: &'a str,
    member: &'a str,
}

fn act(place: &mut Place, next: Step, holding: &Holding<'_>, on_move: &OnMove<'_>) {
    let Holding { lease, key, member } = *holding;
    match next {
        Step::Nothing => {
            place.is_elsewhere();
            lease.give_up(key);
        }
        Step::Claim => lease.want(key, member),
        // Other addresses have taken their time since that was decided.
        Step::Keep(_) => place.keep(on_move.until, on_move.sessions),
        Step::Release => {
            if place.leave(on_move.until, on_move.has_lost_role, on_move.sessions) {
                lease.give_up(key);
            }
        }
        Step::Drop => {
            place.drop_at_once(on_move.sessions);
            lease.give_up(key);
        }
    }
}

#[cfg(test)]
mod tests {
    use delphinus_topology::{Floating, Serving};

    use super::*;

    fn server(serving: Serving) -> Fitness {
        Fitness { server: Some(serving), ..Fitness::default() }
    }

    #[test]
    fn a_role_is_lost_only_where_that_is_known() {
        let (write, read) = (VipRole::Primary, VipRole::Replica(Floating::ToPrimary));
        let primary = Some(server(Serving::Primary));
        let slow = primary.map(Fitness::in_doubt);
        for fitness in [primary, slow, None] {
            assert!(
                !has_lost_role(write, fitness, false) && !has_lost_role(read, fitness, false),
                "{fitness:?}"
            );
            assert!(
                !has_lost_role(read, fitness, true),
                "sessions on a replica may end in order: {fitness:?}"
            );
        }
        assert!(has_lost_role(write, Some(server(Serving::Replica)), false));
        assert!(has_lost_role(write, Some(Fitness::default()), false), "it refuses connections");
        assert!(has_lost_role(write, slow, true), "it hangs, and another is the primary");
        assert!(!has_lost_role(VipRole::Proxy, Some(Fitness::default()), true));
    }

    #[test]
    fn what_was_said_long_ago_is_not_known() {
        let health = Health::default();
        let primary = server(Serving::Primary);
        assert_eq!(health.now(boot_now()), None);
        health.is(primary);
        assert_eq!(health.now(boot_now()), Some(primary));
        assert_eq!(health.now(boot_now() + STALE), Some(primary.in_doubt()));
    }
}
