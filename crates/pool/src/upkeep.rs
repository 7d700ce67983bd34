//! What is done between commands, once a second and when somebody rings: connections that are too old, idle for too
//! long or too many are closed, places go to clients that wait, and as many connections are opened in advance as an
//! operator wants.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use delphinus_net::rt;
use delphinus_state::SessionState;
use delphinus_telemetry::WaitCell;
use delphinus_topology::BackendId;
use delphinus_wire::Capabilities;

use crate::budget::{Claim, below};
use crate::connection::{Connection, Identity};
use crate::keys::Keys;
use crate::memory::Memory;
use crate::pool::{BackendPool, Pool, Request};
use crate::rights::Epoch;

/// A user whose connections are opened before anybody asks.
#[derive(Debug, Clone)]
pub struct KeepOpen {
    /// Who.
    pub user: String,
    /// It may take what is reserved.
    pub is_admin: bool,
    /// So many to each backend, in each worker.
    pub least: u32,
    /// What it logs in with.
    pub keys: Arc<Keys>,
}

/// What a worker knows of it.
#[derive(Debug)]
pub(crate) struct Kept {
    wanted: KeepOpen,
    /// That of its last session: a connection of another shape would serve nobody.
    identity: Option<Rc<Identity>>,
    opening: Rc<Opening>,
}

#[derive(Debug, Default)]
struct Opening {
    /// One is being opened, or could not be a moment ago.
    busy_until: Cell<Option<Instant>>,
    /// So it was the last time: the log has it.
    has_failed: Cell<bool>,
}

impl Kept {
    pub(crate) fn new(wanted: &KeepOpen) -> Self {
        Self { wanted: wanted.clone(), identity: None, opening: Rc::default() }
    }

    /// Those that are wanted now, with what is known of those that were wanted before.
    pub(crate) fn follow(known: &mut Vec<Self>, wanted: &[KeepOpen]) {
        let mut former = std::mem::take(known);
        known.extend(wanted.iter().map(|wanted| {
            let is_it =
                |one: &Self| one.wanted.user == wanted.user && Arc::ptr_eq(&one.wanted.keys, &wanted.keys);
            match former.iter().position(is_it) {
                Some(at) => Self { wanted: wanted.clone(), ..former.swap_remove(at) },
                None => Self::new(wanted),
            }
        }));
    }
}

/// What most clients ask for that shapes connections.
const USUAL_SHAPE: Capabilities = Capabilities(
    Capabilities::MULTI_RESULTS.0 | Capabilities::PS_MULTI_RESULTS.0 | Capabilities::DEPRECATE_EOF.0,
);
/// A connection that no new login may get is closed when it has been idle for so long: those who may still use it do not need it.
const OUTDATED: Duration = Duration::from_secs(5);
/// Of its share a worker gives up what has been idle for so long. It costs a login on both sides, and in a pool that is full the next
/// client of this worker comes sooner than that.
const SPARE: Duration = Duration::from_millis(10);
/// How long nothing is opened in advance after that has failed.
const PAUSE: Duration = Duration::from_secs(1);

impl BackendPool {
    /// True if a connection leads to where the backend was before it moved.
    #[inline]
    pub(crate) fn has_moved_since(&self, connection: &Connection) -> bool {
        connection.moves != self.place.moves()
    }

    /// The idle ones of these.
    #[expect(clippy::vec_box, reason = "connections stay boxed: they move between seats and sessions")]
    fn take_left_behind(&self) -> Vec<Box<Connection>> {
        let moves = self.place.moves();
        if self.moves.replace(moves) == moves {
            return Vec::new();
        }
        self.idle.borrow_mut().take_where(|connection| connection.moves != moves)
    }
}

