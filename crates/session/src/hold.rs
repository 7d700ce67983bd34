//! The connections of one session: those that it finds again, the one that it is held to, and by what it gets others.

mod seats;

use std::rc::Rc;
use std::sync::Arc;

use delphinus_pool::{Checkout, Epoch, Identity, Keys, Memory};
use delphinus_topology::BackendId;

pub(crate) use seats::Seats;

/// What a session has of the pool.
pub(crate) struct Held {
    pub seats: Seats,
    /// The connection that the session is pinned to.
    pub bound: Option<Checkout>,
    pub identity: Rc<Identity>,
    /// What the identity logs in to backends with: kept alive by its sessions.
    pub keys: Arc<Keys>,
    /// The epoch of its login: it gets no connection with older rights.
    pub rights: Epoch,
    pub memory: Rc<Memory>,
    /// Where the last statement ran.
    pub last_backend: Option<BackendId>,
    /// Where the connection of the statement that runs has broken last.
    pub broke_on: Option<BackendId>,
}
