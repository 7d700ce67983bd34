//! What clients did, what they were told, and what was there in the end. Values alone: nothing here talks to anybody.

/// What a client was told of its write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// Acknowledged: it has to be there.
    Ok,
    /// An error that says that nothing happened: it must not be there.
    Failed,
    /// An error that says that nobody knows, or a connection that ended: both are right.
    Unknown,
}

/// A value that was appended to a list. Each value is written by one statement of one client only.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Write {
    /// The session, that is, one connection of a client.
    pub session: u32,
    /// Writes of one transaction share it.
    pub transaction: u64,
    /// Which list.
    pub list: u32,
    /// What was appended.
    pub value: u64,
    /// When the statement was sent, in microseconds of the run.
    pub begin_us: u64,
    /// When its end, or the transaction's, was told.
    pub end_us: u64,
    /// What was told.
    pub outcome: Outcome,
}

/// A list as a session has read it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Read {
    /// The session.
    pub session: u32,
    /// Which list.
    pub list: u32,
    /// When it was asked for, in microseconds of the run.
    pub begin_us: u64,
    /// All that was in it.
    pub values: Vec<u64>,
}

/// A row that a server has: a value, and the server that took the write.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Row {
    /// Which list.
    pub list: u32,
    /// What was appended.
    pub value: u64,
    /// `@@server_id` of the server that ran the statement.
    pub server: u32,
}

/// All of one run, in which each server is the primary at most once.
#[derive(Debug, Clone, Default)]
pub struct History {
    /// In the order of each session.
    pub writes: Vec<Write>,
    /// In the order of each session.
    pub reads: Vec<Read>,
    /// What the primary has in the end.
    pub last: Vec<Row>,
    /// What other servers have in the end and the primary has not.
    pub strays: Vec<Row>,
}