impl Pool {
    /// Looks after the connections until the worker ends.
    pub async fn tend(self: Rc<Self>) {
        loop {
            rt::timeout(Duration::from_secs(1), self.bell.notified()).await;
            let now = rt::now();
            if let Some(pens) = self.pens() {
                pens.rest();
            }
            for (pool, backend) in self.backends.iter().zip((0..).map(BackendId)) {
                for connection in pool.take_left_behind() {
                    self.close_later(connection);
                }
                for connection in self.take_expired(pool, now) {
                    self.close_later(connection);
                }
                self.relieve(backend, pool);
                self.open_in_advance(backend, pool, now);
            }
        }
    }

    /// The backend is there, or it is not: then nothing is opened in advance.
    pub fn set_up(&self, backend: BackendId, is_up: bool) {
        let Some(pool) = self.backends.get(backend.index()) else { return };
        if !pool.is_up.replace(is_up) && is_up {
            self.bell.notify_one();
        }
    }

    #[expect(clippy::vec_box, reason = "connections stay boxed: they move between seats and sessions")]
    fn take_expired(&self, pool: &BackendPool, now: Instant) -> Vec<Box<Connection>> {
        let usual = Duration::from_secs(self.settings().idle_timeout_s);
        let mut spare: Vec<(Rc<Identity>, u32)> = Vec::new();
        for kept in self.kept.borrow().iter() {
            if let Some(identity) = &kept.identity {
                let open = pool.members.of(identity);
                spare.push((identity.clone(), open.saturating_sub(kept.wanted.least)));
            }
        }
        let mut idle = pool.idle.borrow_mut();
        let mut over = idle.take_where(|connection| {
            let idle_for = now.saturating_duration_since(connection.idle_since);
            if connection.retire_at <= now || server_limit(connection).is_some_and(|limit| idle_for >= limit)
            {
                return true;
            }
            if idle_for >= OUTDATED && connection.is_outdated() {
                return true;
            }
            if usual.is_zero() || idle_for < usual {
                return false;
            }
            let kept = spare.iter_mut().find(|(identity, _)| Rc::ptr_eq(identity, &connection.identity));
            match kept {
                Some((_, 0)) => false,
                Some((_, spare)) => {
                    *spare -= 1;
                    true
                }
                None => true,
            }
        });
        let beyond = pool.budget.open().saturating_sub(pool.budget.max());
        for _ in 0..beyond {
            over.extend(idle.take_oldest(|_| true));
        }
        over
    }

    fn relieve(self: &Rc<Self>, backend: BackendId, pool: &BackendPool) {
        let take = || {
            let mut waiters = pool.waiters.borrow_mut();
            !waiters.is_empty()
                && waiters
                    .give_permit((backend, &pool.budget), |claim| pool.budget.take(&pool.count, claim).ok())
        };
        while take() {}
        let (now, is_too_new) = (rt::now(), Cell::new(false));
        let spare =
            pool.idle.borrow_mut().take_wanted(|connection| match pool.is_wanted(backend, connection) {
                Wanted::Not => false,
                Wanted::Now => true,
                Wanted::IfSpare => {
                    let is_spare = now.saturating_duration_since(connection.idle_since) >= SPARE;
                    is_too_new.set(is_too_new.get() || !is_spare);
                    is_spare
                }
            });
        match spare {
            Some(connection) => self.close_later(connection),
            None if is_too_new.get() => self.look_again(),
            None => {}
        }
    }

    /// Looks after a while whether what was idle still is, and still wanted.
    pub(crate) fn look_again(self: &Rc<Self>) {
        if self.looks_again.replace(true) {
            return;
        }
        let this = self.clone();
        rt::spawn_local(async move {
            rt::sleep(SPARE).await;
            this.looks_again.set(false);
            this.bell.notify_one();
        });
    }

    /// The identity of a user's newest session is the one that connections are opened for.
    pub(crate) fn keep_open(&self, user: &str, identity: &Rc<Identity>) {
        for kept in self.kept.borrow_mut().iter_mut().filter(|kept| kept.wanted.user == user) {
            kept.identity = Some(identity.clone());
        }
    }

