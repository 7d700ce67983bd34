//! Commands of the proxy's own that may take as long as a client's statement: to prepare one waits for whoever changes its
//! table. None runs on once its client has gone.

use std::pin::pin;

use delphinus_pool::{Checkout, Doing, PoolError};

use super::Client;
use super::beside::{Beside, Break, while_wanted};
use crate::client_error::ProxyError;

impl Client {
    /// Runs `work` on a backend, watched over as what the client sends itself: by KILL, by the end of the client and by that of
    /// the backend. A connection that is left in the middle of it is closed by whoever drops it.
    pub(crate) async fn attended<T>(
        &self,
        checkout: &mut Checkout,
        work: impl AsyncFnOnce(&mut Checkout) -> Result<T, PoolError>,
        beside: &mut impl Beside,
    ) -> Result<T, ProxyError> {
        checkout.note(Doing::Running);
        let done = match self.wait_for(checkout, work, beside).await {
            Ok(done) => done,
            Err(Break::Client(_)) => {
                if beside.activity().is_killed() {
                    checkout.note(Doing::Killed);
                }
                return Err(ProxyError::ClientGone);
            }
            Err(Break::Backend(error)) => Err(checkout.lost(error)),
        };
        if !matches!(done, Err(PoolError::Lost { .. })) {
            checkout.note(Doing::Nothing);
        }
        done.map_err(ProxyError::Pool)
    }

    async fn wait_for<T>(
        &self,
        checkout: &mut Checkout,
        work: impl AsyncFnOnce(&mut Checkout) -> T,
        beside: &mut impl Beside,
    ) -> Result<T, Break> {
        let (backend, activity) = (checkout.backend(), beside.activity().clone());
        let disturbed = || beside.disturbed(self, None, backend);
        while_wanted(pin!(work(checkout)), &activity, disturbed).await
    }
}
