//! What has to be known of a cluster before a client is greeted, and before it gets there; and how long a client waits for that.

use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use delphinus_clients::{Clusters, ListenerSettings};
use delphinus_net::rt;
use delphinus_topology::{ServerFacts, Snapshot};
use delphinus_wire::Capabilities;
use delphinus_wire::handshake::server::LoginOutcome;

use super::greeting::SHARED;
use crate::client_error::ProxyError;
use crate::worker::Worker;

/// How long a client waits for the first word of any backend before it is refused.
const FIRST_CONTACT: Duration = Duration::from_secs(8);

/// For clients that have not logged in: the server's own words, with names of users and hosts, are in the log.
const NO_MONITOR: &str = "the monitor's user cannot log in to any backend: see the proxy's log";

/// What a client is greeted with before anybody knows which cluster it gets to.
pub(super) struct Entrance {
    /// The cluster whose version and collation it is told.
    pub(super) snapshot: Arc<Snapshot>,
    /// What all clusters can do that it may get to.
    pub(super) capabilities: Capabilities,
}

/// Where a client gets to.
pub(crate) struct Destination {
    pub(crate) worker: Rc<Worker>,
    pub(crate) facts: Arc<ServerFacts>,
}

/// Waits until enough is known for a greeting. Where a client may get to several clusters, one that does not answer
/// keeps nobody out of the others.
///
/// # Errors
/// Why nothing is known.
pub(super) async fn entrance(
    clusters: &Clusters<Worker>,
    listener: &ListenerSettings,
) -> Result<Entrance, ProxyError> {
    let first = clusters.first(listener);
    let behind = clusters.behind(listener);
    let known = || behind.iter().filter_map(|worker| worker.outlook.facts_now());
    let look = async {
        if behind.len() > 1 {
            first.outlook.news(|snapshot| snapshot.facts.is_some() || snapshot.settled).await;
            let other = known().next();
            if first.outlook.facts_now().is_none() && other.is_some() {
                return other;
            }
        }
        first.outlook.facts_known().await
    };
    let not_reached = || ProxyError::NoBackend("no backend has been reached yet".into());
    let snapshot = rt::timeout(FIRST_CONTACT, look).await.flatten().ok_or_else(not_reached)?;
    if snapshot.why_unknown().is_some() {
        return Err(ProxyError::NoBackend(NO_MONITOR.into()));
    }
    let offered = known().map(|snapshot| snapshot.common_capabilities());
    let capabilities = offered.reduce(|all, one| all & one).ok_or_else(not_reached)?;
    Ok(Entrance { snapshot, capabilities })
}

/// Where a client whose password was right gets to, or why it cannot be there.
pub(crate) async fn destination(
    clusters: &Clusters<Worker>,
    listener: &ListenerSettings,
    outcome: &LoginOutcome,
) -> Result<Destination, ProxyError> {
    let (user, schema) = (outcome.user.as_str(), outcome.schema.as_deref());
    let worker = clusters.choose(listener, user, schema).clone();
    clusters.check_first_schema(worker.cluster, listener, (user, schema))?;
    let name = || clusters.name(worker.cluster);
    let Some(snapshot) = rt::timeout(FIRST_CONTACT, worker.outlook.facts_known()).await.flatten() else {
        let why = format!("no backend of cluster '{}' has been reached yet", name());
        return Err(ProxyError::NoBackend(why));
    };
    if snapshot.why_unknown().is_some() {
        return Err(ProxyError::NoBackend(NO_MONITOR.into()));
    }
    let agreed = outcome.connection.capabilities & SHARED;
    if clusters.are_several() && !snapshot.common_capabilities().contains(agreed) {
        // It was greeted before anybody knew these servers.
        let why =
            format!("the proxy has only now reached the servers of cluster '{}': connect again", name());
        return Err(ProxyError::NoBackend(why));
    }
    let facts =
        snapshot.facts.clone().ok_or_else(|| ProxyError::NoBackend("no server is known yet".into()))?;
    Ok(Destination { worker, facts })
}
