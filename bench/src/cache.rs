//! The experiment about kept answers: clients, proxies and the database on hosts of their own, with a delay between them; where answers are
//! kept is what differs.
//!
//! | what | file |
//! |---|---|
//! | hosts | `hosts` |
//! | set-ups and their processes | `setup` |
//! | what the cache is held against | `peers` |
//! | which rows are asked for | `asked` |
//! | table, plot, JSON | `report` |

mod asked;
mod echo;
mod hosts;
mod peers;
mod report;
mod setup;

use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use delphinus_sandbox::{Cluster, ClusterSpec, Flavor, Terminal};

use crate::load::{Histogram, Script, Session, Shape, Window, ask_once, run_from};
use crate::meter::{Cpu, Memory};
use crate::run::raise_open_files;
use crate::stats::{Spread, float};
use crate::workload;

pub use asked::Asked;
pub use echo::{EchoArgs, echo};
pub(crate) use hosts::{Host, enter};
pub use report::{cache_json, cache_page, cache_plot, cache_table};
pub use setup::Setup;
use setup::{Ground, Kind, Running};

/// Connections of servers beside those of clients.
const SPARE_CONNECTIONS: usize = 200;
/// How long replicas may take to follow.
const REPLICATION_LIMIT: Duration = Duration::from_mins(5);
/// Windows of the long run.
const SOAK_WINDOW: Duration = Duration::from_secs(10);

/// What to run.
#[derive(Debug, Clone)]
pub struct CacheOptions {
    /// Which set-ups.
    pub setups: Vec<Setup>,
    /// Which servers.
    pub flavor: Flavor,
    /// The binary to measure.
    pub delphinus: PathBuf,
    /// Rows of the table.
    pub rows: u64,
    /// Clients at the same time, on two hosts.
    pub connections: usize,
    /// How long a packet is on its way from one host to another.
    pub delay: Duration,
    /// How long each measurement takes.
    pub window: Window,
    /// How many measurements there are of each set-up and distribution.
    pub rounds: usize,
    /// How long the run takes that looks whether the throughput stays.
    pub soak: Duration,
}

/// What came of it.
#[derive(Debug, Default)]
pub struct CacheReport {
    /// One row for each set-up and distribution.
    pub rows: Vec<CacheRow>,
    /// Set-ups that could not be had, each with the reason.
    pub left_out: Vec<(Setup, String)>,
    /// What failed.
    pub failures: Vec<String>,
    /// Statements in a second, window by window of the long run beside the database.
    pub soak: Vec<f64>,
    /// How it was measured, for readers.
    pub circumstances: String,
}

/// One set-up under one distribution.
#[derive(Debug, Clone)]
pub struct CacheRow {
    /// Where answers are kept.
    pub setup: Setup,
    /// Which rows are asked for.
    pub asked: Asked,
    /// Statements in a second.
    pub qps: Spread,
    /// Half of all answers take so long at most, in ms.
    pub p50_ms: Option<f64>,
    /// 99 in 100 do.
    pub p99_ms: Option<f64>,
    /// The part of all statements that the server has not seen, in percent.
    pub hits: Option<f64>,
    /// Processor time of the proxies for one statement, in microseconds; `None` without any.
    pub proxy_us: Option<f64>,
    /// The server's.
    pub server_us: f64,
    /// That of the relays between hosts.
    pub wire_us: f64,
    /// The load generator's.
    pub load_us: f64,
    /// Resident memory of the proxies, in MiB.
    pub rss_mib: f64,
}

/// What is read at both ends of a window.
struct Reading {
    proxies: Vec<Cpu>,
    wires: Vec<Cpu>,
    servers: Vec<Cpu>,
    load: Cpu,
    selects: u64,
}

