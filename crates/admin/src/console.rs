//! What commands know of the proxy: the ends of what the others publish, and lines to the workers.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use delphinus_cache::Cache;
use delphinus_clients::{Activity, ClientConnId, FailedLogins, LoginDelays, Registry};
use delphinus_config::{Edit, Effect};
use delphinus_doctor::Finding;
use delphinus_history::History;
use delphinus_journal::Logs;
use delphinus_memory::Account;
use delphinus_stats::Statistics;
use delphinus_telemetry::CounterSet;
use delphinus_topology::ClusterId;
use delphinus_wire::auth::{Plugin, RsaKey};

use crate::audit::Audit;
use crate::cluster::{ClusterView, PATIENCE};
use crate::command::cache_streams::CacheStreamRow;
use crate::command::relay_fences::RelayFenceRow;
use crate::command::relay_replicas::{RelayReplicaRow, RelaySentRow};
use crate::command::relays::{RelayFileRow, RelayRow, RelayWish, RelayWishing};
use crate::command::vips::{LeaseRow, MemberRow, VipChecking, VipRow, VipWish, Wishing};
use crate::listen::AtOneWay;
use crate::programs::RelayReadiness;
use crate::select::Desk;
use crate::turns::Turns;
use crate::users::{AdminToken, AdminUser, AdminUsers};

/// What is set of the operators' side, by now.
pub struct Settings {
    /// Operators.
    pub users: Vec<AdminUser>,
    /// Programs that log in with a token.
    pub tokens: Vec<AdminToken>,
    /// Connections of operators at the same time, by TCP, and by Unix sockets.
    pub max_connections: u32,
    /// A login must be finished in this time.
    pub connect_timeout: Duration,
    /// An operator who says nothing for so long is disconnected.
    pub wait_timeout: Duration,
    /// What failed logins cost.
    pub login_delays: LoginDelays,
    /// The plugin that is offered first.
    pub default_plugin: Plugin,
}

/// What the operators' side is made from.
pub struct Parts {
    /// What of it may change.
    pub settings: Settings,
    /// For logins with a password in RSA.
    pub rsa_key: Option<Arc<RsaKey>>,
    /// All sessions.
    pub registry: Arc<Registry>,
    /// The clusters, the default one first; at least one.
    pub clusters: Vec<ClusterView>,
    /// Everything that is counted.
    pub counters: CounterSet,
    /// Answers that are kept, of all clusters; `None`: none are.
    pub cache: Option<Arc<Cache>>,
    /// What memory is kept.
    pub memory: Account,
    /// What statements cost.
    pub statistics: Arc<Statistics>,
    /// The logs of statements.
    pub logs: Logs,
    /// What has been.
    pub history: Arc<History>,
    /// The proxy as a whole.
    pub proxy: Rc<dyn Proxy>,
}

