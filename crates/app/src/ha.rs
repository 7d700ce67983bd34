//! The lease and the virtual IPs of this process, from the configuration: started, followed, stopped, and told what this host is fit
//! for.

use std::cell::{Cell, RefCell};
use std::path::Path;
use std::rc::Rc;
use std::sync::{Arc, Weak};
use std::time::Duration;

use delphinus_admin::{LeaseRow, MemberRow, VipRow, VipWish};
use delphinus_clients::Registry;
use delphinus_config::{self as config, Config};
use delphinus_lease::{
    Access, Answered, ClientCertificate, Entry, Etcd, EtcdSettings, Failsafe, Group, Lease, Local, Promise,
    Store, boot_now,
};
use delphinus_net::rt;
use delphinus_topology::{Backend, Fitness, Floating, Role, Serving, Slow, Snapshot, Terms, Vip, VipRole};
use delphinus_view::SnapshotReader;
use delphinus_vip::{Condition, FROZEN, Health, Keeper, KillOnMove, PREFERRED, Settings, Shown, Spec};
use zeroize::Zeroizing;

use crate::entrance::Entrance;
use crate::error::Error;
use crate::group_members::Members;
use crate::leave;
use crate::on_server::{OnAddress, OnServer};

/// How often the virtual IPs hear what this host is fit for, if nothing changes.
const PACE: Duration = Duration::from_millis(200);

/// The lease and the virtual IPs, if there are any.
pub(crate) struct Ha {
    registry: Arc<Registry>,
    health: Arc<Health>,
    server: Arc<OnServer>,
    entrance: Arc<Entrance>,
    running: RefCell<Option<Running>>,
    /// The configuration names a store, so that other processes may act, too: also while nothing runs here.
    is_shared: Cell<bool>,
    /// Rings when something has changed in the store.
    news: rt::watch::Sender<()>,
}

/// The store of another configuration's lease; `None`: it has none, or the lease is the one that runs.
pub(crate) struct NextLease(Option<Box<dyn Store>>);

/// In this order: the addresses go before the lease does.
struct Running {
    by: config::Lease,
    vips: Keeper,
    lease: Arc<Lease>,
}

impl Ha {
    /// Begins what the configuration asks for.
    ///
    /// # Errors
    /// A certificate that cannot be read, or another process that holds the same lease.
    pub(crate) fn start(config: &Config, registry: &Arc<Registry>) -> Result<Rc<Self>, Error> {
        let health = Arc::<Health>::default();
        let news = rt::watch::Sender::new(());
        let server = Arc::<OnServer>::default();
        let entrance = Arc::<Entrance>::default();
        let sessions = OnAddress::new(registry.clone(), server.clone(), entrance.clone());
        let running = begin(config, store(config)?, sessions, (&health, &news))?;
        let is_shared = Cell::new(config.lease.store.is_some());
        let (registry, running) = (registry.clone(), RefCell::new(running));
        Ok(Rc::new(Self { registry, health, server, entrance, running, is_shared, news }))
    }

    /// Looks whether another configuration can be followed, as far as that is known while the lease runs. Nothing is released.
    ///
    /// # Errors
    /// A certificate that cannot be read.
    pub(crate) fn prepare(&self, config: &Config) -> Result<NextLease, Error> {
        let is_same = self.running.borrow().as_ref().is_some_and(|running| running.by == config.lease);
        if is_same || config.lease.store.is_none() {
            return Ok(NextLease(None));
        }
        lease_settings(config).check().map_err(|error| Error::Lease(error.to_string()))?;
        store(config).map(NextLease)
    }

    /// Follows another configuration. With another store, everything is released first.
    ///
    /// # Errors
    /// Another process that holds the same lease; nothing is held then.
    pub(crate) async fn follow(&self, config: &Config, NextLease(store): NextLease) -> Result<(), Error> {
        if let Some(running) = self.running.borrow().as_ref().filter(|running| running.by == config.lease) {
            running.vips.follow(settings(config));
            want_to_act(config, &running.lease);
            return Ok(());
        }
        let is_shared = config.lease.store.is_some();
        self.is_shared.set(self.is_shared.get() || is_shared);
        self.stop().await;
        self.is_shared.set(is_shared);
        let sessions = OnAddress::new(self.registry.clone(), self.server.clone(), self.entrance.clone());
        let running = begin(config, store, sessions, (&self.health, &self.news))?;
        self.running.replace(running);
        Ok(())
    }

