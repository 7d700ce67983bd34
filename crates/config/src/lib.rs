//! The configuration file: one TOML file in, one valid [`Config`] or every mistake in it out.
//!
//! The schema is declared once, in `schema/*.rs`: the same `///` text documents the struct, makes
//! the list of [`options`] and the [`reference()`] page. Parsing keeps the place of everything, so
//! that each [`Mistake`] names file, line and column and says what to write instead.
//!
//! Pure: this crate opens no file and reads no environment variable. The caller passes the text of
//! the file and an [`Environment`] for the secrets that live elsewhere.

mod access;
mod address;
mod clients;
mod config;
mod diff;
mod document;
mod edit;
mod environment;
mod example;
mod mistake;
mod option_doc;
mod parse;
mod reference;
mod schema;
mod secret;
mod validate;
mod value;
mod word;

pub use access::AdminAccess;
pub use address::{BackendAddress, ListenAddress, Network, is_this_machine};
pub use clients::Clients;
pub use config::{
    Admin, AdminUser, Backend, BackendTrust, Cluster, Config, Credential, Effective, Failover,
    FailoverAccount, Failsafe, Filter, Http, HttpToken, Lease, Limit, Listener, Mirror, Monitor, Relay,
    RelayArchive, RelayKeep, RelaySource, RelayUser, RemoteRelay, Rule, RuleTable, TableName, TlsIdentity,
    TokenSecret, User, Vip,
};
pub use diff::{Change, Effect, Plan};
pub use edit::{Assigned, Edit, Given, NotEdited, Rows, edit};
pub use environment::{Environment, NoEnvironment};
pub use example::example;
pub use mistake::Mistake;
pub use option_doc::{OptionDoc, Reload};
pub use parse::parse;
pub use reference::{options, reference};
pub use schema::{Activity, Authentication, Cache, Digests, Log, Pool, Proxy, Routing, SlowLog, SqlLog};
pub use secret::Secret;
pub use value::{Fingerprint, SocketMode};
pub use word::{
    AdminRole, AuthPlugin, AuthSource, BackendTls, CacheInvalidation, ClientTls, Compression, Consistency,
    Discovery, FilterAction, FilterStatement, Flavor, KillOnMove, LagSource, LeaseStore, LimitPer,
    ListenerMode, LogFlush, LogFormat, LogLevel, LostTransactionError, OnLoss, OnStoreLoss, ProxyProtocol,
    ReadBalance, Role, RuleClass, RuleTarget, Scheduling, SlowLogFormat, SqlLogFormat, SqlLogMode,
    TopologyKind, Unseen, UserAuth, UserPlugin, VipFloating, VipRole,
};
