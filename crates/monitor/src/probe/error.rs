//! Why a probe brought no answer, and what that says about the backend's life.

use delphinus_net::{LoginError, NetError, retry_after_refusal};
use delphinus_telemetry::{ErrorKind, Retry, Source};
use delphinus_topology::ProbeOutcome;
use delphinus_wire::error_code;
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

impl ProbeError {
    /// Its kind.
    pub(crate) fn kind(&self) -> ErrorKind {
        match self {
            Self::Net(error) => error.kind(Source::Backend),
            Self::Answer(_) | Self::Unsuitable(_) => ErrorKind::BackendUnreachable,
            Self::Nonsense(_) => ErrorKind::BackendProtocol,
        }
    }

    /// Whose fault it is.
    pub(crate) fn source(&self) -> Source {
        self.kind().source()
    }

    /// Whether another probe may bring an answer before somebody has changed something.
    pub(crate) fn retry(&self) -> Retry {
        match self {
            Self::Net(error) => error.retry(),
            Self::Answer(refusal) => retry_after_refusal(refusal.code),
            Self::Unsuitable(_) | Self::Nonsense(_) => Retry::Never,
        }
    }

    /// What the topology makes of it.
    pub(crate) fn into_outcome(self) -> ProbeOutcome {
        let text = self.to_string().into();
        match self {
            // Only a living server counts.
            Self::Answer(error) if error_code::is_full(error.code) => ProbeOutcome::Full(text),
            Self::Answer(error) if error_code::is_login_denied(error.code) => ProbeOutcome::Denied(text),
            Self::Net(NetError::TimedOut(_)) => ProbeOutcome::TimedOut(text),
            // A server that the proxy cannot talk to is of no more use than a dead one.
            Self::Net(_) | Self::Answer(_) | Self::Unsuitable(_) | Self::Nonsense(_) => {
                ProbeOutcome::Refused(text)
            }
        }
    }
}