    /// Another configuration could not be followed: begins again what the one before it asks for. Returns what to say of both.
    pub(crate) async fn go_back(&self, before: &Config, error: &Error) -> String {
        let again = match self.prepare(before) {
            Ok(lease) => self.follow(before, lease).await,
            Err(error) => Err(error),
        };
        match again {
            Ok(()) if before.lease.store.is_none() => format!("{error}. Nothing has changed"),
            Ok(()) => {
                format!("{error}. Nothing has changed; the lease was released meanwhile, and has begun again")
            }
            Err(again) => format!(
                "{error}. The lease before cannot begin again, either ({again}): this process has no lease and no virtual IP. Mend \
                 that, and reload. Nothing else has changed"
            ),
        }
    }

    /// Which sessions of the server on this host are idle is asked for here.
    pub(crate) fn server(&self) -> Arc<OnServer> {
        self.server.clone()
    }

    /// Who keeps clients out by an address that leaves.
    pub(crate) fn entrance(&self) -> Arc<Entrance> {
        self.entrance.clone()
    }

    /// How the virtual IPs stand.
    pub(crate) fn rows(&self) -> Vec<VipRow> {
        let shown = self.running.borrow().as_ref().map(|running| running.vips.shown());
        shown.unwrap_or_default().into_iter().map(row).collect()
    }

    /// The lease; none without a store.
    pub(crate) fn lease(&self) -> Option<Arc<Lease>> {
        self.running.borrow().as_ref().map(|running| running.lease.clone())
    }

    /// True if there is no store, and so no other process to agree with. Not so where the lease has only ended.
    pub(crate) fn is_alone(&self) -> bool {
        !self.is_shared.get()
    }

    /// Rings when something has changed in the store.
    pub(crate) fn news(&self) -> rt::watch::Receiver<()> {
        self.news.subscribe()
    }

    /// How this process stands with the store.
    pub(crate) fn lease_row(&self) -> Option<LeaseRow> {
        let view = self.lease()?.view();
        let now = boot_now();
        Some(LeaseRow {
            is_up: view.trouble.is_none() && view.listed.is_some(),
            errors: view.troubles,
            age: view.listed.map(|listed| now.since(listed)),
            left: view.left(now),
        })
    }

    /// Who shares the store, as it was listed last.
    pub(crate) fn members(&self) -> Vec<MemberRow> {
        let running = self.running.borrow();
        let Some(running) = running.as_ref() else { return Vec::new() };
        let (own, view) = (member(&running.by), running.lease.view());
        let row = |(name, entry): (&str, &Entry)| MemberRow {
            name: name.to_owned(),
            fitness: entry.value.clone(),
            is_own: name == own,
            epoch: entry.epoch,
        };
        view.below("members/").map(row).collect()
    }

    /// Writes into the store what operators want of the virtual IPs.
    pub(crate) async fn follow_wish(&self, wish: VipWish) -> Result<(), String> {
        let Some(lease) = self.lease() else {
            return Err("there is no lease store: set store in [lease]".to_owned());
        };
        let mut list = None;
        let changes = match wish {
            VipWish::Promise { holder, ttl, keys, members } => {
                let own =
                    self.running.borrow().as_ref().map(|running| member(&running.by)).unwrap_or_default();
                let promise = Promise { holder, ttl, keys, members };
                return lease.promise(&promise, &own);
            }
            VipWish::Move { vip, to } => {
                list = lease.let_in(&to)?;
                vec![(format!("{PREFERRED}{vip}"), Some(to))]
            }
            VipWish::Freeze => vec![(FROZEN.to_owned(), Some("1".to_owned()))],
            VipWish::Unfreeze => vec![(FROZEN.to_owned(), None)],
            VipWish::Rebalance => {
                let view = lease.view();
                view.below(PREFERRED).map(|(vip, _)| (format!("{PREFERRED}{vip}"), None)).collect()
            }
        };
        let waiting = Arc::downgrade(&lease);
        drop(lease);
        if let Some(change) = list {
            done(&waiting, |lease, answered| lease.change_list(change, answered)).await?;
        }
        for (key, value) in changes {
            done(&waiting, |lease, answered| lease.put(&key, value.as_deref(), answered)).await?;
        }
        Ok(())
    }

