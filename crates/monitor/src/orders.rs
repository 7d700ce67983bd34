//! What follows from the decisions for the probes of one backend.

use std::cell::Cell;
use std::net::IpAddr;

use delphinus_topology::{Backend, Kind, Role, Snapshot};

/// Told by the loop that decides, obeyed by the task of the backend.
#[derive(Debug, Default)]
pub(crate) struct Orders {
    /// It is a backend of the cluster.
    pub(crate) is_present: Cell<bool>,
    /// There is no usable primary, and this one may become it: it is looked at more often.
    pub(crate) hurry: Cell<bool>,
    /// It has lost its place as the primary, and still takes writes.
    pub(crate) is_fenced: Cell<bool>,
    /// It has the role of the primary.
    pub(crate) is_primary: Cell<bool>,
    /// And lives.
    pub(crate) is_writer: Cell<bool>,
    /// Told by the probe: the address of the last server that let it in.
    pub(crate) reached: Cell<Option<IpAddr>>,
}

impl Orders {
    /// Takes in how things are now; true if it has to hurry, or to be looked at, and had not before.
    pub(crate) fn update(&self, backend: &Backend, kind: Kind, has_writer: bool) -> bool {
        self.is_fenced.set(backend.is_fenced());
        let is_primary = backend.role == Role::Primary;
        self.is_primary.set(is_primary);
        self.is_writer.set(is_primary && has_writer);
        let may_be_next = kind != Kind::Static || is_primary;
        let hurry = !has_writer && may_be_next && !backend.is_offline() && backend.origin.is_present();
        let is_present = backend.origin.is_present();
        let is_new = !self.is_present.replace(is_present) && is_present;
        !self.hurry.replace(hurry) && hurry || is_new
    }
}

/// True if there is a primary that can be used. One that an operator has taken out of use is not missed.
pub(crate) fn has_writer(snapshot: &Snapshot) -> bool {
    snapshot.primary().is_some_and(|primary| primary.is_up() || primary.is_offline())
}
