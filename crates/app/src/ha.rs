//! The lease and the virtual IPs of this process, from the configuration: started, followed, stopped, and told what this host is fit
//! for.

use std::cell::RefCell;
use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use delphinus_admin::{MemberRow, VipRow, VipWish};
use delphinus_clients::Registry;
use delphinus_config::{self as config, Config};
use delphinus_lease::{Access, ClientCertificate, Entry, Etcd, EtcdSettings, Lease, Local, Store};
use delphinus_net::rt;
use delphinus_topology::{Fitness, Floating, Role, Serving, Snapshot, Terms, Vip, VipRole};
use delphinus_view::SnapshotReader;
use delphinus_vip::{
    Condition, FROZEN, Health, Keeper, KillOnMove, PREFERRED, Sessions, Settings, Shown, Spec,
};
use zeroize::Zeroizing;

use crate::error::Error;
use crate::leave;

/// How often the virtual IPs hear what this host is fit for, if nothing changes.
const PACE: Duration = Duration::from_millis(200);

/// The lease and the virtual IPs, if there are any.
pub(crate) struct Ha {
    registry: Arc<Registry>,
    health: Arc<Health>,
    running: RefCell<Option<Running>>,
}

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
        let running = begin(config, registry, &health)?;
        Ok(Rc::new(Self { registry: registry.clone(), health, running: RefCell::new(running) }))
    }

    /// Follows another configuration. With another store, everything is released first.
    ///
    /// # Errors
    /// As `start`; nothing is held then.
    pub(crate) async fn follow(&self, config: &Config) -> Result<(), Error> {
        if let Some(running) = self.running.borrow().as_ref().filter(|running| running.by == config.lease) {
            running.vips.follow(settings(config));
            want_to_act(config, &running.lease);
            return Ok(());
        }
        self.stop().await;
        let running = begin(config, &self.registry, &self.health)?;
        self.running.replace(running);
        Ok(())
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
        let changes = match wish {
            VipWish::Move { vip, to } => vec![(format!("{PREFERRED}{vip}"), Some(to))],
            VipWish::Freeze => vec![(FROZEN.to_owned(), Some("1".to_owned()))],
            VipWish::Unfreeze => vec![(FROZEN.to_owned(), None)],
            VipWish::Rebalance => {
                let view = lease.view();
                view.below(PREFERRED).map(|(vip, _)| (format!("{PREFERRED}{vip}"), None)).collect()
            }
        };
        for (key, value) in changes {
            let (answered, answer) = rt::oneshot::channel();
            lease.put(&key, value.as_deref(), Box::new(move |done| drop(answered.send(done))));
            let done = answer.await.map_err(|_| "the process stops".to_owned())?;
            done.map_err(|error| error.to_string())?;
        }
        Ok(())
    }

    /// Tells again and again what this host is fit for.
    pub(crate) async fn tell(self: Rc<Self>, clusters: Vec<SnapshotReader>) {
        loop {
            let local = self.running.borrow().as_ref().and_then(|running| running.by.local_backend.clone());
            let snapshots: Vec<_> = clusters.iter().map(SnapshotReader::load).collect();
            let is_usable =
                |snapshot: &Arc<Snapshot>| snapshot.present().any(delphinus_topology::Backend::is_up);
            let server = local.as_deref().and_then(|name| serving(&snapshots, name));
            let proxy = !self.registry.is_offline() && snapshots.iter().any(is_usable);
            // Before the backends have been looked at nothing is known.
            if snapshots.iter().all(|snapshot| snapshot.settled) {
                self.health.is(Fitness { proxy, server });
            }
            rt::sleep(PACE).await;
        }
    }

    /// Releases everything; takes as long as the sessions on the addresses may.
    pub(crate) async fn stop(&self) {
        let running = self.running.take();
        rt::compute(move || drop(running)).await;
    }
}

/// What the server on this host is used for.
fn serving(snapshots: &[Arc<Snapshot>], name: &str) -> Option<Serving> {
    let backend = snapshots.iter().find_map(|snapshot| snapshot.named(name))?;
    (backend.is_up() && !backend.is_offline()).then_some(match backend.role {
        Role::Primary => Serving::Primary,
        Role::Replica => Serving::Replica,
    })
}

fn begin(config: &Config, registry: &Arc<Registry>, health: &Arc<Health>) -> Result<Option<Running>, Error> {
    let by = &config.lease;
    let Some(kind) = by.store else { return Ok(None) };
    let terms = Terms { ttl: by.ttl, margin: by.margin };
    let store: Box<dyn Store> = match kind {
        config::LeaseStore::Local => Box::new(Local::default()),
        config::LeaseStore::Etcd => Box::new(Etcd::new(etcd(config, terms)).map_err(Error::Lease)?),
    };
    let own_file = config.proxy.data_dir.as_deref().map(|folder| own_file(folder, &config.clusters[0].name));
    let lease = Lease::start(&delphinus_lease::Settings { terms, own_file }, store)
        .map_err(|error| Error::Lease(error.to_string()))?;
    let lease = Arc::new(lease);
    want_to_act(config, &lease);
    let sessions = Box::new(OnAddress(registry.clone()));
    let vips = Keeper::start(settings(config), lease.clone(), health.clone(), sessions)
        .map_err(|error| Error::Lease(error.to_string()))?;
    Ok(Some(Running { by: by.clone(), vips, lease }))
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
        prefix: format!("{}/{}/", by.prefix, config.clusters[0].name),
    }
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

/// The sessions of this proxy's clients.
struct OnAddress(Arc<Registry>);

impl Sessions for OnAddress {
    fn leave(&self, address: IpAddr, _: &[SocketAddr]) -> Vec<SocketAddr> {
        // They end by themselves.
        self.0.list().iter().filter(|one| one.local() == Some(address)).for_each(|one| one.leave());
        Vec::new()
    }
}
