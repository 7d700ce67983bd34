//! A simulated server: its log, what it has received, whom it follows, and who waits for whom.

use std::sync::Arc;
use std::time::Duration;

use delphinus_topology::promotion::{AsSource, Events, Guard, SemiSync, Source, Standing, StartsReadOnly};
use delphinus_topology::{Flavor, Identity, Receiver};
use delphinus_wire::gtid::GtidSet;

use crate::relay::FIRST;

/// A transaction: an index into `World::transactions`.
pub(crate) type Tx = usize;

/// A commit that waits for acknowledgements.
#[derive(Debug, Clone)]
pub(crate) struct Pending {
    pub(crate) tx: Tx,
    pub(crate) since: u64,
    pub(crate) by: Vec<usize>,
    /// Its client is gone.
    pub(crate) is_cut: bool,
}

#[derive(Debug, Clone)]
#[expect(clippy::struct_excessive_bools, reason = "independent facts about a server")]
pub(crate) struct Server {
    pub(crate) is_up: bool,
    pub(crate) is_reached: bool,
    pub(crate) is_open: bool,
    pub(crate) starts_closed: bool,
    /// What others may fetch, in order.
    pub(crate) log: Vec<Tx>,
    pub(crate) has: Vec<bool>,
    pub(crate) executed: GtidSet,
    /// Received, and not applied.
    pub(crate) relay: Vec<Tx>,
    pub(crate) source: Option<usize>,
    pub(crate) receives: bool,
    /// It says that it receives nothing, and does: a planted fault.
    pub(crate) says_stopped: bool,
    pub(crate) applies: bool,
    pub(crate) waits: Option<AsSource>,
    /// As its option file says.
    pub(crate) would_wait: Option<AsSource>,
    pub(crate) acknowledges: bool,
    pub(crate) is_on: bool,
    pub(crate) falls: u64,
    pub(crate) acknowledged: u64,
    pub(crate) pending: Vec<Pending>,
    /// A session that has something prepared.
    pub(crate) prepared: bool,
    /// Proxies pass nothing on that it says.
    pub(crate) is_given_up: bool,
    /// Grows with each server that is opened.
    pub(crate) term: u64,
    /// For how long it has run, in milliseconds.
    pub(crate) ran: u64,
    /// When it has crashed last.
    pub(crate) crashed: u64,
}

impl Server {
    pub(crate) fn knows(&self, tx: Tx) -> bool {
        self.has.get(tx).copied().unwrap_or_default() || self.relay.contains(&tx)
    }

    pub(crate) fn execute(&mut self, tx: Tx, set: &GtidSet) {
        if self.has.len() <= tx {
            self.has.resize(tx + 1, false);
        }
        if !self.has[tx] {
            self.has[tx] = true;
            self.executed.merge(set);
        }
    }

    pub(crate) fn standing(&self, number: usize, clients: u32, received: GtidSet, fetches: bool) -> Standing {
        let receiver = match (self.receives && !self.says_stopped, fetches) {
            (false, _) => Receiver::Stopped("".into()),
            (true, true) => Receiver::Running,
            (true, false) => Receiver::Connecting,
        };
        let host = |to: usize| to.checked_sub(FIRST).map_or(format!("s{to}"), |relay| format!("r{relay}"));
        let source = |to: usize| Source {
            channel: "".into(),
            host: host(to).into(),
            port: 3306,
            identity: identity(to),
            misses_it: receiver == Receiver::Connecting,
            receiver,
            applier_stopped: (!self.applies).then(|| "".into()),
            delay: Duration::ZERO,
            is_filtered: false,
            by_gtid: true,
            lag: None,
        };
        Standing {
            flavor: Flavor::MySql,
            version: 80_400,
            identity: identity(number),
            guard: if self.is_open { Guard::Open } else { Guard::Closed },
            executed: Arc::new(self.executed.clone()),
            received: Arc::new(received),
            written: None,
            sources: self.source.map(source).into_iter().collect(),
            semi_sync: SemiSync {
                source: self.waits,
                would_wait: self.would_wait,
                acknowledges: self.acknowledges,
                is_acknowledging: self.acknowledges && fetches,
                clients,
                is_on: self.waits.is_some() && self.is_on,
                falls: self.falls,
                waiting: self.pending.len() as u64,
                acknowledged: self.acknowledged,
                gives_up_alone: false,
            },
            logs: true,
            logs_applied: true,
            events: Ok(Events::default()),
            group: None,
            followers: None,
            missing_rights: Arc::default(),
            lacks_system_user: false,
            starts_read_only: StartsReadOnly::Yes,
            uptime: Duration::from_secs(self.ran / 1_000),
        }
    }
}

pub(crate) fn uuid(number: usize) -> String {
    format!("{number:08x}-0000-0000-0000-000000000000")
}

fn identity(number: usize) -> Identity {
    Identity { number: number as u32 + 1, uuid: uuid(number).into() }
}
