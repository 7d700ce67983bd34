//! Clients that wait for a connection, first come, first served.

use std::collections::VecDeque;
use std::rc::Rc;

use delphinus_net::rt::oneshot;

use crate::budget::Permit;
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
    identity: Rc<Identity>,
    answer: oneshot::Sender<Grant>,
}

/// The queue of one backend in one worker.
#[derive(Debug, Default)]
pub(crate) struct Waiters {
    queue: VecDeque<Waiter>,
}

impl Waiters {
    /// True if nobody waits. Clients that gave up count until their turn comes.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    /// Queues a client.
    pub(crate) fn push(&mut self, identity: Rc<Identity>) -> oneshot::Receiver<Grant> {
        let (answer, receiver) = oneshot::channel();
        self.queue.push_back(Waiter { identity, answer });
        receiver
    }

    /// Gives a connection to the first client that still waits, if it is of its identity. Otherwise the
    /// connection comes back, with true if somebody waits for its place.
    pub(crate) fn give(&mut self, mut connection: Box<Connection>) -> Result<(), (Box<Connection>, bool)> {
        while let Some(first) = self.queue.front() {
            if first.answer.is_closed() {
                self.queue.pop_front();
                continue;
            }
            if !Rc::ptr_eq(&first.identity, &connection.identity) {
                return Err((connection, true));
            }
            let Some(waiter) = self.queue.pop_front() else { break };
            match waiter.answer.send(Grant::Connection(connection)) {
                Ok(()) => return Ok(()),
                Err(Grant::Connection(returned)) => connection = returned,
                Err(Grant::Permit(_)) => unreachable!("a connection was sent"),
            }
        }
        Err((connection, false))
    }

    /// Who still waits.
    pub(crate) fn waiting(&self) -> impl Iterator<Item = &Identity> {
        self.queue.iter().filter(|waiter| !waiter.answer.is_closed()).map(|waiter| &*waiter.identity)
    }

    /// Sends everybody away.
    pub(crate) fn dismiss(&mut self) {
        self.queue.clear();
    }

    /// Gives a permit to the first client that still waits.
    pub(crate) fn give_permit(&mut self, mut permit: Permit) -> bool {
        while let Some(waiter) = self.queue.pop_front() {
            match waiter.answer.send(Grant::Permit(permit)) {
                Ok(()) => return true,
                Err(Grant::Permit(returned)) => permit = returned,
                Err(Grant::Connection(_)) => unreachable!("a permit was sent"),
            }
        }
        false
    }
}
