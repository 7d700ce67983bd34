//! One cluster of the process: its monitor, and what all threads share of it.

use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use delphinus_admin::{ClusterView, PauseDoor, Questions, WorkerLine, worker_line};
use delphinus_cache::Cache;
use delphinus_clients::{Registry, Users};
use delphinus_config::{Cluster, Config, RemoteRelay};
use delphinus_memory::Account;
use delphinus_monitor::{Monitor, Promoter, PromotionParts, PromotionSettings, Tuning};
use delphinus_net::Place;
use delphinus_net::rt::{self, Notify, watch};
use delphinus_pool::Budget;
use delphinus_session::{WaitingRoom, is_hung};
use delphinus_stats::Statistics;
use delphinus_topology::{ClusterId, Snapshot};
use delphinus_view::SnapshotReader;
use delphinus_wire::Capabilities;
use delphinus_wire::compression::Algorithm;

use crate::ackers::Ackers;
use crate::backends::Backends;
use crate::error::Error;
use crate::ha::Ha;
use crate::hooks::Programs;
use crate::leave::OfCluster;
use crate::memory::Kept;
use crate::places::{Places, Seating};
use crate::policy::{PolicyFollower, PolicyPublisher};
use crate::relays::Relays;
use crate::{limits, routing, settings, sql_modes, stream, switching};

/// A cluster that is about to run.
pub(crate) struct RunningCluster {
    pub name: Arc<str>,
    monitor: Monitor,
    pub shared: SharedCluster,
    /// What of it may change while it runs.
    pub hot: Rc<HotCluster>,
    lines: Vec<WorkerLine>,
    /// What moves the primary's role.
    promoter: Option<Promoter>,
    /// Folder of the operators' programs.
    hooks: Option<PathBuf>,
}

/// What its tasks and threads share.
#[derive(Clone)]
pub(crate) struct SharedCluster {
    pub id: ClusterId,
    pub backends: Vec<(Arc<Place>, Arc<Budget>)>,
    pub users: Arc<Users>,
    pub reader: SnapshotReader,
    pub waiting: WaitingRoom,
    pub cache: Arc<Cache>,
    pub memory: Account,
    pub statistics: Arc<Statistics>,
}

/// What one thread gets of a cluster.
pub(crate) struct ClusterSeed {
    pub shared: SharedCluster,
    pub policy: PolicyFollower,
    /// This thread's bell in all budgets of the cluster.
    pub bell: Arc<Notify>,
    pub questions: Questions,
}

impl RunningCluster {
    /// The cluster, and what each of the threads gets of it.
    pub(crate) fn build(
        config: &Config,
        (id, cluster): (ClusterId, &Cluster),
        threads: usize,
        kept: &Kept,
    ) -> Result<(Self, Vec<ClusterSeed>), Error> {
        let bells: Vec<Arc<Notify>> = (0..threads).map(|_| Arc::default()).collect();
        let places = Places::new(config, cluster, &bells)?;
        let (tuning, tunings) = watch::channel(settings::tuning(&cluster.monitor));
        let (monitor, reader) = Monitor::new(settings::monitor((id, cluster), &places, tunings, kept));
        let (listed, authentication) = settings::listed_users(config);
        let users = Arc::new(Users::new(listed, authentication));
        let routing = routing::routing(config, (id, cluster), &places, None);
        let sessions = settings::sessions(config, cluster, routing);
        let pool = settings::pool(config, (id, cluster), &users, (threads, &kept.memory));
        let (policy, followers) = PolicyPublisher::new(sessions, pool, threads);
        let shared = SharedCluster {
            id,
            backends: places.for_pools(),
            users: users.clone(),
            reader: reader.clone(),
            waiting: WaitingRoom::default(),
            cache: kept.cache.clone(),
            memory: kept.memory.clone(),
            statistics: kept.statistics.clone(),
        };
        let (lines, questions): (Vec<_>, Vec<_>) = bells.iter().map(|_| worker_line()).unzip();
        let seed =
            |((bell, questions), policy)| ClusterSeed { shared: shared.clone(), policy, bell, questions };
        let seeds = bells.into_iter().zip(questions).zip(followers).map(seed).collect();
        let rights_max_age = watch::channel(rights_max_age(cluster)).0;
        let failover = watch::channel(switching::settings(cluster)).0;
        let remote_relays = watch::channel(switching::remote_relays(cluster)).0;
        let hot = HotCluster {
            id,
            places,
            tuning,
            failover,
            remote_relays,
            policy,
            users,
            reader,
            rights_max_age,
            workers: threads,
        };
        let name = cluster.name.as_str().into();
        let hooks = cluster.failover.as_ref().and_then(|failover| failover.hook_folder.clone());
        Ok((Self { name, monitor, shared, hot: Rc::new(hot), lines, promoter: None, hooks }, seeds))
    }

