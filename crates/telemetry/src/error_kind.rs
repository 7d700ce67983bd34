//! The kinds of errors that are counted, and what those who meet one may ask of it: each error type says its own kind, and whether it
//! may be tried again.

/// The kind of an error, which is its label in `delphinus_errors_total`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ErrorKind {
    /// The client has gone, or its connection broke.
    ClientLost,
    /// What the client has sent makes no sense, or is too large.
    ClientProtocol,
    /// The client took too long.
    ClientTimeout,
    /// No backend takes the command: none can be reached, or it refuses the login.
    BackendUnreachable,
    /// The connection to the backend broke.
    BackendLost,
    /// What the backend has sent makes no sense.
    BackendProtocol,
    /// No connection of the pool became free in time.
    PoolTimeout,
    /// The proxy does not run it.
    Proxy,
}

/// Whose fault it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Source {
    /// The client's, or its network's.
    Client,
    /// The backend's, or its network's.
    Backend,
    /// The proxy's own: a limit, a rule, a refusal.
    Proxy,
}

/// Whether what failed may be tried again as it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Retry {
    /// No: it would fail again, or it may have been done.
    Never,
    /// At once, on another connection: this one was kept from before, and had broken meanwhile.
    IfReused,
    /// Yes, later or elsewhere: nothing has happened.
    Always,
}

impl ErrorKind {
    /// The labels, in the order of the kinds.
    pub const LABELS: &[&str] = &[
        "client_lost",
        "client_protocol",
        "client_timeout",
        "backend_unreachable",
        "backend_lost",
        "backend_protocol",
        "pool_timeout",
        "proxy",
    ];

    /// The word for it in metrics and logs.
    pub fn label(self) -> &'static str {
        Self::LABELS[self as usize]
    }

    /// Whose fault it is.
    pub fn source(self) -> Source {
        match self {
            Self::ClientLost | Self::ClientProtocol | Self::ClientTimeout => Source::Client,
            Self::BackendUnreachable | Self::BackendLost | Self::BackendProtocol => Source::Backend,
            Self::PoolTimeout | Self::Proxy => Source::Proxy,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_those_of_their_kinds() {
        assert_eq!(ErrorKind::Proxy as usize + 1, ErrorKind::LABELS.len());
        for (kind, label) in [
            (ErrorKind::ClientLost, "client_lost"),
            (ErrorKind::BackendUnreachable, "backend_unreachable"),
            (ErrorKind::BackendProtocol, "backend_protocol"),
            (ErrorKind::PoolTimeout, "pool_timeout"),
            (ErrorKind::Proxy, "proxy"),
        ] {
            assert_eq!(kind.label(), label);
        }
    }
}
