//! What is known of a statement that is logged.

use std::sync::Arc;
use std::time::SystemTime;

/// A statement that has ended.
#[derive(Debug, Clone)]
pub struct Entry {
    /// When it ended.
    pub ended: SystemTime,
    /// How long it took, in microseconds.
    pub took_us: u64,
    /// Where that time went: place and microseconds.
    pub at_us: [(&'static str, u32); 5],
    /// The user of its session.
    pub user: Arc<str>,
    /// The client's host.
    pub host: String,
    /// The session's id.
    pub session: u32,
    /// The schema that the session was in.
    pub schema: Option<String>,
    /// The number of the error that it ended with; 0: none.
    pub error: u16,
    /// It was ended by KILL or with its client.
    pub was_killed: bool,
    /// Rows of its results.
    pub rows_sent: u64,
    /// Rows that it has changed.
    pub rows_affected: u64,
    /// Bytes of the command.
    pub bytes_received: u64,
    /// Bytes of the answer.
    pub bytes_sent: u64,
    /// The backend that had it; `None`: the proxy answered.
    pub backend: Option<Arc<str>>,
    /// `primary`, `replica` or `proxy`.
    pub route: &'static str,
    /// The hash of its text without literals.
    pub digest: Option<u64>,
    /// Its text, with or without literals.
    pub text: String,
}

impl Entry {
    /// What it takes in the queue, in bytes.
    pub(crate) fn size(&self) -> usize {
        let texts = self.host.len() + self.schema.as_ref().map_or(0, String::len) + self.text.len();
        size_of::<Self>() + texts
    }
}
