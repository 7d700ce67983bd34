//! What goes on beside a command that is on its way: others ask, or end it, and what passes may be looked at.

use delphinus_clients::Activity;
use delphinus_net::NetError;
use delphinus_pool::Checkout;
use delphinus_topology::BackendId;
use delphinus_wire::response::SessionChanges;

use super::Client;

/// Whoever sends a command says by this what has to be looked at meanwhile.
pub(crate) trait Beside {
    /// By which others reach whoever waits.
    fn activity(&self) -> &Activity;

    /// Somebody wants something of the one that waits for this backend, or a second has gone by. An error if nothing is waited
    /// for any more.
    fn disturbed(
        &mut self,
        client: &Client,
        checkout: Option<&mut Checkout>,
        backend: BackendId,
    ) -> Result<(), Break>;

    /// These bytes are about to go to the client.
    fn passes(&mut self, bytes: &[u8]);

    /// In the place of the packet that comes the client gets another one.
    fn changes(&mut self);

    /// What the client is told of these changes.
    fn told(&self, changes: SessionChanges<'_>) -> Vec<u8>;
}

/// Why a response is not waited for to its end: whose connection broke.
pub(crate) enum Break {
    Client(NetError),
    Backend(NetError),
}

impl<E: Into<NetError>> From<E> for Break {
    fn from(error: E) -> Self {
        Self::Backend(error.into())
    }
}
