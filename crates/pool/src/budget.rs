//! The limits on connections to one backend over all workers: of all, of those that are not reserved, and of each user.
//! Each worker has a fair share; what one does not use others may take, and have to give back when they hold more
//! than their share and a client waits. Of its share a worker gives up only what has been idle for a moment.

use std::cell::Cell;
use std::collections::HashMap;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use delphinus_net::rt::Notify;
use delphinus_topology::ServerLimits;

use crate::killing::Killing;

/// What an operator sets about the connections to one backend.
#[derive(Debug, Clone, Default)]
pub struct BackendLimits {
    /// Connections at the same time; at least 1.
    pub max: u32,
    /// How many of these only administrators may take.
    pub reserved: u32,
    /// Users that have a limit of their own. Others may take nine tenths of what is not reserved.
    pub of_users: HashMap<String, u32>,
}

/// Of what the server allows so many connections are left to others: the monitor, KILL, replicas that read the binary
/// log, administrators.
pub fn left_to_others(server_max: u32) -> u32 {
    (server_max / 20).max(5)
}

/// What is left to all other users of connections that one user without a limit of its own may take, so that statements that
/// do not end stop nobody else: a tenth. Of fewer than ten, nothing.
fn left_to_other_users(max: u32) -> u32 {
    max / 10
}

/// The shared count of one backend's connections.
#[derive(Debug)]
pub struct Budget {
    /// As an operator has set it.
    max: AtomicU32,
    reserved: AtomicU32,
    /// What of the server's limits the pool may use; all ones while they are not known.
    server_max: AtomicU32,
    server_max_of_user: AtomicU32,
    /// How long the server keeps idle connections, in seconds, of interactive clients and of others; 0: not known.
    idle_s: [AtomicU32; 2],
    /// Open, or being opened: those of administrators in the high half, those of all others in the low half.
    open: AtomicU64,
    hungry: AtomicU32,
    users: Mutex<Accounts>,
    /// One bell for each worker; all of its backends ring the same one.
    bells: Vec<Arc<Notify>>,
    /// What of its connections is being killed.
    pub(crate) killing: Killing,
}

/// Users with connections to one backend, and those that have a limit of their own.
#[derive(Debug, Default)]
struct Accounts {
    limits: HashMap<String, u32>,
    open: HashMap<String, Weak<OfUser>>,
}

/// The connections of one user to one backend.
#[derive(Debug)]
struct OfUser {
    open: AtomicU32,
    /// An [`OwnLimit`].
    max: AtomicU32,
    /// By its last login.
    is_admin: AtomicBool,
    /// Clients that wait for one of its connections, and for no other.
    hungry: AtomicU32,
}

#[derive(Debug, Clone, Copy)]
enum OwnLimit {
    /// What is configured for the user.
    Set(u32),
    /// Less than all.
    Usual,
    /// An administrator's.
    Nothing,
}

impl OwnLimit {
    fn of(limits: &HashMap<String, u32>, user: &str, is_admin: bool) -> Self {
        match limits.get(user) {
            Some(max) => Self::Set(*max),
            None if is_admin => Self::Nothing,
            None => Self::Usual,
        }
    }

    fn to_number(self) -> u32 {
        match self {
            Self::Set(max) => max.min(u32::MAX - 2),
            Self::Usual => u32::MAX - 1,
            Self::Nothing => u32::MAX,
        }
    }

    fn from_number(number: u32) -> Self {
        match number {
            u32::MAX => Self::Nothing,
            number if number == u32::MAX - 1 => Self::Usual,
            max => Self::Set(max),
        }
    }
}

/// On whose account a connection goes.
#[derive(Debug, Clone)]
pub struct Claim {
    user: Arc<OfUser>,
    is_admin: bool,
}

impl Claim {
    /// True if both go on the account of one user.
    pub(crate) fn is_of_same_user(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.user, &other.user)
    }
}

/// Why there is no permit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Full {
    /// All connections are open; how many that may be.
    All(u32),
    /// All that are not reserved.
    Unreserved(u32),
    /// All of this user.
    User(u32),
}

