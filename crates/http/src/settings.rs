//! What is set of the door, by now.

use std::time::Duration;

/// What may change while the door is open.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// Operators may log in with their passwords.
    pub basic_auth: bool,
    /// Metrics are for everybody.
    pub metrics_without_login: bool,
    /// Connections at the same time.
    pub max_connections: usize,
    /// The largest body of a request, bytes.
    pub max_body: usize,
    /// How long a request may take to come, and an answer to be taken.
    pub timeout: Duration,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            basic_auth: true,
            metrics_without_login: false,
            max_connections: 64,
            max_body: 256 << 10,
            timeout: Duration::from_secs(30),
        }
    }
}
