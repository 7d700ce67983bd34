//! Commands of the proxy's own that may take as long as a client's statement: to prepare one waits for whoever changes its
//! table. They run in the statement's time, and for nobody once the client has gone.

use std::pin::pin;

use delphinus_net::rt::{self, Either};
use delphinus_pool::{Checkout, Doing, PoolError};

use crate::client_error::ProxyError;
use crate::forward::Break;
use crate::session::Session;

impl Session {
    /// Runs `work` on a backend, watched over as what the client sends itself: by its time limit, by KILL, by the end of the
    /// client and by that of the backend. A connection that is left in the middle of it is closed by whoever drops it.
    pub(crate) async fn watched<T>(
        &mut self,
        checkout: &mut Checkout,
        work: impl AsyncFnOnce(&mut Checkout) -> Result<T, PoolError>,
    ) -> Result<T, ProxyError> {
        let deadline = self.steering.timeout.map(|limit| self.deadline(checkout, limit));
        let done = self.attended(checkout, work).await;
        match deadline {
            Some(deadline) if !matches!(done, Err(ProxyError::ClientGone)) => {
                self.end_own_deadline(deadline, done).await
            }
            _ => done,
        }
    }

    /// The same without the time limit: for what is short, and leaves nobody's connection behind if it does not come to its end.
    pub(crate) async fn attended<T>(
        &mut self,
        checkout: &mut Checkout,
        work: impl AsyncFnOnce(&mut Checkout) -> Result<T, PoolError>,
    ) -> Result<T, ProxyError> {
        checkout.note(Doing::Running);
        let done = match self.wait_for(checkout, work).await {
            Ok(done) => done,
            Err(Break::Client(_)) => {
                if self.activity.is_killed() {
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
        &mut self,
        checkout: &mut Checkout,
        work: impl AsyncFnOnce(&mut Checkout) -> T,
    ) -> Result<T, Break> {
        let backend = checkout.backend();
        let mut work = pin!(work(checkout));
        loop {
            if let Either::First(done) = rt::either(work.as_mut(), self.activity.disturbed()).await {
                return Ok(done);
            }
            self.attend(None);
            self.may_wait(backend)?;
        }
    }
}