/// The right to one connection; given back when dropped.
#[derive(Debug)]
pub struct Permit {
    budget: Arc<Budget>,
    /// How many permits its worker has.
    count: Rc<Cell<u32>>,
    claim: Claim,
}

const ONE_ADMIN: u64 = 1 << 32;

fn admins_and_others(open: u64) -> (u32, u32) {
    ((open >> 32) as u32, open as u32)
}

fn weight(is_admin: bool) -> u64 {
    if is_admin { ONE_ADMIN } else { 1 }
}

impl Budget {
    /// At most so many connections, divided among the workers that own `bells`.
    pub fn new(set: BackendLimits, bells: Vec<Arc<Notify>>) -> Arc<Self> {
        let BackendLimits { max, reserved, of_users } = set;
        Arc::new(Self {
            max: AtomicU32::new(max),
            reserved: AtomicU32::new(reserved),
            server_max: AtomicU32::new(u32::MAX),
            server_max_of_user: AtomicU32::new(u32::MAX),
            idle_s: Default::default(),
            open: AtomicU64::new(0),
            hungry: AtomicU32::new(0),
            users: Mutex::new(Accounts { limits: of_users, open: HashMap::new() }),
            bells,
            killing: Killing::default(),
        })
    }

    /// Takes in what the server allows.
    pub fn learn(&self, limits: &ServerLimits) {
        let usable = limits.max_connections.saturating_sub(left_to_others(limits.max_connections)).max(1);
        self.server_max.store(usable, Ordering::Relaxed);
        // KILL logs in as the same user.
        let of_user = limits.max_user_connections.map_or(u32::MAX, |max| (max.get() - 1).max(1));
        self.server_max_of_user.store(of_user, Ordering::Relaxed);
        for (known, limit) in self.idle_s.iter().zip([limits.interactive_timeout_s, limits.wait_timeout_s]) {
            known.store(limit, Ordering::Relaxed);
        }
        self.ring();
    }

    /// Sets other limits. What is open beyond them is closed as soon as it is idle.
    pub fn set(&self, limits: BackendLimits) {
        let BackendLimits { max, reserved, of_users } = limits;
        self.max.store(max, Ordering::Relaxed);
        self.reserved.store(reserved, Ordering::Relaxed);
        let mut accounts = self.users.lock().unwrap_or_else(PoisonError::into_inner);
        for (name, user) in &accounts.open {
            if let Some(user) = user.upgrade() {
                user.max.store(
                    OwnLimit::of(&of_users, name, user.is_admin.load(Ordering::Relaxed)).to_number(),
                    Ordering::Relaxed,
                );
            }
        }
        accounts.limits = of_users;
        drop(accounts);
        self.ring();
    }

    /// How many connections there may be: as configured, or as the server allows.
    #[inline]
    pub fn max(&self) -> u32 {
        self.configured().min(self.server_max.load(Ordering::Relaxed))
    }

    /// How many are configured, whatever the server allows.
    #[inline]
    pub fn configured(&self) -> u32 {
        self.max.load(Ordering::Relaxed)
    }

    /// How many of [`Budget::max`] only administrators may take.
    pub fn reserved(&self) -> u32 {
        self.reserved.load(Ordering::Relaxed).min(self.max() - 1)
    }

    /// How many connections a user may have, if that is less than all.
    fn max_of(&self, user: &OfUser) -> u32 {
        let own = match OwnLimit::from_number(user.max.load(Ordering::Relaxed)) {
            OwnLimit::Set(max) => max,
            OwnLimit::Usual => {
                let unreserved = self.max() - self.reserved();
                match left_to_other_users(unreserved) {
                    0 => u32::MAX,
                    left => unreserved - left,
                }
            }
            OwnLimit::Nothing => u32::MAX,
        };
        own.min(self.server_max_of_user.load(Ordering::Relaxed))
    }

    /// How long a new connection may be idle before it has to be closed, so that the server does not do so.
    pub(crate) fn idle_limit(&self, is_interactive: bool) -> Option<Duration> {
        let limit_s = self.idle_s[usize::from(!is_interactive)].load(Ordering::Relaxed);
        (limit_s > 0).then(|| below(limit_s))
    }

