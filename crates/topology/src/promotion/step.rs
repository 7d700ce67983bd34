//! What can be done to a server, or to the proxy's own sessions. Each step may be done again without harm.

use std::sync::Arc;

use crate::backend::BackendId;
use crate::promotion::relay::RelayId;
use crate::promotion::standing::AsSource;

/// One act.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// Ends the connections of the account that whoever acted before, or a step that has failed, has left on a server.
    EndPredecessor(BackendId),
    /// New transactions of this proxy's sessions wait.
    Hold(BackendId),
    /// The same, and nothing that a lost primary still says is passed on: it may acknowledge by itself after a while.
    GiveUp(BackendId),
    /// They go on.
    Release(BackendId),
    /// Events of the scheduler do not run there any more.
    DisableEvents(BackendId),
    /// Those that ran on the primary before run there, and no others.
    EnableEvents {
        /// Which one.
        on: BackendId,
        /// Which events.
        events: Arc<[Arc<str>]>,
    },
    /// Nobody writes there any more, also after a restart.
    Close(BackendId),
    /// Clients' sessions are ended there: read-only does not stop what is prepared (XA COMMIT).
    EndSessions(BackendId),
    /// It gets nothing more from its source.
    StopReceiver(BackendId),
    /// It fetches and applies again.
    StartReplica(BackendId),
    /// It waits for acknowledgements like this as a source, or does not; and acknowledges as a replica, or does not.
    SetSemiSync {
        /// Which one.
        on: BackendId,
        /// As a source.
        source: Option<AsSource>,
        /// As a replica.
        acknowledges: bool,
    },
    /// It follows another one.
    Attach {
        /// Which one.
        on: BackendId,
        /// Whom.
        to: BackendId,
    },
    /// It follows no server.
    Detach(BackendId),
    /// It takes writes. What comes before it can be undone; this cannot.
    Open(BackendId),
    /// The group makes it its primary.
    Elect(BackendId),
    /// This relay acknowledges to no source any more, also after a restart.
    Cut(RelayId),
    /// A server follows a relay, for what the lost primary has written.
    Drain {
        /// Which server.
        on: BackendId,
        /// Whom it follows.
        relay: RelayId,
    },
    /// A relay follows a server and acknowledges to it from now on. A word that was said before another cut changes nothing.
    Turn {
        /// Which relay.
        relay: RelayId,
        /// To whom.
        to: BackendId,
        /// In which of the relay's epochs that was decided.
        epoch: u64,
    },
}

impl Step {
    /// The server where it is done, or whom it is about in the proxy; `None`: it is done at a relay.
    pub fn on(&self) -> Option<BackendId> {
        match self {
            Self::Cut(_) | Self::Turn { .. } => None,
            Self::EndPredecessor(on)
            | Self::Hold(on)
            | Self::GiveUp(on)
            | Self::Release(on)
            | Self::DisableEvents(on)
            | Self::EnableEvents { on, .. }
            | Self::Close(on)
            | Self::EndSessions(on)
            | Self::StopReceiver(on)
            | Self::StartReplica(on)
            | Self::SetSemiSync { on, .. }
            | Self::Attach { on, .. }
            | Self::Detach(on)
            | Self::Open(on)
            | Self::Elect(on)
            | Self::Drain { on, .. } => Some(*on),
        }
    }

    /// The relay where it is done, if that is one.
    pub fn at_relay(&self) -> Option<RelayId> {
        match self {
            Self::Cut(relay) | Self::Turn { relay, .. } => Some(*relay),
            _ => None,
        }
    }

    /// True if it is about the proxy's own sessions alone: no server is told anything.
    pub fn is_own(&self) -> bool {
        matches!(self, Self::Hold(_) | Self::GiveUp(_) | Self::Release(_))
    }

    /// What it is called in the time line.
    pub fn name(&self) -> &'static str {
        match self {
            Self::EndPredecessor(_) => "end earlier connections",
            Self::Hold(_) => "hold new transactions",
            Self::GiveUp(_) => "give up the primary",
            Self::Release(_) => "release held transactions",
            Self::DisableEvents(_) => "disable events",
            Self::EnableEvents { .. } => "enable events",
            Self::Close(_) => "set read-only",
            Self::EndSessions(_) => "end client sessions",
            Self::StopReceiver(_) => "stop receiving",
            Self::StartReplica(_) => "start replication",
            Self::SetSemiSync { .. } => "set semi-sync",
            Self::Attach { .. } => "follow",
            Self::Detach(_) => "stop following",
            Self::Open(_) => "take writes",
            Self::Elect(_) => "elect",
            Self::Cut(_) => "cut the relay",
            Self::Drain { .. } => "drain the relay",
            Self::Turn { .. } => "have the relay acknowledge",
        }
    }
}
