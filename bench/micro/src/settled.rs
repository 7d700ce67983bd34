//! A command from the moment at which its session finds it until it is settled: read, classified, planned, sent, its answer followed
//! and relayed, the connection put back. What is counted is every poll of the session's task, and nothing else: its client and its
//! backend, which answers from memory, are on threads of their own, and what the kernel does is no instruction of ours.
//!
//! The case fails where one of these polls takes memory from the heap; within a transaction, where it takes more than today.

use std::cell::Cell;
use std::collections::HashMap;
use std::path::PathBuf;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::{Context as TaskContext, Poll};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, ensure};
use delphinus_cache::{Cache, Limits as CacheLimits};
use delphinus_clients::{
    Arrival, BackendAuth, ClientLimits, Clusters, LimitPer, LimitTerms, Limits, ListenerMode,
    ListenerSettings, LoginDelays, Rank, Registry, User, Users,
};
use delphinus_journal::{self as journal, Logs, Pens};
use delphinus_memory::Account;
use delphinus_net::rt::{self, Notify, mpsc, watch};
use delphinus_net::{Address, ListenAddress, Listener, Place, Reach};
use delphinus_pool::{BackendLimits, Budget, Pool};
use delphinus_route::{
    Action, ClusterChoice, Filter, FilterAction, Filters, Kind, Policy, Rule, Rules, When,
};
use delphinus_session::{Failover, Parts, Routing, Session, Settings, WaitingRoom, Worker, spare_buffers};
use delphinus_sql::{Class, Risks, TableName};
use delphinus_stats::Statistics;
use delphinus_telemetry::ClusterCounters;
use delphinus_testkit::{Client, Login, Param, Prepared, Reply};
use delphinus_topology::{ClusterId, Health, Member, Rest, Role, ServerFacts, Snapshot};
use delphinus_view::{StoredCode, TrafficReporter, channel};
use delphinus_wire::Capabilities;
use delphinus_wire::auth::{Credential, Password};
use delphinus_wire::handshake::TlsMode;
use tracking_allocator::{AllocationGroupId, AllocationRegistry, AllocationTracker};

use crate::{Case, ITERATIONS, backend, checkout, measured};

const USER: &str = "app";
const PASSWORD: &str = "secret";
/// Until every buffer has its size and every connection is open.
const WARM_UP: usize = 100;

/// What a command in a transaction takes from the heap.
const IN_TRANSACTION: u64 = 0;

/// What a command takes that is answered by what is kept.
const HIT: u64 = 6;
/// No kept answer gets so old.
const KEPT: Duration = Duration::from_hours(1);

/// The text that has its own answer kept.
const BY_HINT: &str = "/*+ delphinus(cache_ttl=3600000) */ SELECT c FROM sbtest1 WHERE id=123456";

/// How the client asks.
#[derive(Debug, Clone, Copy)]
struct Way {
    protocol: Protocol,
    /// All that is counted stands in one transaction.
    in_transaction: bool,
    /// How many statements the client has prepared beside the one that it runs.
    beside: usize,
    /// What operators have set for clients.
    set: Set,
}

/// What operators have set for clients; nothing of it is met.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Set {
    Nothing,
    /// Ten filters.
    Filters,
    /// A log of all statements: those of clients.
    SqlLog,
    /// A log of all statements: those of clients, and what backends are asked.
    SqlLogAll,
    /// Ten limits: five on statements in a second, five on statements at the same time.
    Limits,
    /// A rule that has answers kept: all that is counted is answered by one that is.
    Cache,
    /// A cache; the text has the hint.
    Hint,
}

impl Set {
    fn is_kept(self) -> bool {
        matches!(self, Self::Cache | Self::Hint)
    }
}

#[derive(Debug, Clone, Copy)]
enum Protocol {
    Text,
    /// The types of the parameters come with the first execution only.
    Prepared,
}

