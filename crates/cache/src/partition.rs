//! The part of the cache that belongs to one cluster.

use std::sync::Arc;

use crate::store::Cache;

/// One cluster's part: the room is common, the answers are not.
#[derive(Debug, Clone)]
pub struct Partition {
    /// All of it.
    pub cache: Arc<Cache>,
    /// The cluster, in `Asker::cluster`.
    pub cluster: u32,
}
