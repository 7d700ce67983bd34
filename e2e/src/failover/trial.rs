//! One run: servers, the proxy, the clients, a fault in their midst, and the verdict.

use std::collections::{BTreeMap, HashSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Context, Result};
use delphinus_sandbox::Cluster;

use super::direct::{self, Candidate};
use super::fault::{Fault, Servers};
use super::history::{History, Outcome, Write};
use super::judge::{Verdict, judge};
use super::workload::{self, Ground, Record};
use crate::poll::eventually;
use crate::proxy::Proxy;
use crate::stage::start_proxy;

/// The clients run for so long before the fault, after the servers are back, and after a stopped server goes on.
const CALM: Duration = Duration::from_secs(2);
/// The longest that servers and proxy may need.
const LIMIT: Duration = Duration::from_mins(1);

/// What came out.
#[derive(Debug, Clone)]
pub struct Trial {
    /// On which servers.
    pub servers: Servers,
    /// What went wrong.
    pub fault: Fault,
    /// Writes by what was told, transactions counted by their values.
    pub acknowledged: usize,
    /// Reads that were answered.
    pub reads: usize,
    /// Failed writes (transactions count once) by the error's number.
    pub write_errors: BTreeMap<String, usize>,
    /// Failed reads by the error's number.
    pub read_errors: BTreeMap<String, usize>,
    /// Connections to clients that ended.
    pub disconnects: usize,
    /// What the first errors said, and how many milliseconds after the fault.
    pub words: Vec<(i64, String)>,
    /// What the checker found.
    pub verdict: Verdict,
    /// How many of the lost writes were acknowledged when another server took writes already: by a primary that had been
    /// replaced.
    pub lost_late: usize,
    /// From the fault until a server took a direct write, in milliseconds.
    pub servers_ms: f64,
    /// From the fault until the first write on another server was acknowledged through the proxy, in milliseconds.
    pub proxy_ms: f64,
    /// The longest that a client waited for the answer to a write, good or bad, in milliseconds.
    pub longest_ms: f64,
    /// From the fault until the proxy's log said that something is wrong with the primary, in milliseconds.
    pub noticed_ms: Option<f64>,
}

impl Trial {
    /// What the proxy needed beyond what the servers did.
    pub fn beyond_ms(&self) -> f64 {
        self.proxy_ms - self.servers_ms
    }

    /// True if nothing was found that must not be. What asynchronous replication loses is no fault of the proxy's.
    pub fn is_good(&self) -> bool {
        let mut verdict = self.verdict.clone();
        if self.servers.may_lose(self.fault) {
            verdict.lost.clear();
            verdict.gone.clear();
        }
        verdict.is_clean() && self.lost_late == 0
    }
}

/// What the fault's time showed.
struct Times {
    struck_us: u64,
    /// The new primary, and when it took a direct write.
    next: (u32, u64),
    noticed_us: Option<u64>,
}

/// Runs one.
pub fn run_trial(servers: Servers, fault: Fault) -> Result<Trial> {
    let mut cluster = servers.start().context("the servers do not start")?;
    let (_lease, proxy, address) = start_proxy(&cluster, &servers.config())?;
    let outcome = (|| {
        eventually(LIMIT, "the tables", || workload::prepare(&address).map(Some))?;
        let all = direct::candidates(&cluster, &address);
        let ground = Ground::new(address.clone());
        let (record, times) =
            workload::run(&ground, || meanwhile(&ground, &mut cluster, &proxy, (servers, fault)))?;
        let history = history(&record, &all, times.next.0, bring_back(&mut cluster, servers, fault)?)?;
        summary((servers, fault), record, &times, &history)
    })();
    outcome.with_context(|| format!("{servers}, {fault}; the proxy's log:\n{}", proxy.log()))
}

