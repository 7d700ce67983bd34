//! What can go wrong, and which of it can be done where.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::servers::Servers;

/// What goes wrong. Server 0 is the primary before.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Fault {
    /// The primary is killed with SIGKILL.
    Kill,
    /// It is stopped with SIGSTOP, and goes on when another has its place.
    Hang,
    /// It is shut down in the regular way.
    Shutdown,
    /// Nothing: the role is moved on purpose.
    Switchover,
    /// The network between the proxy and the primary is cut, both ways.
    Cut,
    /// What the proxy sends to the primary is lost; answers arrive.
    CutForth,
    /// What the primary answers is lost; it gets everything.
    CutBack,
    /// The primary is cut off from the proxy and from the other members of its group.
    Minority,
    /// Connections to all servers are reset, in the middle of results and while writes are under way.
    Reset,
    /// The network between the proxy and all servers is slow.
    Slow,
    /// Others have all connections that the primary gives, also those that the proxy had.
    FullPrimary,
    /// The same with a replica.
    FullReplica,
    /// The primary is made read-only by mistake, and nobody else has its place.
    ReadOnly,
    /// A replica falls behind, and catches up later.
    Lag,
    /// A replica is made writable by mistake.
    TwoWritable,
    /// The primary comes and goes.
    FlapPrimary,
    /// A replica comes and goes.
    FlapReplica,
    /// The proxy is killed with SIGKILL, and started again.
    ProxyKilled,
}

impl Fault {
    /// All.
    pub const ALL: [Self; 18] = [
        Self::Kill,
        Self::Hang,
        Self::Shutdown,
        Self::Switchover,
        Self::Cut,
        Self::CutForth,
        Self::CutBack,
        Self::Minority,
        Self::Reset,
        Self::Slow,
        Self::FullPrimary,
        Self::FullReplica,
        Self::ReadOnly,
        Self::Lag,
        Self::TwoWritable,
        Self::FlapPrimary,
        Self::FlapReplica,
        Self::ProxyKilled,
    ];

    /// The word for it on the command line.
    pub fn word(self) -> &'static str {
        match self {
            Self::Kill => "kill",
            Self::Hang => "hang",
            Self::Shutdown => "shutdown",
            Self::Switchover => "switchover",
            Self::Cut => "cut",
            Self::CutForth => "cut-forth",
            Self::CutBack => "cut-back",
            Self::Minority => "minority",
            Self::Reset => "reset",
            Self::Slow => "slow",
            Self::FullPrimary => "full-primary",
            Self::FullReplica => "full-replica",
            Self::ReadOnly => "read-only",
            Self::Lag => "lag",
            Self::TwoWritable => "two-writable",
            Self::FlapPrimary => "flap-primary",
            Self::FlapReplica => "flap-replica",
            Self::ProxyKilled => "proxy-killed",
        }
    }

    /// True if the servers are reached over relays, which do the damage.
    pub(crate) fn needs_links(self) -> bool {
        matches!(self, Self::Cut | Self::CutForth | Self::CutBack | Self::Reset | Self::Slow)
    }

    /// True if each server needs a network of its own.
    pub(crate) fn needs_machines(self) -> bool {
        self == Self::Minority
    }

    /// True if another server has the role in the end.
    pub(crate) fn moves_the_role(self, servers: Servers) -> bool {
        match self {
            Self::Kill | Self::Hang | Self::Shutdown | Self::Switchover | Self::Minority => true,
            // A group that has lost nobody elects nobody.
            Self::Cut | Self::CutForth | Self::CutBack => !servers.is_group(),
            _ => false,
        }
    }

    /// True if the clients lose their connections, whatever the proxy does.
    pub(crate) fn ends_sessions(self) -> bool {
        self == Self::ProxyKilled
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Kill => "kill -9",
            Self::Hang => "SIGSTOP, later SIGCONT",
            Self::Shutdown => "clean shutdown",
            Self::Switchover => "planned switchover",
            Self::Cut => "network cut, both ways",
            Self::CutForth => "network cut, towards the primary",
            Self::CutBack => "network cut, from the primary",
            Self::Minority => "primary in a minority partition",
            Self::Reset => "connections reset, also in mid-result",
            Self::Slow => "slow network",
            Self::FullPrimary => "primary: max_connections reached",
            Self::FullReplica => "replica: max_connections reached",
            Self::ReadOnly => "read_only set and taken back",
            Self::Lag => "a replica falls behind",
            Self::TwoWritable => "two servers writable",
            Self::FlapPrimary => "the primary flaps",
            Self::FlapReplica => "a replica flaps",
            Self::ProxyKilled => "the proxy is killed and restarted",
        })
    }
}

/// Through what the clients go.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Through {
    /// Delphinus.
    Delphinus,
    /// MySQL Router's splitting port.
    Router,
}

impl Through {
    /// All.
    pub const ALL: [Self; 2] = [Self::Delphinus, Self::Router];

    /// The word for it on the command line.
    pub fn word(self) -> &'static str {
        match self {
            Self::Delphinus => "delphinus",
            Self::Router => "router",
        }
    }
}

impl fmt::Display for Through {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Delphinus => "Delphinus",
            Self::Router => "MySQL Router 9.7",
        })
    }
}

/// A row of the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Case {
    /// On which servers.
    pub servers: Servers,
    /// Through which proxy.
    pub through: Through,
    /// What goes wrong.
    pub fault: Fault,
}

impl Case {
    /// All that can be done.
    pub fn all() -> Vec<Self> {
        let mut all = Vec::new();
        for servers in Servers::ALL {
            for through in Through::ALL {
                let of = |fault| Self { servers, through, fault };
                all.extend(Fault::ALL.map(of).into_iter().filter(|case| case.can_be_done()));
            }
        }
        all
    }

    fn can_be_done(self) -> bool {
        let has_group = self.servers.is_group();
        // Router finds its servers' addresses in the group itself: relays would not be in its way.
        let is_for_router = has_group && !self.fault.needs_links();
        (self.through == Through::Delphinus || is_for_router) && (!self.fault.needs_machines() || has_group)
    }
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { servers, through, fault } = self;
        write!(f, "{servers}, {through}, {fault}")
    }
}