/// Runs the experiment. An error means that it could not begin.
pub fn run_cache(options: &CacheOptions) -> Result<CacheReport> {
    raise_open_files();
    let clients = [Host::make("client 1")?, Host::make("client 2")?];
    let database = Host::make("database")?;
    let spec = ClusterSpec {
        flavor: options.flavor,
        // Two shards are two to read from. All of them run on the host of the database.
        replicas: if options.setups.contains(&Setup::TwoShards) { 2 } else { 0 },
        max_connections: u32::try_from(2 * options.connections + SPARE_CONNECTIONS)?,
        machines: vec![database.machine(); 3],
        ..ClusterSpec::default()
    };
    let cluster = Cluster::start(&spec, &Terminal)?;
    let ground = Ground {
        clients,
        database,
        cluster,
        delphinus: std::fs::canonicalize(&options.delphinus)
            .with_context(|| format!("no program at {}", options.delphinus.display()))?,
        rows: options.rows,
        delay: options.delay,
        connections: options.connections,
    };
    eprintln!("  {} rows are made", options.rows);
    let target = ground.target(ground.cluster.servers[0].port);
    ground.database.run(|| workload::prepare_rows(&target, options.rows)).context("the table")?;
    wait_for_replicas(&ground)?;
    let mut run = Run { ground: &ground, options, report: CacheReport::default() };
    run.report.circumstances = options.circumstances();
    for setup in &options.setups {
        run.setup(*setup);
    }
    Ok(run.report)
}

/// All servers have the last row.
fn wait_for_replicas(ground: &Ground) -> Result<()> {
    let (began, sql) =
        (Instant::now(), format!("SELECT COUNT(*) FROM sbtest.sbtest1 WHERE id = {}", ground.rows));
    for server in &ground.cluster.servers {
        while server.query(&sql).map_or(true, |count| count.trim() != "1") {
            ensure!(began.elapsed() < REPLICATION_LIMIT, "{} does not get the rows", server.name);
            std::thread::sleep(Duration::from_millis(100));
        }
    }
    Ok(())
}

impl CacheOptions {
    fn circumstances(&self) -> String {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        format!(
            "{} clients on two hosts, one server ({}) with {} rows, {} µs from host to host in each direction, {} cores for \
             all hosts together, {} windows of {} s",
            self.connections,
            self.flavor,
            self.rows,
            self.delay.as_micros(),
            cores,
            self.rounds,
            self.window.measure.as_secs_f64(),
        )
    }
}

struct Run<'a> {
    ground: &'a Ground,
    options: &'a CacheOptions,
    report: CacheReport,
}