/// The proxy as operators see and steer it: its configuration, and what stands in it.
pub trait Proxy {
    /// Where clients and operators connect, by now.
    fn listeners(&self) -> Vec<ListenerRow>;
    /// The users of the configuration, by now.
    fn client_users(&self) -> Vec<ClientUser>;
    /// Every option with the value that it has, secrets hidden.
    fn options(&self) -> Vec<(String, String)>;
    /// What is wrong with what runs, and with its servers.
    fn faults(&self) -> Examining<'_>;
    /// Takes the proxy out of service, or back.
    fn set_offline(&self, is_offline: bool);
    /// True if sessions end between transactions: it is out of service, or about to stop.
    fn is_ending(&self) -> bool;
    /// Reads the file again, applies what takes effect while the proxy runs, and tells all that differs. An error, which
    /// says what is wrong with the file, changes nothing, unless it says that the change was made and a worker is late.
    fn reload<'a>(&'a self, by: &'a str) -> Changing<'a>;
    /// Makes a change to what runs, in the name of this operator; the file stays as it is.
    fn change<'a>(&'a self, edit: &'a Edit, by: &'a str) -> Changing<'a>;
    /// Goes back to what ran after an earlier change.
    fn roll_back<'a>(&'a self, number: u64, by: &'a str) -> Changing<'a>;
    /// Puts what runs in the place of the file.
    fn save<'a>(&'a self, by: &'a str) -> Saving<'a>;
    /// What would change if the file was read again.
    fn plan(&self) -> Result<Vec<ChangedOption>, String>;
    /// The virtual IPs.
    fn vips(&self) -> Vec<VipRow>;
    /// The processes that share the lease store.
    fn members(&self) -> Vec<MemberRow>;
    /// How this process stands with it; `None`: there is none.
    fn lease(&self) -> Option<LeaseRow> {
        None
    }
    /// Looks whether they can work on this host.
    fn check_vips(&self) -> VipChecking<'_>;
    /// Has all of them follow a wish.
    fn wish_of_vips(&self, wish: VipWish) -> Wishing<'_>;
    /// The replication relays.
    fn relays(&self) -> Vec<RelayRow> {
        Vec::new()
    }
    /// Whether they have something for replicas. Cheap: it is asked without a login.
    fn relay_readiness(&self) -> Vec<RelayReadiness> {
        Vec::new()
    }
    /// Their files, oldest first.
    fn relay_files(&self) -> Vec<RelayFileRow> {
        Vec::new()
    }
    /// The replicas of relays.
    fn relay_replicas(&self) -> Vec<RelayReplicaRow> {
        Vec::new()
    }
    /// Whom the relays acknowledge.
    fn relay_fences(&self) -> Vec<RelayFenceRow> {
        Vec::new()
    }
    /// What relays have sent to replicas.
    fn relay_sent(&self) -> Vec<RelaySentRow> {
        Vec::new()
    }
    /// What others write, as relays tell it to the cache.
    fn cache_streams(&self) -> Vec<CacheStreamRow> {
        Vec::new()
    }
    /// Has the relay of this name follow a wish.
    fn order_relay<'a>(&'a self, name: &'a str, _wish: RelayWish) -> RelayWishing<'a> {
        Box::pin(async move { Err(format!("there is no relay '{name}'")) })
    }
    /// How many digests a snapshot has.
    fn most_digests_of_snapshot(&self) -> usize;
    /// The changes that are kept, the newest last.
    fn history(&self) -> Vec<ConfigChange>;
}

/// A change of what runs.
#[derive(Debug, Clone)]
pub struct ConfigChange {
    /// Its number, from 0 on.
    pub number: u64,
    /// When it was made.
    pub at: SystemTime,
    /// By whom.
    pub by: String,
    /// In words, without secrets.
    pub what: String,
    /// How many options it has changed.
    pub changes: usize,
    /// What it has led to is what runs now.
    pub is_running: bool,
    /// And what the file has.
    pub is_saved: bool,
}

/// What is found to be wrong.
pub type Examining<'a> = Pin<Box<dyn Future<Output = Vec<Finding>> + 'a>>;
/// What becomes of a change.
pub type Changing<'a> = Pin<Box<dyn Future<Output = Result<Vec<ChangedOption>, String>> + 'a>>;
/// What becomes of the file when it is written.
pub type Saving<'a> = Pin<Box<dyn Future<Output = Result<(), String>> + 'a>>;

/// An option that has another value in the file than the running proxy had.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChangedOption {
    /// Its path.
    pub option: String,
    /// What it was; `None`: its section was not there.
    pub before: Option<String>,
    /// What the file says; `None`: its section is not there any more.
    pub after: Option<String>,
    /// When it takes effect.
    pub effect: Effect,
}

/// A listener as operators see it.
#[derive(Debug, Clone)]
pub struct ListenerRow {
    /// Its name.
    pub name: String,
    /// Where it listens.
    pub address: String,
    /// Whether it uses TLS.
    pub tls: &'static str,
    /// For whom: "clients", "operators" or "programs".
    pub serves: &'static str,
    /// The cluster that all of its clients get to.
    pub cluster: Option<String>,
}

