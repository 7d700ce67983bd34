//! The relays of this process that acknowledge to the primary of a cluster, for whoever moves that role.

use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;

use delphinus_monitor::{LeaveTold, PromotionRelays};
use delphinus_net::Place;
use delphinus_topology::BackendId;
use delphinus_topology::promotion::{Relay, RelayId};

use crate::relays::Relays;

/// Those of one cluster.
pub(crate) struct Ackers {
    relays: Rc<Relays>,
    /// The cluster's backends, by their ids.
    places: Vec<Arc<Place>>,
}

impl Ackers {
    pub(crate) fn new(relays: Rc<Relays>, places: Vec<Arc<Place>>) -> Self {
        Self { relays, places }
    }
}

impl PromotionRelays for Ackers {
    fn look<'a>(&'a self, names: &'a [String]) -> Pin<Box<dyn Future<Output = Vec<Relay>> + 'a>> {
        let numbered = names.iter().zip(0..);
        let all = numbered.map(|(name, number)| self.relays.standing(RelayId(number), name)).collect();
        Box::pin(std::future::ready(all))
    }

    fn cut<'a>(&'a self, name: &'a str) -> LeaveTold<'a, String> {
        Box::pin(self.relays.cut(name))
    }

    fn turn<'a>(
        &'a self,
        name: &'a str,
        (to, identity): (BackendId, &'a str),
        epoch: u64,
    ) -> LeaveTold<'a, String> {
        Box::pin(async move {
            let place =
                self.places.get(to.index()).ok_or_else(|| "there is no such backend any more".to_owned())?;
            self.relays.turn(name, (place, identity), epoch).await
        })
    }
}