    /// What moves its primary's role, as operators see it.
    fn promotion(&mut self, registry: &Arc<Registry>, ha: Rc<Ha>, relays: Rc<Relays>) -> switching::Door {
        let sessions = switching::Sessions {
            cluster: self.shared.id,
            registry: registry.clone(),
            workers: self.lines.clone(),
        };
        let relays = Ackers::new(relays, self.hot.remote_relays.subscribe(), self.backends());
        let relays = Rc::new(relays);
        let parts = PromotionParts {
            settings: self.hot.failover.subscribe(),
            holding: Rc::new(sessions),
            news: ha.news(),
            relays: relays.clone(),
            hooks: Rc::new(Programs { folder: self.hooks.clone(), cluster: self.name.to_string() }),
            leave: Rc::new(OfCluster::new(self.name.clone(), ha)),
        };
        let (promoter, promotion) = self.monitor.promoter(parts);
        self.promoter = Some(promoter);
        switching::Door(promotion, relays)
    }

    /// As operators see it; `schemas` tells what schemas are in it alone.
    pub(crate) fn view(
        &mut self,
        registry: &Arc<Registry>,
        ha: Rc<Ha>,
        relays: Rc<Relays>,
        schemas: impl Fn() -> Vec<String> + 'static,
    ) -> ClusterView {
        let switching = Box::new(self.promotion(registry, ha, relays));
        let published = self.hot.policy.subscribe();
        ClusterView {
            name: self.name.clone(),
            reader: self.shared.reader.clone(),
            backends: self.shared.backends.clone(),
            workers: self.lines.clone(),
            schemas: Box::new(schemas),
            routing: Box::new(move || {
                let policy = published.borrow();
                (policy.sessions.routing.clone(), policy.sessions.balance)
            }),
            pauses: self.pauses(),
            switching,
        }
    }

    /// By which operators have its statements wait.
    fn pauses(&self) -> PauseDoor {
        let (shown, set) = (self.hot.clone(), self.hot.clone());
        PauseDoor {
            now: Box::new(move || shown.policy.current().pauses.clone()),
            set: Box::new(move |pauses| {
                set.policy.pause(pauses);
                let set = set.clone();
                Box::pin(async move { set.policy.are_followed().await })
            }),
        }
    }

    /// Who they are at the moment, and where.
    pub(crate) fn backends(&self) -> Backends {
        let places = self.shared.backends.iter().map(|(place, _)| place.clone());
        Backends { reader: self.shared.reader.clone(), places: places.collect() }
    }

    /// What a stream of its writes goes with, where these end answers that are kept.
    pub(crate) fn stream(&self, relays: &Relays) -> Option<stream::Parts> {
        let cluster = self.shared.id;
        self.shared.cache.tables(cluster)?.feed()?;
        let (relay, log) = relays.following(cluster)?;
        let Backends { reader, places } = self.backends();
        Some(stream::Parts {
            name: self.name.clone(),
            cluster,
            relay,
            log,
            memory: self.shared.memory.clone(),
            cache: self.shared.cache.clone(),
            reader,
            places,
            tuning: self.hot.tuning.subscribe(),
        })
    }

    /// Starts its monitor, which runs until `ends`, and what follows it.
    pub(crate) fn start(self, registry: &Arc<Registry>, mut ends: watch::Receiver<bool>) -> StartedCluster {
        let Self { name, monitor, shared, hot, promoter, .. } = self;
        let mut ended = ends.clone();
        if let Some(promoter) = promoter {
            rt::spawn_local(promoter.run(async move {
                let _ = ended.wait_for(|end| *end).await;
            }));
        }
        let monitoring = rt::spawn_local(monitor.run(async move {
            // An error means that the sender is gone, which is a stop too.
            let _ = ends.wait_for(|end| *end).await;
        }));
        let SharedCluster { id, backends, users, reader, .. } = shared;
        rt::spawn_local(users.rights().clone().age(hot.rights_max_age.subscribe()));
        let following = rt::spawn_local(follow(registry.clone(), id, reader.clone()));
        rt::spawn_local(limits::follow(reader.clone(), backends.clone()));
        rt::spawn_local(sql_modes::follow(reader.clone(), users.clone(), hot.tuning.subscribe()));
        let places = backends.into_iter().map(|(place, _)| place).collect();
        StartedCluster { id, name, users, reader, places, monitoring, following }
    }
}

/// What of a cluster may change while it runs, and where that is told.
pub(crate) struct HotCluster {
    id: ClusterId,
    places: Places,
    tuning: watch::Sender<Tuning>,
    failover: watch::Sender<Option<PromotionSettings>>,
    remote_relays: watch::Sender<Arc<[RemoteRelay]>>,
    policy: PolicyPublisher,
    users: Arc<Users>,
    reader: SnapshotReader,
    /// How long rights may be taken for the same.
    rights_max_age: watch::Sender<Duration>,
    workers: usize,
}

/// A cluster's next configuration, of which nothing can fail any more.
pub(crate) struct NextCluster(Seating);

