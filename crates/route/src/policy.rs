//! What an operator sets about reads: how many the primary takes, and how the replicas share the rest.

use std::time::Duration;

/// How reads are spread. The default is what holds where nothing is set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Policy {
    /// How many of a hundred reads the primary takes: 0 to 100. 100 also stands for `primary_preferred`.
    pub read_primary_percentage: u8,
    /// The percentage was not asked for as such: all reads prefer the primary.
    pub primary_preferred: bool,
    /// Which replica takes the next one.
    pub read_balance: ReadBalance,
    /// For how long after its return a replica has less than its share; zero: not at all.
    pub slow_start: Duration,
}

/// How the replicas share the reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ReadBalance {
    /// In turn, whatever their weights.
    RoundRobin,
    /// In turn, in proportion to their weights.
    #[default]
    Weighted,
    /// The one with the fewest connections in use, in proportion to the weights.
    LeastConnections,
    /// The one that answers soonest (peak EWMA), times its connections in use, in proportion to the weights.
    LeastLatency,
    /// The same one for the same text, in proportion to the weights; what one takes moves only when it comes or goes.
    Hash,
}

impl Default for Policy {
    fn default() -> Self {
        Self {
            read_primary_percentage: 0,
            primary_preferred: false,
            read_balance: ReadBalance::default(),
            slow_start: Duration::ZERO,
        }
    }
}
