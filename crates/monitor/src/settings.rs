//! What the monitor is told: what holds as long as it runs, and what may change meanwhile.

use std::sync::Arc;
use std::time::Duration;

use delphinus_memory::Account;
#[cfg(test)]
use delphinus_net::Reach;
use delphinus_net::rt::watch;
use delphinus_net::{Place, Resolver};
use delphinus_topology::{self as topology, BackendId, Discovery, Flapping, Kind, Lag, Role};
use delphinus_wire::auth::Password;

/// Which backends there are, and how they are probed.
#[derive(Debug, Clone)]
pub struct Settings {
    /// The backends; a `BackendId` is a position here.
    pub backends: Vec<BackendSpec>,
    /// Places for backends that are found. They are numbered on from the backends.
    pub spares: Vec<BackendSpec>,
    /// Places for backends that are added while it runs. They are numbered on from the spares.
    pub rooms: Vec<BackendSpec>,
    /// Which backends are looked for.
    pub discovery: Discovery,
    /// Who is asked where names lead.
    pub resolver: Resolver,
    /// How their roles are known.
    pub kind: Kind,
    /// Replicas are asked by `performance_schema` how far behind they are, where that can tell.
    pub is_lag_from_performance_schema: bool,
    /// Time between two readings of the code in the database; zero: it is not read.
    pub stored_code_interval: Duration,
    /// The row that tells how far they are behind, where it is asked first.
    pub heartbeat: Option<HeartbeatSettings>,
    /// What memory there is for what is kept.
    pub memory: Account,
    /// What may change while it runs.
    pub tuning: watch::Receiver<Tuning>,
}

/// What may change while the monitor runs: each probe does as it says by then.
#[derive(Debug, Clone)]
pub struct Tuning {
    /// User of the probes. It needs no rights but to log in.
    pub user: String,
    /// Its password.
    pub password: Password,
    /// Time between two probes of a backend; one tenth more or less, so that they do not come all at once.
    pub interval: Duration,
    /// Time after which a probe has failed, connect and login included.
    pub timeout: Duration,
    /// Failures one after another until a backend is down.
    pub fall: u32,
    /// Successful probes one after another until it is up again.
    pub rise: u32,
    /// Time between two probes of what may be the primary, while there is none.
    pub failover_interval: Duration,
    /// How far behind a replica is no place for reads.
    pub lag: Lag,
    /// What happens to replicas that come and go.
    pub flapping: Flapping,
    /// Whether backends that have lost their place as the primary, and still take writes, are set read-only.
    pub fence: bool,
    /// Whether the heartbeat's table is made where there is none.
    pub creates_heartbeat: bool,
    /// Time between two looks at who replicates from the primary, where that is looked for.
    pub discovery_interval: Duration,
    /// How long the cluster has to be without a server that was found until it is no backend any more.
    pub discovery_forget: Duration,
    /// Time between two looks at where the names of backends lead; zero: every connection looks for itself.
    pub dns_interval: Duration,
}

impl Tuning {
    /// Probes as `user`, with the defaults of the configuration.
    pub fn new(user: String, password: Password) -> Self {
        let rules = topology::Settings::default();
        Self {
            user,
            password,
            interval: Duration::from_secs(1),
            timeout: Duration::from_secs(1),
            fall: rules.fall,
            rise: rules.rise,
            failover_interval: Duration::from_millis(100),
            lag: rules.lag,
            flapping: rules.flapping,
            fence: false,
            creates_heartbeat: true,
            discovery_interval: Duration::from_secs(10),
            discovery_forget: Duration::from_mins(5),
            dns_interval: Duration::from_secs(5),
        }
    }

    /// As it is, and does not change.
    pub fn fixed(self) -> watch::Receiver<Self> {
        watch::channel(self).1
    }
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
}

/// One backend.
#[derive(Debug, Clone)]
pub struct BackendSpec {
    /// Its name in logs and commands, which is unique, where it listens, and how it is reached. The monitor moves it.
    pub place: Arc<Place>,
    /// What it is for at the start, as far as the configuration says.
    pub role: Role,
    /// Share of the reads at the start, 0 to 1000.
    pub weight: u32,
}

impl Settings {
    /// Nothing to probe, in a way that does not change.
    pub fn new(tuning: Tuning) -> Self {
        let rules = topology::Settings::default();
        Self {
            backends: Vec::new(),
            spares: Vec::new(),
            rooms: Vec::new(),
            discovery: rules.discovery,
            resolver: Resolver::System,
            kind: rules.kind,
            is_lag_from_performance_schema: false,
            stored_code_interval: Duration::from_mins(1),
            heartbeat: None,
            memory: Account::unlimited(),
            tuning: tuning.fixed(),
        }
    }

    /// Changes what may change, before it runs.
    pub fn tune(&mut self, change: impl FnOnce(&mut Tuning)) {
        let mut tuning = self.tuning.borrow().clone();
        change(&mut tuning);
        self.tuning = tuning.fixed();
    }

    /// How it is done by now.
    pub(crate) fn tuning(&self) -> impl std::ops::Deref<Target = Tuning> {
        self.tuning.borrow()
    }

    pub(crate) fn interval(&self) -> Duration {
        self.tuning().interval
    }

    pub(crate) fn timeout(&self) -> Duration {
        self.tuning().timeout
    }

    /// True for a place of a backend that is found.
    pub(crate) fn is_spare(&self, id: BackendId) -> bool {
        self.spares().contains(&id.index())
    }

    /// The numbers of these places.
    pub(crate) fn spares(&self) -> std::ops::Range<usize> {
        self.backends.len()..self.backends.len() + self.spares.len()
    }

    /// How many places there are.
    pub(crate) fn places(&self) -> usize {
        self.spares().end + self.rooms.len()
    }

    /// What the decisions depend on.
    pub(crate) fn rules(&self) -> topology::Settings {
        let tuning = self.tuning();
        topology::Settings {
            kind: self.kind,
            fall: tuning.fall.max(1),
            rise: tuning.rise.max(1),
            lag: tuning.lag,
            flapping: tuning.flapping,
            discovery: self.discovery.forgetting_after(tuning.discovery_forget),
        }
    }

    /// The backend with this number, or a place for one.
    pub(crate) fn spec(&self, id: BackendId) -> &BackendSpec {
        let (index, spares) = (id.index(), self.spares());
        if index < spares.start {
            &self.backends[index]
        } else if index < spares.end {
            &self.spares[index - spares.start]
        } else {
            &self.rooms[index - spares.end]
        }
    }
}

/// Of so many backends, where nobody is.
#[cfg(test)]
pub(crate) fn sample(kind: Kind, backends: u16) -> Settings {
    let spec = |number: u16| BackendSpec {
        place: Place::of(
            format!("b{number}").into(),
            delphinus_net::Address::Tcp("127.0.0.1".to_owned(), 1),
            Reach::default(),
        ),
        role: if number == 0 { Role::Primary } else { Role::Replica },
        weight: 100,
    };
    let backends = (0..backends).map(spec).collect();
    Settings { backends, kind, ..Settings::new(Tuning::new("monitor".to_owned(), Password::new("pw"))) }
}
