//! What the monitor is told.

use std::sync::Arc;
use std::time::Duration;

use delphinus_memory::Account;
use delphinus_net::rt::watch;
use delphinus_net::tls::ClientTls;
use delphinus_net::{Place, Resolver};
use delphinus_topology::{self as topology, BackendId, Discovery, Flapping, Kind, Lag, Role};
use delphinus_wire::auth::Password;
use delphinus_wire::compression::Algorithm;
use delphinus_wire::handshake::client::Trust;
use delphinus_wire::proxy_header::ProxyVersion;

/// Which backends there are, and how they are probed.
#[derive(Debug, Clone)]
pub struct Settings {
    /// The backends; a `BackendId` is a position here.
    pub backends: Vec<BackendSpec>,
    /// Places for backends that are found. They are numbered on from the backends.
    pub spares: Vec<BackendSpec>,
    /// Which backends are looked for.
    pub discovery: Discovery,
    /// Time between two looks at who replicates from the primary, where that is looked for.
    pub discovery_interval_ms: u64,
    /// Time between two looks at where the names of backends lead; 0: every connection looks for itself.
    pub dns_interval_ms: u64,
    /// Time between two readings of the code in the database; 0: it is not read.
    pub stored_code_interval_ms: u64,
    /// Who is asked where names lead.
    pub resolver: Resolver,
    /// How their roles are known.
    pub kind: Kind,
    /// User of the probes. It needs no rights but to log in.
    pub user: String,
    /// Its password.
    pub password: Password,
    /// Time between two probes of a backend; one tenth more or less, so that they do not come all at once.
    pub interval_ms: u64,
    /// Time after which a probe has failed, connect and login included.
    pub timeout_ms: u64,
    /// Failures one after another until a backend is down.
    pub fall: u32,
    /// Successful probes one after another until it is up again.
    pub rise: u32,
    /// Time between two probes of what may be the primary, while there is none.
    pub failover_interval_ms: u64,
    /// How far behind a replica is no place for reads. It may change.
    pub lag: watch::Receiver<Lag>,
    /// Replicas are asked by `performance_schema` how far behind they are, where that can tell.
    pub is_lag_from_performance_schema: bool,
    /// The row that tells how far they are behind, where it is asked first.
    pub heartbeat: Option<HeartbeatSettings>,
    /// What happens to replicas that come and go.
    pub flapping: Flapping,
    /// Whether backends that have lost their place as the primary, and still take writes, are set read-only.
    pub fence: bool,
    /// What memory there is for what is kept.
    pub memory: Account,
}

/// The row that one proxy keeps changing on the primary.
#[derive(Debug, Clone)]
pub struct HeartbeatSettings {
    /// The schema and the name of its table: letters, digits, `_`, `$` and `-`.
    pub schema: String,
    /// See `schema`.
    pub table: String,
    /// Which row: the cluster's name, the same for all its proxies.
    pub cluster: String,
    /// How often it is written, or looked at if another proxy writes it.
    pub interval: Duration,
    /// Whether the table is made where there is none.
    pub creates: bool,
}

/// One backend.
#[derive(Debug, Clone)]
pub struct BackendSpec {
    /// Its name in logs and commands, which is unique, and where it listens. The monitor moves it.
    pub place: Arc<Place>,
    /// What it is for, as far as the configuration says.
    pub role: Role,
    /// Share of the reads, 0 to 1000.
    pub weight: u32,
    /// How TLS is done, and whether a backend that does not offer it is refused; `None`: without TLS.
    pub tls: Option<(ClientTls, bool)>,
    /// What to compress with, if the backend can: it may refuse a login without.
    pub compression: Option<Algorithm>,
    /// In which form the backend wants to know where a connection comes from, if it does.
    pub proxy_protocol: Option<ProxyVersion>,
    /// What is known of who answers there.
    pub trust: Trust,
}

impl Settings {
    /// Nothing to probe, as `user`, with the defaults of the configuration.
    pub fn new(user: String, password: Password) -> Self {
        let rules = topology::Settings::default();
        Self {
            backends: Vec::new(),
            spares: Vec::new(),
            discovery: rules.discovery,
            discovery_interval_ms: 10_000,
            dns_interval_ms: 5_000,
            stored_code_interval_ms: 60_000,
            resolver: Resolver::System,
            kind: rules.kind,
            user,
            password,
            interval_ms: 1_000,
            timeout_ms: 1_000,
            fall: rules.fall,
            rise: rules.rise,
            failover_interval_ms: 100,
            lag: watch::channel(rules.lag).1,
            is_lag_from_performance_schema: false,
            heartbeat: None,
            flapping: rules.flapping,
            fence: false,
            memory: Account::unlimited(),
        }
    }

    pub(crate) fn interval(&self) -> Duration {
        Duration::from_millis(self.interval_ms)
    }

    pub(crate) fn discovery_interval(&self) -> Duration {
        Duration::from_millis(self.discovery_interval_ms)
    }

    /// True for a place of a backend that is found.
    pub(crate) fn is_spare(&self, id: BackendId) -> bool {
        id.index() >= self.backends.len()
    }

    pub(crate) fn failover_interval(&self) -> Duration {
        Duration::from_millis(self.failover_interval_ms)
    }

    /// What the decisions depend on.
    pub(crate) fn rules(&self) -> topology::Settings {
        topology::Settings {
            kind: self.kind,
            fall: self.fall.max(1),
            rise: self.rise.max(1),
            lag: *self.lag.borrow(),
            flapping: self.flapping,
            discovery: self.discovery,
        }
    }

    /// The backend with this number, or a place for one.
    pub(crate) fn spec(&self, id: BackendId) -> &BackendSpec {
        let spare = || &self.spares[id.index() - self.backends.len()];
        self.backends.get(id.index()).unwrap_or_else(spare)
    }

    pub(crate) fn timeout(&self) -> Duration {
        Duration::from_millis(self.timeout_ms)
    }
}

/// Of so many backends, where nobody is.
#[cfg(test)]
pub(crate) fn sample(kind: Kind, backends: u16) -> Settings {
    let spec = |number: u16| BackendSpec {
        place: Place::of(format!("b{number}").into(), delphinus_net::Address::Tcp("127.0.0.1".to_owned(), 1)),
        role: if number == 0 { Role::Primary } else { Role::Replica },
        weight: 100,
        tls: None,
        compression: None,
        proxy_protocol: None,
        trust: Trust::default(),
    };
    let backends = (0..backends).map(spec).collect();
    Settings { backends, kind, ..Settings::new("monitor".to_owned(), Password::new("pw")) }
}
