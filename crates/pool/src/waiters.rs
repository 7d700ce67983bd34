//! Clients that wait for a connection: administrators first, then first come, first served. Whoever could not use what
//! is there is passed over and keeps its turn.

use std::collections::VecDeque;
use std::rc::Rc;
use std::time::Duration;

use delphinus_net::rt::{self, oneshot};
use delphinus_telemetry::Wait;
use delphinus_topology::BackendId;

use crate::budget::{Budget, Claim, Full, Permit};
use crate::connection::{Connection, Identity};
use crate::error::PoolError;
use crate::pool::{BackendPool, Pool, Request};
use crate::rights::Epoch;

/// What a waiting client is given.
#[derive(Debug)]
pub(crate) enum Grant {
    /// A connection of its identity.
    Connection(Box<Connection>),
    /// The right to open one.
    Permit(Permit),
}

/// One waiting client.
#[derive(Debug)]
struct Waiter {
    ticket: u64,
    /// It can use no connection with older ones.
    rights: Epoch,
    answer: oneshot::Sender<Grant>,
}

/// Those of one identity.
#[derive(Debug)]
struct Queue {
    identity: Rc<Identity>,
    waiters: VecDeque<Waiter>,
}

/// Everybody who waits for one backend in one worker.
#[derive(Debug, Default)]
pub(crate) struct Waiters {
    queues: Vec<Queue>,
    tickets: u64,
}

/// What becomes of a connection that comes back.
#[derive(Debug)]
pub(crate) enum Given {
    /// Somebody has it.
    Taken,
    /// Nobody wants it.
    Returned(Box<Connection>),
    /// Somebody wants its place.
    Replaced(Box<Connection>),
}

impl Waiters {
    /// True if nobody waits. Clients that gave up count until their turn comes.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.queues.is_empty()
    }

    /// Queues a client.
    pub(crate) fn push(&mut self, identity: &Rc<Identity>, rights: Epoch) -> oneshot::Receiver<Grant> {
        let (answer, receiver) = oneshot::channel();
        self.tickets += 1;
        let waiter = Waiter { ticket: self.tickets, rights, answer };
        match self.queues.iter_mut().find(|queue| Rc::ptr_eq(&queue.identity, identity)) {
            Some(queue) => queue.waiters.push_back(waiter),
            None => self.queues.push(Queue { identity: identity.clone(), waiters: [waiter].into() }),
        }
        receiver
    }

    /// Gives a connection to the first client that can use it, or its place.
    pub(crate) fn give(&mut self, backend: BackendId, mut connection: Box<Connection>) -> Given {
        let claim = |of: &Identity, connection: &Connection| of.claim(backend, connection.permit.budget());
        for at in self.in_turn() {
            let queue = &mut self.queues[at];
            if !Rc::ptr_eq(&queue.identity, &connection.identity) {
                if connection.permit.may_pass_to(&claim(&queue.identity, &connection)) {
                    return Given::Replaced(connection);
                }
                continue;
            }
            while let Some(first) = queue.waiters.front() {
                if first.rights > connection.rights {
                    return Given::Replaced(connection);
                }
                let Some(waiter) = queue.waiters.pop_front() else { break };
                match waiter.answer.send(Grant::Connection(connection)) {
                    Ok(()) => return Given::Taken,
                    Err(Grant::Connection(returned)) => connection = returned,
                    Err(Grant::Permit(_)) => unreachable!("a connection was sent"),
                }
            }
        }
        Given::Returned(connection)
    }

    /// Gives the first client for whom `take` has one a permit; false if there is none.
    pub(crate) fn give_permit(
        &mut self,
        (backend, budget): (BackendId, &Budget),
        mut take: impl FnMut(&Claim) -> Option<Permit>,
    ) -> bool {
        for at in self.in_turn() {
            let queue = &mut self.queues[at];
            let Some(mut permit) = take(&queue.identity.claim(backend, budget)) else { continue };
            while let Some(waiter) = queue.waiters.pop_front() {
                match waiter.answer.send(Grant::Permit(permit)) {
                    Ok(()) => return true,
                    Err(Grant::Permit(returned)) => permit = returned,
                    Err(Grant::Connection(_)) => unreachable!("a permit was sent"),
                }
            }
        }
        false
    }

    /// The queues in the order in which they are served. Who has given up is forgotten.
    fn in_turn(&mut self) -> Vec<usize> {
        for queue in &mut self.queues {
            while queue.waiters.front().is_some_and(|waiter| waiter.answer.is_closed()) {
                queue.waiters.pop_front();
            }
        }
        self.queues.retain(|queue| !queue.waiters.is_empty());
        let mut order: Vec<usize> = (0..self.queues.len()).collect();
        order.sort_by_key(|at| {
            let queue = &self.queues[*at];
            (!queue.identity.is_admin, queue.waiters.front().map(|waiter| waiter.ticket))
        });
        order
    }

    /// How many wait for a connection of the user of this claim.
    pub(crate) fn of_user(&self, (backend, budget): (BackendId, &Budget), claim: &Claim) -> u32 {
        let of_user = |queue: &&Queue| queue.identity.claim(backend, budget).is_of_same_user(claim);
        let count: usize = self.queues.iter().filter(of_user).map(|queue| queue.waiters.len()).sum();
        u32::try_from(count).unwrap_or(u32::MAX)
    }

    /// Who still waits.
    pub(crate) fn waiting(&self) -> impl Iterator<Item = &Identity> {
        self.queues.iter().flat_map(|queue| {
            let waiters = queue.waiters.iter().filter(|waiter| !waiter.answer.is_closed());
            waiters.map(|_| &*queue.identity)
        })
    }

    /// Sends everybody away.
    pub(crate) fn dismiss(&mut self) {
        self.queues.clear();
    }
}

