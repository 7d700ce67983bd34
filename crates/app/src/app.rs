//! Builds everything, runs it until a signal, and takes it down again.

use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::AtomicU32;
use std::thread;
use std::time::Duration;

use delphinus_clients::{Registry, Users};
use delphinus_config::Config;
use delphinus_net::rt::{self, Signals, mpsc, watch};
use delphinus_state::PinReason;
use delphinus_telemetry::CounterSet;
use delphinus_topology::ClusterId;
use delphinus_view::SnapshotReader;

use crate::acceptor::{Acceptor, Seat};
use crate::admin;
use crate::choice::{self, choice, warn_of_mixed_flavors};
use crate::cluster::{ClusterSeed, RunningCluster, StartedCluster, announce, disturb_waiting};
use crate::doors::Doors;
use crate::drain::drain;
use crate::error::Error;
use crate::ha::Ha;
use crate::keys::login_key;
use crate::memory::Kept;
use crate::offline::Service;
use crate::relay_doors::Surroundings;
use crate::relays::Relays;
use crate::reload::{ConfigStore, HotParts, OperatorsDoor, Running, follow_hangups};
use crate::sampling;
use crate::settings;
use crate::stream::Streams;
use crate::sweeping;
use crate::watch::follow_files;
use crate::worker::{Seed, ThreadSeed, serve};

/// How many clients may be on their way to one worker.
const ARRIVALS: usize = 1024;

type WorkerThread = thread::JoinHandle<std::io::Result<()>>;

/// Runs the proxy until SIGTERM or SIGINT; blocks. The log is the caller's affair.
///
/// With `store`, SIGHUP and `RELOAD CONFIG` read the configuration again, and operators can change it.
pub fn run(config: Config, store: Option<ConfigStore>) -> Result<(), Error> {
    raise_file_limit(&config);
    if !config.proxy.core_file {
        forbid_core_files();
    }
    // The control plane runs on this thread, each worker on one of its own.
    rt::block_on(async move { App::build(&config, store)?.run().await })?
}

/// Everything that runs.
struct App {
    clusters: Vec<RunningCluster>,
    acceptor: Acceptor,
    threads: Vec<WorkerThread>,
    service: Rc<Service>,
    deadline: watch::Sender<bool>,
    running: Rc<Running>,
}

/// Who is there, with the limits of the configuration.
fn registry(config: &Config) -> Arc<Registry> {
    let registry = Arc::<Registry>::default();
    registry.follow(
        settings::client_limits(config),
        settings::login_delays(config),
        settings::exempt(config),
    );
    registry
}

impl App {
    fn build(config: &Config, store: Option<ConfigStore>) -> Result<Self, Error> {
        let count = worker_count(config);
        let kept = Kept::new(config);
        let (mut clusters, seeds) = build_clusters(config, count, &kept)?;
        let (choosing, choice) = watch::channel(choice(config));
        let doors = Doors::open(&settings::listeners(config, config.proxy.data_dir.as_deref())?)?;
        let operators = OperatorsDoor::open(config)?;
        let rsa_key = Some(Arc::new(login_key(config)?));
        // One more: the acceptor counts, too.
        let counters = CounterSet::new(
            count + 1,
            clusters.iter().map(|cluster| cluster.name.clone()),
            PinReason::LABELS,
        );
        let of_thread =
            |at| counters.thread(at).expect("invariant: there are counters for count + 1 threads");
        let registry = registry(config);
        let (stopping, stop) = watch::channel(false);
        let (deadline, come) = watch::channel(false);
        let (mut seats, mut threads) = (Vec::new(), Vec::new());
        for (at, clusters) in seeds.into_iter().enumerate() {
            let (sender, arrivals) = mpsc::channel(ARRIVALS);
            let sessions = Arc::new(AtomicU32::new(0));
            seats.push(Seat { arrivals: sender, sessions: sessions.clone() });
            let thread = ThreadSeed {
                registry: registry.clone(),
                counters: of_thread(at),
                rsa_key: rsa_key.clone(),
                stopping: stop.clone(),
                logs: kept.logs.clone(),
            };
            let (choice, deadline) = (choice.clone(), come.clone());
            let seed = Seed { clusters, choice, thread, arrivals, sessions, deadline };
            let manner = settings::manner(&config.proxy);
            threads.push(rt::spawn_worker(format!("worker-{at}"), manner, move || serve(seed))?);
        }
        let service = Service::new(registry.clone(), stopping);
        let hot = clusters.iter().map(|cluster| cluster.hot.clone()).collect();
        let ha = Ha::start(config, &registry)?;
        let around = Surroundings { config, rsa_key: rsa_key.clone(), memory: &kept.memory };
        let relays = Relays::start(&around)?;
        let streams = Streams::start(&kept.cache, &clusters, &relays)?;
        let parts = HotParts {
            clusters: hot,
            doors,
            operators,
            registry: registry.clone(),
            choice: choosing,
            kept,
            ha,
            relays,
            streams,
        };
        let running = Running::new(config, store, parts);
        let view = |(index, cluster): (usize, &mut RunningCluster)| {
            let shown = running.clone();
            let (ha, relays) = (running.parts.ha.clone(), running.parts.relays.clone());
            cluster.view(&registry, ha, relays, move || shown.config().clusters[index].schemas.clone())
        };
        let acceptor =
            Acceptor { workers: seats, registry: registry.clone(), counters: of_thread(count).process };
        let shown = admin::Shown {
            registry: registry.clone(),
            clusters: clusters.iter_mut().enumerate().map(view).collect(),
            counters,
            rsa_key,
            running: running.clone(),
            service: service.clone(),
        };
        running.parts.operators.set(admin::console(config, shown), config);
        Ok(Self { clusters, acceptor, threads, service, deadline, running })
    }

