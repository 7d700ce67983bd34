//! A whole run: the cluster, the systems, every workload round by round, and what came of it.

mod progress;
mod schedule;

use std::path::PathBuf;
use std::time::Instant;

use anyhow::{Context, Result, bail};
use delphinus_sandbox::{Cluster, ClusterSpec, Flavor, Terminal};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::figures::{LeftOut, Results, Row, Sample};
use crate::load::Sysbench;
use crate::machine::load_average;
use crate::measure::{Task, idle_connections};
use crate::system::{MAX_CONNECTIONS, Peer, Running, Site, System};
use crate::workload::{self, Workload};
use progress::ProgressLine;
pub use schedule::Schedule;

/// Connections of servers when nothing is idle.
const FEW_CONNECTIONS: u32 = 500;
/// Open files that this process and its children may have: one for each end of each connection, and some to spare.
const OPEN_FILES: u64 = 65_536;

/// What to run.
#[derive(Debug, Clone)]
pub struct Options {
    /// Which workloads.
    pub workloads: Vec<Workload>,
    /// Which systems.
    pub systems: Vec<System>,
    /// How long and how often.
    pub schedule: Schedule,
    /// Which servers.
    pub flavor: Flavor,
    /// The binary to measure.
    pub delphinus: PathBuf,
}

/// The results, and what they were measured with.
#[derive(Debug)]
pub struct Report {
    /// What was found.
    pub results: Results,
    /// Each system with what it says of itself.
    pub versions: Vec<(System, String)>,
    /// Which servers.
    pub flavor: Flavor,
    /// Servers beside the primary.
    pub replicas: usize,
    /// How long and how often.
    pub schedule: Schedule,
    /// The machine's load average before the run and at its end.
    pub load_averages: (Option<f64>, Option<f64>),
}

/// Starts everything, measures, and stops everything.
pub fn run_all(options: &Options) -> Result<Report> {
    let (began, load_before) = (Instant::now(), load_average());
    let open_files = raise_open_files();
    let has_idle = options.workloads.contains(&Workload::Idle10000);
    let max_connections = if has_idle { MAX_CONNECTIONS } else { FEW_CONNECTIONS };
    let spec = ClusterSpec { flavor: options.flavor, max_connections, ..ClusterSpec::default() };
    let cluster = Cluster::start(&spec, &Terminal)?;
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    // Some of the connections are busy.
    let fitting = usize::try_from(open_files / 2).unwrap_or(usize::MAX).saturating_sub(350);
    let idle_pairs = options.schedule.most_pairs().min(fitting);
    let site =
        Site { cluster: &cluster, delphinus: options.delphinus.clone(), cores, open_files, idle_pairs };
    workload::prepare(&cluster, &site.target(cluster.servers[0].port)).context("the tables")?;
    let mut run = Run::new(&site, options, began)?;
    for workload in &options.workloads {
        match workload.sysbench() {
            Ok(sysbench) => run.workload(*workload, sysbench.as_ref()),
            Err(error) => run.fail(format!("{}: {error:#}", workload.name())),
        }
    }
    run.progress.end();
    let versions = run.peers.iter().map(|peer| (peer.system, peer.version.clone())).collect();
    Ok(Report {
        versions,
        flavor: options.flavor,
        replicas: spec.replicas,
        schedule: run.schedule,
        load_averages: (load_before, load_average()),
        results: run.results,
    })
}

/// Gives back how many files may be open.
pub(crate) fn raise_open_files() -> u64 {
    let limit = getrlimit(Resource::Nofile);
    let all = Rlimit { current: Some(OPEN_FILES), maximum: limit.maximum.map(|most| most.max(OPEN_FILES)) };
    if setrlimit(Resource::Nofile, all).is_err() {
        // Only root may have more than the upper limit.
        let own = Rlimit { current: limit.maximum, maximum: limit.maximum };
        let _ = setrlimit(Resource::Nofile, own);
    }
    getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX)
}

struct Run<'a> {
    site: &'a Site<'a>,
    peers: Vec<Peer>,
    results: Results,
    schedule: Schedule,
    progress: ProgressLine,
    began: Instant,
}

impl<'a> Run<'a> {
    fn new(site: &'a Site<'a>, options: &Options, began: Instant) -> Result<Self> {
        let (mut peers, mut results) = (Vec::new(), Results::default());
        for system in &options.systems {
            match Peer::prepare(*system, site) {
                Ok(peer) => peers.push(peer),
                // Without it there is nothing to compare.
                Err(error) if *system == System::Delphinus => return Err(error),
                Err(error) => {
                    let reason = format!("{error:#}");
                    results.left_out.push(LeftOut { workload: None, system: *system, reason });
                }
            }
        }
        let schedule = options.schedule.fitted(&options.workloads, peers.len());
        let cells =
            |workload: &Workload| schedule.connections_of(*workload).len() * schedule.rounds_of(*workload);
        let measurements = options.workloads.iter().map(cells).sum::<usize>() * peers.len();
        Ok(Self { site, peers, results, schedule, progress: ProgressLine::new(measurements), began })
    }

