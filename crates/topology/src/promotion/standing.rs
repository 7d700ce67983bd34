//! What a server says to whoever moves roles: more than a probe asks, and only while somebody acts.

use std::sync::Arc;
use std::time::Duration;

use delphinus_wire::gtid::{GtidSet, GtidState};

use crate::backend::BackendId;
use crate::facts::Flavor;
use crate::group::GroupView;
use crate::identity::Identity;
use crate::replication::Receiver;

/// A server of the cluster as it was asked last.
#[derive(Debug, Clone)]
pub struct Server {
    /// Which backend it is.
    pub id: BackendId,
    /// Its name.
    pub name: Arc<str>,
    /// Where replicas reach it.
    pub host: Arc<str>,
    /// See `host`.
    pub port: u16,
    /// What it said, or why it could not be asked.
    pub seen: Result<Standing, Arc<str>>,
}

impl Server {
    /// What it said, if it could be asked.
    pub fn standing(&self) -> Option<&Standing> {
        self.seen.as_ref().ok()
    }

    /// True if it follows `other`, or looks for it.
    pub fn points_to(&self, other: &Self) -> bool {
        self.standing().is_some_and(|own| own.sources.iter().any(|source| source.is(other)))
    }

    /// True if it gets what `other` writes.
    pub fn is_attached_to(&self, other: &Self) -> bool {
        let gets = |source: &Source| source.is(other) && source.receiver == Receiver::Running;
        self.standing().is_some_and(|own| own.sources.iter().any(gets))
    }

    /// True unless it follows several sources, or one by a channel with a name: no step of a move is about these.
    pub fn follows_plainly(&self) -> bool {
        let is_plain =
            |sources: &[Source]| sources.len() < 2 && sources.iter().all(|one| one.channel.is_empty());
        self.standing().is_none_or(|own| is_plain(&own.sources))
    }

    /// True if it could be asked and takes writes.
    pub fn is_open(&self) -> bool {
        self.standing().is_some_and(|own| own.guard == Guard::Open)
    }
}

/// What a server said.
#[derive(Debug, Clone)]
#[expect(clippy::struct_excessive_bools, reason = "independent facts that a server tells")]
pub struct Standing {
    /// Its family.
    pub flavor: Flavor,
    /// Its version as a number.
    pub version: u32,
    /// Which server it is.
    pub identity: Identity,
    /// For how long it has run, in whole seconds.
    pub uptime: Duration,
    /// Who may write.
    pub guard: Guard,
    /// What it has executed.
    pub executed: Arc<GtidSet>,
    /// The same with what it has received and not executed yet.
    pub received: Arc<GtidSet>,
    /// What is in its log, by the server that wrote it; `MariaDB` alone.
    pub written: Option<Arc<GtidState>>,
    /// Whom it follows.
    pub sources: Vec<Source>,
    /// Its part in semi-synchronous replication.
    pub semi_sync: SemiSync,
    /// It has a log that replicas can follow by GTIDs.
    pub logs: bool,
    /// What it applies gets into its log.
    pub logs_applied: bool,
    /// Its events, or why it does not tell them.
    pub events: Result<Events, Arc<str>>,
    /// Its group, if it is in one.
    pub group: Option<Arc<GroupView>>,
    /// The `server_id` of those that replicate from it; `None`: it does not tell.
    pub followers: Option<Arc<[u32]>>,
    /// Rights that the account of the failover wants there.
    pub missing_rights: Arc<[&'static str]>,
    /// MySQL: the account cannot end sessions of accounts with `SYSTEM_USER`, nor change events that they have defined.
    pub lacks_system_user: bool,
    /// Whether it takes writes after a restart.
    pub starts_read_only: StartsReadOnly,
}

/// Whether a server is read-only after a restart: by its option file, or by what is persisted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum StartsReadOnly {
    /// It is.
    Yes,
    /// It takes writes.
    No,
    /// It does not tell: somebody has set `read_only` since its start, which hides the option file.
    #[default]
    Unknown,
}

/// Who may write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Guard {
    /// Everybody.
    Open,
    /// Administrators alone: MySQL's `read_only` without `super_read_only`.
    Ajar,
    /// Nobody, or on `MariaDB` nobody without the right to write on read-only servers.
    Closed,
}

/// One source that a server follows.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "independent facts that a server tells")]
pub struct Source {
    /// The name of the channel; empty for the usual one.
    pub channel: Arc<str>,
    /// Where it looks for it.
    pub host: Arc<str>,
    /// See `host`.
    pub port: u16,
    /// What it has learnt of it.
    pub identity: Identity,
    /// The thread that fetches.
    pub receiver: Receiver,
    /// That thread looks for its source, or has stopped because it did not find it: by no human's word.
    pub misses_it: bool,
    /// Why the thread that applies does not run, if so.
    pub applier_stopped: Option<Arc<str>>,
    /// It runs what it gets so much later.
    pub delay: Duration,
    /// Some of what it gets is left out.
    pub is_filtered: bool,
    /// It asks for what it lacks by GTIDs.
    pub by_gtid: bool,
    /// How far it is behind, in its own words.
    pub lag: Option<Duration>,
}

impl Source {
    /// True if it means this server: by what it has learnt, else by where it looks.
    pub fn is(&self, server: &Server) -> bool {
        let at = *self.host == *server.host && self.port == server.port;
        let known = server.standing().map(|standing| &standing.identity);
        // What it has learnt is of the last connection: where it was sent elsewhere since, the address counts.
        at || known.is_some_and(|known| self.receiver == Receiver::Running && known.is_same(&self.identity))
    }
}

/// The part in semi-synchronous replication.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "independent facts that a server tells")]
pub struct SemiSync {
    /// How it waits as a source; `None`: it does not.
    pub source: Option<AsSource>,
    /// How it would wait, by what its variables say.
    pub would_wait: Option<AsSource>,
    /// It acknowledges as a replica.
    pub acknowledges: bool,
    /// Its receiver acknowledges by now. What is told to a replica begins with the receiver's next connection.
    pub is_acknowledging: bool,
    /// Replicas that acknowledge to it by now.
    pub clients: u32,
    /// It waits for acknowledgements at this moment, and has not fallen back.
    pub is_on: bool,
    /// How often it has fallen back.
    pub falls: u64,
    /// Sessions that wait for an acknowledgement.
    pub waiting: u64,
    /// Transactions that were acknowledged.
    pub acknowledged: u64,
    /// As a source it falls back at once when too few replicas are connected (`wait_no_replica = OFF`).
    pub gives_up_alone: bool,
}

/// How a source waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AsSource {
    /// For so many replicas.
    pub count: u32,
    /// For so long.
    pub timeout: Duration,
    /// Before the transaction is visible (`AFTER_SYNC`).
    pub is_lossless: bool,
}

/// Events of a server's scheduler, as `schema`.`name`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Events {
    /// Those that run.
    pub enabled: Arc<[Arc<str>]>,
    /// Those that do not, because the server is a replica: also those that are disabled on the primary.
    pub asleep: Arc<[Arc<str>]>,
}