    async fn run(self) -> Result<(), Error> {
        let Self { clusters, acceptor, threads, service, deadline, running, .. } = self;
        running.keep_history().await;
        let following = rt::spawn_local(follow_hangups(running.clone(), Signals::hangup()?));
        let watching = rt::spawn_local(follow_files(running.clone()));
        let note = running.clone().noting_signals();
        let switching = rt::spawn_local(service.clone().follow_signals(Signals::of_users()?, note));
        running.parts.operators.begin();
        let registry = acceptor.registry.clone();
        let (end_monitors, monitors_end) = watch::channel(false);
        let sources = clusters.iter().map(RunningCluster::backends).collect();
        let relaying = rt::spawn_local(running.parts.relays.clone().follow(sources));
        let clusters: Vec<_> =
            clusters.into_iter().map(|cluster| cluster.start(&registry, monitors_end.clone())).collect();
        let readers: Vec<_> = clusters.iter().map(|cluster| cluster.reader.clone()).collect();
        let users = clusters.iter().map(|cluster| cluster.users.clone()).collect();
        let looked_at = clusters.iter().map(|cluster| (cluster.id, cluster.reader.clone())).collect();
        let telling = rt::spawn_local(running.parts.ha.clone().tell(readers.clone()));
        let asked = running.clone();
        let looking = rt::spawn_local(running.parts.ha.server().follow(move || asked.config()));
        let ticking = rt::spawn_local(tick(running.clone(), looked_at, users));
        let named = clusters.iter().map(|cluster| (cluster.id, cluster.name.clone(), cluster.reader.clone()));
        let sampling = rt::spawn_local(sampling::run(running.clone(), named.collect()));
        let sweeping = rt::spawn_local(sweeping::run(running.parts.kept.cache.clone()));
        let acceptor = Rc::new(acceptor);
        let ways_in = running.parts.doors.shown().into_iter().map(|(_, settings)| settings).collect();
        let choice = running.parts.choice.borrow().clone();
        rt::spawn_local(warn_of_mixed_flavors(choice, ways_in, readers));
        let (accepting, entrance) = (acceptor.clone(), running.parts.ha.entrance());
        running.parts.doors.begin(Rc::new(move |listener, settings| {
            let listener = Arc::new(listener);
            entrance.knows(&listener);
            rt::spawn_local(accepting.clone().accept(listener, settings))
        }));
        rt::spawn_local(announce(clusters.iter().map(StartedCluster::wanted).collect()));
        rt::stop_signal().await?;
        tracing::info!("stopping: no new clients, running commands finish");
        running.end_changes().await;
        // Soon, so that other hosts have the addresses while sessions here come to their ends.
        running.parts.ha.stop().await;
        relaying.abort();
        running.parts.streams.stop().await;
        running.parts.relays.stop().await;
        telling.abort();
        looking.abort();
        running.parts.doors.close().await;
        drop(acceptor);
        let limit = Duration::from_millis(running.config().proxy.shutdown_timeout_ms);
        if !drain(&registry, service.ending(), limit).await {
            tracing::warn!(
                clients = registry.connected(),
                "shutdown_timeout_ms has passed: the remaining sessions are closed"
            );
        }
        deadline.send_replace(true);
        wait_for_threads(threads).await;
        end_monitors.send_replace(true);
        end_all(clusters).await;
        ticking.abort();
        sampling.abort();
        sweeping.abort();
        following.abort();
        watching.abort();
        switching.abort();
        running.parts.kept.logs.finish(Duration::from_secs(1));
        running.parts.kept.history.finish(Duration::from_secs(1));
        // To the end: an operator may want to see what the stop waits for.
        running.parts.operators.close().await;
        tracing::info!("stopped");
        Ok(())
    }
}

