//! What is wrong with a source, and whether trying again helps.

use delphinus_net::{LoginError, NetError};
use delphinus_wire::Malformed;
use delphinus_wire::response::ErrPacket;
use thiserror::Error;

use crate::intake::IntakeError;

/// Why nothing is received.
#[derive(Debug, Error)]
pub(crate) enum SourceError {
    /// There is nowhere to connect to.
    #[error("no source is known: the cluster has no primary at the moment")]
    NoTarget,
    /// The connection.
    #[error(transparent)]
    Net(#[from] NetError),
    /// Nothing came, not even a heartbeat.
    #[error("the source has sent nothing for {0} ms, not even a heartbeat")]
    Silent(u64),
    /// The source said no.
    #[error("the source answers with error {}: {}", .0.code, .0.text())]
    Answer(ErrPacket),
    /// The login cannot be done.
    #[error("{0}")]
    Unsuitable(String),
    /// The stream.
    #[error(transparent)]
    Intake(#[from] IntakeError),
    /// It cannot be a source.
    #[error("{0}")]
    Wrong(String),
    /// It must not be received from: that would lose something, or acknowledge what must not be.
    #[error("{0}")]
    Stop(String),
}

/// What was asked for is not there.
const FATAL_READING: u16 = delphinus_wire::error_code::ER_SOURCE_FATAL_ERROR_READING_BINLOG;
/// Of the many causes of that error this one.
const NO_SUCH_FILE: &str = "Could not find first log file name";

impl SourceError {
    /// True if a person has to look at it: the relay stops.
    pub(crate) fn is_final(&self) -> bool {
        matches!(self, Self::Stop(_))
    }

    /// True if the source does not have what was asked for.
    pub(crate) fn is_missing(&self) -> bool {
        self.said().is_some_and(|error| error.code == FATAL_READING)
    }

    /// True if the source has no file of the name that was asked for.
    pub(crate) fn is_no_such_file(&self) -> bool {
        self.is_missing() && self.said().is_some_and(|error| error.text().contains(NO_SUCH_FILE))
    }

    /// The error that the source has sent.
    fn said(&self) -> Option<&ErrPacket> {
        match self {
            Self::Answer(error) | Self::Intake(IntakeError::Refused(error)) => Some(error),
            _ => None,
        }
    }
}

impl From<LoginError> for SourceError {
    fn from(error: LoginError) -> Self {
        match error {
            LoginError::Net(error) => Self::Net(error),
            LoginError::Refused(error) => Self::Answer(error),
            LoginError::Unsuitable(reason) => Self::Unsuitable(reason),
        }
    }
}

impl From<Malformed> for SourceError {
    fn from(malformed: Malformed) -> Self {
        Self::Net(malformed.into())
    }
}