    fn fail(&mut self, what: String) {
        self.results.failures.push(what);
    }

    /// A workload with every number of connections.
    fn workload(&mut self, workload: Workload, sysbench: Option<&Sysbench>) {
        for connections in self.schedule.connections_of(workload) {
            let script = workload.script(*connections);
            let window = self.schedule.window;
            self.cell(&Task { workload, connections: *connections, script: &script, sysbench, window });
        }
    }

    /// A workload with so many connections, all systems, all rounds.
    fn cell(&mut self, task: &Task<'_>) {
        let &Task { workload, connections, .. } = task;
        let is_late = self.schedule.is_late(self.began.elapsed());
        let rounds = if is_late { 1 } else { self.schedule.rounds_of(workload) };
        let mut entries = self.entries(workload, rounds);
        for round in 0..rounds {
            let count = entries.len();
            // Nobody is always the first, or always behind the same one.
            for turn in 0..count {
                let entry = &mut entries[(turn + round) % count];
                if entry.is_given_up() {
                    self.progress.skip(1);
                    continue;
                }
                let peer = &self.peers[entry.peer];
                let what = format!("{} {connections} {}", workload.name(), peer.system);
                self.progress.begin(&what, (round + 1, rounds));
                let measured = entry.measure(task, peer, self.site);
                // A round without an answer keeps its place: ratios are those of systems within a round.
                entry.samples.push(*measured.as_ref().unwrap_or(&Sample::default()));
                if let Err(error) = measured {
                    self.fail(format!("{what}, round {} of {rounds}: {error:#}", round + 1));
                }
                self.progress.done();
            }
        }
        let row = |entry: Entry| {
            let system = self.peers[entry.peer].system;
            Row { workload, threads: connections, system, samples: entry.samples }
        };
        self.results.rows.extend(entries.into_iter().map(row).filter(|row| row.rounds() > 0));
        self.results.rows.sort_by_key(order);
    }

    /// The systems that can do this; the others are left out with the reason.
    fn entries(&mut self, workload: Workload, rounds: usize) -> Vec<Entry> {
        let mut entries = Vec::new();
        for (index, peer) in self.peers.iter().enumerate() {
            if !peer.is_concerned(workload) {
                self.progress.skip(rounds);
                continue;
            }
            if let Err(error) = can_do(peer, workload, self.site) {
                self.progress.skip(rounds);
                let (system, reason) = (peer.system, format!("{error:#}"));
                let left_out = LeftOut { workload: Some(workload), system, reason };
                if !self.results.left_out.contains(&left_out) {
                    self.results.left_out.push(left_out);
                }
                continue;
            }
            let is_idle = workload == Workload::Idle10000;
            match if is_idle { Ok(None) } else { peer.start(self.site, workload).map(Some) } {
                Ok(running) => entries.push(Entry { peer: index, running, samples: Vec::new() }),
                Err(error) => {
                    self.progress.skip(rounds);
                    self.results.failures.push(format!("{}: {error:#}", workload.name()));
                }
            }
        }
        entries
    }
}

/// By workload, connections and system, as the tables show it.
fn order(row: &Row) -> (Option<usize>, std::cmp::Reverse<usize>, Option<usize>) {
    let workload = Workload::ALL.iter().position(|one| *one == row.workload);
    let system = System::ALL.iter().position(|one| *one == row.system);
    (workload, std::cmp::Reverse(row.threads), system)
}

fn can_do(peer: &Peer, workload: Workload, site: &Site<'_>) -> Result<()> {
    peer.port(workload)?;
    if workload == Workload::Idle10000 && peer.system.is_one_to_one() {
        let allowed: usize = site.cluster.servers[0].query("SELECT @@max_connections")?.trim().parse()?;
        let wanted = idle_connections(peer, site) + 100;
        if allowed < wanted {
            bail!(
                "each client needs a server's connection of its own, and the servers allow {allowed} of {wanted}: raise \
                 the limit of open files (ulimit -Hn) to {OPEN_FILES}, or run as root"
            );
        }
    }
    Ok(())
}

/// One system in one cell.
struct Entry {
    peer: usize,
    /// None where each measurement starts it anew.
    running: Option<Running>,
    /// Round by round; an empty one where it failed.
    samples: Vec<Sample>,
}

impl Entry {
    /// What has failed twice would fail again, slowly.
    fn is_given_up(&self) -> bool {
        self.samples.iter().filter(|sample| sample.is_empty()).count() > 1
    }

    fn measure(&self, task: &Task<'_>, peer: &Peer, site: &Site<'_>) -> Result<Sample> {
        match &self.running {
            Some(running) => task.measure(&site.target(peer.port(task.workload)?), running.pid()),
            None => task.measure_idle(peer, site),
        }
    }
}
