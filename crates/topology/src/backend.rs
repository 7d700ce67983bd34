//! One backend as the rest of the proxy sees it.

use std::sync::Arc;
use std::time::{Duration, Instant};

use delphinus_wire::Capabilities;
use delphinus_wire::gtid::GtidSet;

use crate::decide::Tally;
use crate::facts::ServerFacts;
use crate::followers::Followers;
use crate::group::GroupView;
use crate::health::Health;
use crate::identity::Identity;
use crate::limits::ServerLimits;
use crate::origin::Origin;
use crate::replication::Replication;

/// Index into `Snapshot::backends`; stays the same for the life of the process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct BackendId(pub u16);

impl BackendId {
    /// The position in `Snapshot::backends`.
    #[inline]
    pub fn index(self) -> usize {
        usize::from(self.0)
    }
}

/// What a backend is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Role {
    /// Takes the writes.
    Primary,
    /// Takes reads.
    Replica,
}

impl Role {
    /// A short word for logs and metrics.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Primary => "primary",
            Self::Replica => "replica",
        }
    }
}

/// What an operator, or a move of its role, wants of a backend, whatever its health is. An operator's word holds until the operator says otherwise
/// or the process ends: a move may want more meanwhile, and leaves what the operator has said last. ONLINE ends what a move wants, too.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Wish {
    /// It is used as its health allows.
    #[default]
    Online,
    /// No new statement goes there; what is pinned to it, such as an open transaction, comes to its end.
    Offline {
        /// Since when it is wanted.
        since: Instant,
    },
    /// The proxy moves its role to another, and new transactions wait for that. It serves on what it serves: what leads to it past the proxy
    /// stays, too.
    Held {
        /// Since when.
        since: Instant,
    },
    /// It is lost, and the proxy gives its role to another: the same, and no answer of it is waited for any more, because what it
    /// still acknowledges may be where nobody looks.
    GivenUp {
        /// Since when.
        since: Instant,
    },
}

impl Wish {
    /// True if no new statement may go there.
    #[inline]
    pub fn is_offline(self) -> bool {
        matches!(self, Self::Offline { .. } | Self::Held { .. } | Self::GivenUp { .. })
    }

    /// True if a move of its role wants it so, and no operator.
    pub fn is_of_move(self) -> bool {
        matches!(self, Self::Held { .. } | Self::GivenUp { .. })
    }

    /// True if whoever comes past the proxy may go on there: nobody wants it out of use.
    pub fn serves_others(self) -> bool {
        matches!(self, Self::Online | Self::Held { .. })
    }

    /// True if it takes the place of one that holds already: it is further from use, or ends that.
    pub(crate) fn replaces(self, before: Self) -> bool {
        let rank = |wish| match wish {
            Self::Online => 0,
            Self::Held { .. } => 1,
            Self::Offline { .. } => 2,
            Self::GivenUp { .. } => 3,
        };
        rank(self) > rank(before) || (self == Self::Online && before != self)
    }
}

/// Something that a human must put right although the backend is used on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fault {
    /// The monitor's user cannot log in: the server lives, but nobody can see how it is. Its words.
    Denied(Arc<str>),
    /// It has no free connection, as it said (error 1040). Its words.
    Full(Arc<str>),
    /// It is the primary and does not take writes.
    ReadOnlyPrimary,
    /// The monitor's user may not see how it replicates, so that nobody knows how far it is behind. Its words.
    ReplicationUnseen(Arc<str>),
    /// The monitor's user may not see the group that it is a member of, or it is in none. What is known.
    GroupUnseen(Arc<str>),
    /// The heartbeat cannot be written there, or not be read. Why.
    Heartbeat(Arc<str>),
    /// The monitor's user may not see who replicates from there, so that none of them is found. Its words.
    FollowersUnseen(Arc<str>),
}

impl Fault {
    /// A short word for metrics.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Denied(_) => "denied",
            Self::Full(_) => "full",
            Self::ReadOnlyPrimary => "read_only_primary",
            Self::ReplicationUnseen(_) => "replication_unseen",
            Self::GroupUnseen(_) => "group_unseen",
            Self::Heartbeat(_) => "heartbeat",
            Self::FollowersUnseen(_) => "replicas_unseen",
        }
    }

    /// The whole of it for logs.
    pub fn text(&self) -> &str {
        match self {
            Self::Denied(text)
            | Self::Full(text)
            | Self::ReplicationUnseen(text)
            | Self::GroupUnseen(text)
            | Self::Heartbeat(text)
            | Self::FollowersUnseen(text) => text,
            Self::ReadOnlyPrimary => "the primary is read_only",
        }
    }
}

/// By what is known how far a replica is behind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LagSource {
    /// What the server says of its replication.
    Server,
    /// The row that a proxy writes on the primary.
    Heartbeat,
}

