//! Why a client does not get a backend connection, or not one in its state.

use std::sync::Arc;

use delphinus_net::{NetError, retry_after_refusal};
use delphinus_telemetry::{ErrorKind, Retry, Source};
use delphinus_wire::error_code;
use delphinus_wire::response::ErrPacket;
use thiserror::Error;

use crate::budget::Full;

/// A failure to provide a connection.
#[derive(Debug, Error)]
pub enum PoolError {
    /// All connections are in use, and none came back in time.
    #[error("{} are in use; waited {waited_ms} ms ({})", of_all(backend, *full), full.option())]
    Exhausted {
        /// The backend's name.
        backend: Arc<str>,
        /// How long the client waited.
        waited_ms: u64,
        /// The limit.
        full: Full,
    },
    /// An operator has taken the backend out of use.
    #[error("{backend} is set OFFLINE")]
    Offline {
        /// The backend's name.
        backend: Arc<str>,
    },
    /// The backend cannot be reached, or broke off.
    #[error("cannot connect to {backend}: {error}")]
    Unreachable {
        /// The backend's name.
        backend: Arc<str>,
        /// What happened.
        #[source]
        error: NetError,
    },
    /// The backend refused the login or a fix-up.
    #[error("{backend} refused: {}", error.text())]
    Refused {
        /// The backend's name.
        backend: Arc<str>,
        /// Its words.
        error: ErrPacket,
    },
    /// The user's secret does not serve for the login that the backend asks for.
    #[error("cannot log in to {backend}: {reason}")]
    Login {
        /// The backend's name.
        backend: Arc<str>,
        /// What is missing.
        reason: String,
    },
    /// The connection broke while it was made ready; nothing of the client's was sent.
    #[error("connection to {backend} lost: {error}")]
    Lost {
        /// The backend's name.
        backend: Arc<str>,
        /// What happened.
        #[source]
        error: NetError,
    },
    /// The session has entered a schema, and has something on its connection, as a transaction: only starting over leaves a
    /// schema without entering another one.
    #[error(
        "a statement that was prepared without a schema cannot be prepared again on the connection to {backend}"
    )]
    NoWayBack {
        /// The backend's name.
        backend: Arc<str>,
    },
}

fn of_all(backend: &str, full: Full) -> String {
    match full {
        Full::All(limit) => format!("all {limit} connections to {backend}"),
        Full::Unreserved(limit) => format!("all {limit} connections to {backend} that are not reserved"),
        Full::User(limit) => format!("all {limit} connections of this user to {backend}"),
    }
}

impl Full {
    /// What limits them.
    fn option(self) -> &'static str {
        match self {
            Self::All(_) | Self::Unreserved(_) => "max_connections of the pool, the backend or its server",
            Self::User(_) => "max_backend_connections, or max_user_connections of the server",
        }
    }
}

impl PoolError {
    /// True if another connection, or another backend, may do better: nothing of the client's was sent.
    pub fn is_elsewhere_better(&self) -> bool {
        self.retry() != Retry::Never && !matches!(self, Self::Exhausted { .. })
    }

    /// Whether the command may be tried again.
    pub fn retry(&self) -> Retry {
        match self {
            Self::Lost { error, .. } => error.retry(),
            Self::Unreachable { .. } | Self::Offline { .. } | Self::Exhausted { .. } => Retry::Always,
            Self::Refused { error, .. } => retry_after_refusal(error.code),
            Self::Login { .. } | Self::NoWayBack { .. } => Retry::Never,
        }
    }

    /// True if the backend has answered, and there was no room for that.
    pub fn is_no_room(&self) -> bool {
        matches!(self, Self::Refused { error, .. } if error.code == error_code::ER_CAPACITY_EXCEEDED)
    }

    /// True if the backend has no connection left for anybody.
    pub(crate) fn is_too_many(&self) -> bool {
        matches!(self, Self::Refused { error, .. } if error.code == error_code::ER_CON_COUNT_ERROR)
    }

    /// True if the backend has no connection left, for anybody or for this user.
    pub(crate) fn is_full(&self) -> bool {
        matches!(self, Self::Refused { error, .. } if error_code::is_full(error.code))
    }

    /// True if the backend does not take what it was given for a password; another may do.
    pub fn is_about_password(&self) -> bool {
        match self {
            // Access denied, and the same of MariaDB for an account without a password.
            Self::Refused { error, .. } => matches!(
                error.code,
                error_code::ER_ACCESS_DENIED_ERROR | error_code::ER_ACCESS_DENIED_NO_PASSWORD_ERROR
            ),
            // A hash that does not serve for the backend's plugin.
            Self::Login { .. } => true,
            Self::Exhausted { .. }
            | Self::Unreachable { .. }
            | Self::Lost { .. }
            | Self::Offline { .. }
            | Self::NoWayBack { .. } => false,
        }
    }

    /// Its kind.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Exhausted { .. } => ErrorKind::PoolTimeout,
            Self::Lost { error, .. } => error.kind(Source::Backend),
            Self::Offline { .. } | Self::Unreachable { .. } | Self::Refused { .. } | Self::Login { .. } => {
                ErrorKind::BackendUnreachable
            }
            Self::NoWayBack { .. } => ErrorKind::Proxy,
        }
    }
}
