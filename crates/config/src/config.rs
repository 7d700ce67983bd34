//! The configuration as the rest of the product sees it. Only [`crate::parse()`] makes one, so a
//! [`Config`] that exists is valid.

use std::fmt;
use std::path::PathBuf;

use crate::address::{BackendAddress, ListenAddress, Network};
use crate::clients::Clients;
use crate::schema::{Activity, Authentication, Cache, Digests, Log, Pool, Proxy, Routing, SlowLog, SqlLog};
use crate::secret::Secret;
use crate::value::{Fingerprint, SocketMode};
use crate::word::{
    AdminRole, AuthSource, BackendTls, ClientTls, Compression, Consistency, Discovery, Flavor, LagSource,
    ListenerMode, ProxyProtocol, Role, RuleClass, RuleTarget, TopologyKind, UserPlugin,
};

mod failover;
mod filter;
mod http;
mod lease;
mod limit;
mod reach;
mod relay;

pub use failover::{Account as FailoverAccount, Failover, RemoteRelay};
pub use filter::Filter;
pub use http::{Http, HttpToken, TokenSecret};
pub use lease::{Failsafe, Lease, Vip};
pub use limit::Limit;
pub use relay::{Relay, RelayArchive, RelayKeep, RelaySource, RelayUser};

/// A valid configuration. All paths are usable from any working directory if the name of the file
/// was; all secrets have been read.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Config {
    /// The process as a whole.
    pub proxy: Proxy,
    /// Where clients connect; at least one, unless this process is an agent.
    pub listeners: Vec<Listener>,
    /// Who may log in; at least one, unless the primary says who may or this process is an agent.
    pub users: Vec<User>,
    /// How they prove who they are.
    pub authentication: Authentication,
    /// The servers behind the proxy; at least one cluster, of which the first is the default, unless there are relays.
    pub clusters: Vec<Cluster>,
    /// What an operator wants of certain statements, in the order of the file.
    pub rules: Vec<Rule>,
    /// What is refused or logged of dangerous statements.
    pub filters: Vec<Filter>,
    /// How much clients may do.
    pub limits: Vec<Limit>,
    /// Servers that get copies of reads.
    pub mirrors: Vec<Mirror>,
    /// Answers that are kept.
    pub cache: Cache,
    /// What is counted of statements.
    pub digests: Digests,
    /// Statements that take long, in a file.
    pub slow_log: SlowLog,
    /// Where processes agree who has what.
    pub lease: Lease,
    /// Virtual IPs.
    pub vips: Vec<Vip>,
    /// Replication relays.
    pub relays: Vec<Relay>,
    /// `[sql_log]`
    pub sql_log: SqlLog,
    /// What sessions did, and what was counted.
    pub activity: Activity,
    /// What is written about it.
    pub log: Log,
    /// Where operators connect; `None`: nobody can.
    pub admin: Option<Admin>,
    /// Where programs ask over HTTP; `None`: none can.
    pub http: Option<Http>,
    /// Every option with the value that it has.
    pub effective: Effective,
}

/// Every option of every section, for people who ask: (path, value), secrets hidden. Sections that can be there more than
/// once are numbered from 1.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct Effective(pub Vec<(String, String)>);

impl fmt::Debug for Effective {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Effective(..)")
    }
}

/// Where operators connect.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Admin {
    /// Where to listen; not empty.
    pub addresses: Vec<ListenAddress>,
    /// Permissions of Unix sockets.
    pub socket_mode: SocketMode,
    /// TLS on TCP; required where an address is not loopback.
    pub tls: ClientTls,
    /// Certificate and key; `None`: the proxy makes them.
    pub tls_identity: Option<TlsIdentity>,
    /// Connections at the same time.
    pub max_connections: u32,
    /// Who may log in; not empty.
    pub users: Vec<AdminUser>,
}

/// An operator.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct AdminUser {
    /// Unique name.
    pub name: String,
    /// What the password is compared with; never `Backend`.
    pub credential: Credential,
    /// What the operator may do.
    pub role: AdminRole,
}

