//! What was seen of a backend: by a probe, or by real traffic.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use delphinus_wire::Capabilities;
use delphinus_wire::gtid::GtidSet;

use crate::backend::{BackendId, Wish};
use crate::facts::ServerFacts;
use crate::followers::Followers;
use crate::group::GroupView;
use crate::heartbeat::Heartbeat;
use crate::identity::Identity;
use crate::limits::ServerLimits;
use crate::replication::Replication;
use crate::snapshot::Member;

/// One thing seen.
#[derive(Debug, Clone)]
pub enum Observation {
    /// By the monitor.
    Probe {
        /// Which one was asked.
        backend: BackendId,
        /// When the probe ended.
        at: Instant,
        /// How it ended.
        outcome: ProbeOutcome,
    },
    /// By a worker, on behalf of a client.
    Traffic {
        /// Which one it was about.
        backend: BackendId,
        /// When it happened.
        at: Instant,
        /// What happened.
        traffic: Traffic,
    },
    /// Its name leads to another address: what is there is another server, as far as anybody knows.
    Moved {
        /// Which one.
        backend: BackendId,
        /// When that was found out.
        at: Instant,
        /// The host name that was looked up.
        name: Arc<str>,
        /// Where it is now.
        to: IpAddr,
    },
    /// By nobody: the configuration names other backends than before.
    Listed {
        /// Which place it is about.
        backend: BackendId,
        /// Since when.
        at: Instant,
        /// The backend there; `None`: there is none any more.
        member: Option<Member>,
    },
    /// By nobody: an operator wants it so, or a move of its role.
    Wish {
        /// Of which one.
        backend: BackendId,
        /// When that was said.
        at: Instant,
        /// What is wanted.
        wish: Wish,
    },
    /// By nobody: a move wants nothing of it any more. What an operator has said last holds.
    Released {
        /// Which one.
        backend: BackendId,
        /// When the move has come to its end.
        at: Instant,
    },
    /// By nobody: the proxies have agreed that another server has its role, and it was not seen to give it up.
    Replaced {
        /// Which one.
        backend: BackendId,
        /// When that was read.
        at: Instant,
        /// Name of the one that has the role; `None`: it counts like any other again.
        by: Option<Arc<str>>,
    },
}

/// How a probe ended.
#[expect(clippy::large_enum_variant, reason = "one for each probe, and a probe is a question to a server")]
#[derive(Debug, Clone)]
pub enum ProbeOutcome {
    /// It answered the probe query.
    Answered(Answer),
    /// It could not be reached, closed the connection, or made no sense. What exactly.
    Refused(Arc<str>),
    /// It did not answer in time: what a hung server does. Which step it was.
    TimedOut(Arc<str>),
    /// It lives, but does not let the monitor's user in (error 1045 and its kin). Its words.
    Denied(Arc<str>),
    /// It lives, but has no connection left (error 1040 and its kin). Its words.
    Full(Arc<str>),
}

/// What a probe query brought.
#[derive(Debug, Clone)]
pub struct Answer {
    /// What the server is.
    pub facts: Arc<ServerFacts>,
    /// The capabilities of its greeting.
    pub capabilities: Capabilities,
    /// `@@global.read_only`, or `super_read_only` where there is one.
    pub read_only: bool,
    /// What it allows.
    pub limits: ServerLimits,
    /// The `sql_mode` of sessions that set none.
    pub sql_mode: Arc<str>,
    /// Which server it is, if it is asked for that.
    pub identity: Option<Arc<Identity>>,
    /// Whom it follows.
    pub replication: Replication,
    /// Who follows it, if it is asked for that.
    pub followers: Followers,
    /// How late it is by the row that a proxy writes on the primary.
    pub heartbeat: Heartbeat,
    /// Its group, if it is asked for it.
    pub group: Option<Arc<GroupView>>,
    /// How long the query took.
    pub latency: Duration,
    /// What it has executed; `None` where it does not tell.
    pub position: Option<Arc<GtidSet>>,
    /// How many writes this proxy had sent to the primary when the query was sent; `None` if any of them was running then.
    pub writes: Option<u64>,
}

impl Answer {
    /// Which server it is, as far as it was asked: by its own word, or by what its group knows it by.
    pub fn told_identity(&self) -> Option<Arc<Identity>> {
        let own = || self.group.as_ref().map(|view| view.own.clone()).filter(|own| !own.is_empty());
        self.identity.clone().or_else(|| own().map(|own| Identity::of_uuid(own).into()))
    }

    /// The least that a server says: what every probe asks, and nothing beside it. Tests and simulations begin with it.
    pub fn bare(facts: Arc<ServerFacts>, read_only: bool) -> Self {
        Self {
            facts,
            capabilities: Capabilities::PROTOCOL_41,
            read_only,
            limits: ServerLimits {
                max_connections: 151,
                max_user_connections: None,
                wait_timeout_s: 28_800,
                interactive_timeout_s: 28_800,
                reads_uncommitted: false,
            },
            sql_mode: "".into(),
            identity: None,
            replication: Replication::NotAsked,
            followers: Followers::NotAsked,
            heartbeat: Heartbeat::NotAsked,
            group: None,
            latency: Duration::from_millis(1),
            position: None,
            writes: None,
        }
    }
}

/// What a worker saw.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Traffic {
    /// A new connection could not be opened. What exactly.
    ConnectFailed(Arc<str>),
    /// A connection in use broke. Killed connections are ordinary, so this asks for a probe and proves nothing.
    Lost(Arc<str>),
    /// A write was refused because the server is read-only: its role has moved, or is moving. Asks for a probe.
    ReadOnly,
}

impl Observation {
    /// Which backend it is about.
    pub fn backend(&self) -> BackendId {
        match self {
            Self::Probe { backend, .. }
            | Self::Traffic { backend, .. }
            | Self::Moved { backend, .. }
            | Self::Listed { backend, .. }
            | Self::Wish { backend, .. }
            | Self::Released { backend, .. }
            | Self::Replaced { backend, .. } => *backend,
        }
    }

    /// When it was made.
    pub fn at(&self) -> Instant {
        match self {
            Self::Probe { at, .. }
            | Self::Traffic { at, .. }
            | Self::Moved { at, .. }
            | Self::Listed { at, .. }
            | Self::Wish { at, .. }
            | Self::Released { at, .. }
            | Self::Replaced { at, .. } => *at,
        }
    }
}