    /// Tells again and again what this host is fit for.
    pub(crate) async fn tell(self: Rc<Self>, clusters: Vec<SnapshotReader>) {
        // While everything is released the server on this host may serve all the same.
        let mut local = None;
        loop {
            if let Some(running) = self.running.borrow().as_ref() {
                local.clone_from(&running.by.local_backend);
            }
            let snapshots: Vec<_> = clusters.iter().map(SnapshotReader::load).collect();
            // Before the backends have been looked at nothing is known.
            if snapshots.iter().all(|snapshot| snapshot.settled) {
                self.health.is(fitness(&snapshots, local.as_deref(), self.registry.is_offline()));
            }
            rt::sleep(PACE).await;
        }
    }

    /// Releases everything. From now on this process moves no role: another one may. Takes as long as the sessions on the addresses may.
    pub(crate) async fn stop(&self) {
        let running = self.running.take();
        rt::compute(move || drop(running)).await;
    }
}

/// Waits for what has become of a change of the store. Whoever waits does not hold the lease: it ends with the last one that holds it, and
/// until then the lease of another configuration cannot begin.
async fn done(lease: &Weak<Lease>, change: impl FnOnce(&Lease, Answered)) -> Result<(), String> {
    let ended = || "the lease of this process has ended".to_owned();
    let lease = lease.upgrade().ok_or_else(ended)?;
    let (answered, answer) = rt::oneshot::channel();
    change(&lease, Box::new(move |done| drop(answered.send(done))));
    drop(lease);
    let done = answer.await.map_err(|_| ended())?;
    done.map_err(|error| error.to_string())
}

/// What this host is fit for. A server that does not answer in time may only be slow: only one that refuses connections, has lost its
/// role or is not to be used is known to be of no use.
fn fitness(snapshots: &[Arc<Snapshot>], local: Option<&str>, is_offline: bool) -> Fitness {
    let has = |is_so: fn(&Backend) -> bool| {
        !is_offline && snapshots.iter().any(|snapshot| snapshot.present().any(is_so))
    };
    let backend = |name| snapshots.iter().find_map(|snapshot| snapshot.named(name));
    let local = local.and_then(backend).filter(|backend| backend.wish.serves_others());
    let serving = |is_so: fn(&Backend) -> bool| local.filter(|backend| is_so(backend)).map(serving);
    let proxy = has(Backend::is_up);
    Fitness {
        proxy,
        server: serving(Backend::is_up),
        slow: Slow { proxy: !proxy && has(Backend::is_silent), server: serving(Backend::is_silent) },
    }
}

/// What a server is used for.
fn serving(backend: &Backend) -> Serving {
    match backend.role {
        Role::Primary => Serving::Primary,
        Role::Replica => Serving::Replica,
    }
}

fn terms(by: &config::Lease) -> Terms {
    Terms { ttl: by.ttl, margin: by.margin }
}

/// The store that a configuration names. Reads its certificates, and asks it nothing.
fn store(config: &Config) -> Result<Option<Box<dyn Store>>, Error> {
    let Some(kind) = config.lease.store else { return Ok(None) };
    let terms = terms(&config.lease);
    let store: Box<dyn Store> = match kind {
        config::LeaseStore::Local => Box::new(Local::default()),
        config::LeaseStore::Etcd => Box::new(Etcd::new(etcd(config, terms)).map_err(Error::Lease)?),
        config::LeaseStore::Group => Box::new(group(config, terms)?),
    };
    Ok(Some(store))
}

fn lease_settings(config: &Config) -> delphinus_lease::Settings {
    let by = &config.lease;
    let own_file = config.proxy.data_dir.as_deref().map(|folder| own_file(folder, &config.clusters[0].name));
    let failsafe = by.failsafe.as_ref().map(|how| Failsafe {
        member: member(by),
        address: how.address.clone(),
        token: Zeroizing::new(how.token.expose().to_owned()),
        ca: how.ca.clone(),
    });
    delphinus_lease::Settings { terms: terms(by), own_file, failsafe }
}

