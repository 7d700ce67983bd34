//! The clusters as one thread sees them, each with what serves its clients there. Says with `route::ClusterChoice` which one a client
//! gets to, at its login and at COM_CHANGE_USER; a session keeps what it has got, and does not come here with a query.
//!
//! ## Several clusters in one process
//!
//! A process has one or more clusters. Of each there is a monitor (all on the control plane's thread), a snapshot,
//! positions, budgets, `Users` (what is known of passwords that its primary checks), and in each thread a pool, a
//! `session::Worker` and its `ClusterCounters` (what is counted before a client has a cluster is in the thread's
//! `ProcessCounters`); `app/src/cluster.rs` builds and starts them. `route::ClusterChoice` decides once, at login, which
//! one a client gets to (`clients/src/clusters.rs`), and a session keeps its `Worker`: nothing is looked up for a query.
//! COM_CHANGE_USER may put another `Worker` in its place, when the session holds nothing any more. A `BackendId` means
//! something only together with a `ClusterId`: what crosses sessions (`registry`, `admin`) has both. A schema that one
//! cluster claims is checked where a session would enter it: before `USE` and COM_INIT_DB, and after a statement that has
//! changed the schema unseen. What the greeting offers is what all clusters can do that the listener leads to. The
//! configuration reads `[cluster.pool]` and its kin as a table over the one for all (`config/src/parse/cluster.rs`).

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

use delphinus_route::{Arriving, ClusterChoice};
use delphinus_topology::ClusterId;

use crate::listener::ListenerSettings;

/// For each cluster, what serves its clients in this thread.
pub struct Clusters<T> {
    all: Vec<Rc<T>>,
    choice: RefCell<Arc<ClusterChoice>>,
}

/// A schema that a session cannot enter, because another cluster has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Elsewhere {
    /// The schema.
    pub schema: String,
    /// The cluster that has it.
    pub owner: Arc<str>,
    /// The cluster of the session.
    pub own: Arc<str>,
}

impl<T> Clusters<T> {
    /// One for each cluster of the choice, in its order.
    pub fn new(choice: Arc<ClusterChoice>, all: Vec<Rc<T>>) -> Rc<Self> {
        Rc::new(Self { all, choice: RefCell::new(choice) })
    }

    /// Follows another choice between the same clusters. Sessions stay where they are.
    pub fn follow(&self, choice: Arc<ClusterChoice>) {
        self.choice.replace(choice);
    }

    fn choice(&self) -> Arc<ClusterChoice> {
        self.choice.borrow().clone()
    }

    fn get(&self, cluster: ClusterId) -> &Rc<T> {
        &self.all[cluster.index()]
    }

    /// True if it matters which one a client gets to.
    pub fn are_several(&self) -> bool {
        self.all.len() > 1
    }

    /// The name of a cluster.
    pub fn name(&self, cluster: ClusterId) -> Arc<str> {
        self.choice().name(cluster).clone()
    }

    /// The one that speaks for the proxy as long as the client's own is not known.
    pub fn first(&self, listener: &ListenerSettings) -> &Rc<T> {
        self.get(listener.cluster.unwrap_or_default())
    }

    /// All that clients of this listener may get to.
    pub fn behind(&self, listener: &ListenerSettings) -> Vec<&Rc<T>> {
        self.choice().behind(listener.cluster.as_ref()).iter().map(|id| self.get(*id)).collect()
    }

    /// The one that a client gets to.
    pub fn choose(&self, listener: &ListenerSettings, user: &str, schema: Option<&[u8]>) -> &Rc<T> {
        if !self.are_several() {
            return &self.all[0];
        }
        let schema = schema.map(String::from_utf8_lossy);
        let client = Arriving { listener: listener.cluster, user, schema: schema.as_deref() };
        self.get(self.choice().of(client))
    }

    /// An error if the schema that a client begins in is in another cluster than `own`, to which it gets.
    pub fn check_first_schema(
        &self,
        own: ClusterId,
        listener: &ListenerSettings,
        (user, schema): (&str, Option<&[u8]>),
    ) -> Result<(), Elsewhere> {
        let schema = schema.map(String::from_utf8_lossy);
        let client = Arriving { listener: listener.cluster, user, schema: schema.as_deref() };
        self.choice().first_schema(client).map_or(Ok(()), |schema| self.check_schema(own, schema))
    }

    /// An error if the schema is in another cluster than `own`.
    pub fn check_schema(&self, own: ClusterId, schema: &str) -> Result<(), Elsewhere> {
        match self.choice().elsewhere(own, schema) {
            None => Ok(()),
            Some(owner) => {
                Err(Elsewhere { schema: schema.to_owned(), owner: self.name(owner), own: self.name(own) })
            }
        }
    }
}
