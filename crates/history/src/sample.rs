//! One sample: what all active sessions did at one moment.

use std::sync::Arc;

/// What all active sessions did at one moment.
#[derive(Debug, Clone, Default)]
pub struct Sample {
    /// When, in seconds since 1970.
    pub at: i64,
    /// A row for each session, and rows of the rest.
    pub rows: Vec<Row>,
}

/// What one session did, or several together.
#[derive(Debug, Clone, Default)]
pub struct Row {
    /// The session's id; `None`: a row of the rest.
    pub session: Option<u32>,
    /// How many sessions it stands for.
    pub sessions: u32,
    /// The number of the command in its session.
    pub command: u32,
    /// The user.
    pub user: Option<Arc<str>>,
    /// Where the client comes from.
    pub client: Option<Arc<str>>,
    /// The cluster.
    pub cluster: Option<Arc<str>>,
    /// The schema.
    pub schema: Option<Arc<str>>,
    /// The digest of the statement.
    pub digest: Option<u64>,
    /// What kind of command it is.
    pub kind: Option<&'static str>,
    /// What the session did.
    pub state: &'static str,
    /// What it waited for.
    pub wait_class: Option<&'static str>,
    /// What exactly.
    pub wait_event: Option<&'static str>,
    /// The backend.
    pub backend: Option<Arc<str>>,
    /// The connection there.
    pub backend_thread: Option<u32>,
    /// Why it ran there.
    pub route: Option<&'static str>,
    /// Why it kept its connection.
    pub pin: Option<&'static str>,
    /// For how long it had been in this state.
    pub in_state_us: u64,
    /// For how long the command had run; of the rest the longest.
    pub in_command_us: u64,
    /// The age of its transaction.
    pub transaction_us: Option<u64>,
}

impl Sample {
    /// What it takes in memory, about.
    pub(crate) fn size(&self) -> usize {
        size_of::<Self>() + self.rows.len() * (size_of::<Row>() + 64)
    }
}