fn begin(
    config: &Config,
    store: Option<Box<dyn Store>>,
    sessions: OnAddress,
    (health, news): (&Arc<Health>, &rt::watch::Sender<()>),
) -> Result<Option<Running>, Error> {
    let Some(store) = store else { return Ok(None) };
    let lease =
        Lease::start(&lease_settings(config), store).map_err(|error| Error::Lease(error.to_string()))?;
    let lease = Arc::new(lease);
    let news = news.clone();
    lease.listen(Box::new(move || news.send_replace(())));
    want_to_act(config, &lease);
    let vips = Keeper::start(settings(config), lease.clone(), health.clone(), Box::new(sessions))
        .map_err(|error| Error::Lease(error.to_string()))?;
    Ok(Some(Running { by: config.lease.clone(), vips, lease }))
}

/// One process acts on each cluster whose primary may be moved: the first that gets its key.
fn want_to_act(config: &Config, lease: &Lease) {
    for cluster in &config.clusters {
        let key = leave::actor(&cluster.name);
        match cluster.failover {
            Some(_) => lease.want(&key, &member(&config.lease)),
            None => lease.give_up(&key),
        }
    }
}

fn own_file(folder: &Path, cluster: &str) -> std::path::PathBuf {
    folder.join(format!("lease-{cluster}"))
}

/// How its etcd is reached.
pub(crate) fn etcd(config: &Config, terms: Terms) -> EtcdSettings {
    let by = &config.lease;
    let user = by.user.clone().zip(by.password.as_ref());
    let files = by.tls_cert.clone().zip(by.tls_key.clone());
    EtcdSettings {
        access: Access {
            endpoints: by.endpoints.clone(),
            user: user.map(|(name, password)| (name, Zeroizing::new(password.expose().to_owned()))),
            ca: by.tls_ca.clone(),
            certificate: files.map(|(cert, key)| ClientCertificate { cert, key }),
            patience: terms.patience(),
        },
        prefix: scope(config),
    }
}

/// The group of the first cluster as a store.
pub(crate) fn group(config: &Config, terms: Terms) -> Result<Group, Error> {
    Ok(Group::new(Box::new(Members::start(config, terms)?), &scope(config), terms.ttl))
}

/// What all keys begin with.
fn scope(config: &Config) -> String {
    format!("{}/{}/", config.lease.prefix, config.clusters[0].name)
}

fn member(by: &config::Lease) -> String {
    by.member.clone().unwrap_or_else(host_name)
}

/// As `hostname` says it.
fn host_name() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}

fn settings(config: &Config) -> Settings {
    Settings {
        member: member(&config.lease).into(),
        vips: config.vips.iter().map(spec).collect(),
        usual_replicas: config.clusters[0].backends.len().saturating_sub(1),
        rebalance_after: config.lease.rebalance_after,
    }
}

fn spec(vip: &config::Vip) -> Spec {
    let floating = match vip.floating {
        config::VipFloating::ToPrimary => Floating::ToPrimary,
        config::VipFloating::ToAnotherReplica => Floating::ToAnotherReplica,
    };
    Spec {
        vip: Vip {
            name: vip.name.as_str().into(),
            role: match vip.role {
                config::VipRole::Proxy => VipRole::Proxy,
                config::VipRole::Primary => VipRole::Primary,
                config::VipRole::Replica => VipRole::Replica(floating),
            },
        },
        addresses: vip.addresses.clone(),
        interface: vip.interface.clone(),
        kill_on_move: match vip.kill_on_move {
            config::KillOnMove::None => KillOnMove::None,
            config::KillOnMove::Transactions => KillOnMove::Transactions,
            config::KillOnMove::All => KillOnMove::All,
        },
        drain: vip.drain,
    }
}

