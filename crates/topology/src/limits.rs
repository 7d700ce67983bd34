//! What a server allows, and what it lets sessions see.

use std::num::NonZeroU32;

/// The limits of one server, as its global variables say.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ServerLimits {
    /// Connections at the same time.
    pub max_connections: u32,
    /// Of these, connections of one user; `None`: no limit.
    pub max_user_connections: Option<NonZeroU32>,
    /// Seconds until an idle connection is closed.
    pub wait_timeout_s: u32,
    /// The same for clients that say they are interactive.
    pub interactive_timeout_s: u32,
    /// Sessions that have set no isolation level read what others have not committed.
    pub reads_uncommitted: bool,
}