/// A user of the configuration as operators see it.
#[derive(Debug, Clone)]
pub struct ClientUser {
    /// The name.
    pub name: String,
    /// What passwords are compared with, without it.
    pub authentication: &'static str,
    /// The schema of clients that name none.
    pub default_schema: Option<String>,
    /// Most connections at the same time.
    pub max_connections: Option<u32>,
    /// The cluster that it gets to, if it has one.
    pub cluster: Option<String>,
    /// May take what is reserved, and end the sessions of others.
    pub is_connection_admin: bool,
}

/// What all operators' connections share.
pub struct Console {
    /// When the clock of sessions began.
    pub(crate) began: SystemTime,
    pub(crate) parts: Parts,
    pub(crate) users: RefCell<AdminUsers>,
    pub(crate) started: Instant,
    /// Connections that are open, by TCP and by Unix sockets.
    pub(crate) places: [RefCell<AtOneWay>; 2],
    pub(crate) failed_logins: FailedLogins,
    pub(crate) desk: Desk,
    /// Whose turn it is to have all servers examined.
    pub(crate) examinations: Turns,
    pub(crate) audit: Audit,
    times: Cell<Times>,
}

/// The small ones of the settings.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Times {
    pub(crate) max_connections: u32,
    pub(crate) connect_timeout: Duration,
    pub(crate) wait_timeout: Duration,
    pub(crate) default_plugin: Plugin,
}

impl Times {
    fn of(settings: &Settings) -> Self {
        let Settings { max_connections, connect_timeout, wait_timeout, default_plugin, .. } = *settings;
        Self { max_connections, connect_timeout, wait_timeout, default_plugin }
    }
}

impl Console {
    /// Puts the parts together.
    pub fn new(mut parts: Parts, now: Instant) -> Self {
        let settings = &mut parts.settings;
        let times = Cell::new(Times::of(settings));
        let users = RefCell::new(AdminUsers::new(
            std::mem::take(&mut settings.users),
            std::mem::take(&mut settings.tokens),
        ));
        let failed_logins = FailedLogins::new(settings.login_delays);
        let audit = Audit::new(&parts.memory);
        let (places, desk) = (Default::default(), Desk::default());
        let began = SystemTime::now();
        let examinations = Turns::default();
        Self { parts, users, started: now, began, places, failed_logins, desk, examinations, audit, times }
    }

    /// Follows other settings from now on. An operator who is not among the users any more is disconnected with the next command.
    pub fn follow(&self, settings: Settings) {
        self.times.set(Times::of(&settings));
        self.failed_logins.follow(settings.login_delays);
        self.users.replace(AdminUsers::new(settings.users, settings.tokens));
    }

    /// Puts into the audit what no operator has asked for by a statement: a signal, a file that has changed.
    pub fn note(&self, who: &str, what: &str, result: &str) {
        self.audit.note(who, what, result);
    }

    pub(crate) fn times(&self) -> Times {
        self.times.get()
    }

    /// The statements that sessions run, of those that tell in time.
    pub(crate) async fn statements(&self, sessions: &[Arc<Activity>]) -> HashMap<ClientConnId, String> {
        let busy: Vec<_> = sessions.iter().filter(|one| one.place().is_some()).cloned().collect();
        self.parts.registry.ask(&busy, PATIENCE).await
    }

    /// All clusters.
    pub(crate) fn clusters(&self) -> impl Iterator<Item = (ClusterId, &ClusterView)> {
        (0u16..).map(ClusterId).zip(&self.parts.clusters)
    }

    /// The cluster of a session.
    pub(crate) fn cluster_of(&self, info: &Activity) -> &ClusterView {
        &self.parts.clusters[info.cluster().index()]
    }

    /// The default cluster; none where there are only relays.
    pub(crate) fn first_cluster(&self) -> Option<&ClusterView> {
        self.parts.clusters.first()
    }
}