/// Waits for the monitors, which have been told to end.
async fn end_all(clusters: Vec<StartedCluster>) {
    for cluster in clusters {
        let _ = rt::timeout(Duration::from_secs(5), cluster.monitoring).await;
        cluster.following.abort();
    }
}

/// The clusters, and for each thread what it gets of each of them.
fn build_clusters(
    config: &Config,
    threads: usize,
    kept: &Kept,
) -> Result<(Vec<RunningCluster>, Vec<Vec<ClusterSeed>>), Error> {
    let mut clusters = Vec::new();
    let mut seeds: Vec<Vec<ClusterSeed>> = (0..threads).map(|_| Vec::new()).collect();
    for (index, cluster) in config.clusters.iter().enumerate() {
        let (running, of_threads) =
            RunningCluster::build(config, (choice::id(index), cluster), threads, kept)?;
        clusters.push(running);
        for (thread, seed) in seeds.iter_mut().zip(of_threads) {
            thread.push(seed);
        }
    }
    Ok((clusters, seeds))
}

/// Each client and each backend connection is a file descriptor; the usual soft limit of 1024 is far too low.
fn raise_file_limit(config: &Config) {
    use rustix::process::{Resource, getrlimit, setrlimit};
    let mut limit = getrlimit(Resource::Nofile);
    let before = limit.current;
    limit.current = limit.maximum;
    if let Err(error) = setrlimit(Resource::Nofile, limit) {
        tracing::warn!(%error, "cannot raise the limit on open files");
        limit.current = before;
    }
    let wanted = files_wanted(config);
    if let Some(limit) = limit.current.filter(|limit| *limit < wanted) {
        tracing::warn!(
            limit,
            wanted,
            "the limit on open files is too low for proxy.max_connections and pool.max_connections: raise it (systemd: \
             LimitNOFILE), or lower these"
        );
    }
}

/// File descriptors that the configuration lets the proxy use at most.
fn files_wanted(config: &Config) -> u64 {
    // Listeners, the monitor, logs, what each worker has for itself.
    const OTHERS: u64 = 200;
    let of_cluster = |cluster: &delphinus_config::Cluster| {
        u64::from(cluster.pool.max_connections) * cluster.backends.len() as u64
    };
    u64::from(config.proxy.max_connections) + config.clusters.iter().map(of_cluster).sum::<u64>() + OTHERS
}

/// Passwords are in memory, also in buffers of libraries that no mark on single pages would reach. Nor may other processes of the
/// same system user look into it (`ptrace`, `/proc/PID/mem`).
fn forbid_core_files() {
    use rustix::process::{DumpableBehavior, Resource, Rlimit, set_dumpable_behavior, setrlimit};
    let none = Rlimit { current: Some(0), maximum: Some(0) };
    let forbidden =
        setrlimit(Resource::Core, none).and_then(|()| set_dumpable_behavior(DumpableBehavior::NotDumpable));
    if let Err(error) = forbidden {
        tracing::warn!(%error, "cannot disable core files, which would hold passwords");
    }
}

fn worker_count(config: &Config) -> usize {
    let cores = || thread::available_parallelism().map_or(1, |cores| cores.get().saturating_sub(1).max(1));
    let wanted = config.proxy.workers.map_or_else(cores, |workers| workers as usize);
    // Each has a part of every pool.
    let smallest = config.clusters.iter().map(|cluster| cluster.pool.max_connections).min();
    let limit = smallest.map_or(usize::MAX, |smallest| smallest as usize);
    if wanted > limit {
        tracing::warn!(
            workers = limit,
            "pool.max_connections is smaller than workers: fewer workers are started"
        );
    }
    wanted.min(limit).max(1)
}

/// Once a second: the sessions' clock, passwords that are remembered for too long, sessions that are idle for too long,
/// and those that wait for a hung backend.
async fn tick(running: Rc<Running>, clusters: Vec<(ClusterId, SnapshotReader)>, users: Vec<Arc<Users>>) {
    let (start, registry) = (rt::now(), &running.parts.registry);
    loop {
        rt::sleep(Duration::from_secs(1)).await;
        registry.tick(start.elapsed().as_secs() as u32, running.wait_timeout_s());
        for users in &users {
            users.tick();
        }
        for (id, reader) in &clusters {
            disturb_waiting(registry, *id, &reader.load());
        }
    }
}

async fn wait_for_threads(threads: Vec<WorkerThread>) {
    for thread in threads {
        // Each ends by itself now: the deadline has come and its acceptor is gone.
        let ended = rt::compute(move || thread.join()).await;
        if !matches!(ended, Some(Ok(Ok(())))) {
            tracing::error!("a worker thread ended with an error");
        }
    }
}
