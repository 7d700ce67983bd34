//! The pool of one worker.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use delphinus_net::tls::ClientTls;
use delphinus_net::{Address, BackendLogin, LoginError, rt};
use delphinus_state::SessionState;
use delphinus_telemetry::Counters;
use delphinus_topology::BackendId;
use delphinus_wire::auth::BackendSecret;
use delphinus_wire::command::Code;
use delphinus_wire::compression::Algorithm;
use delphinus_wire::proxy_header::ProxyVersion;

use crate::budget::{Budget, Permit};
use crate::census::Members;
use crate::checkout::Checkout;
use crate::connection::{BackendConnId, Connection, Identity};
use crate::error::PoolError;
use crate::identities::{Identities, passed};
use crate::idle::{Fit, Idle, Seat};
use crate::memory::Memory;
use crate::open::open;
use crate::ready::save;
use crate::waiters::{Grant, Waiters};

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

/// One backend, as far as connecting needs it.
#[derive(Debug, Clone)]
pub struct Target {
    /// Name in errors.
    pub name: Arc<str>,
    /// Where it listens.
    pub address: Address,
    /// TLS, and true if it must be used.
    pub tls: Option<(ClientTls, bool)>,
    /// What to compress with, if the backend can.
    pub compression: Option<Algorithm>,
    /// How the backend is told of the client's address, if it is.
    pub proxy_protocol: Option<ProxyVersion>,
}

/// What a session asks for.
#[derive(Debug, Clone, Copy)]
pub struct Request<'a> {
    /// Which backend.
    pub backend: BackendId,
    /// Who.
    pub identity: &'a Rc<Identity>,
    /// In which state.
    pub want: &'a SessionState,
    /// Whose memory the connection will have to keep.
    pub memory: &'a Rc<Memory>,
}

#[derive(Debug)]
pub(crate) struct BackendPool {
    pub(crate) target: Target,
    pub(crate) budget: Arc<Budget>,
    pub(crate) idle: RefCell<Idle>,
    pub(crate) waiters: RefCell<Waiters>,
    /// Connections of this worker, idle, in use and being opened or closed.
    pub(crate) count: Rc<Cell<u32>>,
    /// Clients of this worker that wait.
    waiting: Cell<u32>,
    /// Nobody is given a connection any more, and those that come back are closed.
    pub(crate) is_draining: Cell<bool>,
    pub(crate) members: Members,
}

/// The connections of one worker.
#[derive(Debug)]
pub struct Pool {
    pub(crate) settings: Settings,
    pub(crate) backends: Vec<BackendPool>,
    identities: Identities,
    tells_addresses: bool,
    next_id: Cell<u64>,
    closing: Cell<u32>,
    bell: Arc<rt::Notify>,
    closed: rt::Notify,
    pub(crate) counters: Arc<Counters>,
}

impl Pool {
    /// A pool for these backends, each with its budget; `bell` is this worker's bell in all of the budgets.
    pub fn new(
        settings: Settings,
        backends: Vec<(Target, Arc<Budget>)>,
        bell: Arc<rt::Notify>,
        counters: Arc<Counters>,
    ) -> Rc<Self> {
        let tells_addresses = backends.iter().any(|(target, _)| target.proxy_protocol.is_some());
        let backends = backends
            .into_iter()
            .map(|(target, budget)| BackendPool {
                target,
                budget,
                idle: RefCell::default(),
                waiters: RefCell::default(),
                count: Rc::default(),
                waiting: Cell::new(0),
                is_draining: Cell::new(false),
                members: Members::default(),
            })
            .collect();
        Rc::new(Self {
            settings,
            backends,
            identities: Identities::default(),
            tells_addresses,
            next_id: Cell::new(0),
            closing: Cell::new(0),
            bell,
            closed: rt::Notify::new(),
            counters,
        })
    }

