//! Why a probe brought no answer, and what that says about the backend's life.

use delphinus_net::{LoginError, NetError};
use delphinus_topology::ProbeOutcome;
use delphinus_wire::response::ErrPacket;
use thiserror::Error;

/// A probe's failure.
#[derive(Debug, Error)]
pub(crate) enum ProbeError {
    /// The connection failed.
    #[error(transparent)]
    Net(#[from] NetError),
    /// The backend answered with an error.
    #[error("error {}: {}", .0.code, .0.text())]
    Answer(ErrPacket),
    /// The two sides cannot agree on a login: no TLS where it is required, a plugin that is not spoken here, or
    /// something that is no MySQL server at all.
    #[error("{0}")]
    Unsuitable(String),
    /// The backend answered something that makes no sense here.
    #[error("not an answer to the probe: {0}")]
    Nonsense(&'static str),
}

impl From<LoginError> for ProbeError {
    fn from(error: LoginError) -> Self {
        match error {
            LoginError::Net(error) => Self::Net(error),
            LoginError::Refused(error) => Self::Answer(error),
            LoginError::Unsuitable(reason) => Self::Unsuitable(reason),
        }
    }
}

impl From<delphinus_wire::Malformed> for ProbeError {
    fn from(malformed: delphinus_wire::Malformed) -> Self {
        Self::Nonsense(malformed.0)
    }
}

/// ER_CON_COUNT_ERROR, ER_TOO_MANY_USER_CONNECTIONS, ER_USER_LIMIT_REACHED: only a living server counts.
const FULL: &[u16] = &[1040, 1203, 1226];

/// The server does not let this user, or this user from this host, in: ER_DBACCESS_DENIED_ERROR,
/// ER_ACCESS_DENIED_ERROR, ER_HOST_NOT_PRIVILEGED, ER_SPECIFIC_ACCESS_DENIED_ERROR, ER_NOT_SUPPORTED_AUTH_MODE,
/// ER_PLUGIN_IS_NOT_LOADED, ER_ACCESS_DENIED_NO_PASSWORD_ERROR, ER_MUST_CHANGE_PASSWORD,
/// ER_MUST_CHANGE_PASSWORD_LOGIN, ER_ACCOUNT_HAS_BEEN_LOCKED, ER_SECURE_TRANSPORT_REQUIRED, and MariaDB's
/// ER_ACCOUNT_HAS_BEEN_LOCKED.
const DENIED: &[u16] = &[1044, 1045, 1130, 1227, 1251, 1524, 1698, 1820, 1862, 3118, 3159, 4151];

impl ProbeError {
    /// What the topology makes of it.
    pub(crate) fn into_outcome(self) -> ProbeOutcome {
        let text = self.to_string().into();
        match self {
            Self::Answer(error) if FULL.contains(&error.code) => ProbeOutcome::Full(text),
            Self::Answer(error) if DENIED.contains(&error.code) => ProbeOutcome::Denied(text),
            Self::Net(NetError::TimedOut(_)) => ProbeOutcome::TimedOut(text),
            // A server that the proxy cannot talk to is of no more use than a dead one.
            Self::Net(_) | Self::Answer(_) | Self::Unsuitable(_) | Self::Nonsense(_) => {
                ProbeOutcome::Refused(text)
            }
        }
    }
}