    /// Before the first session of a user, the identity that it will have if its client is like most.
    pub fn expect_users(&self, offered: Capabilities) {
        let wanted: Vec<_> = self.kept.borrow().iter().map(|kept| kept.wanted.clone()).collect();
        for one in wanted {
            if self.kept.borrow().iter().any(|kept| kept.wanted.user == one.user && kept.identity.is_none()) {
                let identity = Identity::new(one.user.clone(), offered & USUAL_SHAPE, &one.keys);
                self.identity(identity.of_admin(one.is_admin));
            }
        }
    }

    fn open_in_advance(self: &Rc<Self>, backend: BackendId, pool: &BackendPool, now: Instant) {
        if !pool.is_up.get() || pool.is_draining.get() || pool.budget.is_wanted_beyond(0) {
            return;
        }
        for kept in self.kept.borrow().iter() {
            let Some(identity) = &kept.identity else { continue };
            if pool.members.of(identity) >= kept.wanted.least || kept.opening.busy_until.get() > Some(now) {
                continue;
            }
            let Ok(permit) = pool.budget.take(&pool.count, &identity.claim(backend, &pool.budget)) else {
                continue;
            };
            kept.opening.busy_until.set(Some(now + PAUSE));
            let (this, identity, opening) = (self.clone(), identity.clone(), kept.opening.clone());
            rt::spawn_local(async move {
                let (want, memory) = (SessionState::default(), Rc::new(Memory::default()));
                let request = Request {
                    backend,
                    identity: &identity,
                    rights: Epoch::default(),
                    want: &want,
                    memory: &memory,
                    waits_for_room: false,
                    takes_expired: false,
                    // No client waits for it.
                    waits: &WaitCell::new(now),
                };
                match this.open(&request, permit).await {
                    Ok(connection) => {
                        this.put_back_unheld(backend, connection);
                        opening.busy_until.set(None);
                        opening.has_failed.set(false);
                        this.bell.notify_one();
                    }
                    Err(error) if !opening.has_failed.replace(true) => {
                        tracing::warn!(%error, user = %identity.user, "no connection can be opened in advance");
                    }
                    Err(_) => {}
                }
            });
        }
    }
}

/// What becomes of a connection that comes back while clients wait in other workers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wanted {
    /// No client waits there.
    Not,
    /// It is given up when it has been idle for a while ([`SPARE`]).
    IfSpare,
    /// It is given up at once.
    Now,
}

impl BackendPool {
    /// Whether clients that wait in other workers get the place of a connection that comes back.
    #[inline]
    pub(crate) fn is_wanted(&self, backend: BackendId, connection: &Connection) -> Wanted {
        let permit = &connection.permit;
        let by_any = self.budget.is_wanted_beyond(self.waiting.get()) && permit.helps_others();
        if by_any
            && (self.count.get() > self.budget.share() || self.waiting.get() == 0 && !permit.is_of_shares())
        {
            return Wanted::Now;
        }
        let own = |claim: &Claim| self.waiters.borrow().of_user((backend, &self.budget), claim);
        let by_its_user = permit.is_users_wanted_beyond(own);
        if by_its_user {
            let has = self.members.of_user(&connection.identity.user);
            let is_last = self.waiters.borrow().is_empty() && !permit.is_of_shares();
            if has > permit.share_of_user() || is_last {
                return Wanted::Now;
            }
        }
        if by_any || by_its_user { Wanted::IfSpare } else { Wanted::Not }
    }
}

/// How long the connection may be idle before its server closes it: by its own `wait_timeout`, where a session has set
/// one, or by that of the server.
fn server_limit(connection: &Connection) -> Option<Duration> {
    let own = connection.have.vars.get("wait_timeout");
    let own = own.and_then(|value| std::str::from_utf8(value).ok()?.parse().ok());
    let shape = connection.identity.shape;
    own.map(below)
        .or(connection.idle_limit)
        .or_else(|| connection.permit.budget().idle_limit(shape.contains(Capabilities::INTERACTIVE)))
}
