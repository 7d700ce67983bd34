//! What can go wrong on a connection, seen from the socket.

use std::io;

use delphinus_telemetry::{ErrorKind, Retry, Source};
use delphinus_wire::error_code;
use thiserror::Error;

/// A connection's failure.
#[derive(Debug, Error)]
pub enum NetError {
    /// The operating system said no.
    #[error("{0}")]
    Io(#[from] io::Error),
    /// The other side closed the connection.
    #[error("connection closed by the peer")]
    Closed,
    /// Nothing came in time.
    #[error("timed out after {0} ms")]
    TimedOut(u64),
    /// It is in no place where it could be reached.
    #[error("the backend has no address: it has left the cluster")]
    NoAddress,
    /// The bytes break the protocol.
    #[error("{0}")]
    Malformed(#[from] delphinus_wire::Malformed),
    /// A packet is longer than allowed at this point.
    #[error("packet of {0} bytes is longer than allowed here")]
    TooLarge(usize),
    /// TLS could not be agreed or its records are broken.
    #[error("TLS: {0}")]
    Tls(String),
}

impl NetError {
    /// True if the other side just went away: nothing that a human must look at.
    pub fn is_gone(&self) -> bool {
        match self {
            Self::Closed => true,
            Self::Io(error) => matches!(
                error.kind(),
                io::ErrorKind::ConnectionReset
                    | io::ErrorKind::BrokenPipe
                    | io::ErrorKind::UnexpectedEof
                    | io::ErrorKind::ConnectionAborted
            ),
            _ => false,
        }
    }

    /// Its kind, on a connection to this side.
    pub fn kind(&self, of: Source) -> ErrorKind {
        let is_client = of == Source::Client;
        match self {
            Self::TimedOut(_) if is_client => ErrorKind::ClientTimeout,
            Self::Io(_) | Self::Closed | Self::NoAddress | Self::TimedOut(_) => {
                if is_client {
                    ErrorKind::ClientLost
                } else {
                    ErrorKind::BackendLost
                }
            }
            Self::Malformed(_) | Self::TooLarge(_) | Self::Tls(_) => {
                if is_client {
                    ErrorKind::ClientProtocol
                } else {
                    ErrorKind::BackendProtocol
                }
            }
        }
    }

    /// Whether what the connection was for may be tried again, where nothing was sent on it that may have been done.
    pub fn retry(&self) -> Retry {
        match self {
            // A kept connection may have broken, or be out of step, where a new one is not.
            Self::Io(_) | Self::Closed | Self::TimedOut(_) | Self::Malformed(_) | Self::TooLarge(_) => {
                Retry::IfReused
            }
            // It may come back to the cluster.
            Self::NoAddress => Retry::Always,
            // The two sides are set up so.
            Self::Tls(_) => Retry::Never,
        }
    }
}

/// Whether what a backend has refused may be tried again, by the number of its error: only where it has no room, or stops.
pub fn retry_after_refusal(code: u16) -> Retry {
    match code {
        error_code::ER_SERVER_SHUTDOWN | error_code::ER_HOST_IS_BLOCKED => Retry::Always,
        code if error_code::is_full(code) => Retry::Always,
        _ => Retry::Never,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is tried again for nothing costs a login each time; what is not tried again costs a client an error.
    #[test]
    fn what_may_pass_is_tried_again() {
        for (error, retry) in [
            (NetError::Closed, Retry::IfReused),
            (NetError::TimedOut(1), Retry::IfReused),
            (NetError::TooLarge(1), Retry::IfReused),
            (NetError::NoAddress, Retry::Always),
            (NetError::Tls("unknown issuer".to_owned()), Retry::Never),
        ] {
            assert_eq!(error.retry(), retry, "{error:?}");
        }
        for (code, retry) in [
            (error_code::ER_SERVER_SHUTDOWN, Retry::Always),
            (error_code::ER_CON_COUNT_ERROR, Retry::Always),
            (error_code::ER_ACCESS_DENIED_ERROR, Retry::Never),
        ] {
            assert_eq!(retry_after_refusal(code), retry, "{code}");
        }
    }
}