/// One address where clients connect.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Listener {
    /// Unique name.
    pub name: String,
    /// Where to listen.
    pub address: ListenAddress,
    /// Whether clients may, must or cannot use TLS.
    pub tls: ClientTls,
    /// Certificate and key; `None`: the proxy makes them.
    pub tls_identity: Option<TlsIdentity>,
    /// PEM file of the authorities that client certificates are checked with.
    pub tls_ca: Option<PathBuf>,
    /// What clients may ask for; not empty.
    pub compression_algorithms: Vec<Compression>,
    /// Load balancers.
    pub proxy_protocol_networks: Vec<Network>,
    /// Permissions, where the address is a Unix socket.
    pub socket_mode: SocketMode,
    /// Which clients may come in; empty: all.
    pub allow: Vec<Clients>,
    /// Which may not.
    pub deny: Vec<Clients>,
    /// Which backends its clients get to.
    pub mode: ListenerMode,
    /// The place in `Config::clusters` of the one that its clients get to.
    pub cluster: Option<usize>,
}

/// PEM files of a certificate chain and its private key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TlsIdentity {
    /// The chain, own certificate first.
    pub cert: PathBuf,
    /// The private key.
    pub key: PathBuf,
}

/// One user that may log in.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct User {
    /// Unique name.
    pub name: String,
    /// What the client's password is compared with.
    pub credential: Credential,
    /// A second password that is right too, of the same kind.
    pub secondary: Option<Credential>,
    /// The plugin that clients have to use.
    pub plugin: Option<UserPlugin>,
    /// From where it may log in; empty: from everywhere.
    pub allow: Vec<Clients>,
    /// From where it may not.
    pub deny: Vec<Clients>,
    /// Schema of a client that names none.
    pub default_schema: Option<String>,
    /// The place in `Config::clusters` of the one that its sessions get to.
    pub cluster: Option<usize>,
    /// Most client connections at the same time; `None`: no limit of its own.
    pub max_connections: Option<u32>,
    /// How old what its reads find may be; `None`: as `Routing` says.
    pub consistency: Option<Consistency>,
    /// May ask EXPLAIN ROUTE; `None`: as `Routing` says.
    pub explain_route: Option<bool>,
    /// May take what is reserved, and see and end the sessions of others.
    pub connection_admin: bool,
    /// Most connections to each backend.
    pub max_backend_connections: Option<u32>,
    /// Connections kept open to each backend.
    pub min_backend_connections: u32,
    /// Its sessions share backend connections.
    pub multiplex: bool,
}

/// What a password is compared with.
#[derive(Clone, PartialEq, Eq)]
pub enum Credential {
    /// The password itself; empty for a user without one.
    Password(Secret),
    /// SHA1(SHA1(password)): the stored form of mysql_native_password.
    NativeHash([u8; 20]),
    /// `$A$005$`, 20 bytes of salt, 43 of digest: the stored form of caching_sha2_password.
    CachingSha2Hash(Secret),
    /// Nothing here: the primary is asked.
    Backend,
}

impl fmt::Debug for Credential {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Password(_) => "Password(hidden)",
            Self::NativeHash(_) => "NativeHash(hidden)",
            Self::CachingSha2Hash(_) => "CachingSha2Hash(hidden)",
            Self::Backend => "Backend",
        })
    }
}

/// Servers behind the proxy that have the same data.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Cluster {
    /// Unique name.
    pub name: String,
    /// Schemas that are in no other cluster, in small letters.
    pub schemas: Vec<String>,
    /// How the roles are known.
    pub topology: TopologyKind,
    /// Family of the servers.
    pub flavor: Flavor,
    /// In the order of the file. Where roles are static exactly one is the primary, elsewhere nobody has a role.
    pub backends: Vec<Backend>,
    /// Where statements go.
    pub routing: Routing,
    /// How the proxy moves the primary's role itself; `None`: it does not.
    pub failover: Option<Failover>,
    /// How the backends' health is found out.
    pub monitor: Monitor,
    /// Connections to them.
    pub pool: Pool,
}

impl Cluster {
    /// True if members of its group become backends.
    pub fn finds_members(&self) -> bool {
        let is_group = self.topology == TopologyKind::GroupReplication;
        is_group && matches!(self.monitor.discovery, Discovery::Auto | Discovery::Group)
    }

