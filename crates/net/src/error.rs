//! What can go wrong on a connection, seen from the socket.

use std::io;
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
    #[error("it has no address: it is not a part of the cluster any more")]
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

    /// A short word for metrics.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Io(_) => "io",
            Self::Closed => "closed",
            Self::NoAddress => "no_address",
            Self::TimedOut(_) => "timeout",
            Self::Malformed(_) => "malformed",
            Self::TooLarge(_) => "too_large",
            Self::Tls(_) => "tls",
        }
    }
}
