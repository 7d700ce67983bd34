//! The pool of one worker.

use std::cell::{Cell, OnceCell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use delphinus_journal::Pens;
use delphinus_memory::Account;
use delphinus_net::{BackendLogin, LoginError, Place, rt};
use delphinus_state::SessionState;
use delphinus_telemetry::{ClusterCounters, Wait, WaitCell};
use delphinus_topology::BackendId;
use delphinus_wire::auth::BackendSecret;
use delphinus_wire::command::Code;
use delphinus_wire::response::ErrPacket;

use crate::asked::AskedLog;
use crate::budget::{Budget, Claim, Permit};
use crate::census::Members;
use crate::checkout::Checkout;
use crate::connection::{BackendConnId, Connection, Identity};
use crate::error::PoolError;
use crate::identities::{Identities, passed};
use crate::idle::{Idle, Seat};
use crate::memory::Memory;
use crate::ready::save;
use crate::rights::Epoch;
use crate::upkeep::{KeepOpen, Kept, Wanted};
use crate::waiters::{Given, Waiters};

/// What an operator sets.
#[derive(Debug, Clone)]
pub struct Settings {
    /// How long a connection stays with its session after a result, in milliseconds.
    pub hold_ms: u64,
    /// How long a client waits for a connection, in milliseconds.
    pub checkout_timeout_ms: u64,
    /// How long connecting and logging in may take, each, in milliseconds.
    pub connect_timeout_ms: u64,
    /// Idle connections are closed after this, in seconds; 0 is never.
    pub idle_timeout_s: u64,
    /// Connections are closed after this, in seconds, give or take a tenth; 0 is never.
    pub max_lifetime_s: u64,
    /// Prepared statements kept on each connection.
    pub statements_per_connection: usize,
    /// A statement that nobody waits for any more is ended on its backend.
    pub kills_abandoned: bool,
    /// Names of the clients' connection attributes that backends are told of.
    pub passed_attributes: Vec<String>,
    /// Users whose connections are opened before anybody asks.
    pub kept_open: Vec<KeepOpen>,
    /// Room for what servers answer to the proxy's own questions.
    pub memory: Account,
}

impl Settings {
    /// Spread by the id, so that connections opened together do not all end together.
    pub(crate) fn lifetime(&self, id: BackendConnId) -> Duration {
        if self.max_lifetime_s == 0 {
            return Duration::from_hours(10 * 365 * 24);
        }
        let spread = self.max_lifetime_s * 100;
        Duration::from_millis(
            self.max_lifetime_s * 1000 - spread + (id.0.wrapping_mul(0x9e37_79b9) % (2 * spread + 1)),
        )
    }
}

/// What a session asks for.
#[derive(Debug, Clone, Copy)]
pub struct Request<'a> {
    /// Which backend.
    pub backend: BackendId,
    /// Who.
    pub identity: &'a Rc<Identity>,
    /// With rights that are not older than this.
    pub rights: Epoch,
    /// In which state.
    pub want: &'a SessionState,
    /// Whose memory the connection will have to keep.
    pub memory: &'a Rc<Memory>,
    /// Where the server has no connection left, because others have them: true to wait for one, as for one of the pool;
    /// false to be told at once.
    pub waits_for_room: bool,
    /// Where the user's password has expired: true for a connection on which it can be changed, for this session alone.
    pub takes_expired: bool,
    /// Where it is said what is waited for.
    pub waits: &'a WaitCell,
}

#[derive(Debug)]
pub(crate) struct BackendPool {
    pub(crate) place: Arc<Place>,
    pub(crate) budget: Arc<Budget>,
    pub(crate) idle: RefCell<Idle>,
    pub(crate) waiters: RefCell<Waiters>,
    /// Connections of this worker, idle, in use and being opened or closed.
    pub(crate) count: Rc<Cell<u32>>,
    /// Clients of this worker that wait; but for those that only a connection of their own user would help.
    pub(crate) waiting: Cell<u32>,
    /// Connections may be opened in advance.
    pub(crate) is_up: Cell<bool>,
    /// Nobody is given a connection any more, and those that come back are closed.
    pub(crate) is_draining: Cell<bool>,
    /// How often it had moved when its idle connections were looked at for that.
    pub(crate) moves: Cell<u64>,
    pub(crate) members: Members,
    /// The server has said a moment ago that it has no connection left.
    pub(crate) refused: RefCell<Option<(Instant, ErrPacket)>>,
}