fn meanwhile(
    ground: &Ground,
    cluster: &mut Cluster,
    proxy: &Proxy,
    (servers, fault): (Servers, Fault),
) -> Result<Times> {
    std::thread::sleep(CALM);
    let others = direct::candidates(cluster, &ground.address).split_off(1);
    let logged = proxy.log().len();
    let struck_us = ground.now_us();
    let is_over = AtomicBool::new(false);
    let (next, noticed_us) = std::thread::scope(|scope| {
        let watch = |candidate: Candidate| {
            let is_over = &is_over;
            scope.spawn(move || {
                let at_us = candidate.until_it_writes(ground, is_over)?;
                is_over.store(true, Ordering::Relaxed);
                Some((candidate.server_id, at_us))
            })
        };
        let watched: Vec<_> = others.into_iter().map(watch).collect();
        let noticed = scope.spawn(|| notice(ground, proxy, logged));
        let struck = fault.strike(servers, cluster);
        let next = eventually(LIMIT, "a server that takes writes", || {
            Ok((struck.is_err() || is_over.load(Ordering::Relaxed)).then_some(()))
        });
        is_over.store(true, Ordering::Relaxed);
        let found = watched.into_iter().filter_map(|one| one.join().ok().flatten()).min_by_key(|one| one.1);
        let noticed = noticed.join().ok().flatten();
        struck.and(next)?;
        anyhow::Ok((found.context("no server takes writes")?, noticed))
    })?;
    std::thread::sleep(CALM);
    fault.relent(cluster)?;
    std::thread::sleep(CALM);
    Ok(Times { struck_us, next, noticed_us })
}

/// When the proxy's log says that it has seen something: the first warning or error after the fault.
fn notice(ground: &Ground, proxy: &Proxy, logged: usize) -> Option<u64> {
    let signs = ["backend is down", "writes are stopped", "backend is the primary"];
    let seen = eventually(Duration::from_secs(20), "a line of the log", || {
        let log = proxy.log();
        let news = log.get(logged..).unwrap_or_default();
        Ok(signs.iter().any(|sign| news.contains(sign)).then(|| ground.now_us()))
    });
    seen.ok()
}

/// A dead server has its part of the truth on its disk. Members of a group join it again, and have the group's.
fn bring_back(cluster: &mut Cluster, servers: Servers, fault: Fault) -> Result<bool> {
    let is_dead = matches!(fault, Fault::Kill | Fault::Shutdown);
    if is_dead && servers != Servers::Group {
        cluster.servers[0].start_again()?;
    }
    Ok(!(is_dead && servers == Servers::Group))
}

fn history(record: &Record, all: &[Candidate], next: u32, has_first: bool) -> Result<History> {
    let primary = all.iter().find(|one| one.server_id == next).context("no such server")?;
    let last = primary.rows()?;
    let known: HashSet<_> = last.iter().copied().collect();
    let mut strays = Vec::new();
    for other in all.iter().skip(usize::from(!has_first)).filter(|one| one.server_id != next) {
        strays.extend(other.rows()?.into_iter().filter(|row| !known.contains(row)));
    }
    strays.sort_unstable();
    strays.dedup();
    Ok(History { writes: record.writes.clone(), reads: record.reads.clone(), last, strays })
}

fn summary(
    (servers, fault): (Servers, Fault),
    record: Record,
    times: &Times,
    history: &History,
) -> Result<Trial> {
    let on_next: HashSet<u64> =
        history.last.iter().filter(|row| row.server == times.next.0).map(|row| row.value).collect();
    let acknowledged = || history.writes.iter().filter(|write| write.outcome == Outcome::Ok);
    let first_us =
        acknowledged().filter(|write| on_next.contains(&write.value)).map(|write| write.end_us).min();
    let ms = |at_us: u64| Duration::from_micros(at_us.saturating_sub(times.struck_us)).as_secs_f64() * 1e3;
    let verdict = judge(history);
    let longest_us = history.writes.iter().map(|write| write.end_us - write.begin_us).max().unwrap_or(0);
    let is_late = |write: &&Write| write.end_us > times.next.1 && verdict.lost.contains(&write.value);
    Ok(Trial {
        servers,
        fault,
        lost_late: acknowledged().filter(is_late).count(),
        acknowledged: acknowledged().count(),
        reads: history.reads.len(),
        write_errors: record.write_errors,
        read_errors: record.read_errors,
        disconnects: record.disconnects,
        words: words(record.words, times.struck_us),
        verdict,
        servers_ms: ms(times.next.1),
        proxy_ms: ms(first_us.context("no write came through the proxy any more")?),
        longest_ms: Duration::from_micros(longest_us).as_secs_f64() * 1e3,
        noticed_ms: times.noticed_us.map(ms),
    })
}

/// So many errors are kept in their own words.
const WORDS: usize = 12;

fn words(mut all: Vec<(u64, String)>, struck_us: u64) -> Vec<(i64, String)> {
    all.sort_unstable();
    all.truncate(WORDS);
    let ms = |at_us: u64| (at_us.cast_signed() - struck_us.cast_signed()) / 1000;
    all.into_iter().map(|(at_us, text)| (ms(at_us), text)).collect()
}
