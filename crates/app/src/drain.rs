//! Stopping without dropping work: no new clients, idle sessions end, running commands and open transactions
//! finish, up to a deadline.

use std::sync::Arc;
use std::time::Duration;

use delphinus_clients::Registry;
use delphinus_net::rt::{self, watch};

/// Waits until all clients are gone, or `limit` is over; says which.
pub(crate) async fn drain(registry: &Arc<Registry>, stopping: &watch::Sender<bool>, limit: Duration) -> bool {
    stopping.send_replace(true);
    let deadline = rt::now() + limit;
    while registry.connected() > 0 && rt::now() < deadline {
        // Again each time: a session may have come to its end of a transaction in between.
        registry.list().iter().for_each(|session| session.disturb());
        rt::sleep(Duration::from_millis(20)).await;
    }
    registry.connected() == 0
}
