//! What an operator sees of the pool, and taking a backend out of use. Nothing here is on the path of a query.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::{Rc, Weak};

use delphinus_net::rt;
use delphinus_topology::BackendId;

use crate::connection::{Connection, Identity};
use crate::error::PoolError;
use crate::pool::{BackendPool, Pool};
use crate::rights::Epoch;

/// The connections of one user to one backend, in one worker.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Census {
    /// The user.
    pub user: String,
    /// Connections that nobody uses; those that are held included.
    pub idle: u32,
    /// Of these, connections that wait for the session that used them last.
    pub held: u32,
    /// Connections that run something, or that a session is pinned to.
    pub in_use: u32,
    /// Clients that wait for a connection.
    pub waiting: u32,
}

/// One backend in one worker.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BackendCensus {
    /// It is out of use here.
    pub is_draining: bool,
    /// Its connections, by user.
    pub users: Vec<Census>,
}

/// Which connections an operator wants replaced by new ones: those to one backend, of one user, or all.
#[derive(Debug, Clone, Default)]
pub struct Retiring {
    /// To this backend alone.
    pub backend: Option<BackendId>,
    /// Of this user alone.
    pub user: Option<String>,
}

/// Counts one connection as its user's for as long as it lives.
#[derive(Debug)]
pub(crate) struct Member {
    identity: Rc<Identity>,
    rights: Epoch,
    is_retired: Cell<bool>,
}

impl Member {
    pub(crate) fn of(identity: &Rc<Identity>, rights: Epoch) -> Self {
        Self { identity: identity.clone(), rights, is_retired: Cell::new(false) }
    }

    /// True if it is to be closed as soon as its session does not need it.
    #[inline]
    pub(crate) fn is_retired(&self) -> bool {
        self.is_retired.get()
    }
}

/// The connections of one backend, wherever they are.
#[derive(Debug, Default)]
pub(crate) struct Members(RefCell<Vec<Weak<Member>>>);

impl Members {
    /// Counts a new connection, and forgets those that are gone.
    pub(crate) fn count(&self, connection: &Connection) {
        let mut members = self.0.borrow_mut();
        members.retain(|member| member.strong_count() > 0);
        members.push(Rc::downgrade(&connection.member));
    }

    /// How many connections of this user there are.
    pub(crate) fn of_user(&self, user: &str) -> u32 {
        let members = self.0.borrow();
        let of_user = members.iter().filter_map(Weak::upgrade).filter(|one| one.identity.user == user);
        u32::try_from(of_user.count()).unwrap_or(u32::MAX)
    }

    /// How many connections of this identity a new login may get.
    pub(crate) fn of(&self, identity: &Rc<Identity>) -> u32 {
        let (members, epoch) = (self.0.borrow(), identity.epoch().unwrap_or_default());
        let is_one = |one: &Rc<Member>| Rc::ptr_eq(&one.identity, identity) && one.rights >= epoch;
        let of_identity = members.iter().filter_map(Weak::upgrade).filter(is_one);
        u32::try_from(of_identity.count()).unwrap_or(u32::MAX)
    }
}

impl BackendPool {
    pub(crate) fn offline(&self) -> PoolError {
        PoolError::Offline { backend: self.place.name() }
    }

    fn census(&self) -> BackendCensus {
        let mut users: BTreeMap<String, Census> = BTreeMap::new();
        let now = rt::now();
        for member in self.members.0.borrow().iter().filter_map(Weak::upgrade) {
            users.entry(member.identity.user.clone()).or_default().in_use += 1;
        }
        for (_, connection) in self.idle.borrow().occupied() {
            let one = users.entry(connection.identity.user.clone()).or_default();
            one.in_use = one.in_use.saturating_sub(1);
            one.idle += 1;
            one.held += u32::from(connection.held_until > now);
        }
        for identity in self.waiters.borrow().waiting() {
            users.entry(identity.user.clone()).or_default().waiting += 1;
        }
        let users = users.into_iter().map(|(user, census)| Census { user, ..census }).collect();
        BackendCensus { is_draining: self.is_draining.get(), users }
    }
}

impl Pool {
    /// The connections of this worker to each backend.
    pub fn census(&self) -> Vec<BackendCensus> {
        self.backends.iter().map(BackendPool::census).collect()
    }

    /// Has connections replaced by new ones: those that are idle are closed now, those in use when their sessions give them
    /// back. How many.
    pub fn retire(self: &Rc<Self>, which: &Retiring) -> u32 {
        let mut count = 0;
        for (pool, backend) in self.backends.iter().zip((0..).map(BackendId)) {
            if which.backend.is_some_and(|wanted| wanted != backend) {
                continue;
            }
            for member in pool.members.0.borrow().iter().filter_map(Weak::upgrade) {
                if which.user.as_ref().is_none_or(|user| *user == member.identity.user) {
                    member.is_retired.set(true);
                    count += 1;
                }
            }
            let idle = pool.idle.borrow_mut().take_where(|connection| connection.member.is_retired());
            for connection in idle {
                self.close_later(connection);
            }
        }
        count
    }

    /// Takes a backend out of use, or puts it back. Out of use, idle connections are closed, those in use when they come
    /// back, and whoever waits is sent elsewhere.
    pub fn set_draining(self: &Rc<Self>, backend: BackendId, is_draining: bool) {
        let Some(pool) = self.backends.get(backend.index()) else { return };
        if pool.is_draining.replace(is_draining) == is_draining || !is_draining {
            return;
        }
        let idle = pool.idle.borrow_mut().take_all();
        for connection in idle {
            self.close_later(connection);
        }
        pool.waiters.borrow_mut().dismiss();
    }
}
