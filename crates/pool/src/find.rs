//! Which connection a session gets, in this order: an idle one, the best first; a new one; one that is held for another
//! session; the place of one of somebody else's; the next that comes back.

use std::rc::Rc;
use std::time::Duration;

use delphinus_net::rt;
use delphinus_telemetry::Wait;
use delphinus_wire::error_code;

use crate::budget::{Claim, Full, Permit};
use crate::connection::{BackendConnId, Connection};
use crate::error::PoolError;
use crate::idle::Fit;
use crate::open::open;
use crate::pool::{BackendPool, Pool, Request};

/// A server that has no connection left is not asked for one more often than this. Until then the pool's limit is what it
/// has.
const ASK_AGAIN: Duration = Duration::from_millis(100);

impl Pool {
    /// A connection, and true if it is new. Where the server has none left, it is the next that comes back, or one that the
    /// server gives later, within the time that clients wait for a connection.
    pub(crate) async fn find(
        self: &Rc<Self>,
        request: &Request<'_>,
    ) -> Result<(Box<Connection>, bool), PoolError> {
        let began = rt::now();
        let limit = Duration::from_millis(self.settings().checkout_timeout_ms);
        loop {
            let left = limit.saturating_sub(began.elapsed());
            let refused = match self.find_once(request, left).await {
                Err(error) if error.is_full() && request.waits_for_room => error,
                found => return found,
            };
            let left = limit.saturating_sub(began.elapsed());
            if left.is_zero() {
                return Err(refused);
            }
            let open = self.backends[request.backend.index()].budget.open();
            let full = if refused.is_too_many() { Full::All(open) } else { Full::User(open) };
            match self.wait(request, full, left.min(ASK_AGAIN)).await {
                Err(PoolError::Exhausted { .. }) => {}
                Err(error) if error.is_full() => {}
                found => return found,
            }
        }
    }

    async fn find_once(
        self: &Rc<Self>,
        request: &Request<'_>,
        limit: Duration,
    ) -> Result<(Box<Connection>, bool), PoolError> {
        let pool = &self.backends[request.backend.index()];
        if pool.is_draining.get() {
            return Err(pool.offline());
        }
        if let Some(connection) = self.take_idle(request, Fit::Free) {
            return Ok((connection, false));
        }
        let full = match pool.refused_a_moment_ago() {
            Some(error) => Err(error),
            None => match pool.budget.take(&pool.count, &request.claim(pool)) {
                Ok(permit) => match self.open(request, permit).await {
                    // Others have what the server allows: one that is there already may serve.
                    Err(error) if error.is_full() => Err(error),
                    opened => return Ok((opened?, true)),
                },
                Err(full) => Ok(full),
            },
        };
        if let Some(connection) = self.take_idle(request, Fit::Held) {
            return Ok((connection, false));
        }
        let foreign = self.take_foreign(request);
        if let Some(connection) = foreign {
            let permit = Self::close_now(connection).await;
            return Ok((self.open(request, permit).await?, true));
        }
        self.wait(request, full?, limit).await
    }

    fn take_idle(self: &Rc<Self>, request: &Request<'_>, worst: Fit) -> Option<Box<Connection>> {
        let pool = &self.backends[request.backend.index()];
        loop {
            let now = rt::now();
            let found = pool.idle.borrow_mut().take_best(request, worst, now);
            let mut connection = found?;
            let is_own = connection.is_owned_by(request.memory);
            let is_usable = !pool.has_moved_since(&connection) && connection.stream.is_quiet();
            if is_usable && (is_own || !pool.budget.killing.takes(connection.thread())) {
                if !is_own {
                    connection.leave();
                }
                return Some(connection);
            }
            self.close_later(connection);
        }
    }

    /// An idle connection whose place the new one may have, and goes on its account already: of another identity, or with older
    /// rights.
    fn take_foreign(&self, request: &Request<'_>) -> Option<Box<Connection>> {
        let pool = &self.backends[request.backend.index()];
        let claim = request.claim(pool);
        let mut idle = pool.idle.borrow_mut();
        idle.take_oldest(|connection| {
            let is_other = !Rc::ptr_eq(&connection.identity, request.identity);
            (is_other || connection.rights < request.rights) && connection.permit.pass_to(&claim)
        })
    }

    pub(crate) async fn open(
        self: &Rc<Self>,
        request: &Request<'_>,
        permit: Permit,
    ) -> Result<Box<Connection>, PoolError> {
        let pool = &self.backends[request.backend.index()];
        let id = BackendConnId(self.next_id.get());
        self.next_id.set(id.0 + 1);
        let _noted = request.waits.begin(Wait::Connect, rt::now());
        let who = (request.identity, request.takes_expired);
        let opened = open(
            (request.backend, &pool.place),
            who,
            id,
            permit,
            (&self.settings(), self.asked_log(request.backend)),
        )
        .await;
        match &opened {
            Ok(_) => self.counters.backend_connects_ok.increment(),
            Err(_) => self.counters.backend_connects_failed.increment(),
        }
        match &opened {
            Ok(connection) => {
                pool.members.count(connection);
                pool.refused.take();
            }
            Err(PoolError::Refused { error, .. }) if error.code == error_code::ER_CON_COUNT_ERROR => {
                pool.refused.replace(Some((rt::now(), error.clone())));
            }
            Err(_) => {}
        }
        opened
    }
}

impl BackendPool {
    /// The server's word that it has no connection left, if that is new.
    fn refused_a_moment_ago(&self) -> Option<PoolError> {
        let refused = self.refused.borrow();
        let (_, error) = refused.as_ref().filter(|(when, _)| when.elapsed() < ASK_AGAIN)?;
        Some(PoolError::Refused { backend: self.place.name(), error: error.clone() })
    }
}

impl Request<'_> {
    pub(crate) fn claim(&self, pool: &BackendPool) -> Claim {
        self.identity.claim(self.backend, &pool.budget)
    }
}
