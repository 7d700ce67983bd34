//! Where a session finds the connections again that it had before.

use delphinus_pool::Seat;
use delphinus_topology::BackendId;

/// Where the session left its connection on each backend.
#[derive(Debug, Default)]
pub(crate) struct Seats(Vec<Option<Seat>>);

impl Seats {
    /// Where the connection is; it stays there.
    #[inline]
    pub(crate) fn find(&self, backend: BackendId) -> Option<Seat> {
        *self.0.get(backend.index())?
    }

    #[inline]
    pub(crate) fn take(&mut self, backend: BackendId) -> Option<Seat> {
        self.0.get_mut(backend.index())?.take()
    }

    /// Empties all seats.
    pub(crate) fn take_all(&mut self) -> Vec<(BackendId, Seat)> {
        let seats = std::mem::take(&mut self.0);
        (0u16..).map(BackendId).zip(seats).filter_map(|(backend, seat)| Some((backend, seat?))).collect()
    }

    #[inline]
    pub(crate) fn put(&mut self, backend: BackendId, seat: Option<Seat>) {
        if self.0.len() <= backend.index() {
            self.0.resize(backend.index() + 1, None);
        }
        self.0[backend.index()] = seat;
    }
}
