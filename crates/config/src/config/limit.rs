//! A limit for clients, as the rest of the product sees it.

use crate::address::Network;
use crate::word::LimitPer;

/// How much clients may do. Conditions that are empty always fit.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Limit {
    /// Unique name.
    pub name: String,
    /// Users.
    pub users: Vec<String>,
    /// Current schemas.
    pub schemas: Vec<String>,
    /// Networks of clients.
    pub clients: Vec<Network>,
    /// Digests.
    pub digests: Vec<u64>,
    /// Places in `Config::clusters`; empty: all.
    pub clusters: Vec<usize>,
    /// What is counted by itself.
    pub per: LimitPer,
    /// Statements in a second.
    pub statements_per_second: Option<u32>,
    /// So many at once after a rest; at least 1.
    pub burst: u32,
    /// Statements at the same time.
    pub concurrency: Option<u32>,
    /// Statements that wait at the same time.
    pub queue: u32,
    /// How long they wait, milliseconds.
    pub queue_timeout_ms: u64,
    /// Rows of one result.
    pub max_rows: Option<u64>,
    /// Bytes of the results of one statement.
    pub max_bytes: Option<u64>,
    /// How long a statement runs, milliseconds.
    pub timeout_ms: Option<u64>,
    /// How long a session does nothing in a transaction, seconds.
    pub idle_in_transaction_timeout_s: Option<u64>,
}