fn row(shown: Shown) -> VipRow {
    VipRow {
        name: shown.name,
        addresses: shown.addresses,
        role: shown.role,
        holder: shown.holder,
        wanted: shown.wanted,
        state: match shown.condition {
            Condition::Elsewhere => "elsewhere",
            Condition::Here => "here",
            Condition::Leaving => "leaving",
            Condition::Failed => "failed",
        },
        since: shown.since,
        left: shown.left,
        epoch: shown.epoch,
        error: shown.error,
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use delphinus_topology::{BackendId, Health, Member, Observation, ProbeOutcome, Wish, decide};

    use super::*;

    /// Clients reach it past the proxy: they are not to lose it before another one has its role.
    #[test]
    fn a_server_whose_role_is_about_to_move_serves_until_another_has_it() {
        let since = Instant::now();
        let mut snapshot =
            Snapshot::new(vec![Member { name: "db1".into(), role: Role::Primary, weight: 100 }]);
        snapshot.backends[0].health = Health::Up { since };
        let mut serves = |wish| {
            snapshot.backends[0].wish = wish;
            fitness(&[Arc::new(snapshot.clone())], Some("db1"), false).server
        };
        assert_eq!(serves(Wish::Online), Some(Serving::Primary));
        assert_eq!(serves(Wish::Held { since }), Some(Serving::Primary));
        assert_eq!(serves(Wish::Offline { since }), None, "an operator wants it out of use");
        assert_eq!(serves(Wish::GivenUp { since }), None, "it is lost");
    }

    /// An operator waits for a store that does not answer, while another one names a store that does.
    #[test]
    fn whoever_waits_for_the_store_does_not_keep_the_next_lease_from_beginning() {
        let folder = std::env::temp_dir().join(format!("delphinus-ha-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let config = |lease: &str| {
            let text = format!(
                "listener = [{{ address = '127.0.0.1:0' }}]\nuser = [{{ name = 'u', password = 'p' }}]\n\
                 [proxy]\ndata_dir = '{}'\n[[cluster.backend]]\naddress = 'db:3306'\nrole = 'primary'\n\
                 [monitor]\nuser = 'm'\npassword = 'p'\n[lease]\n{lease}",
                folder.display()
            );
            config::parse(&text, "a.toml", &config::NoEnvironment).unwrap()
        };
        // It takes connections. One that is refused is an answer, and may come before the first look at it.
        let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let endpoint = format!("http://{}", silent.local_addr().unwrap());
        let lost = config(&format!("store = 'etcd'\nendpoints = ['{endpoint}']\nttl_s = 3\n"));
        let next = config("store = 'local'\n");
        rt::block_on(async {
            let ha = Ha::start(&lost, &Arc::default()).unwrap();
            let mut waits = Box::pin(ha.follow_wish(VipWish::Freeze));
            std::future::poll_fn(|context| {
                assert!(waits.as_mut().poll(context).is_pending());
                std::task::Poll::Ready(())
            })
            .await;
            ha.follow(&next, ha.prepare(&next).unwrap()).await.unwrap();
            assert!(ha.lease().is_some() && waits.await.is_err());
            ha.stop().await;
        })
        .unwrap();
        std::fs::remove_dir_all(&folder).unwrap();
    }

    /// A database under load must take the address neither from its own host nor from all proxies.
    #[test]
    fn a_server_that_does_not_answer_in_time_may_only_be_slow() {
        let at = Instant::now();
        let seen = |outcome, wish, is_offline| {
            let member = Member { name: "db1".into(), role: Role::Primary, weight: 100 };
            let probe = Observation::Probe { backend: BackendId(0), at, outcome };
            let observations = [probe, Observation::Wish { backend: BackendId(0), at, wish }];
            let (snapshot, _) = decide(
                Snapshot::new(vec![member]),
                &observations,
                &delphinus_topology::Settings::default(),
                at,
            );
            fitness(&[Arc::new(snapshot)], Some("db1"), is_offline)
        };
        let late = || ProbeOutcome::TimedOut("query".into());
        let primary = Some(Serving::Primary);
        let slow = |proxy, server| Fitness { slow: Slow { proxy, server }, ..Fitness::default() };
        assert_eq!(seen(late(), Wish::Online, false), slow(true, primary));
        assert_eq!(seen(late(), Wish::Online, true), slow(false, primary), "the proxy is set OFFLINE");
        assert_eq!(
            seen(late(), Wish::GivenUp { since: at }, false).slow.server,
            None,
            "another takes its role"
        );
        let refused = ProbeOutcome::Refused("connection refused".into());
        assert_eq!(seen(refused, Wish::Online, false), Fitness::default());
        let full = ProbeOutcome::Full("error 1040: Too many connections".into());
        assert_eq!(
            seen(full, Wish::Online, false),
            Fitness { proxy: true, server: primary, ..Fitness::default() }
        );
    }
}
