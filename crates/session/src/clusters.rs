//! The clusters as one thread sees them: a worker for each. Decides with `route::ClusterChoice` which one a client gets to,
//! at its login and at COM_CHANGE_USER; a session keeps its worker from then on, and nobody comes here with a query.

use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use delphinus_net::rt;
use delphinus_route::{Arriving, ClusterChoice};
use delphinus_topology::{ClusterId, ServerFacts, Snapshot};
use delphinus_wire::Capabilities;
use delphinus_wire::handshake::server::LoginOutcome;

use crate::client_error::ProxyError;
use crate::login::SHARED;
use crate::worker::{ListenerSettings, Worker};

/// How long a client waits for the first word of any backend before it is refused.
const FIRST_CONTACT: Duration = Duration::from_secs(8);

/// For clients that have not logged in: the server's own words, with names of users and hosts, are in the log.
const NO_MONITOR: &str = "no backend lets the monitor's user in: the proxy's log says more";

/// The workers of one thread.
pub struct Clusters {
    workers: Vec<Rc<Worker>>,
    choice: Arc<ClusterChoice>,
}

/// What a client is greeted with before anybody knows which cluster it gets to.
pub(crate) struct Entrance {
    /// The cluster whose version and collation it is told.
    pub(crate) snapshot: Arc<Snapshot>,
    /// What all clusters can do that it may get to.
    pub(crate) capabilities: Capabilities,
}

/// Where a client gets to.
pub(crate) struct Destination {
    pub(crate) worker: Rc<Worker>,
    pub(crate) facts: Arc<ServerFacts>,
}

impl Clusters {
    /// One worker for each cluster of the choice, in its order.
    pub fn new(choice: Arc<ClusterChoice>, workers: Vec<Rc<Worker>>) -> Rc<Self> {
        Rc::new(Self { workers, choice })
    }

    fn worker(&self, cluster: ClusterId) -> &Rc<Worker> {
        &self.workers[cluster.index()]
    }

    fn are_several(&self) -> bool {
        self.workers.len() > 1
    }

    /// The one that speaks for the proxy as long as the client's own is not known.
    pub(crate) fn first(&self, listener: &ListenerSettings) -> &Rc<Worker> {
        self.worker(listener.cluster.unwrap_or_default())
    }

    /// The one that a client gets to.
    pub(crate) fn choose(
        &self,
        listener: &ListenerSettings,
        user: &str,
        schema: Option<&[u8]>,
    ) -> &Rc<Worker> {
        if !self.are_several() {
            return &self.workers[0];
        }
        let schema = schema.map(String::from_utf8_lossy);
        let client = Arriving { listener: listener.cluster, user, schema: schema.as_deref() };
        self.worker(self.choice.of(client))
    }

    /// Waits until enough is known for a greeting. Where a client may get to several clusters, one that does not answer
    /// keeps nobody out of the others.
    ///
    /// # Errors
    /// Why nothing is known.
    pub(crate) async fn entrance(&self, listener: &ListenerSettings) -> Result<Entrance, ProxyError> {
        let first = self.first(listener);
        let behind = self.choice.behind(listener.cluster.as_ref());
        let known = || behind.iter().filter_map(|id| self.worker(*id).outlook.facts_now());
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
        &self,
        listener: &ListenerSettings,
        outcome: &LoginOutcome,
    ) -> Result<Destination, ProxyError> {
        let worker = self.choose(listener, &outcome.user, outcome.schema.as_deref()).clone();
        let schema = outcome.schema.as_deref().map(String::from_utf8_lossy);
        let client = Arriving { listener: listener.cluster, user: &outcome.user, schema: schema.as_deref() };
        if let Some(schema) = self.choice.first_schema(client) {
            self.check_schema(worker.cluster, schema)?;
        }
        let Some(snapshot) = rt::timeout(FIRST_CONTACT, worker.outlook.facts_known()).await.flatten() else {
            let name = self.choice.name(worker.cluster);
            return Err(ProxyError::NoBackend(format!(
                "no backend of cluster '{name}' has been reached yet"
            )));
        };
        if snapshot.why_unknown().is_some() {
            return Err(ProxyError::NoBackend(NO_MONITOR.into()));
        }
        let agreed = outcome.connection.capabilities & SHARED;
        if self.are_several() && !snapshot.common_capabilities().contains(agreed) {
            // It was greeted before anybody knew these servers.
            let name = self.choice.name(worker.cluster);
            let why = format!("the servers of cluster '{name}' have just become known: connect again");
            return Err(ProxyError::NoBackend(why));
        }
        let facts = snapshot.facts.clone().ok_or_else(|| ProxyError::NoBackend("nothing is known".into()))?;
        Ok(Destination { worker, facts })
    }

    /// An error if the schema is in another cluster than `own`.
    pub(crate) fn check_schema(&self, own: ClusterId, schema: &str) -> Result<(), ProxyError> {
        match self.choice.elsewhere(own, schema) {
            None => Ok(()),
            Some(owner) => Err(ProxyError::OtherCluster {
                schema: schema.to_owned(),
                owner: self.choice.name(owner).clone(),
                own: self.choice.name(own).clone(),
            }),
        }
    }
}