impl LagSource {
    /// A short word for operators.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Server => "server",
            Self::Heartbeat => "heartbeat",
        }
    }
}

/// One backend. What was once learnt from it (facts, capabilities) stays while it is down.
#[derive(Debug, Clone)]
pub struct Backend {
    /// Its position in the snapshot.
    pub id: BackendId,
    /// Its name in logs and commands.
    pub name: Arc<str>,
    /// How it has come to be a backend; or whether it is none.
    pub origin: Origin,
    /// What it is for.
    pub role: Role,
    /// Share of the reads compared with the other replicas; 0: only when nothing else is there.
    pub weight: u32,
    /// Whether it can be used.
    pub health: Health,
    /// Whether an operator, or a move of its role, wants it to be used.
    pub wish: Wish,
    /// Since when an operator wants it out of use, whatever a move wants meanwhile.
    pub(crate) offline_since: Option<Instant>,
    /// What is wrong with it although it is used.
    pub fault: Option<Fault>,
    /// What it says about itself.
    pub facts: Option<Arc<ServerFacts>>,
    /// The capabilities of its greeting.
    pub capabilities: Option<Capabilities>,
    /// It takes no writes, by what it said last.
    pub read_only: bool,
    /// What it allows, by what it said last.
    pub limits: Option<ServerLimits>,
    /// The `sql_mode` of sessions that set none, by what it said last.
    pub sql_mode: Option<Arc<str>>,
    /// Whom it follows, by what it said last.
    pub replication: Replication,
    /// Who follows it, by what it said last.
    pub followers: Followers,
    /// Which server it is, once it has told it.
    pub identity: Option<Arc<Identity>>,
    /// Its group, by what it said last.
    pub group: Option<Arc<GroupView>>,
    /// How far it is behind the primary, when the snapshot was made; `None`: not known, or it is the primary.
    pub lag: Option<Duration>,
    /// By what that was known.
    pub lag_source: Option<LagSource>,
    /// When it came back, if it was down before.
    pub returned: Option<Instant>,
    /// How long the last successful probe query took, when the snapshot was made.
    pub latency: Option<Duration>,
    /// What it had executed, when the snapshot was made.
    pub position: Option<Arc<GtidSet>>,
    pub(crate) tally: Tally,
}

impl Backend {
    /// A backend of which nothing is known.
    pub(crate) fn new(id: BackendId, name: Arc<str>, role: Role, weight: u32) -> Self {
        Self {
            id,
            name,
            origin: Origin::Configured,
            role,
            weight,
            health: Health::Unknown,
            wish: Wish::Online,
            offline_since: None,
            fault: None,
            facts: None,
            capabilities: None,
            read_only: false,
            limits: None,
            sql_mode: None,
            replication: Replication::NotAsked,
            followers: Followers::NotAsked,
            identity: None,
            group: None,
            lag: None,
            lag_source: None,
            returned: None,
            latency: None,
            position: None,
            tally: Tally::default(),
        }
    }

    /// Makes it one of which nothing is known, and a replica. What was seen before `now` does not count any more.
    pub(crate) fn forget(&mut self, now: Instant) {
        let fresh = Self::new(self.id, self.name.clone(), Role::Replica, self.weight);
        *self = Self { origin: self.origin.clone(), tally: Tally::since(now), ..fresh };
    }

    /// True if it can be used, as far as its health goes.
    #[inline]
    pub fn is_up(&self) -> bool {
        self.health.is_up()
    }

    /// True if it is down, and all that is known is that it does not answer in time: it may be slow, or hang. One that refuses
    /// connections is gone.
    pub fn is_silent(&self) -> bool {
        self.health.is_down() && self.tally.is_silent()
    }

    /// True if an operator has taken it out of use.
    #[inline]
    pub fn is_offline(&self) -> bool {
        self.wish.is_offline()
    }

    /// True if it has lost its place as the primary without giving it up: nothing at all may be sent there, not even on
    /// connections that are open.
    #[inline]
    pub fn is_fenced(&self) -> bool {
        self.health.is_fenced()
    }

    /// True if it is another Delphinus, which may answer by what it has kept.
    pub fn is_delphinus(&self) -> bool {
        self.facts.as_ref().is_some_and(|facts| facts.is_delphinus)
    }

    /// True if it was the primary, as far back as is known, and is not any more.
    pub fn was_primary(&self) -> bool {
        self.role != Role::Primary && self.tally.was_primary()
    }

    /// True if new statements may go there.
    #[inline]
    pub fn takes_statements(&self) -> bool {
        self.is_up() && !self.is_offline()
    }

    /// True if it may take reads as a replica.
    #[inline]
    pub fn is_readable_replica(&self) -> bool {
        self.role == Role::Replica && self.takes_statements()
    }
}
