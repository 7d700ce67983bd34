//! Builds everything, runs it until a signal, and takes it down again.

use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::AtomicU32;
use std::thread;
use std::time::Duration;

use delphinus_admin::{Console, worker_line};
use delphinus_config::{Compression, Config};
use delphinus_monitor::{Monitor, SnapshotReader};
use delphinus_net::rt::{self, Notify, mpsc, watch};
use delphinus_net::{ListenAddress, Listener};
use delphinus_pool::{Budget, Target};
use delphinus_session::{ListenerSettings, Registry, Settings, Users, is_hung};
use delphinus_telemetry::CounterSet;
use delphinus_topology::Snapshot;
use delphinus_wire::Capabilities;

use crate::acceptor::{Acceptor, Seat};
use crate::admin;
use crate::drain::drain;
use crate::error::Error;
use crate::keys::login_key;
use crate::limits;
use crate::settings;
use crate::worker::{Seed, serve};

/// How many clients may be on their way to one worker.
const ARRIVALS: usize = 1024;

type WorkerThread = thread::JoinHandle<std::io::Result<()>>;

/// Runs the proxy until SIGTERM or SIGINT; blocks. The log is the caller's affair.
pub fn run(config: Config) -> Result<(), Error> {
    raise_file_limit();
    forbid_core_files();
    // The control plane runs on this thread, each worker on one of its own.
    rt::block_on(async move { App::build(&config)?.run(&config).await })?
}

/// Everything that runs.
struct App {
    monitor: Monitor,
    reader: SnapshotReader,
    listeners: Vec<(Listener, Arc<ListenerSettings>)>,
    /// The operators' side and its listeners.
    console: Option<Rc<Console>>,
    admin_listeners: Vec<(Listener, Arc<ListenerSettings>)>,
    acceptor: Acceptor,
    threads: Vec<WorkerThread>,
    stopping: watch::Sender<bool>,
    deadline: watch::Sender<bool>,
    users: Arc<Users>,
    backends: Vec<(Target, Arc<Budget>)>,
}

impl App {
    fn build(config: &Config) -> Result<Self, Error> {
        let targets = settings::targets(config)?;
        let listeners = bind(&settings::listeners(config, config.proxy.data_dir.as_deref())?)?;
        let admin_listeners = bind(&admin::listeners(config)?)?;
        let rsa_key = login_key(config)?;
        let (monitor, reader) = Monitor::new(settings::monitor(config, &targets));
        let count = worker_count(config);
        let counters = CounterSet::new(count + 1);
        let registry = Arc::new(Registry::new(settings::client_limits(config)));
        let (stopping, stop) = watch::channel(false);
        let (deadline, come) = watch::channel(false);
        let bells: Vec<Arc<Notify>> = (0..count).map(|_| Arc::default()).collect();
        let backends = limits::budgets(config, &targets, &bells);
        let users = settings::users(config);
        let rsa_key = Some(Arc::new(rsa_key));
        // Once: the workers share the counts of the rules.
        let session_settings = Settings { cache: settings::cache(config, 0), ..settings::sessions(config) };
        let (mut seats, mut threads, mut workers) = (Vec::new(), Vec::new(), Vec::new());
        for (at, bell) in bells.iter().enumerate() {
            let (sender, arrivals) = mpsc::channel(ARRIVALS);
            let sessions = Arc::new(AtomicU32::new(0));
            let (line, questions) = worker_line();
            workers.push(line);
            seats.push(Seat { arrivals: sender, sessions: sessions.clone() });
            let seed = Seed {
                settings: session_settings.clone(),
                pool: settings::pool(config, &users, count),
                backends: backends.clone(),
                bell: bell.clone(),
                users: users.clone(),
                registry: registry.clone(),
                counters: counters.thread(at).unwrap_or_default(),
                rsa_key: rsa_key.clone(),
                reader: reader.clone(),
                questions,
                arrivals,
                sessions,
                stopping: stop.clone(),
                deadline: come.clone(),
            };
            threads
                .push(rt::spawn_worker(format!("worker-{at}"), config.proxy.io_uring, move || serve(seed))?);
        }
        let shown = admin::Shown {
            registry: &registry,
            reader: &reader,
            counters: &counters,
            backends: &backends,
            workers,
            routing: session_settings.routing.clone(),
            cache: session_settings.cache.as_ref().map(|partition| partition.cache.clone()),
            rsa_key,
            listeners: [&listeners, &admin_listeners],
        };
        let console = admin::console(config, shown);
        let acceptor =
            Acceptor { workers: seats, registry, counters: counters.thread(count).unwrap_or_default() };
        Ok(Self {
            monitor,
            reader,
            listeners,
            console,
            admin_listeners,
            acceptor,
            threads,
            stopping,
            deadline,
            users,
            backends,
        })
    }

