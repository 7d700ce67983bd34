//! Whether a backend can be used, since when, and why not.

use std::sync::Arc;
use std::time::Instant;

/// The state of a backend. What an operator wants ([`crate::Wish`]) is beside it.
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
    /// It lives, but is no place for reads: too far behind, or not replicating.
    Lagging {
        /// When that was decided.
        since: Instant,
        /// Why.
        reason: Arc<str>,
    },
    /// It lives, but is kept out for a while: it comes and goes, or is no member in good order of its group.
    Shunned {
        /// When that was decided.
        since: Instant,
        /// Why.
        reason: Arc<str>,
    },
    /// It lives and takes writes, but another backend has taken its place: what it holds may differ from the rest of the
    /// cluster. Nothing is sent there until it is `read_only` or an operator says so.
    Fenced {
        /// When that was decided.
        since: Instant,
        /// Why.
        reason: Arc<str>,
    },
    /// It cannot be used.
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

    /// True if it does not answer; `Unknown` and what is only kept out of use does not count.
    pub fn is_down(&self) -> bool {
        matches!(self, Self::Down { .. })
    }

    /// True if nothing at all may be sent there, not even on connections that are open.
    pub fn is_fenced(&self) -> bool {
        matches!(self, Self::Fenced { .. })
    }

    /// When it came into this state.
    pub fn since(&self) -> Option<Instant> {
        match self {
            Self::Unknown => None,
            Self::Up { since }
            | Self::Lagging { since, .. }
            | Self::Shunned { since, .. }
            | Self::Fenced { since, .. }
            | Self::Down { since, .. } => Some(*since),
        }
    }

    /// Why it is not up.
    pub fn reason(&self) -> Option<&Arc<str>> {
        match self {
            Self::Unknown | Self::Up { .. } => None,
            Self::Lagging { reason, .. }
            | Self::Shunned { reason, .. }
            | Self::Fenced { reason, .. }
            | Self::Down { reason, .. } => Some(reason),
        }
    }

    /// A short word for logs and metrics.
    pub fn as_str(&self) -> &'static str {
        match self {
            Self::Unknown => "unknown",
            Self::Up { .. } => "up",
            Self::Lagging { .. } => "lagging",
            Self::Shunned { .. } => "shunned",
            Self::Fenced { .. } => "fenced",
            Self::Down { .. } => "down",
        }
    }
}