impl Run<'_> {
    fn setup(&mut self, setup: Setup) {
        eprintln!("  {}", setup.name());
        let running = match self.ground.start(setup) {
            Ok(running) => running,
            Err(error) => {
                eprintln!("    left out: {error:#}");
                return self.report.left_out.push((setup, format!("{error:#}")));
            }
        };
        if let Err(error) = self.measure_all(setup, &running) {
            eprintln!("    failed: {error:#}");
            self.report.failures.push(format!("{}: {error:#}", setup.name()));
        }
    }

    fn measure_all(&mut self, setup: Setup, running: &Running) -> Result<()> {
        let options = self.options;
        if setup.keeps() {
            // All is asked for once by each host, so that what is measured is what is kept.
            let began = Instant::now();
            let script = Asked::each_once(options.rows);
            ask_once(&self.ground.origins(running.port), &script, options.connections)?;
            eprintln!("    filled in {:.1} s", began.elapsed().as_secs_f64());
        }
        for asked in Asked::ALL.into_iter().filter(|asked| setup != Setup::Redis || *asked == Asked::Uniform)
        {
            let script = asked.script(options.rows);
            let row = self.row(setup, asked, running, &script)?;
            eprintln!(
                "    {:<8} {:>9.0}/s, {:.1} µs of the proxy",
                asked.name(),
                row.qps.median,
                row.proxy_us.unwrap_or_default()
            );
            self.report.rows.push(row);
        }
        if setup == Setup::BesideDatabase && !options.soak.is_zero() {
            self.soak(running)?;
        }
        Ok(())
    }

    fn row(&self, setup: Setup, asked: Asked, running: &Running, script: &Script) -> Result<CacheRow> {
        let mut rounds = Vec::new();
        for _ in 0..self.options.rounds.max(1) {
            rounds.push(self.round(setup, running, script)?);
        }
        let median = |of: &dyn Fn(&Round) -> Option<f64>| {
            Spread::of(rounds.iter().map(of)).map(|spread| spread.median)
        };
        let most = |of: fn(&Round) -> f64| median(&|round| Some(of(round))).unwrap_or_default();
        Ok(CacheRow {
            setup,
            asked,
            qps: Spread::of(rounds.iter().map(|round| Some(round.qps))).context("no round")?,
            p50_ms: median(&|round| round.p50_ms),
            p99_ms: median(&|round| round.p99_ms),
            hits: if setup.keeps() { median(&|round| Some(round.hits)) } else { None },
            proxy_us: if setup == Setup::Direct { None } else { median(&|round| Some(round.proxy_us)) },
            server_us: most(|round| round.server_us),
            wire_us: most(|round| round.wire_us),
            load_us: most(|round| round.load_us),
            rss_mib: most(|round| round.rss_mib),
        })
    }

    fn round(&self, setup: Setup, running: &Running, script: &Script) -> Result<Round> {
        let (window, sample) = (self.options.window, || self.read(running));
        if setup == Setup::Redis {
            let load = peers::load_redis(self.ground, running, window, sample)?;
            return Self::sum((load.before, load.after), (load.count, load.took), None, running);
        }
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let shape = Shape { connections: self.options.connections, threads: (cores / 2).clamp(1, 4) };
        let origins = self.ground.origins(running.port);
        let load = run_from(&origins, script, shape, window, sample)?;
        let counted = (load.statements, load.took);
        Self::sum((load.before, load.after), counted, Some(&load.latencies), running)
    }

    fn read(&self, running: &Running) -> Result<Reading> {
        let of = |kind: Kind| -> Result<Vec<Cpu>> {
            running.processes.iter().filter(|one| one.kind == kind).map(|one| Cpu::of(one.pid())).collect()
        };
        let servers = &self.ground.cluster.servers;
        let mut selects = 0;
        for server in servers {
            let shown = server.query("SHOW GLOBAL STATUS LIKE 'Com_select'")?;
            selects +=
                shown.split_whitespace().last().and_then(|word| word.parse::<u64>().ok()).unwrap_or_default();
        }
        Ok(Reading {
            proxies: of(Kind::Proxy)?,
            wires: of(Kind::Wire)?,
            servers: servers.iter().map(|server| Cpu::of(server.pid)).collect::<Result<_>>()?,
            load: Cpu::of(std::process::id())?,
            selects,
        })
    }

    fn sum(
        (before, after): (Reading, Reading),
        (count, took): (u64, Duration),
        latencies: Option<&Histogram>,
        running: &Running,
    ) -> Result<Round> {
        ensure!(count > 0, "no statement ended in {:.1} s", took.as_secs_f64());
        let one = |after: &Cpu, before: &Cpu| float(after.since_ns(before)) / 1e3 / float(count);
        let all =
            |after: &[Cpu], before: &[Cpu]| after.iter().zip(before).map(|(a, b)| one(a, b)).sum::<f64>();
        let proxies = running.processes.iter().filter(|one| one.kind == Kind::Proxy);
        let rss_kib: u64 = proxies.filter_map(|one| Some(Memory::of(one.pid()).ok()?.rss_kib)).sum();
        let seen = float(after.selects.saturating_sub(before.selects)) / float(count);
        Ok(Round {
            qps: float(count) / took.as_secs_f64(),
            p50_ms: latencies.and_then(|latencies| latencies.quantile_ms(0.5)),
            p99_ms: latencies.and_then(|latencies| latencies.quantile_ms(0.99)),
            hits: (1.0 - seen).max(0.0) * 100.0,
            proxy_us: all(&after.proxies, &before.proxies),
            server_us: all(&after.servers, &before.servers),
            wire_us: all(&after.wires, &before.wires),
            load_us: one(&after.load, &before.load),
            rss_mib: float(rss_kib) / 1024.0,
        })
    }

    /// The same load for a long time, window by window.
    fn soak(&mut self, running: &Running) -> Result<()> {
        let script = Asked::Uniform.script(self.options.rows);
        let shape = Shape { connections: self.options.connections, threads: 1 };
        let window =
            Window { warm_up: Duration::from_millis(500), measure: SOAK_WINDOW.min(self.options.soak) };
        let began = Instant::now();
        while began.elapsed() < self.options.soak {
            let origins = self.ground.origins(running.port);
            let load = run_from(&origins, &script, shape, window, || Ok(()))?;
            self.report.soak.push(float(load.statements) / load.took.as_secs_f64());
        }
        // A login after all of it shows that nothing was left behind.
        self.ground.clients[0].run(|| Session::open(&self.ground.target(running.port)).map(Session::quit))
    }
}

/// One window.
struct Round {
    qps: f64,
    p50_ms: Option<f64>,
    p99_ms: Option<f64>,
    hits: f64,
    proxy_us: f64,
    server_us: f64,
    wire_us: f64,
    load_us: f64,
    rss_mib: f64,
}
