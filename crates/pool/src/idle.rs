//! The idle connections of one backend in one worker. A connection waits in a seat; the session that left it
//! there finds it again without a search as long as nobody else has taken it.

use std::rc::Rc;
use std::time::Instant;

use delphinus_state::SessionState;

use crate::connection::{BackendConnId, Connection, Identity};
use crate::memory::Memory;

/// Where a session left its connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Seat {
    at: u32,
    connection: BackendConnId,
}

/// The seats of one backend.
#[derive(Debug, Default)]
pub(crate) struct Idle {
    seats: Vec<Option<Box<Connection>>>,
    free: Vec<u32>,
}

/// How well an idle connection fits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fit {
    /// Nobody holds it, and it is in the wanted state.
    Ready,
    /// Nobody holds it, but it needs fix-ups.
    Free,
    /// Another session holds it.
    Held,
}

impl Idle {
    /// How many connections are idle.
    pub(crate) fn len(&self) -> usize {
        self.seats.len() - self.free.len()
    }

    /// Seats a connection.
    pub(crate) fn put(&mut self, connection: Box<Connection>) -> Seat {
        let id = connection.id;
        let at = if let Some(at) = self.free.pop() {
            self.seats[at as usize] = Some(connection);
            at
        } else {
            self.seats.push(Some(connection));
            u32::try_from(self.seats.len() - 1).expect("invariant: connections are bounded by the budget")
        };
        Seat { at, connection: id }
    }

    /// The connection in this seat, if it is still the same one, and has not been another session's since.
    #[inline]
    pub(crate) fn take_seat(&mut self, seat: Seat, owner: &Rc<Memory>) -> Option<Box<Connection>> {
        let place = self.seats.get_mut(seat.at as usize)?;
        let connection = place.as_ref()?;
        if connection.id != seat.connection || !connection.is_owned_by(owner) {
            return None;
        }
        self.free.push(seat.at);
        place.take()
    }

    /// The best connection of this identity that fits at least as well as `worst`.
    pub(crate) fn take_best(
        &mut self,
        identity: &Rc<Identity>,
        want: &SessionState,
        worst: Fit,
        now: Instant,
    ) -> Option<Box<Connection>> {
        let mut best: Option<(u8, Instant, u32)> = None;
        for (at, connection) in self.occupied() {
            if !Rc::ptr_eq(&connection.identity, identity) {
                continue;
            }
            let fit = fit(connection, want, now);
            // Of equals, the one that was used last keeps the others idle, so that they can be closed.
            let better = |(rank, since, _): &(u8, Instant, u32)| {
                (fit as u8) < *rank
                    || (fit as u8 == *rank && connection.idle_since > *since && fit != Fit::Held)
            };
            if fit as u8 <= worst as u8 && best.as_ref().is_none_or(better) {
                best = Some((fit as u8, connection.idle_since, at));
            }
            if fit == Fit::Ready {
                break;
            }
        }
        best.and_then(|(_, _, at)| self.take_at(at))
    }

    /// Any connection, the longest idle first: to be closed for another identity or another worker.
    pub(crate) fn take_oldest(&mut self) -> Option<Box<Connection>> {
        let oldest = self.occupied().min_by_key(|(_, connection)| connection.idle_since).map(|(at, _)| at)?;
        self.take_at(oldest)
    }

    /// All connections that have been idle or alive for too long.
    #[expect(clippy::vec_box, reason = "connections stay boxed: they move between seats and sessions")]
    pub(crate) fn take_expired(&mut self, now: Instant, idle_since: Option<Instant>) -> Vec<Box<Connection>> {
        let expired: Vec<u32> = self
            .occupied()
            .filter(|(_, connection)| {
                connection.retire_at <= now || idle_since.is_some_and(|limit| connection.idle_since <= limit)
            })
            .map(|(at, _)| at)
            .collect();
        expired.into_iter().filter_map(|at| self.take_at(at)).collect()
    }

    /// All connections.
    #[expect(clippy::vec_box, reason = "connections stay boxed: they move between seats and sessions")]
    pub(crate) fn take_all(&mut self) -> Vec<Box<Connection>> {
        self.free.clear();
        std::mem::take(&mut self.seats).into_iter().flatten().collect()
    }

    pub(crate) fn occupied(&self) -> impl Iterator<Item = (u32, &Connection)> {
        (0u32..).zip(&self.seats).filter_map(|(at, seat)| seat.as_deref().map(|connection| (at, connection)))
    }

    fn take_at(&mut self, at: u32) -> Option<Box<Connection>> {
        let taken = self.seats.get_mut(at as usize)?.take()?;
        self.free.push(at);
        Some(taken)
    }
}

fn fit(connection: &Connection, want: &SessionState, now: Instant) -> Fit {
    if connection.held_until > now {
        Fit::Held
    } else if connection.have.is_same(want) && connection.unsaved.is_empty() && !connection.may_hide_user_vars
    {
        Fit::Ready
    } else {
        Fit::Free
    }
}
