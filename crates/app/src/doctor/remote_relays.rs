//! What relays of other processes say of themselves to the operators that moves log in as.

use delphinus_config::Config;
use delphinus_doctor::RemoteRelay;
use delphinus_net::rt::{self, watch};

use crate::remote_relays::RemoteRelays;
use crate::switching;

/// Asks all of them, all at the same time.
pub(super) async fn look_at_all(config: &Config) -> Vec<RemoteRelay> {
    let mut found = Vec::new();
    for (cluster, of) in config.clusters.iter().enumerate() {
        let sections = switching::remote_relays(of);
        let relays = RemoteRelays::new(watch::channel(sections.clone()).1);
        let asked = sections.iter().map(|one| Box::pin(relays.fence(one)) as _).collect();
        let answers = rt::all(asked).await;
        found.extend(answers.into_iter().enumerate().map(|(relay, answer)| RemoteRelay {
            cluster,
            relay,
            answer,
        }));
    }
    found
}