    /// What one worker may keep while others wait.
    pub fn share(&self) -> u32 {
        (self.max() / u32::try_from(self.bells.len().max(1)).unwrap_or(1)).max(1)
    }

    /// Connections open or being opened.
    #[inline]
    pub fn open(&self) -> u32 {
        let (admins, others) = admins_and_others(self.open.load(Ordering::Relaxed));
        admins + others
    }

    /// True if there are more connections than there may be: the server's limit has become known, or smaller.
    #[inline]
    pub(crate) fn is_over(&self) -> bool {
        self.open() > self.max()
    }

    /// True if more clients wait than the `own` ones of the worker that asks.
    #[inline]
    pub fn is_wanted_beyond(&self, own: u32) -> bool {
        self.hungry.load(Ordering::Relaxed) > own
    }

    /// The account of a user; an administrator's may take what is reserved.
    pub fn claim(&self, user: &str, is_admin: bool) -> Claim {
        let mut accounts = self.users.lock().unwrap_or_else(PoisonError::into_inner);
        let max = OwnLimit::of(&accounts.limits, user, is_admin).to_number();
        if let Some(found) = accounts.open.get(user).and_then(Weak::upgrade) {
            found.is_admin.store(is_admin, Ordering::Relaxed);
            found.max.store(max, Ordering::Relaxed);
            return Claim { user: found, is_admin };
        }
        accounts.open.retain(|_, one| one.strong_count() > 0);
        let (max, is_admin_now) = (AtomicU32::new(max), AtomicBool::new(is_admin));
        let (open, hungry) = (AtomicU32::new(0), AtomicU32::new(0));
        let new = Arc::new(OfUser { open, max, is_admin: is_admin_now, hungry });
        accounts.open.insert(user.to_owned(), Arc::downgrade(&new));
        Claim { user: new, is_admin }
    }

    /// Takes a permit if one is left, and counts it as one of its worker's.
    pub fn take(self: &Arc<Self>, count: &Rc<Cell<u32>>, claim: &Claim) -> Result<Permit, Full> {
        self.count_user(&claim.user)?;
        let (max, reserved) = (self.max(), self.reserved());
        let taken = self.open.fetch_update(Ordering::AcqRel, Ordering::Relaxed, |open| {
            let (admins, others) = admins_and_others(open);
            let has_room = admins + others < max && (claim.is_admin || others < max - reserved);
            has_room.then(|| open + weight(claim.is_admin))
        });
        if taken.is_err() {
            claim.user.open.fetch_sub(1, Ordering::AcqRel);
            let is_all = claim.is_admin || reserved == 0;
            return Err(if is_all { Full::All(max) } else { Full::Unreserved(max - reserved) });
        }
        count.set(count.get() + 1);
        Ok(Permit { budget: self.clone(), count: count.clone(), claim: claim.clone() })
    }

    fn count_user(&self, user: &OfUser) -> Result<(), Full> {
        let max = self.max_of(user);
        user.open
            .fetch_update(Ordering::AcqRel, Ordering::Relaxed, |open| (open < max).then_some(open + 1))
            .map(|_| ())
            .map_err(|_| Full::User(max))
    }

    /// Says that a client of this worker waits for what is `full`; every worker looks what it can spare.
    pub(crate) fn begin_waiting(&self, claim: &Claim, full: Full) {
        self.hungry_for(claim, full).fetch_add(1, Ordering::AcqRel);
        self.ring();
    }

    /// A client waits no more.
    pub(crate) fn end_waiting(&self, claim: &Claim, full: Full) {
        self.hungry_for(claim, full).fetch_sub(1, Ordering::AcqRel);
    }

    fn hungry_for<'a>(&'a self, claim: &'a Claim, full: Full) -> &'a AtomicU32 {
        match full {
            Full::User(_) => &claim.user.hungry,
            Full::All(_) | Full::Unreserved(_) => &self.hungry,
        }
    }

    /// What one worker may keep of a user's connections while others wait for them.
    fn share_of(&self, user: &OfUser) -> u32 {
        (self.max_of(user).min(self.max()) / u32::try_from(self.bells.len().max(1)).unwrap_or(1)).max(1)
    }

