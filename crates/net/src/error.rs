//! What can go wrong on a connection, seen from the socket.

use std::io;

use delphinus_telemetry::{ErrorKind, Source};
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
}
