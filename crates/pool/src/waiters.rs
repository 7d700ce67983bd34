//! Clients that wait for a connection: administrators first, then first come, first served. Whoever could not use what
//! is there is passed over and keeps its turn.

use std::collections::VecDeque;
use std::rc::Rc;

use delphinus_net::rt::oneshot;
use delphinus_topology::BackendId;

use crate::budget::{Claim, Permit};
use crate::connection::{Connection, Identity};

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
    pub(crate) fn push(&mut self, identity: &Rc<Identity>) -> oneshot::Receiver<Grant> {
        let (answer, receiver) = oneshot::channel();
        self.tickets += 1;
        let waiter = Waiter { ticket: self.tickets, answer };
        match self.queues.iter_mut().find(|queue| Rc::ptr_eq(&queue.identity, identity)) {
            Some(queue) => queue.waiters.push_back(waiter),
            None => self.queues.push(Queue { identity: identity.clone(), waiters: [waiter].into() }),
        }
        receiver
    }

    /// Gives a connection to the first client that can use it, or its place.
    pub(crate) fn give(&mut self, backend: BackendId, mut connection: Box<Connection>) -> Given {
        for at in self.in_turn() {
            let queue = &mut self.queues[at];
            if !Rc::ptr_eq(&queue.identity, &connection.identity) {
                if connection.permit.may_pass_to(queue.identity.claim(backend)) {
                    return Given::Replaced(connection);
                }
                continue;
            }
            while let Some(waiter) = queue.waiters.pop_front() {
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
        backend: BackendId,
        mut take: impl FnMut(&Claim) -> Option<Permit>,
    ) -> bool {
        for at in self.in_turn() {
            let queue = &mut self.queues[at];
            let Some(mut permit) = take(queue.identity.claim(backend)) else { continue };
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
    pub(crate) fn of_user(&self, backend: BackendId, claim: &Claim) -> u32 {
        let of_user = |queue: &&Queue| queue.identity.claim(backend).is_of_same_user(claim);
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