    async fn run(self, config: &Config) -> Result<(), Error> {
        let Self { monitor, reader, listeners, acceptor, threads, stopping, deadline, users, .. } = self;
        let operating = operate(self.console, self.admin_listeners);
        let registry = acceptor.registry.clone();
        let (end_monitor, mut monitor_ends) = watch::channel(false);
        let monitoring = rt::spawn_local(monitor.run(async move {
            // An error means that the sender is gone, which is a stop too.
            let _ = monitor_ends.wait_for(|end| *end).await;
        }));
        let following = rt::spawn_local(follow(registry.clone(), reader.clone()));
        let ticking =
            rt::spawn_local(tick(registry.clone(), reader.clone(), users, config.proxy.wait_timeout_s));
        let acceptor = Rc::new(acceptor);
        let accepting: Vec<_> = listeners
            .into_iter()
            .map(|(listener, settings)| rt::spawn_local(acceptor.clone().accept(listener, settings)))
            .collect();
        rt::spawn_local(limits::follow(reader.clone(), self.backends));
        rt::spawn_local(announce(reader, wanted_compression(config)));
        rt::stop_signal().await?;
        tracing::info!("stopping: no new clients, running commands finish");
        accepting.iter().for_each(rt::JoinHandle::abort);
        for one in accepting {
            // Ended on purpose; its listener is closed with it.
            let _ = one.await;
        }
        drop(acceptor);
        let limit = Duration::from_millis(config.proxy.shutdown_timeout_ms);
        if !drain(&registry, &stopping, limit).await {
            tracing::warn!(
                clients = registry.connected(),
                "shutdown_timeout_ms is over: closing what is left"
            );
        }
        deadline.send_replace(true);
        wait_for_threads(threads).await;
        end_monitor.send_replace(true);
        let _ = rt::timeout(Duration::from_secs(5), monitoring).await;
        following.abort();
        ticking.abort();
        // To the end: an operator may want to see what the stop waits for.
        for one in operating {
            one.abort();
            // Ended on purpose; its listener is closed with it.
            let _ = one.await;
        }
        tracing::info!("stopped");
        Ok(())
    }
}

/// Accepts operators.
fn operate(
    console: Option<Rc<Console>>,
    listeners: Vec<(Listener, Arc<ListenerSettings>)>,
) -> Vec<rt::JoinHandle<()>> {
    let Some(console) = console else { return Vec::new() };
    listeners
        .into_iter()
        .map(|(listener, settings)| rt::spawn_local(console.clone().accept(listener, settings)))
        .collect()
}

/// Each client and each backend connection is a file descriptor; the usual soft limit of 1024 is far too low.
fn raise_file_limit() {
    use rustix::process::{Resource, getrlimit, setrlimit};
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    if let Err(error) = setrlimit(Resource::Nofile, limit) {
        tracing::warn!(%error, "cannot raise the limit on open files");
    }
}

/// Passwords are in memory, also in buffers of libraries that no mark on single pages would reach. Only the soft limit:
/// who looks for a crash raises it again (`prlimit --core=unlimited --pid`).
fn forbid_core_files() {
    use rustix::process::{Resource, getrlimit, setrlimit};
    let mut limit = getrlimit(Resource::Core);
    limit.current = Some(0);
    if let Err(error) = setrlimit(Resource::Core, limit) {
        tracing::warn!(%error, "cannot forbid core files, which would hold passwords");
    }
}