impl Pool {
    /// What comes back, or a place to open one in, within the time.
    pub(crate) async fn wait(
        self: &Rc<Self>,
        request: &Request<'_>,
        full: Full,
        limit: Duration,
    ) -> Result<(Box<Connection>, bool), PoolError> {
        let pool = &self.backends[request.backend.index()];
        let mut turn = pool.waiters.borrow_mut().push(request.identity, request.rights);
        let waiting = Waiting::begin(pool, request.claim(pool), full);
        let began = rt::now();
        let noted = request.waits.begin(Wait::Pool, began);
        let mut granted = rt::timeout(limit, &mut turn).await;
        drop((noted, waiting));
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
                backend: pool.place.name(),
                waited_ms: self.settings().checkout_timeout_ms,
                full,
            }),
        }
    }
}

/// Counts a client as waiting for as long as it lives.
struct Waiting<'a> {
    pool: &'a BackendPool,
    claim: Claim,
    full: Full,
}

impl<'a> Waiting<'a> {
    fn begin(pool: &'a BackendPool, claim: Claim, full: Full) -> Self {
        if !matches!(full, Full::User(_)) {
            pool.waiting.set(pool.waiting.get() + 1);
        }
        pool.budget.begin_waiting(&claim, full);
        Self { pool, claim, full }
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        if !matches!(self.full, Full::User(_)) {
            self.pool.waiting.set(self.pool.waiting.get() - 1);
        }
        self.pool.budget.end_waiting(&self.claim, self.full);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use delphinus_wire::Capabilities;

    use super::*;
    use crate::budget::BackendLimits;
    use crate::keys::Keys;

    const BACKEND: BackendId = BackendId(0);

    fn budget() -> Arc<Budget> {
        Budget::new(BackendLimits { max: 100, ..BackendLimits::default() }, vec![Arc::default()])
    }

    fn identity(user: &str, is_admin: bool) -> Rc<Identity> {
        let keys = Arc::new(Keys::listed([]));
        Rc::new(Identity::new(user.to_owned(), Capabilities::default(), &keys).of_admin(is_admin))
    }

    /// Gives out one permit, and says who of these has it.
    fn served(
        waiters: &mut Waiters,
        budget: &Arc<Budget>,
        turns: &mut [(&'static str, oneshot::Receiver<Grant>)],
    ) -> Option<&'static str> {
        let count = Rc::default();
        waiters.give_permit((BACKEND, budget), |claim| budget.take(&count, claim).ok());
        let mut got = turns.iter_mut().filter_map(|(name, turn)| turn.try_recv().is_ok().then_some(*name));
        let first = got.next();
        assert_eq!(got.next(), None, "one permit serves one client");
        first
    }

    #[test]
    fn administrators_come_first_and_then_whoever_came_first() {
        let (budget, mut waiters) = (budget(), Waiters::default());
        let [app, batch] = ["app", "batch"].map(|user| identity(user, false));
        let ops = identity("ops", true);
        let mut turns: Vec<_> =
            [("app 1", &app), ("batch 1", &batch), ("app 2", &app), ("ops", &ops), ("batch 2", &batch)]
                .map(|(name, identity)| (name, waiters.push(identity, Epoch(0))))
                .into();
        for expected in ["ops", "app 1", "batch 1", "app 2", "batch 2"] {
            assert_eq!(served(&mut waiters, &budget, &mut turns), Some(expected));
        }
        assert_eq!(served(&mut waiters, &budget, &mut turns), None);
        assert!(waiters.is_empty());
    }

    #[test]
    fn who_has_given_up_costs_nobody_a_turn() {
        let (budget, mut waiters) = (budget(), Waiters::default());
        let app = identity("app", false);
        let gone = waiters.push(&app, Epoch(0));
        let mut turns = [("second", waiters.push(&app, Epoch(0)))];
        drop(gone);
        assert_eq!(waiters.waiting().count(), 1);
        assert_eq!(served(&mut waiters, &budget, &mut turns), Some("second"));
    }

    #[test]
    fn who_could_not_use_it_keeps_its_turn_and_is_in_nobodys_way() {
        let of_users = std::collections::HashMap::from([("batch".to_owned(), 0)]);
        let budget = Budget::new(BackendLimits { max: 100, reserved: 0, of_users }, vec![Arc::default()]);
        let mut waiters = Waiters::default();
        let [app, batch] = ["app", "batch"].map(|user| identity(user, false));
        let mut turns = [("batch", waiters.push(&batch, Epoch(0))), ("app", waiters.push(&app, Epoch(0)))];
        assert_eq!(served(&mut waiters, &budget, &mut turns), Some("app"));
        assert_eq!(served(&mut waiters, &budget, &mut turns), None);
        assert_eq!(waiters.waiting().count(), 1, "it still waits");
    }
}
