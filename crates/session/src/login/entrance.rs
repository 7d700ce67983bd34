//! Who is let in, what has to be known of a cluster before a client is greeted, and before it gets there; and how long a client
//! waits for that.

use std::net::IpAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use delphinus_clients::{Clusters, Connected, ListenerSettings, Refusal};
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

impl Worker {
    /// An error if the listener's lists of addresses, or the limit on one address, keep a client out before it is greeted.
    pub(super) fn lets_in(
        &self,
        (listener, connected): (&ListenerSettings, &Connected),
        (ip, host): (Option<IpAddr>, &str),
    ) -> Result<(), ProxyError> {
        if !listener.from.admit(ip) {
            self.process.refused_denied.increment();
            tracing::info!(client.host = %host, listener = %listener.name, "client refused: the listener's lists of addresses");
            return Err(ProxyError::HostNotAllowed(host.to_owned()));
        }
        connected.is_from(ip).map_err(|refusal| self.refused(refusal, ("", host)))
    }

    /// What a client is told that a limit keeps out.
    pub(crate) fn refused(&self, refusal: Refusal, (user, host): (&str, &str)) -> ProxyError {
        let (counter, whose) = match refusal {
            Refusal::Clients => (&self.process.refused_clients, ""),
            Refusal::User(_) | Refusal::EveryUser(_) => (&self.process.refused_user, user),
            Refusal::Address(_) => (&self.process.refused_address, host),
        };
        counter.increment();
        tracing::info!(client.host = %host, user, ?refusal, "client refused: a limit on connections");
        ProxyError::TooManyClients(refusal, whose.to_owned())
    }
}