fn worker_count(config: &Config) -> usize {
    let cores = || thread::available_parallelism().map_or(1, |cores| cores.get().saturating_sub(1).max(1));
    let wanted = config.proxy.workers.map_or_else(cores, |workers| workers as usize);
    let limit = config.pool.max_connections as usize;
    if wanted > limit {
        tracing::warn!(
            workers = limit,
            "pool.max_connections is smaller than workers: fewer workers are started"
        );
    }
    wanted.min(limit).max(1)
}

fn bind(
    listeners: &[(ListenAddress, Arc<ListenerSettings>)],
) -> Result<Vec<(Listener, Arc<ListenerSettings>)>, Error> {
    let one = |(address, settings): &(ListenAddress, Arc<ListenerSettings>)| {
        let listener =
            Listener::bind(address).map_err(|error| Error::Listen { address: address.to_string(), error })?;
        let bound = listener.local_address().unwrap_or_else(|_| address.clone());
        tracing::info!(listener = %settings.name, address = %bound, "listening");
        Ok((listener, settings.clone()))
    };
    listeners.iter().map(one).collect()
}

/// What connections to each backend are to be compressed with, in the order of the file.
fn wanted_compression(config: &Config) -> Vec<Compression> {
    config.cluster.backends.iter().map(|backend| backend.compression).collect()
}

/// Says once when every backend has been looked at, and what they cannot do.
async fn announce(mut reader: SnapshotReader, wanted: Vec<Compression>) {
    if let Some(snapshot) = reader.wait_for(|snapshot| snapshot.settled).await {
        for (backend, wanted) in snapshot.backends.iter().zip(wanted) {
            let flag = match wanted {
                Compression::Uncompressed => continue,
                Compression::Zlib => Capabilities::COMPRESS,
                Compression::Zstd => Capabilities::ZSTD_COMPRESSION,
            };
            if backend.capabilities.is_some_and(|offered| !offered.contains(flag)) {
                tracing::warn!(
                    backend = %backend.name,
                    "does not offer compression = \"{wanted}\": connections to it are not compressed"
                );
            }
        }
        let up = snapshot.backends.iter().filter(|backend| backend.is_up()).count();
        tracing::info!(backends = snapshot.backends.len(), up, "ready");
    }
}

/// Wakes those who wait for a backend from which nothing is expected any more, as soon as that is known.
async fn follow(registry: Arc<Registry>, mut reader: SnapshotReader) {
    let mut seen = reader.load().generation;
    // None: the monitor has stopped.
    while let Some(snapshot) = reader.wait_for(|snapshot| snapshot.generation != seen).await {
        seen = snapshot.generation;
        disturb_waiting(&registry, &snapshot);
    }
}

fn disturb_waiting(registry: &Registry, snapshot: &Snapshot) {
    let now = rt::now();
    if snapshot.backends.iter().any(|backend| is_hung(snapshot, backend.id, now)) {
        registry.disturb_those_on(|backend| is_hung(snapshot, backend, now));
    }
}

/// Once a second: the sessions' clock, passwords that are remembered for too long, sessions that are idle for too long,
/// and those that wait for a hung backend.
async fn tick(registry: Arc<Registry>, reader: SnapshotReader, users: Arc<Users>, wait_timeout_s: u64) {
    let start = rt::now();
    loop {
        rt::sleep(Duration::from_secs(1)).await;
        registry.tick(start.elapsed().as_secs() as u32, wait_timeout_s);
        users.tick();
        disturb_waiting(&registry, &reader.load());
    }
}

async fn wait_for_threads(threads: Vec<WorkerThread>) {
    for thread in threads {
        // Each ends by itself now: the deadline has come and its acceptor is gone.
        let ended = rt::compute(move || thread.join()).await;
        if !matches!(ended, Some(Ok(Ok(())))) {
            tracing::error!("a worker thread has ended badly");
        }
    }
}