impl HotCluster {
    /// Looks whether a configuration can be followed.
    ///
    /// # Errors
    /// Why not; nothing has changed then.
    pub(crate) fn prepare(&self, config: &Config) -> Result<NextCluster, Error> {
        Ok(NextCluster(self.places.seat(config, self.of(config))?))
    }

    /// Follows it. When this returns, workers and monitor do, too; an error says who does not yet.
    pub(crate) async fn follow(
        &self,
        config: &Config,
        NextCluster(seating): NextCluster,
        kept: &Kept,
    ) -> Result<(), &'static str> {
        let cluster = self.of(config);
        let (listed, authentication) = settings::listed_users(config);
        self.users.follow(listed, authentication);
        self.places.take(config, cluster, seating);
        // Before the workers: a rule may name a backend that is new.
        let is_listed = self.reader.list(self.places.roster(cluster), rt::now()).await;
        let before = self.policy.current();
        let routing =
            routing::routing(config, (self.id, cluster), &self.places, Some(&before.sessions.routing));
        let sessions = settings::sessions(config, cluster, routing);
        let pool = settings::pool(config, (self.id, cluster), &self.users, (self.workers, &kept.memory));
        self.policy.publish(sessions, pool);
        self.tuning.send_replace(settings::tuning(&cluster.monitor));
        // First: a relay that is named there is one of these.
        self.remote_relays.send_replace(switching::remote_relays(cluster));
        self.failover.send_replace(switching::settings(cluster));
        self.rights_max_age.send_replace(rights_max_age(cluster));
        if !self.policy.are_followed().await {
            return Err("a worker is busy, and has not applied this yet; it will");
        }
        if is_listed { Ok(()) } else { Err("the monitor has ended, and does not follow it") }
    }

    fn of<'a>(&self, config: &'a Config) -> &'a Cluster {
        &config.clusters[self.id.index()]
    }
}

fn rights_max_age(cluster: &Cluster) -> Duration {
    Duration::from_millis(cluster.pool.rights_max_age_ms)
}

/// A cluster that runs.
pub(crate) struct StartedCluster {
    pub id: ClusterId,
    pub name: Arc<str>,
    pub users: Arc<Users>,
    pub reader: SnapshotReader,
    places: Vec<Arc<Place>>,
    pub monitoring: rt::JoinHandle<()>,
    pub following: rt::JoinHandle<()>,
}

impl StartedCluster {
    /// What `announce` needs of it.
    pub(crate) fn wanted(&self) -> (SnapshotReader, Vec<Arc<Place>>) {
        (self.reader.clone(), self.places.clone())
    }
}

/// Says once when every backend of every cluster has been looked at, and what they cannot do.
pub(crate) async fn announce(clusters: Vec<(SnapshotReader, Vec<Arc<Place>>)>) {
    let (mut backends, mut up) = (0, 0);
    for (mut reader, places) in clusters {
        let Some(mut snapshot) = reader.wait_for(|snapshot| snapshot.settled).await else { return };
        if let Some(reason) = snapshot.why_unknown() {
            tracing::error!(
                reason,
                "not ready: clients are refused until the monitor's user can log in to a backend"
            );
            let Some(known) = reader.wait_for(|snapshot| snapshot.why_unknown().is_none()).await else {
                return;
            };
            snapshot = known;
        }
        warn_of_compression(&snapshot, &places);
        backends += snapshot.present().count();
        up += snapshot.backends.iter().filter(|backend| backend.is_up()).count();
    }
    tracing::info!(backends, up, "ready");
}

fn warn_of_compression(snapshot: &Snapshot, places: &[Arc<Place>]) {
    for (backend, place) in snapshot.backends.iter().zip(places) {
        let (flag, wanted) = match place.reach().compression {
            None => continue,
            Some(Algorithm::Zlib) => (Capabilities::COMPRESS, "zlib"),
            Some(Algorithm::Zstd { .. }) => (Capabilities::ZSTD_COMPRESSION, "zstd"),
        };
        if backend.capabilities.is_some_and(|offered| !offered.contains(flag)) {
            tracing::warn!(
                backend = %backend.name,
                "does not offer compression = \"{wanted}\": connections to it are not compressed"
            );
        }
    }
}

/// Wakes those who wait for a backend from which nothing is expected any more, as soon as that is known.
async fn follow(registry: Arc<Registry>, cluster: ClusterId, mut reader: SnapshotReader) {
    let mut seen = reader.load().generation;
    // None: the monitor has stopped.
    while let Some(snapshot) = reader.wait_for(|snapshot| snapshot.generation != seen).await {
        seen = snapshot.generation;
        disturb_waiting(&registry, cluster, &snapshot);
    }
}

/// Wakes those who wait for a hung backend.
pub(crate) fn disturb_waiting(registry: &Registry, cluster: ClusterId, snapshot: &Snapshot) {
    let now = rt::now();
    if snapshot.backends.iter().any(|backend| is_hung(snapshot, backend.id, now)) {
        registry.disturb_those_on(cluster, |backend| is_hung(snapshot, backend, now));
    }
}
