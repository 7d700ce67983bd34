//! The relays that acknowledge to the primary of a cluster, for whoever moves that role: those of this process, and those of others.

use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;

use delphinus_admin::RemoteRelayRow;
use delphinus_config::RemoteRelay;
use delphinus_monitor::{LeaveTold, PromotionRelays};
use delphinus_net::Address;
use delphinus_net::rt::watch;
use delphinus_topology::BackendId;
use delphinus_topology::promotion::{Relay, RelayId};

use crate::backends::Backends;
use crate::relays::Relays;
use crate::remote_relays::RemoteRelays;

/// Those of one cluster.
pub(crate) struct Ackers {
    relays: Rc<Relays>,
    remote: RemoteRelays,
    backends: Backends,
}

impl Ackers {
    pub(crate) fn new(
        relays: Rc<Relays>,
        remote: watch::Receiver<Arc<[RemoteRelay]>>,
        backends: Backends,
    ) -> Self {
        Self { relays, remote: RemoteRelays::new(remote), backends }
    }

    /// What those of others have answered.
    pub(crate) fn remote_rows(&self) -> Vec<RemoteRelayRow> {
        self.remote.rows()
    }
}

impl PromotionRelays for Ackers {
    fn look<'a>(&'a self, id: RelayId, name: &'a str) -> Pin<Box<dyn Future<Output = Relay> + 'a>> {
        self.remote.forget_removed();
        Box::pin(async move {
            let Some(one) = self.remote.named(name) else { return self.relays.standing(id, name) };
            let backend = |address: &Address| Some(self.backends.at(address)?.name());
            self.remote.look(id, &one, &backend).await
        })
    }

    fn cut<'a>(&'a self, name: &'a str, epoch: u64) -> LeaveTold<'a, String> {
        Box::pin(async move {
            match self.remote.named(name) {
                Some(one) => self.remote.cut(&one, epoch).await,
                None => self.relays.cut(name, epoch).await,
            }
        })
    }

    fn turn<'a>(
        &'a self,
        name: &'a str,
        (to, identity): (BackendId, &'a str),
        epoch: u64,
    ) -> LeaveTold<'a, String> {
        Box::pin(async move {
            let gone = || "there is no such backend any more".to_owned();
            let place = self.backends.place(to).ok_or_else(gone)?;
            let Some(one) = self.remote.named(name) else {
                return self.relays.turn(name, (place, identity), epoch).await;
            };
            let spot = place.spot();
            let address = spot.address.as_ref().ok_or_else(gone)?.to_string();
            self.remote.turn(&one, [&spot.name, &address, identity], epoch).await
        })
    }
}