    /// True if the replicas of its primary become backends.
    pub fn finds_replicas(&self) -> bool {
        self.topology != TopologyKind::GroupReplication && self.monitor.discovery == Discovery::Replicas
    }

    /// For how many backends that are found there is a place.
    pub fn spares(&self) -> usize {
        let finds_any = self.finds_members() || self.finds_replicas();
        if finds_any { self.monitor.max_discovered as usize } else { 0 }
    }
}

impl Config {
    /// How many client connections are kept for users with `connection_admin`.
    pub fn reserved_clients(&self) -> u32 {
        let proxy = &self.proxy;
        proxy.reserved_connections.unwrap_or_else(|| self.usually_reserved(5, proxy.max_connections))
    }

    /// How many connections to each backend of a cluster are kept for them.
    pub fn reserved_backend_connections(&self, cluster: &Cluster) -> u32 {
        let pool = &cluster.pool;
        pool.reserved_connections.unwrap_or_else(|| self.usually_reserved(2, pool.max_connections))
    }

    fn usually_reserved(&self, few: u32, max: u32) -> u32 {
        let is_needed = self.users.iter().any(|user| user.connection_admin);
        if is_needed { few.min(max / 2) } else { 0 }
    }

    /// True if some user's password is checked by a login to the primary.
    pub fn asks_backend(&self) -> bool {
        self.authentication.auth == AuthSource::Backend
            || self.users.iter().any(|user| user.credential == Credential::Backend)
    }
}

/// One server.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Backend {
    /// Unique name.
    pub name: String,
    /// Where it is reached; unique.
    pub address: BackendAddress,
    /// What it is, if that is static.
    pub role: Option<Role>,
    /// Share of the reads, 0..=1000.
    pub weight: u32,
    /// TLS to it.
    pub tls: BackendTls,
    /// PEM file of the authorities; set where `tls` checks certificates.
    pub tls_ca: Option<PathBuf>,
    /// What of it is taken as a proof that it is the server.
    pub trust: BackendTrust,
    /// Compression of the connections to it.
    pub compression: Compression,
    /// Level of zstd, 1..=22.
    pub zstd_compression_level: u8,
    /// How it is told where clients come from, if it is.
    pub send_proxy_protocol: Option<ProxyProtocol>,
    /// The groups that rules may name it by.
    pub groups: Vec<String>,
    /// Most connections to it; `None`: as the pool says.
    pub max_connections: Option<u32>,
}

/// What is taken as a proof that the server that answers is the right one, beside an authority.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct BackendTrust {
    /// Certificates; empty: any, or what the authority has signed.
    pub certificates: Vec<Fingerprint>,
    /// RSA keys; empty: see `takes_any_key`.
    pub keys: Vec<Fingerprint>,
    /// A certificate that is not checked is enough.
    pub takes_any_certificate: bool,
    /// A key that is not checked is enough.
    pub takes_any_key: bool,
}

/// A server that gets copies of reads.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Mirror {
    /// The group that rules name it by.
    pub group: String,
    /// How it is reached; it has neither role nor weight.
    pub backend: Backend,
    /// How long one copy may take, milliseconds.
    pub timeout_ms: u64,
}

