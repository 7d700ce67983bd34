//! How the proxy moves the primary's role itself.

use std::path::PathBuf;

use crate::address::BackendAddress;
use crate::secret::Secret;
use crate::word::OnLoss;

/// As whom it acts, and how.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Failover {
    /// As whom it acts on the servers.
    pub account: Account,
    /// As whom an old primary follows the new one.
    pub replication: Account,
    /// A lost primary is replaced without an operator.
    pub auto_failover: bool,
    /// What happens when something acknowledged may be lost.
    pub on_loss: OnLoss,
    /// Relays that acknowledge: names of `[[relay]]` of this file, and of those of other processes.
    pub relays: Vec<String>,
    /// Those of other processes.
    pub remote_relays: Vec<RemoteRelay>,
    /// How long a primary may be away, milliseconds.
    pub detect_ms: u64,
    /// How long nothing is done without an operator after a failover, seconds.
    pub pause_s: u64,
    /// How long open transactions may go on, milliseconds.
    pub transaction_wait_ms: u64,
    /// How long a candidate may take to catch up, milliseconds.
    pub catch_up_ms: u64,
    /// How long replicas that acknowledge are waited for, milliseconds.
    pub acker_wait_ms: u64,
    /// How long a step may take, milliseconds.
    pub step_timeout_ms: u64,
    /// Folder with the operators' programs.
    pub hook_folder: Option<PathBuf>,
    /// How long one of them may take, milliseconds.
    pub hook_timeout_ms: u64,
    /// Backends that take the role first.
    pub prefer: Vec<String>,
    /// Backends that never take it.
    pub never: Vec<String>,
}

/// A relay of another process, which is asked and told over the admin listener there.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct RemoteRelay {
    /// Its name there.
    pub name: String,
    /// The admin listener.
    pub address: BackendAddress,
    /// The operator.
    pub user: String,
    /// The operator's password.
    pub password: Secret,
    /// Authorities that the listener's certificate comes from.
    pub tls_ca: Option<PathBuf>,
}

/// A user and its password.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Account {
    /// Its name.
    pub user: String,
    /// Its password; empty for none.
    pub password: Secret,
}
