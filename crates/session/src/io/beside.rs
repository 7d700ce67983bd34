//! What goes on beside a command that is on its way: others ask, or end it, and what passes may be looked at.

use std::pin::Pin;
use std::sync::Arc;

use delphinus_clients::Activity;
use delphinus_net::NetError;
use delphinus_net::rt::{self, Either};
use delphinus_pool::Checkout;
use delphinus_topology::BackendId;
use delphinus_wire::Capabilities;
use delphinus_wire::response::SessionChanges;

use super::Client;
use super::cut_short::Ending;

/// Whoever sends a command says by this what has to be looked at meanwhile.
pub(crate) trait Beside {
    /// By which others reach whoever waits.
    fn activity(&self) -> &Arc<Activity>;

    /// Somebody wants something of the one that waits for this backend, or a second has gone by. An error if nothing is waited
    /// for any more.
    fn disturbed(
        &mut self,
        client: &Client,
        checkout: Option<&mut Checkout>,
        backend: BackendId,
    ) -> Result<(), Break>;

    /// True if a result with so many rows, and so many bytes by now, is larger than its client may have.
    fn is_too_large(&mut self, rows: u64, bytes: u64) -> bool;

    /// Ends the statement that runs on this connection.
    fn ends_statement(&self, checkout: &mut Checkout) -> Ending;

    /// The packet that tells which limit was reached, with this number.
    fn error_of_limit(&self, seq: u8, client: Capabilities) -> Vec<u8>;

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

/// Waits for `work`. Each time that somebody wants something of the one that waits, and once a second, `disturbed` sees to it, and
/// fails if the work is not waited for any more.
// Pinned by the caller: a future that is handed over takes its room twice.
pub(crate) async fn while_wanted<T>(
    mut work: Pin<&mut impl Future<Output = T>>,
    activity: &Activity,
    mut disturbed: impl FnMut() -> Result<(), Break>,
) -> Result<T, Break> {
    loop {
        if let Either::First(done) = rt::either(work.as_mut(), activity.disturbed()).await {
            return Ok(done);
        }
        disturbed()?;
    }
}

impl<E: Into<NetError>> From<E> for Break {
    fn from(error: E) -> Self {
        Self::Backend(error.into())
    }
}
