//! What all sessions of one worker share.

use std::cell::{Cell, RefCell};
use std::net::IpAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use delphinus_cache::Cache;
use delphinus_clients::{ListenerMode, ListenerSettings, Prover, Registry, SQL_MODE, Users};
use delphinus_journal::Pens;
use delphinus_memory::Account;
use delphinus_net::{BufferPool, rt};
use delphinus_pool::{FirstMode, Pool};
use delphinus_state::SessionState;
use delphinus_stats::Recorder;
use delphinus_telemetry::{ClusterCounters, ProcessCounters};
use delphinus_topology::ClusterId;
use delphinus_view::{SnapshotReader, StoredCode};
use delphinus_wire::auth::RsaKey;

use crate::fresh::Ledger;
use crate::hold::Source;
use crate::io::{BUFFER_SIZE, Equipment};
use crate::outlook::Outlook;
use crate::rescue::{Gate, Pauses, WaitingRoom, Waits};
use crate::settings::Settings;
use crate::statements::Tokens;
use crate::steer::{Answers, Mirrors, Standing};

/// One worker: everything its sessions need, without locks. A thread has one for each cluster.
pub struct Worker {
    /// Which cluster.
    pub(crate) cluster: ClusterId,
    /// What an operator has set by now.
    settings: RefCell<Rc<Settings>>,
    /// What memory there is for what is kept.
    pub(crate) memory: Account,
    /// Who may log in.
    pub users: Arc<Users>,
    /// Backend connections.
    pub pool: Rc<Pool>,
    /// Spare buffers.
    pub buffers: BufferPool,
    /// All sessions of all workers.
    pub registry: Arc<Registry>,
    /// What this worker counts of its cluster.
    pub counters: Arc<ClusterCounters>,
    /// What its thread counts of clients that have no cluster yet.
    pub process: Arc<ProcessCounters>,
    /// For logins with a password in RSA.
    pub rsa_key: Option<Arc<RsaKey>>,
    /// What its clients share.
    pub(crate) equipment: Rc<Equipment>,
    /// What its sessions get connections by.
    pub(crate) source: Rc<Source>,
    /// What its sessions wait by.
    pub(crate) waits: Waits,
    /// Copies on their way to mirrors.
    pub(crate) mirrors: Rc<Mirrors>,
    /// How the cluster looks to its sessions.
    pub(crate) outlook: Rc<Outlook>,
    /// What is known of the code in the database.
    pub(crate) stored_code: Arc<StoredCode>,
    /// Answers that are kept; `None`: none are.
    pub(crate) answers: Option<Rc<Answers>>,
    /// Which tables are written, where that ends answers.
    pub(crate) ledger: Option<Rc<Ledger>>,
    pub(crate) tokens: Tokens,
    /// Counts what statements cost.
    pub(crate) recorder: Recorder,
    /// The thread's ends of the logs of statements.
    pub(crate) logs: Rc<Pens>,
    first_states: RefCell<Vec<SessionState>>,
    first_mode: RefCell<Option<Rc<FirstMode>>>,
}

/// What a worker is made from.
pub struct Parts {
    /// Which cluster it is for.
    pub cluster: ClusterId,
    /// What an operator set.
    pub settings: Settings,
    /// Who may log in.
    pub users: Arc<Users>,
    /// Backend connections.
    pub pool: Rc<Pool>,
    /// All sessions.
    pub registry: Arc<Registry>,
    /// What this worker counts of its cluster.
    pub counters: Arc<ClusterCounters>,
    /// What its thread counts of clients that have no cluster yet.
    pub process: Arc<ProcessCounters>,
    /// For logins with a password in RSA.
    pub rsa_key: Option<Arc<RsaKey>>,
    /// True when the proxy stops.
    pub stopping: rt::watch::Receiver<bool>,
    /// The cluster.
    pub reader: SnapshotReader,
    /// The statements of the cluster that wait for its primary, over all workers.
    pub waiting: WaitingRoom,
    /// Spare buffers, shared by the workers of a thread.
    pub buffers: BufferPool,
    /// Answers that are kept; `None`: none are.
    pub cache: Option<Arc<Cache>>,
    /// What memory there is for what is kept.
    pub memory: Account,
    /// Counts what statements cost.
    pub recorder: Recorder,
    /// The thread's ends of the logs of statements.
    pub logs: Rc<Pens>,
}

/// Spare buffers kept by a thread.
const SPARE_BUFFERS: usize = 64;
/// How many states that sessions begin with are remembered.
const FIRST_STATES: usize = 32;

/// Spare buffers for the workers of one thread.
pub fn spare_buffers() -> BufferPool {
    BufferPool::new(BUFFER_SIZE, SPARE_BUFFERS)
}

