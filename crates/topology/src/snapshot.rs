//! The immutable view of the cluster that every worker reads.

use std::sync::Arc;

use delphinus_wire::Capabilities;

use crate::backend::{Backend, BackendId, Role, Wish};
use crate::decide::Tally;
use crate::facts::ServerFacts;
use crate::health::Health;
use crate::rest::{Pulse, Rest};

/// A backend as the configuration names it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Member {
    /// Its name in logs and commands; unique.
    pub name: Arc<str>,
    /// What it is for.
    pub role: Role,
    /// Share of the reads, 0 to 1000.
    pub weight: u32,
}

/// The cluster at one moment.
#[derive(Debug, Clone)]
pub struct Snapshot {
    /// Grows by one with each change that a reader could see.
    pub generation: u64,
    /// All backends, where `BackendId` says.
    pub backends: Vec<Backend>,
    /// What clients are told: the primary's, else those of the first backend that was heard. They stay when
    /// everything is down.
    pub facts: Option<Arc<ServerFacts>>,
    /// True once every backend was probed.
    pub settled: bool,
    /// Nothing was being written when the cluster was looked at last.
    pub rest: Option<Rest>,
    /// The primary tells what it has executed.
    pub tells_gtids: bool,
    pub(crate) pulse: Pulse,
}

impl Snapshot {
    /// The start: nothing is known of the members.
    pub fn new(members: Vec<Member>) -> Self {
        let backend = |(index, member): (usize, Member)| Backend {
            id: BackendId(u16::try_from(index).expect("invariant: the configuration allows fewer backends")),
            name: member.name,
            role: member.role,
            weight: member.weight,
            health: Health::Unknown,
            wish: Wish::Online,
            fault: None,
            facts: None,
            capabilities: None,
            read_only: false,
            limits: None,
            returned: None,
            latency: None,
            position: None,
            tally: Tally::default(),
        };
        let backends: Vec<_> = members.into_iter().enumerate().map(backend).collect();
        let settled = backends.is_empty();
        Self {
            generation: 0,
            backends,
            facts: None,
            settled,
            rest: None,
            tells_gtids: false,
            pulse: Pulse::default(),
        }
    }

    /// The backend that takes the writes, whatever its health.
    #[inline]
    pub fn primary(&self) -> Option<&Backend> {
        self.backends.iter().find(|backend| backend.role == Role::Primary)
    }

    /// The replicas that may take reads: up, and not taken out of use.
    #[inline]
    pub fn readable_replicas(&self) -> impl Iterator<Item = &Backend> {
        self.backends.iter().filter(|backend| backend.is_readable_replica())
    }

    /// The backend with this id.
    #[inline]
    pub fn backend(&self, id: BackendId) -> Option<&Backend> {
        self.backends.get(id.index())
    }

    /// The capabilities that all backends heard so far have; none before one was heard. Those that are down
    /// count too, because they come back.
    pub fn common_capabilities(&self) -> Capabilities {
        let heard = self.backends.iter().filter_map(|backend| backend.capabilities);
        heard.reduce(|all, one| all & one).unwrap_or_default()
    }
}