    fn ring(&self) {
        self.bells.iter().for_each(|bell| bell.notify_one());
    }
}

/// How long a connection may be idle where the server closes it after `limit_s`: a tenth less, at least two seconds, so
/// that no statement is on its way to it then.
pub(crate) fn below(limit_s: u32) -> Duration {
    let limit = Duration::from_secs(limit_s.into());
    let margin = (limit / 10).max(Duration::from_secs(2)).min(limit / 2);
    limit.saturating_sub(margin)
}

impl Permit {
    /// The budget that it is from.
    pub(crate) fn budget(&self) -> &Budget {
        &self.budget
    }

    /// True if others get something when the connection is closed: where ordinary users have all that is theirs, an
    /// administrator's is not what they wait for.
    pub(crate) fn helps_others(&self) -> bool {
        let (_, others) = admins_and_others(self.budget.open.load(Ordering::Relaxed));
        !self.claim.is_admin || others < self.budget.max().saturating_sub(self.budget.reserved())
    }

    /// True if clients in other workers wait for a connection of this very user. `own` are those here.
    #[inline]
    pub(crate) fn is_users_wanted_beyond(&self, own: impl FnOnce(&Claim) -> u32) -> bool {
        let hungry = self.claim.user.hungry.load(Ordering::Relaxed);
        hungry > 0 && hungry > own(&self.claim)
    }

    /// What this worker may keep of the user's connections then.
    pub(crate) fn share_of_user(&self) -> u32 {
        self.budget.share_of(&self.claim.user)
    }

    /// True if every worker has at least one connection of the user as its share: then none starves beside one that
    /// keeps to its own.
    #[inline]
    pub(crate) fn is_of_shares(&self) -> bool {
        let budget = &self.budget;
        let workers = u32::try_from(budget.bells.len()).unwrap_or(u32::MAX);
        budget.max_of(&self.claim.user).min(budget.max()) >= workers
    }

    /// True if the permit of a connection that is closed may serve for one on this account.
    pub(crate) fn may_pass_to(&self, claim: &Claim) -> bool {
        let is_same_user = Arc::ptr_eq(&self.claim.user, &claim.user);
        let user = &claim.user;
        let has_room = || user.open.load(Ordering::Relaxed) < self.budget.max_of(user);
        let (_, others) = admins_and_others(self.budget.open.load(Ordering::Relaxed));
        let is_fine = claim.is_admin
            || !self.claim.is_admin
            || others < self.budget.max().saturating_sub(self.budget.reserved());
        (is_same_user || has_room()) && is_fine
    }

    /// Makes it one on this account; false, and nothing changes, if that has reached a limit.
    pub(crate) fn pass_to(&mut self, claim: &Claim) -> bool {
        let is_same_user = Arc::ptr_eq(&self.claim.user, &claim.user);
        if !is_same_user && self.budget.count_user(&claim.user).is_err() {
            return false;
        }
        if self.claim.is_admin != claim.is_admin {
            let most = self.budget.max().saturating_sub(self.budget.reserved());
            let (from, to) = (weight(self.claim.is_admin), weight(claim.is_admin));
            let changed = self.budget.open.fetch_update(Ordering::AcqRel, Ordering::Relaxed, |open| {
                let (_, others) = admins_and_others(open);
                (claim.is_admin || others < most).then(|| open - from + to)
            });
            if changed.is_err() {
                if !is_same_user {
                    claim.user.open.fetch_sub(1, Ordering::AcqRel);
                }
                return false;
            }
        }
        if !is_same_user {
            self.claim.user.open.fetch_sub(1, Ordering::AcqRel);
        }
        self.claim = claim.clone();
        true
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        self.count.set(self.count.get() - 1);
        self.claim.user.open.fetch_sub(1, Ordering::AcqRel);
        self.budget.open.fetch_sub(weight(self.claim.is_admin), Ordering::AcqRel);
        // Whoever waits for this very user, too.
        if self.budget.is_wanted_beyond(0) || self.claim.user.hungry.load(Ordering::Relaxed) > 0 {
            self.budget.ring();
        }
    }
}

#[cfg(test)]
mod tests;
