//! Whether a backend can be used, since when, and why not.

use std::sync::Arc;
use std::time::Instant;

/// The state of a backend. More states (lagging, draining) are more variants here.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Health {
    /// No probe has come back yet.
    #[default]
    Unknown,
    /// It can be used.
    Up {
        /// When that was decided.
        since: Instant,
    },
    /// It cannot.
    Down {
        /// When that was decided.
        since: Instant,
        /// What the last failure said, for logs and for the error that clients get.
        reason: Arc<str>,
    },
}

impl Health {
    /// True if statements may be sent there.
    #[inline]
    pub fn is_up(&self) -> bool {
        matches!(self, Self::Up { .. })
    }

    /// True if it was judged unusable; `Unknown` is not.
    pub fn is_down(&self) -> bool {
        matches!(self, Self::Down { .. })
    }

    /// When it came into this state.
    pub fn since(&self) -> Option<Instant> {
        match self {
            Self::Unknown => None,
            Self::Up { since } | Self::Down { since, .. } => Some(*since),
        }
    }

    /// Why it is down.
    pub fn reason(&self) -> Option<&Arc<str>> {
        match self {
            Self::Down { reason, .. } => Some(reason),
            Self::Unknown | Self::Up { .. } => None,
        }
    }

    /// A short word for logs and metrics.
    pub fn as_str(&self) -> &'static str {
        match self {
            Self::Unknown => "unknown",
            Self::Up { .. } => "up",
            Self::Down { .. } => "down",
        }
    }
}