/// The connections of one worker.
#[derive(Debug)]
pub struct Pool {
    settings: RefCell<Rc<Settings>>,
    pub(crate) backends: Vec<BackendPool>,
    identities: Identities,
    tells_addresses: Cell<bool>,
    pub(crate) next_id: Cell<u64>,
    pub(crate) kept: RefCell<Vec<Kept>>,
    closing: Cell<u32>,
    pub(crate) bell: Arc<rt::Notify>,
    /// The bell will ring soon, for what is idle and wanted elsewhere.
    pub(crate) looks_again: Cell<bool>,
    closed: rt::Notify,
    pub(crate) counters: Arc<ClusterCounters>,
    /// Where it is written what backends are asked.
    pens: OnceCell<Rc<Pens>>,
}

impl Pool {
    /// A pool for these backends, each with its budget; `bell` is this worker's bell in all of the budgets.
    pub fn new(
        settings: Settings,
        backends: Vec<(Arc<Place>, Arc<Budget>)>,
        bell: Arc<rt::Notify>,
        counters: Arc<ClusterCounters>,
    ) -> Rc<Self> {
        let tells_addresses = tells_addresses(backends.iter().map(|(place, _)| place));
        let backends = backends
            .into_iter()
            .map(|(place, budget)| BackendPool {
                place,
                budget,
                idle: RefCell::default(),
                waiters: RefCell::default(),
                count: Rc::default(),
                waiting: Cell::new(0),
                is_up: Cell::new(false),
                is_draining: Cell::new(false),
                moves: Cell::new(0),
                members: Members::default(),
                refused: RefCell::default(),
            })
            .collect();
        let kept = RefCell::new(settings.kept_open.iter().map(Kept::new).collect());
        Rc::new(Self {
            settings: RefCell::new(Rc::new(settings)),
            backends,
            kept,
            identities: Identities::default(),
            tells_addresses: Cell::new(tells_addresses),
            next_id: Cell::new(0),
            closing: Cell::new(0),
            bell,
            looks_again: Cell::new(false),
            closed: rt::Notify::new(),
            counters,
            pens: OnceCell::new(),
        })
    }

    /// What the proxy asks backends is written there, for connections that are opened from now on.
    pub fn log_to(&self, pens: Rc<Pens>) {
        // Its worker says so once.
        let _ = self.pens.set(pens);
    }

    /// Where it is written what a connection to this backend is asked.
    pub fn asked_log(&self, backend: BackendId) -> Option<AskedLog> {
        let pens = self.pens.get()?.clone();
        Some(AskedLog::new(pens, self.backends[backend.index()].place.name()))
    }

    /// The thread's ends of the logs.
    pub(crate) fn pens(&self) -> Option<&Rc<Pens>> {
        self.pens.get()
    }

    /// The identity for this user, shape and client; sessions of the same one share connections. What no backend is
    /// told of a client does not count.
    pub fn identity(&self, mut identity: Identity) -> Rc<Identity> {
        if !self.tells_addresses.get() {
            identity.client_ip = None;
        }
        identity.attributes = passed(&identity.attributes, &self.settings().passed_attributes);
        let user = identity.user.clone();
        let known = self.identities.known(identity);
        self.keep_open(&user, &known);
        known
    }

    /// What an operator has set.
    pub(crate) fn settings(&self) -> Rc<Settings> {
        self.settings.borrow().clone()
    }

    /// Follows other settings from now on. Connections that are open keep what they were opened with.
    pub fn follow(&self, settings: Settings) {
        Kept::follow(&mut self.kept.borrow_mut(), &settings.kept_open);
        self.settings.replace(Rc::new(settings));
        self.tells_addresses.set(tells_addresses(self.backends.iter().map(|pool| &pool.place)));
        self.bell.notify_one();
    }

    pub(crate) fn place(&self, backend: BackendId) -> &Place {
        &self.backends[backend.index()].place
    }

    /// The connection that the session of this memory left in this seat, if it is still there, nobody else has used
    /// it since, and it is alive. No search, no wait.
    #[inline]
    pub fn retake(self: &Rc<Self>, backend: BackendId, seat: Seat, memory: &Rc<Memory>) -> Option<Checkout> {
        self.retake_if(backend, seat, memory, |_| true)
    }

    /// The same if it is in the state `want`: nothing has to be run on it then. Else it stays in its seat.
    #[inline]
    pub fn retake_ready(
        self: &Rc<Self>,
        (backend, seat): (BackendId, Seat),
        memory: &Rc<Memory>,
        want: &SessionState,
    ) -> Option<Checkout> {
        self.retake_if(backend, seat, memory, |connection| connection.have.is_same(want))
    }