    /// The identity for this user, shape and client; sessions of the same one share connections. What no backend is
    /// told of a client does not count.
    pub fn identity(&self, mut identity: Identity) -> Rc<Identity> {
        if !self.tells_addresses {
            identity.client_ip = None;
        }
        identity.attributes = passed(&identity.attributes, &self.settings.passed_attributes);
        self.identities.known(identity)
    }

    pub(crate) fn settings(&self) -> &Settings {
        &self.settings
    }

    pub(crate) fn target(&self, backend: BackendId) -> &Target {
        &self.backends[backend.index()].target
    }

    /// The connection that the session of this memory left in this seat, if it is still there, nobody else has used
    /// it since, and it is alive. No search, no wait.
    #[inline]
    pub fn retake(self: &Rc<Self>, backend: BackendId, seat: Seat, memory: &Rc<Memory>) -> Option<Checkout> {
        let mut connection = self.backends[backend.index()].idle.borrow_mut().take_seat(seat, memory)?;
        if !connection.stream.is_quiet() {
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
            match checkout.make_ready(request.want, request.memory).await {
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

    async fn find(self: &Rc<Self>, request: &Request<'_>) -> Result<(Box<Connection>, bool), PoolError> {
        let pool = &self.backends[request.backend.index()];
        if pool.is_draining.get() {
            return Err(pool.offline());
        }
        if let Some(connection) = self.take_idle(request, Fit::Free) {
            return Ok((connection, false));
        }
        if let Some(permit) = pool.budget.take(&pool.count) {
            return Ok((self.open(request, permit).await?, true));
        }
        if let Some(connection) = self.take_idle(request, Fit::Held) {
            return Ok((connection, false));
        }
        let foreign = pool.idle.borrow_mut().take_oldest();
        if let Some(connection) = foreign {
            let permit = Self::close_now(connection).await;
            return Ok((self.open(request, permit).await?, true));
        }
        self.wait(request).await
    }

    fn take_idle(self: &Rc<Self>, request: &Request<'_>, worst: Fit) -> Option<Box<Connection>> {
        let pool = &self.backends[request.backend.index()];
        loop {
            let now = rt::now();
            let found = pool.idle.borrow_mut().take_best(request.identity, request.want, worst, now);
            let mut connection = found?;
            if connection.stream.is_quiet() {
                if !connection.is_owned_by(request.memory) {
                    connection.leave();
                }
                return Some(connection);
            }
            self.close_later(connection);
        }
    }

    async fn open(
        self: &Rc<Self>,
        request: &Request<'_>,
        permit: Permit,
    ) -> Result<Box<Connection>, PoolError> {
        let pool = &self.backends[request.backend.index()];
        let id = BackendConnId(self.next_id.get());
        self.next_id.set(id.0 + 1);
        let opened =
            open((request.backend, &pool.target), request.identity, id, permit, &self.settings).await;
        match &opened {
            Ok(_) => self.counters.backend_connects_ok.increment(),
            Err(_) => self.counters.backend_connects_failed.increment(),
        }
        if let Ok(connection) = &opened {
            pool.members.count(connection);
        }
        opened
    }

    async fn wait(self: &Rc<Self>, request: &Request<'_>) -> Result<(Box<Connection>, bool), PoolError> {
        let pool = &self.backends[request.backend.index()];
        let limit = Duration::from_millis(self.settings.checkout_timeout_ms);
        let mut turn = pool.waiters.borrow_mut().push(request.identity.clone());
        let waiting = Waiting::begin(pool);
        let began = rt::now();
        let mut granted = rt::timeout(limit, &mut turn).await;
        drop(waiting);
        self.counters.pool_waits.increment();
        self.counters.pool_wait_us.add(began.elapsed().as_micros() as u64);
        if granted.is_none() {
            // It may have come in the last moment, and must not be lost.
            turn.close();
            granted = turn.try_recv().ok().map(Ok);
        }
        match granted {
            Some(Ok(Grant::Connection(connection))) => Ok((connection, false)),
            Some(Ok(Grant::Permit(permit))) => Ok((self.open(request, permit).await?, true)),
            _ if pool.is_draining.get() => Err(pool.offline()),
            _ => Err(PoolError::Exhausted {
                backend: pool.target.name.clone(),
                waited_ms: self.settings.checkout_timeout_ms,
                limit: pool.budget.max(),
            }),
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
        connection.held_until = now + Duration::from_millis(self.settings.hold_ms);
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
        if connection.retire_at <= now || !connection.buffer.is_empty() || pool.is_draining.get() {
            self.close_later(connection);
            return None;
        }
        let others_want = pool.budget.is_wanted_beyond(pool.waiting.get());
        if others_want && (pool.count.get() > pool.budget.share() || pool.waiting.get() == 0) {
            self.close_later(connection);
            return None;
        }
        if pool.waiters.borrow().is_empty() {
            return Some(pool.idle.borrow_mut().put(connection));
        }
        connection.leave();
        let given = pool.waiters.borrow_mut().give(connection);
        match given {
            Ok(()) => None,
            Err((mut connection, false)) => {
                connection.leaving = None;
                Some(pool.idle.borrow_mut().put(connection))
            }
            Err((connection, true)) => {
                // Another identity is first in the queue: it needs the place, not the connection.
                let this = self.clone();
                rt::spawn_local(async move {
                    let permit = Self::close_now(connection).await;
                    this.backends[backend.index()].waiters.borrow_mut().give_permit(permit);
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
        connection.permit
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

    /// Looks after the idle connections until the worker ends: closes those that are too old, and gives places
    /// to clients that wait, of this worker and of others.
    pub async fn tend(self: Rc<Self>) {
        loop {
            rt::timeout(Duration::from_secs(1), self.bell.notified()).await;
            let now = rt::now();
            let idle_limit = match self.settings.idle_timeout_s {
                0 => None,
                seconds => now.checked_sub(Duration::from_secs(seconds)),
            };
            for pool in &self.backends {
                let expired = pool.idle.borrow_mut().take_expired(now, idle_limit);
                for connection in expired {
                    self.close_later(connection);
                }
                self.relieve(pool);
            }
        }
    }

    fn relieve(self: &Rc<Self>, pool: &BackendPool) {
        while !pool.waiters.borrow().is_empty() {
            let Some(permit) = pool.budget.take(&pool.count) else { break };
            if !pool.waiters.borrow_mut().give_permit(permit) {
                break;
            }
        }
        if pool.budget.is_wanted_beyond(pool.waiting.get()) {
            let spare = pool.idle.borrow_mut().take_oldest();
            if let Some(connection) = spare {
                self.close_later(connection);
            }
        }
    }

    /// Connections of this worker to `backend` that are in use, or being opened or closed.
    pub fn in_use(&self, backend: BackendId) -> u32 {
        let (open, idle) = self.size(backend);
        open.saturating_sub(u32::try_from(idle).unwrap_or(u32::MAX))
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

/// Counts a client as waiting for as long as it lives.
struct Waiting<'a>(&'a BackendPool);

impl<'a> Waiting<'a> {
    fn begin(pool: &'a BackendPool) -> Self {
        pool.waiting.set(pool.waiting.get() + 1);
        pool.budget.begin_waiting();
        Self(pool)
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.waiting.set(self.0.waiting.get() - 1);
        self.0.budget.end_waiting();
    }
}

/// What COM_CHANGE_USER needs to start the same identity over.
pub(crate) fn change_user_request(identity: &Identity, secret: BackendSecret) -> BackendLogin {
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
    }
}

/// The pool's words for a failed COM_CHANGE_USER.
pub(crate) fn change_user_failed(target: &Target, error: LoginError) -> PoolError {
    let backend = target.name.clone();
    match error {
        LoginError::Net(error) => PoolError::Lost { backend, error },
        LoginError::Refused(error) => PoolError::Refused { backend, error },
        LoginError::Unsuitable(reason) => PoolError::Login { backend, reason },
    }
}