impl Worker {
    /// Puts the parts together.
    pub fn new(parts: Parts) -> Rc<Self> {
        let equipment = Rc::new(Equipment {
            buffers: parts.buffers.clone(),
            counters: parts.counters.clone(),
            net_timeout_s: parts.settings.net_timeout_s,
            max_command: Cell::new(parts.settings.max_allowed_packet),
        });
        let ledger = parts
            .cache
            .as_ref()
            .and_then(|cache| Ledger::new(cache, parts.reader.stored_code(), parts.cluster))
            .map(Rc::new);
        let answers = parts.cache.map(|cache| {
            Rc::new(Answers::new(cache, parts.counters.clone(), parts.memory.clone(), parts.cluster))
        });
        let mirrors = Mirrors::new(
            parts.pool.clone(),
            parts.buffers.clone(),
            parts.counters.clone(),
            parts.memory.clone(),
        );
        let stored_code = parts.reader.stored_code().clone();
        let outlook = Rc::new(Outlook::new(parts.reader, parts.settings.balance));
        let source = Rc::new(Source {
            pool: parts.pool.clone(),
            outlook: outlook.clone(),
            users: parts.users.clone(),
            counters: parts.counters.clone(),
            failover: Cell::new(parts.settings.failover),
        });
        parts.pool.log_to(parts.logs.clone());
        let (room, stopping) = (parts.waiting, parts.stopping);
        let (registry, kills_abandoned) = (parts.registry.clone(), Cell::new(parts.settings.kills_abandoned));
        let waits = Waits { room, registry, stopping, kills_abandoned, gate: Gate::default() };
        Rc::new(Self {
            cluster: parts.cluster,
            equipment,
            source,
            waits,
            settings: RefCell::new(Rc::new(parts.settings)),
            memory: parts.memory,
            users: parts.users,
            pool: parts.pool,
            buffers: parts.buffers,
            registry: parts.registry,
            counters: parts.counters,
            process: parts.process,
            rsa_key: parts.rsa_key,
            mirrors,
            stored_code,
            outlook,
            answers,
            ledger,
            tokens: Tokens::default(),
            recorder: parts.recorder,
            logs: parts.logs,
            first_states: RefCell::default(),
            first_mode: RefCell::default(),
        })
    }

    /// The same state, with the maps of an earlier session that began alike: to compare the two is to compare pointers.
    pub(crate) fn shared(&self, state: SessionState) -> SessionState {
        let mut known = self.first_states.borrow_mut();
        if let Some(found) = known.iter().find(|known| known.is_same(&state)) {
            return found.clone();
        }
        if known.len() == FIRST_STATES {
            known.remove(0);
        }
        known.push(state.clone());
        state
    }

    /// The `sql_mode` of sessions that begin now and set none: as the last SET GLOBAL that has passed left it, or as the monitor has
    /// found it; `None` while it is not known.
    pub(crate) fn first_mode(&self) -> Option<Rc<FirstMode>> {
        let found = || {
            self.outlook
                .with_snapshot(|snapshot, _| snapshot.sql_mode().map(|mode| Box::from(mode.as_bytes())))
        };
        let now = self.users.defaults().now(SQL_MODE).or_else(found)?;
        let mut known = self.first_mode.borrow_mut();
        if known.as_ref().is_none_or(|known| *known.mode() != *now) {
            *known = Some(Rc::new(FirstMode::new(now)));
        }
        known.clone()
    }

    /// What the primary is asked with about passwords.
    pub(crate) fn prover(&self) -> Prover<'_> {
        let patience = Duration::from_millis(self.settings().connect_timeout_ms);
        Prover { users: &self.users, pool: &self.pool, reader: self.outlook.reader(), patience }
    }

    /// What holds for all commands of this user's sessions that come in by this listener, from there.
    pub(crate) fn standing(&self, user: &str, listener: &ListenerSettings, ip: Option<IpAddr>) -> Standing {
        let routing = &self.settings().routing;
        let own = self.users.find(user).and_then(|user| user.consistency);
        let limits = routing.limits.about(user, ip);
        let has_say = !routing.rules.is_empty() || listener.mode != ListenerMode::Split;
        Standing {
            always: has_say || limits.as_ref().is_some_and(|limits| limits.limits_statements()),
            consistency: own.or(routing.consistency),
            guard: routing.filters.guard(user),
            limits,
        }
    }

    /// What an operator has set by now.
    pub(crate) fn settings(&self) -> Rc<Settings> {
        self.settings.borrow().clone()
    }

    /// True if these are what an operator has set by now.
    #[inline]
    pub(crate) fn has_set(&self, settings: &Rc<Settings>) -> bool {
        Rc::ptr_eq(settings, &self.settings.borrow())
    }

    /// Has statements wait from now on, and those go on that are not to wait any more.
    pub fn pause(&self, pauses: Arc<Pauses>) {
        self.outlook.is_paused_now(!pauses.is_empty());
        self.waits.gate.follow(pauses);
    }

    /// Follows other settings from now on: sessions with their next command.
    pub fn follow(&self, settings: Settings) {
        self.outlook.spread_by(settings.balance);
        self.equipment.max_command.set(settings.max_allowed_packet);
        self.source.failover.set(settings.failover);
        self.waits.kills_abandoned.set(settings.kills_abandoned);
        self.settings.replace(Rc::new(settings));
    }
}