pub(crate) fn cases() -> Vec<Case> {
    let with = |name, protocol, in_transaction, set| {
        Case::new(name, move || run(Way { protocol, in_transaction, beside: 0, set }))
    };
    let case = |name, protocol, in_transaction| with(name, protocol, in_transaction, Set::Nothing);
    let of_1000 = Way { protocol: Protocol::Prepared, in_transaction: false, beside: 999, set: Set::Nothing };
    vec![
        case("settled-text", Protocol::Text, false),
        case("settled-prepared", Protocol::Prepared, false),
        Case::new("settled-prepared-of-1000", move || run(of_1000)),
        with("settled-text-filters", Protocol::Text, false, Set::Filters),
        with("settled-prepared-filters", Protocol::Prepared, false, Set::Filters),
        with("settled-text-sql-log", Protocol::Text, false, Set::SqlLog),
        with("settled-prepared-sql-log", Protocol::Prepared, false, Set::SqlLog),
        with("settled-text-sql-log-all", Protocol::Text, false, Set::SqlLogAll),
        with("settled-text-limits", Protocol::Text, false, Set::Limits),
        with("hit-text", Protocol::Text, false, Set::Cache),
        with("hit-prepared", Protocol::Prepared, false, Set::Cache),
        with("hit-text-hint", Protocol::Text, false, Set::Hint),
        case("settled-trx-text", Protocol::Text, true),
        case("settled-trx-prepared", Protocol::Prepared, true),
    ]
}

/// True while commands are counted.
static COUNTS: AtomicBool = AtomicBool::new(false);
static ALLOCATED: AtomicU64 = AtomicU64::new(0);

thread_local! {
    /// This thread is in the session's task.
    static IN_SESSION: Cell<bool> = const { Cell::new(false) };
}

/// Counts what the session's task takes from the heap.
struct Allocations;

