//! How commands end.

use delphinus_net::NetError;

use crate::client_error::ProxyError;

/// How a command ended.
#[derive(Debug)]
pub(crate) enum Served {
    /// The client has its answer; the session goes on.
    Answered,
    /// The client gets this error; the session goes on.
    Error(ProxyError),
    /// The client gets this error, and the session ends: its state cannot be told or kept any more.
    Fatal(ProxyError),
    /// The session ends.
    End,
}

/// Commands end with an answer, or with the end of the client.
pub(crate) type Outcome = Result<Served, NetError>;

impl Served {
    /// The client gets this error; the session ends if it cannot go on.
    pub(crate) fn refused(error: ProxyError) -> Self {
        if error.ends_session() { Self::Fatal(error) } else { Self::Error(error) }
    }
}
