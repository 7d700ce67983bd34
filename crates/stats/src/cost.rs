//! What one statement has cost.

/// Where a statement spends its time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// It waits for its turn: limits, a pause, a primary, a replica that has to catch up.
    Queue,
    /// It waits for a backend connection.
    Pool,
    /// The proxy brings the connection into the session's state.
    Sync,
    /// The backend has it.
    Backend,
    /// The client takes its answer.
    Client,
}

impl Place {
    /// All of them.
    pub const ALL: [Self; 5] = [Self::Queue, Self::Pool, Self::Sync, Self::Backend, Self::Client];

    /// The word in tables, metrics and logs.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Queue => "queue",
            Self::Pool => "pool",
            Self::Sync => "sync",
            Self::Backend => "backend",
            Self::Client => "client",
        }
    }
}

/// What one statement has cost.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Cost {
    /// From when the proxy had read the command until it had written the last of the answer, in microseconds.
    pub total_us: u64,
    /// How much of that was spent where, in microseconds, in the order of [`Place::ALL`].
    pub at_us: [u32; Place::ALL.len()],
    /// Rows of all results.
    pub rows_sent: u64,
    /// Rows that it has changed.
    pub rows_affected: u64,
    /// Bytes of the command.
    pub bytes_received: u64,
    /// Bytes of the answer.
    pub bytes_sent: u64,
    /// It ended with an error.
    pub has_failed: bool,
}

impl Cost {
    /// How much was spent there, in microseconds.
    pub fn at(&self, place: Place) -> u32 {
        self.at_us[place as usize]
    }
}
