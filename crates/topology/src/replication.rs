//! What a server says about the replication that it takes part in as a replica.

use std::sync::Arc;
use std::time::Duration;

use crate::identity::Identity;

/// Whether and how a server follows others.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Replication {
    /// It was not asked.
    #[default]
    NotAsked,
    /// The monitor's user may not see it. The server's words.
    Unseen(Arc<str>),
    /// It follows no server.
    Off,
    /// It follows somebody; with several sources, all of them taken together, the worst of each.
    On(Following),
}

/// How a replica follows its source.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Following {
    /// The thread that fetches.
    pub receiver: Receiver,
    /// The thread that applies; `None` if it runs, else why it does not.
    pub applier_stopped: Option<Arc<str>>,
    /// How far it is behind, as it says itself. MySQL and MariaDB know whole seconds, and nothing while they have no source.
    pub lag: Option<Duration>,
    /// Whom it follows, by what it has learnt of them.
    pub sources: Arc<[Identity]>,
}

/// The thread that fetches changes from the source.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Receiver {
    /// It is connected.
    Running,
    /// It looks for its source: what happens when a primary dies.
    Connecting,
    /// Somebody or an error has stopped it. What it says.
    Stopped(Arc<str>),
}

impl Replication {
    /// How far behind it is, if it says so.
    pub fn lag(&self) -> Option<Duration> {
        match self {
            Self::On(following) => following.lag,
            Self::NotAsked | Self::Unseen(_) | Self::Off => None,
        }
    }

    /// True if it follows somebody and both threads work.
    pub fn runs(&self) -> bool {
        matches!(self, Self::On(Following { receiver: Receiver::Running, applier_stopped: None, .. }))
    }
}