    #[inline]
    fn retake_if(
        self: &Rc<Self>,
        backend: BackendId,
        seat: Seat,
        memory: &Rc<Memory>,
        fits: impl FnOnce(&Connection) -> bool,
    ) -> Option<Checkout> {
        let pool = &self.backends[backend.index()];
        let mut connection = pool.idle.borrow_mut().take_seat(seat, memory, fits)?;
        if pool.has_moved_since(&connection) || !connection.stream.is_quiet() {
            self.close_later(connection);
            return None;
        }
        Some(Checkout::new(connection, self.clone(), backend))
    }

    /// A connection in the wanted state: an idle one, a new one, or the next that comes back.
    pub async fn checkout(self: &Rc<Self>, request: Request<'_>) -> Result<Checkout, PoolError> {
        // A reused connection may have died unseen: then the next is tried, and at last a new one.
        loop {
            let (connection, is_new) = self.find(&request).await?;
            let mut checkout = Checkout::new(connection, self.clone(), request.backend);
            let waiting = request.waits.begin(Wait::State, rt::now());
            let ready = checkout.make_ready(request.want, request.memory).await;
            drop(waiting);
            match ready {
                Ok(_) => return Ok(checkout),
                Err(PoolError::Lost { .. }) if !is_new => {}
                Err(error @ PoolError::Refused { .. }) => {
                    checkout.release();
                    return Err(error);
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// Takes a connection back: to the first that waits, to another worker in need, or to its seat.
    #[inline]
    pub(crate) fn put_back(
        self: &Rc<Self>,
        backend: BackendId,
        mut connection: Box<Connection>,
    ) -> Option<Seat> {
        let now = rt::now();
        connection.idle_since = now;
        connection.held_until = now + Duration::from_millis(self.settings.borrow().hold_ms);
        self.seat(backend, connection, now)
    }

    pub(crate) fn put_back_unheld(self: &Rc<Self>, backend: BackendId, mut connection: Box<Connection>) {
        let now = rt::now();
        connection.idle_since = now;
        connection.held_until = now;
        self.seat(backend, connection, now);
    }

    fn seat(
        self: &Rc<Self>,
        backend: BackendId,
        mut connection: Box<Connection>,
        now: Instant,
    ) -> Option<Seat> {
        let pool = &self.backends[backend.index()];
        let is_over =
            connection.retire_at <= now || pool.has_moved_since(&connection) || pool.budget.is_over();
        let is_over = is_over || connection.member.is_retired();
        if is_over || !connection.buffer.is_empty() || pool.is_draining.get() {
            self.close_later(connection);
            return None;
        }
        let wanted = pool.is_wanted(backend, &connection);
        if wanted == Wanted::Now {
            self.close_later(connection);
            return None;
        }
        if pool.waiters.borrow().is_empty() {
            if wanted == Wanted::IfSpare {
                self.look_again();
            }
            return Some(pool.idle.borrow_mut().put(connection));
        }
        if pool.budget.killing.takes(connection.thread()) {
            self.close_later(connection);
            return None;
        }
        connection.leave();
        let given = pool.waiters.borrow_mut().give(backend, connection);
        match given {
            Given::Taken => None,
            Given::Returned(mut connection) => {
                connection.leaving = None;
                Some(pool.idle.borrow_mut().put(connection))
            }
            Given::Replaced(connection) => {
                let this = self.clone();
                rt::spawn_local(async move {
                    let mut permit = Some(Self::close_now(connection).await);
                    let budget = &this.backends[backend.index()].budget;
                    let pass = |claim: &Claim| {
                        permit.as_mut()?.pass_to(claim).then_some(())?;
                        permit.take()
                    };
                    this.backends[backend.index()].waiters.borrow_mut().give_permit((backend, budget), pass);
                });
                None
            }
        }
    }

    /// Says goodbye to the backend, which would count an aborted connection otherwise.
    pub(crate) async fn close_now(mut connection: Box<Connection>) -> Permit {
        let quit = [1, 0, 0, 0, Code::Quit as u8];
        connection.leave();
        rt::timeout(Duration::from_secs(1), async {
            if connection.leaving.is_some() {
                let _ = save(&mut connection).await;
            }
            // If it is gone already, there is nobody to say goodbye to.
            let _ = connection.stream.write_bytes(&quit).await;
            connection.stream.finish().await;
        })
        .await;
        connection.ended()
    }

    pub(crate) fn close_later(self: &Rc<Self>, mut connection: Box<Connection>) {
        // Now: its session must not look into its memory before the task below has begun.
        connection.leave();
        self.close_by(Self::close_now(connection));
    }

    /// Closes a connection in the background: `work` ends with the place that it had.
    pub(crate) fn close_by(self: &Rc<Self>, work: impl Future<Output = Permit> + 'static) {
        let this = self.clone();
        this.closing.set(this.closing.get() + 1);
        this.counters.backend_closes.increment();
        rt::spawn_local(async move {
            drop(work.await);
            this.closing.set(this.closing.get() - 1);
            this.closed.notify_one();
        });
    }

    /// Connections of this worker to `backend` that are in use, or being opened or closed.
    pub fn in_use(&self, backend: BackendId) -> u32 {
        let (open, idle) = self.size(backend);
        open.saturating_sub(u32::try_from(idle).unwrap_or(u32::MAX))
    }

    /// Connections to `backend` that this worker may keep while others wait.
    pub fn share(&self, backend: BackendId) -> u32 {
        self.backends[backend.index()].budget.share()
    }

    /// Connections of this worker to `backend`: (open, idle).
    pub fn size(&self, backend: BackendId) -> (u32, usize) {
        let pool = &self.backends[backend.index()];
        (pool.count.get(), pool.idle.borrow().len())
    }

    /// Closes all idle connections and waits until those that are being closed are closed.
    pub async fn close(self: &Rc<Self>) {
        for pool in &self.backends {
            let idle = pool.idle.borrow_mut().take_all();
            for connection in idle {
                self.close_later(connection);
            }
        }
        while self.closing.get() > 0 {
            self.closed.notified().await;
        }
    }
}

/// True if one of the backends wants to know where clients are.
fn tells_addresses<'a>(mut places: impl Iterator<Item = &'a Arc<Place>>) -> bool {
    places.any(|place| place.reach().proxy_protocol.is_some())
}

/// What COM_CHANGE_USER needs to start the same identity over.
pub(crate) fn change_user_request(place: &Place, identity: &Identity, secret: BackendSecret) -> BackendLogin {
    BackendLogin {
        user: identity.user.clone(),
        secret,
        schema: None,
        capabilities: identity.shape,
        collation: 45,
        tls: None,
        host: String::new(),
        attributes: identity.attributes.clone(),
        zstd_level: 0,
        trust: place.reach().trust.clone(),
    }
}

/// The pool's words for a failed COM_CHANGE_USER.
pub(crate) fn change_user_failed(place: &Place, error: LoginError) -> PoolError {
    let backend = place.name();
    match error {
        LoginError::Net(error) => PoolError::Lost { backend, error },
        LoginError::Refused(error) => PoolError::Refused { backend, error },
        LoginError::Unsuitable(reason) => PoolError::Login { backend, reason },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lifetimes(max_lifetime_s: u64) -> Vec<Duration> {
        let settings = Settings {
            hold_ms: 0,
            checkout_timeout_ms: 0,
            connect_timeout_ms: 0,
            idle_timeout_s: 0,
            max_lifetime_s,
            statements_per_connection: 0,
            kills_abandoned: false,
            passed_attributes: Vec::new(),
            kept_open: Vec::new(),
            memory: Account::unlimited(),
        };
        (0..1_000).map(|id| settings.lifetime(BackendConnId(id))).collect()
    }

    #[test]
    fn connections_that_are_opened_together_do_not_end_together() {
        for limit_s in [10, 3_600, 86_400] {
            let limit = Duration::from_secs(limit_s);
            let lifetimes = lifetimes(limit_s);
            let (least, most) = (lifetimes.iter().min().unwrap(), lifetimes.iter().max().unwrap());
            // A tenth to both sides, and all of it.
            assert!(*least >= limit * 9 / 10 && *most <= limit * 11 / 10, "{least:?} to {most:?}");
            assert!(*least <= limit * 92 / 100 && *most >= limit * 108 / 100, "{least:?} to {most:?}");
            // No moment in which many of them end.
            let in_this = |tenth: u32| {
                let (from, to) = (limit * (90 + 2 * tenth) / 100, limit * (92 + 2 * tenth) / 100);
                lifetimes.iter().filter(|lifetime| (from..to).contains(*lifetime)).count()
            };
            assert!((0..10).all(|tenth| (50..150).contains(&in_this(tenth))), "{limit_s}");
        }
        assert!(lifetimes(0).iter().all(|lifetime| *lifetime > Duration::from_hours(24 * 365)));
    }
}