impl AllocationTracker for Allocations {
    fn allocated(&self, _: usize, _: usize, _: usize, _: AllocationGroupId) {
        if IN_SESSION.get() {
            ALLOCATED.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn deallocated(&self, _: usize, _: usize, _: usize, _: AllocationGroupId, _: AllocationGroupId) {}
}

/// The session's task, whose polls are counted.
struct Counted(Pin<Box<dyn Future<Output = ()>>>);

impl Future for Counted {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut TaskContext<'_>) -> Poll<()> {
        if !COUNTS.load(Ordering::Acquire) {
            return self.0.as_mut().poll(context);
        }
        let mut found = Poll::Pending;
        IN_SESSION.set(true);
        measured(1, &mut || found = self.0.as_mut().poll(context));
        IN_SESSION.set(false);
        found
    }
}

fn run(way: Way) -> Result<()> {
    AllocationRegistry::set_global_tracker(Allocations).map_err(|error| anyhow!("{error}"))?;
    let socket = std::env::temp_dir().join(format!("delphinus-micro-{}.sock", std::process::id()));
    let backend = backend::start()?;
    let done = rt::block_on(serve(way, socket.clone(), backend))?;
    // It is made anew by each run.
    let _ = std::fs::remove_file(&socket);
    done?;
    let allocated = ALLOCATED.load(Ordering::Relaxed);
    let most = if way.in_transaction { IN_TRANSACTION } else { 0 } * u64::try_from(ITERATIONS)?;
    let most = if way.set.is_kept() { HIT * u64::try_from(ITERATIONS)? } else { most };
    ensure!(allocated <= most, "{ITERATIONS} commands have taken memory from the heap {allocated} times");
    Ok(())
}

/// One session from its login to its end.
async fn serve(way: Way, socket: PathBuf, backend: Address) -> Result<()> {
    let listener = Listener::bind(&ListenAddress::Unix(socket.clone(), 0o600))?;
    let client = std::thread::spawn(move || ask(way, &Login::new(&socket, USER, PASSWORD)));
    let registry = Arc::new(Registry::new(ClientLimits::default(), LoginDelays::default()));
    let peer = listener.accept().await?;
    let connected = registry.connect(None).context("there is no place")?;
    let arrival = Arrival { peer, listener: Arc::new(listener_settings()), connected };
    let (_stop, stopping) = watch::channel(false);
    let counters = Arc::new(ClusterCounters::default());
    let worker = worker(&backend, (registry, counters.clone()), stopping, way.set);
    let choice = Arc::new(ClusterChoice::new([("main".into(), Vec::new())], []));
    let clusters = Clusters::new(choice, vec![worker]);
    Counted(Box::pin(Session::run(clusters, arrival))).await;
    client.join().map_err(|_| anyhow!("the client has panicked"))??;
    let hits = counters.cache_hits.value();
    ensure!(
        !way.set.is_kept() || hits >= u64::try_from(ITERATIONS)?,
        "{hits} of {ITERATIONS} were kept answers; misses {}, behind {}, written {}, expired {}",
        counters.cache_misses.value(),
        counters.cache_behind.value(),
        counters.cache_written.value(),
        counters.cache_expired.value(),
    );
    Ok(())
}

/// What the client does.
fn ask(way: Way, login: &Login) -> Result<()> {
    let mut client = login.connect()?;
    for number in 0..way.beside {
        prepare(&mut client, &format!("SELECT c FROM sbtest1 WHERE id=? AND k={number}"))?;
    }
    // The last one: its connection keeps those that were used last.
    let statement = prepare(&mut client, "SELECT c FROM sbtest1 WHERE id=?")?;
    if way.in_transaction {
        let begun = client.query("BEGIN")?;
        ensure!(matches!(&begun[..], [Reply::Done(_)]), "not begun: {begun:?}");
    }
    let mut is_first = true;
    let mut one = |client: &mut Client| {
        let replies = match way.protocol {
            Protocol::Text if way.set == Set::Hint => client.query(BY_HINT)?,
            Protocol::Text => client.query("SELECT c FROM sbtest1 WHERE id=123456")?,
            Protocol::Prepared => {
                client.execute(statement.id, &[Param::Int(5)], std::mem::take(&mut is_first))?
            }
        };
        ensure!(
            matches!(&replies[..], [Reply::Rows(rows)] if rows.rows.len() == 1),
            "not a row: {replies:?}"
        );
        Ok(())
    };
    for _ in 0..WARM_UP {
        one(&mut client)?;
    }
    COUNTS.store(true, Ordering::Release);
    AllocationRegistry::enable_tracking();
    let done = (0..ITERATIONS).try_for_each(|_| one(&mut client));
    // The answer is there before the session waits for its next command again: that is counted, too.
    std::thread::sleep(Duration::from_millis(100));
    AllocationRegistry::disable_tracking();
    COUNTS.store(false, Ordering::Release);
    done?;
    client.quit()
}

fn prepare(client: &mut Client, sql: &str) -> Result<Prepared> {
    client.prepare(sql)?.map_err(|error| anyhow!("{error:?}"))
}

fn listener_settings() -> ListenerSettings {
    ListenerSettings {
        name: "micro".into(),
        tls_mode: TlsMode::Disabled,
        tls: None,
        compression: Capabilities::default(),
        must_compress: false,
        from: delphinus_clients::Addresses::default(),
        balancers: Vec::new(),
        mode: ListenerMode::Split,
        cluster: None,
    }
}

fn worker(
    backend: &Address,
    (registry, counters): (Arc<Registry>, Arc<ClusterCounters>),
    stopping: watch::Receiver<bool>,
    set: Set,
) -> Rc<Worker> {
    // What traffic sees is read by no monitor here.
    let reporter = TrafficReporter::new(mpsc::channel(1).0);
    Worker::new(Parts {
        cluster: ClusterId(0),
        settings: settings(set),
        users: users(),
        pool: pool(backend),
        registry,
        counters,
        process: Arc::default(),
        rsa_key: None,
        stopping,
        reader: channel((cluster(), 2), reporter, StoredCode::new(false, Account::unlimited())).1,
        waiting: WaitingRoom::default(),
        buffers: spare_buffers(),
        cache: set.is_kept().then(|| {
            let limits = CacheLimits { max_bytes: 1 << 24, max_entry_bytes: 1 << 16, shares: Vec::new() };
            Arc::new(Cache::new(limits))
        }),
        memory: Account::unlimited(),
        recorder: Statistics::new(
            Account::unlimited(),
            delphinus_stats::Limits { by_digest: true, max_bytes: 1 << 24, max_text: 1024 },
        )
        .recorder(ClusterId(0)),
        logs: pens(set),
    })
}

/// The logs, which are off unless it is they that are measured.
fn pens(set: Set) -> Rc<Pens> {
    let off = journal::Settings::off();
    let to = |sides| journal::Settings {
        path: Some("/dev/null".into()),
        format: journal::Format::Text,
        sides,
        ..off.clone()
    };
    let sql = match set {
        Set::SqlLog => to(journal::Sides::Client),
        Set::SqlLogAll => to(journal::Sides::All),
        Set::Nothing | Set::Filters | Set::Limits | Set::Cache | Set::Hint => off.clone(),
    };
    let logs = Logs::start(&Account::unlimited(), off.clone(), sql);
    Rc::new(logs.pens())
}

fn routing(set: Set) -> Routing {
    let filter = |at: usize| {
        let risk = Risks::all().nth(at % 8).unwrap_or_default();
        let actions = (FilterAction::Reject, FilterAction::Reject);
        Filter::new(format!("filter {at}").into(), (risk, Vec::new()), actions)
    };
    let limit = |at: usize| {
        let (rate, concurrency) =
            if at.is_multiple_of(2) { (Some((1_000_000, 1_000_000)), None) } else { (None, Some(100)) };
        let terms = LimitTerms {
            users: vec![USER.to_owned()],
            schemas: Vec::new(),
            clients: Vec::new(),
            digests: Vec::new(),
            per: LimitPer::User,
            rate,
            concurrency,
            queue: 100,
            queue_timeout: Duration::from_secs(1),
            max_rows: None,
            max_bytes: None,
            timeout: None,
            idle_in_transaction: None,
        };
        (format!("limit {at}").into(), terms)
    };
    match set {
        Set::Nothing | Set::SqlLog | Set::SqlLogAll => Routing::default(),
        Set::Hint => Routing { cache_longest: KEPT, ..Routing::default() },
        Set::Filters => {
            Routing { filters: Arc::new(Filters::new((0..10).map(filter).collect())), ..Routing::default() }
        }
        Set::Cache => {
            Routing { rules: Arc::new(Rules::new(vec![kept()])), cache_longest: KEPT, ..Routing::default() }
        }
        Set::Limits => {
            Routing { limits: Arc::new(Limits::new((0..10).map(limit), None)), ..Routing::default() }
        }
    }
}

/// The rule of the experiment about kept answers.
fn kept() -> Rule {
    let table = TableName { schema: None, name: "sbtest1".to_owned() };
    let when = When { classes: vec![Kind::Of(Class::Select)], tables: vec![table], ..When::default() };
    let then = Action { cache_ttl: Some(KEPT), ..Action::default() };
    Rule::new("point selects".into(), when, then, false)
}

fn settings(set: Set) -> Settings {
    Settings {
        connect_timeout_ms: 60_000,
        wait_timeout_s: 28_800,
        net_timeout_s: 60,
        max_allowed_packet: 64 << 20,
        server_version: None,
        default_collation: None,
        default_plugin: None,
        max_prepared_statements: 1_000,
        kills_abandoned: true,
        failover: Failover {
            wait: Duration::from_secs(10),
            queue: 100,
            pause: Duration::ZERO,
            lost_transaction_is_lost_connection: false,
            roles_move: true,
        },
        routing: routing(set),
        balance: Policy::default(),
    }
}

fn users() -> Arc<Users> {
    let user = User {
        from: delphinus_clients::Addresses::default(),
        credential: Credential::Plain(Password::new(PASSWORD.as_bytes())),
        secondary: None,
        plugin: None,
        default_schema: None,
        max_connections: None,
        consistency: None,
        explain_route: None,
        rank: Rank::Ordinary,
        shares_connections: true,
    };
    let none = BackendAuth {
        unlisted: false,
        verifier_ttl: Duration::ZERO,
        max_verifiers: 0,
        max_backend_logins: 0,
    };
    Arc::new(Users::new(HashMap::from([(USER.to_owned(), user)]), none))
}

fn pool(backend: &Address) -> Rc<Pool> {
    let bell = Arc::new(Notify::new());
    let place = || Place::of("b".into(), backend.clone(), Reach::default());
    let one = || {
        let limits = BackendLimits { max: 10, ..BackendLimits::default() };
        (place(), Budget::new(limits, vec![bell.clone()]))
    };
    Pool::new(checkout::settings(), vec![one(), one()], bell.clone(), Arc::default())
}

/// A primary and a replica, at rest.
fn cluster() -> Snapshot {
    let roles = [Role::Primary, Role::Replica];
    let mut snapshot =
        Snapshot::new(roles.map(|role| Member { name: "b".into(), role, weight: 100 }).to_vec());
    for server in &mut snapshot.backends {
        server.health = Health::Up { since: Instant::now() };
        server.capabilities = Some(backend::CAPABILITIES);
    }
    snapshot.facts = Some(Arc::new(ServerFacts::bare(backend::VERSION)));
    snapshot.settled = true;
    snapshot.rest = Some(Rest { writes: 0, is_even: true });
    snapshot
}