/// What an operator wants of certain statements. Conditions that are empty always fit.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Rule {
    /// Unique name.
    pub name: String,
    /// Users.
    pub users: Vec<String>,
    /// Current schemas.
    pub schemas: Vec<String>,
    /// Networks of clients.
    pub clients: Vec<Network>,
    /// Names of listeners; they exist.
    pub listeners: Vec<String>,
    /// Places in `Config::clusters`; empty: all.
    pub clusters: Vec<usize>,
    /// Digests.
    pub digests: Vec<u64>,
    /// A regular expression for the normalised text; it can be compiled.
    pub match_digest: Option<String>,
    /// A regular expression for the text; it can be compiled.
    pub match_pattern: Option<String>,
    /// Kinds of statements.
    pub classes: Vec<RuleClass>,
    /// Tables that the statement names.
    pub tables: Vec<RuleTable>,
    /// Where reads go.
    pub target: Option<RuleTarget>,
    /// The group of backends that reads go to; it is not empty.
    pub group: Option<String>,
    /// The statement is refused with this text.
    pub reject: Option<String>,
    /// What takes the place of what `match_pattern` matches.
    pub replace_pattern: Option<String>,
    /// How old what reads find may be.
    pub consistency: Option<Consistency>,
    /// It waits, milliseconds.
    pub delay_ms: u64,
    /// It may run for so long, milliseconds.
    pub timeout_ms: Option<u64>,
    /// Its answer may be kept for so long, milliseconds.
    pub cache_ttl_ms: Option<u64>,
    /// When it is asked for anew, in percent of that.
    pub cache_soft_ttl_pct: Option<u32>,
    /// Whether one without rows is kept.
    pub cache_empty_result: Option<bool>,
    /// Whether one with warnings is kept.
    pub cache_warnings: Option<bool>,
    /// The part of the room for kept answers that is the rule's own, in percent.
    pub cache_share_pct: Option<u32>,
    /// Whether the session may share its connection from then on.
    pub multiplex: Option<bool>,
    /// The group of mirrors that reads are sent to as well; it is not empty.
    pub mirror_group: Option<String>,
    /// It is logged.
    pub log: bool,
    /// Nothing is done, only counted and logged.
    pub log_only: bool,
}

/// A table that a rule is about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RuleTable {
    /// Its schema; `None`: any.
    pub schema: Option<String>,
    /// Its name.
    pub name: String,
}

/// A table's name in two parts, of which each can stand in backticks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TableName {
    /// The schema.
    pub schema: String,
    /// The table in it.
    pub table: String,
}

/// How the health of the backends is found out.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Monitor {
    /// User of the probes.
    pub user: String,
    /// Its password; empty for none.
    pub password: Secret,
    /// Time between two probes of a backend, milliseconds.
    pub interval_ms: u64,
    /// Time that a probe may take, milliseconds.
    pub timeout_ms: u64,
    /// Failed probes until a backend is down.
    pub fall: u32,
    /// Good probes until it is up again.
    pub rise: u32,
    /// Time between two probes while there is no usable primary, milliseconds.
    pub failover_interval_ms: u64,
    /// How far behind a replica gets no reads, milliseconds; 0: nobody looks.
    pub lag_down_ms: u64,
    /// Not further behind than this it gets them again, milliseconds.
    pub lag_recover_ms: u64,
    /// What is asked how far a replica is behind.
    pub lag_source: LagSource,
    /// Where the heartbeat's row is.
    pub heartbeat_table: TableName,
    /// Time between two changes of it, milliseconds.
    pub heartbeat_interval_ms: u64,
    /// Whether its table is made where there is none.
    pub heartbeat_create: bool,
    /// How soon a replica has to be gone again to flap, milliseconds.
    pub flap_window_ms: u64,
    /// How long it is kept out the first time, milliseconds; 0: never.
    pub flap_backoff_ms: u64,
    /// And at most, milliseconds.
    pub flap_backoff_max_ms: u64,
    /// Whether old primaries that take writes are set read-only.
    pub fence: bool,
    /// Time between two looks at where names lead, milliseconds; 0: none.
    pub dns_interval_ms: u64,
    /// Time between two readings of the code in the database, milliseconds; 0: none.
    pub stored_code_interval_ms: u64,
    /// Which servers become backends beside those that are listed.
    pub discovery: Discovery,
    /// Time between two questions who replicates from the primary, milliseconds.
    pub discovery_interval_ms: u64,
    /// How many of them there can be.
    pub max_discovered: u32,
    /// How long the cluster has to be without one until it is none any more, milliseconds.
    pub discovery_forget_ms: u64,
}

impl Monitor {
    /// As `read`, with what cannot change while the proxy runs as it is here.
    pub(crate) fn take_hot(&mut self, read: &Self) {
        let own = std::mem::replace(self, read.clone());
        *self = Self {
            stored_code_interval_ms: own.stored_code_interval_ms,
            discovery: own.discovery,
            max_discovered: own.max_discovered,
            lag_source: own.lag_source,
            heartbeat_table: own.heartbeat_table,
            heartbeat_interval_ms: own.heartbeat_interval_ms,
            ..read.clone()
        };
    }
}
