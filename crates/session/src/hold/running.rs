//! A statement that runs on a backend, as whoever ends it there knows it: by a connection of its own, and after a last look.

use std::rc::Rc;

use delphinus_clients::ClientConnId;
use delphinus_net::rt;
use delphinus_pool::{Checkout, Identity, Pool, Thread};
use delphinus_topology::BackendId;

use super::Held;

/// What has to be known to end it.
pub(crate) struct Running {
    session: ClientConnId,
    pool: Rc<Pool>,
    identity: Rc<Identity>,
    place: (BackendId, Thread),
}

impl Running {
    /// KILL QUERY, if `still_runs` says so once the way to the backend is open: it may have ended meanwhile, and its connection may run
    /// somebody else's statement. `failed` is what the log says where it could not be ended.
    pub(crate) async fn end(self, still_runs: impl Fn() -> bool, failed: &'static str) {
        let Self { session, pool, identity, place: (backend, thread) } = self;
        let last_look = || still_runs().then_some(thread);
        if let Err(error) = pool.kill_query_if(backend, &identity, last_look).await {
            tracing::warn!(session.id = session.0, %error, "{failed}");
        }
    }
}

impl Held {
    /// What the session runs on this connection.
    pub(crate) fn running_on(&self, checkout: &mut Checkout) -> Running {
        self.running((checkout.backend(), checkout.connection().thread()))
    }

    fn running(&self, place: (BackendId, Thread)) -> Running {
        let (pool, identity) = (self.source.pool.clone(), self.identity.clone());
        Running { session: self.activity.id, pool, identity, place }
    }

    /// Ends on its backend what the session runs there; in the background.
    pub(crate) fn end_statement(&self) {
        let Some(place) = self.activity.place() else { return };
        let (running, activity) = (self.running(place), self.activity.clone());
        rt::spawn_local(async move {
            let still_runs = || activity.still_on(place).is_some();
            running.end(still_runs, "an operator's KILL has not reached the backend").await;
        });
    }
}
