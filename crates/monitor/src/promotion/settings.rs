//! How the proxy moves the primary's role: `[cluster.failover]`, by now.

use std::sync::Arc;
use std::time::Duration;

use delphinus_topology::promotion::{Limits, OnLoss};
use delphinus_wire::auth::Password;

/// A user and its password.
#[derive(Debug, Clone)]
pub struct Account {
    /// Its name.
    pub user: String,
    /// Its password.
    pub password: Password,
}

/// What is set of it.
#[derive(Debug, Clone)]
pub struct PromotionSettings {
    /// As whom the proxy acts on the servers.
    pub account: Account,
    /// As whom replicas log in to the primary, where they have not been told before.
    pub replication: Account,
    /// A lost primary is replaced without an operator.
    pub is_auto: bool,
    /// How long what may take.
    pub limits: Limits,
    /// How long one statement to a server may take.
    pub step: Duration,
    /// How long a program of the operators may take.
    pub hook: Duration,
    /// So long a primary may be away before it is lost.
    pub patience: Duration,
    /// So long after a failover the proxy does nothing by itself.
    pub pause: Duration,
    /// What happens when something acknowledged may be lost.
    pub on_loss: OnLoss,
    /// Names of the relays that acknowledge.
    pub relays: Arc<[String]>,
    /// Names of backends that take the role first.
    pub prefer: Arc<[String]>,
    /// Names of those that never do.
    pub never: Arc<[String]>,
}
