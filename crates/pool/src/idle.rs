//! The idle connections of one backend in one worker. A connection waits in a seat; the session that left it
//! there finds it again without a search as long as nobody else has taken it.

use std::rc::Rc;
use std::time::Instant;

use delphinus_state::SessionState;

use crate::connection::{BackendConnId, Connection};
use crate::memory::Memory;
use crate::pool::Request;

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
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
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

    /// The connection in this seat, if it is still the same one, has not been another session's since, and `fits`.
    #[inline]
    pub(crate) fn take_seat(
        &mut self,
        seat: Seat,
        owner: &Rc<Memory>,
        fits: impl FnOnce(&Connection) -> bool,
    ) -> Option<Box<Connection>> {
        let place = self.seats.get_mut(seat.at as usize)?;
        let connection = place.as_ref()?;
        if connection.id != seat.connection || !connection.is_owned_by(owner) || !fits(connection) {
            return None;
        }
        self.free.push(seat.at);
        place.take()
    }

    /// The best connection of the identity that fits at least as well as `worst`.
    pub(crate) fn take_best(
        &mut self,
        request: &Request<'_>,
        worst: Fit,
        now: Instant,
    ) -> Option<Box<Connection>> {
        let mut best: Option<(Rank, u32)> = None;
        for (at, connection) in self.occupied() {
            if !Rc::ptr_eq(&connection.identity, request.identity) || connection.rights < request.rights {
                continue;
            }
            let rank = rank(connection, request.want, now);
            if rank.0 <= worst && best.as_ref().is_none_or(|(least, _)| rank < *least) {
                best = Some((rank, at));
            }
            if rank.0 == Fit::Ready {
                break;
            }
        }
        best.and_then(|(_, at)| self.take_at(at))
    }

    /// The connection that has been idle for the longest and that `passes`: to be closed for another identity or
    /// another worker.
    pub(crate) fn take_oldest(
        &mut self,
        mut passes: impl FnMut(&mut Connection) -> bool,
    ) -> Option<Box<Connection>> {
        let mut by_age: Vec<_> = self.occupied().map(|(at, one)| (one.idle_since, at)).collect();
        by_age.sort_unstable();
        let at = by_age.into_iter().map(|(_, at)| at).find(|at| {
            let seat = self.seats.get_mut(*at as usize).and_then(Option::as_mut);
            seat.is_some_and(|connection| passes(connection))
        })?;
        self.take_at(at)
    }

    /// The connection that has been idle for the longest of those that others want. Asked once a second, and so without
    /// any allocation.
    pub(crate) fn take_wanted(&mut self, is_wanted: impl Fn(&Connection) -> bool) -> Option<Box<Connection>> {
        let wanted = self.occupied().filter(|(_, connection)| is_wanted(connection));
        let at = wanted.min_by_key(|(_, connection)| connection.idle_since).map(|(at, _)| at)?;
        self.take_at(at)
    }

    /// All connections that are to be closed.
    #[expect(clippy::vec_box, reason = "connections stay boxed: they move between seats and sessions")]
    pub(crate) fn take_where(
        &mut self,
        mut is_over: impl FnMut(&Connection) -> bool,
    ) -> Vec<Box<Connection>> {
        let over: Vec<u32> =
            self.occupied().filter(|(_, connection)| is_over(connection)).map(|(at, _)| at).collect();
        over.into_iter().filter_map(|at| self.take_at(at)).collect()
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

/// How well it fits, how much has to be done before it can be used, and which of equals: the smallest is the best.
type Rank = (Fit, u32, Order);

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Order {
    /// Used last: the others stay idle, so that they can be closed.
    Newest(std::cmp::Reverse<Instant>),
    /// Held for the longest: its session is the least likely to come back.
    Oldest(Instant),
}

fn rank(connection: &Connection, want: &SessionState, now: Instant) -> Rank {
    let fix_ups = connection.have.distance(want)
        + u32::from(connection.has_unsaved())
        + u32::from(connection.lists_warnings)
        + 4 * u32::from(connection.may_hide_user_vars);
    if connection.held_until > now {
        (Fit::Held, 0, Order::Oldest(connection.held_until))
    } else {
        let fit = if fix_ups == 0 { Fit::Ready } else { Fit::Free };
        (fit, fix_ups, Order::Newest(std::cmp::Reverse(connection.idle_since)))
    }
}
