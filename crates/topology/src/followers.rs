//! Who replicates from a server, as that one says itself: `SHOW REPLICAS`.

use std::sync::Arc;

/// The replicas that a server knows of.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Followers {
    /// It was not asked.
    #[default]
    NotAsked,
    /// The monitor's user may not see them. The server's words.
    Unseen(Arc<str>),
    /// These, in the order of their ids; those that replicate from a replica are not among them.
    Known(Arc<[Follower]>),
}

/// One that replicates from the server that tells.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Follower {
    /// Its `server_uuid` in lower case, or its `server_id` where it has no other: see [`crate::Identity::name`].
    pub id: Arc<str>,
    /// Where it may be reached: host and port as it tells itself, else all places where it may be by what the server sees of
    /// those that replicate from it.
    pub addresses: Vec<Arc<str>>,
}

impl Followers {
    /// Those that are known, if any can be.
    pub fn known(&self) -> Option<&[Follower]> {
        match self {
            Self::Known(all) => Some(all),
            Self::NotAsked | Self::Unseen(_) => None,
        }
    }
}
