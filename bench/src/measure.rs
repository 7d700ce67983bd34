//! One measurement: a system, a workload, one round.

use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

use crate::figures::{Figure, Sample};
use crate::load::{
    IdleConnections, Measured, Script, Shape, Sysbench, Target, Window, run, run_connects, run_sysbench,
};
use crate::meter::{Cpu, Memory};
use crate::stats::float;
use crate::system::{Peer, Site};
use crate::workload::Workload;

/// Connections of the workload that do nothing.
const IDLE: usize = 10_000;
/// How long the ends of all of them are given to reach the servers.
const GOOD_BYES: Duration = Duration::from_secs(1);
/// How long a proxy may take until its memory stands still.
const SETTLED_LIMIT: Duration = Duration::from_secs(5);

/// What is measured, beside the system.
#[derive(Debug)]
pub(crate) struct Task<'a> {
    pub(crate) workload: Workload,
    pub(crate) connections: usize,
    pub(crate) script: &'a Script,
    /// What makes the load instead of this process.
    pub(crate) sysbench: Option<&'a Sysbench>,
    pub(crate) window: Window,
}

impl Task<'_> {
    /// Loads a system that is running as process `pid`.
    pub(crate) fn measure(&self, target: &Target, pid: Option<u32>) -> Result<Sample> {
        let measured = self.load(target, pid)?;
        let mut sample = Sample::default();
        let queries = measured.statements;
        let per_second = |count| float(count) / measured.took.as_secs_f64();
        ensure!(queries > 0, "no statement ended in {:.1} s", measured.took.as_secs_f64());
        latencies(&measured, &mut sample);
        sample.set(Figure::Qps, Some(per_second(queries)));
        let are_transactions = matches!(self.workload, Workload::Transactions(_));
        let transactions = are_transactions.then(|| measured.latencies.total());
        sample.set(Figure::TransactionsPerSecond, transactions.map(per_second));
        let per_query = |after: &Cpu, before: &Cpu| float(after.since_ns(before)) / 1e3 / float(queries);
        let ((before, own_before), (after, own_after)) = (&measured.before, &measured.after);
        let is_own = self.sysbench.is_none();
        sample.set(Figure::LoadCpuUsPerQuery, is_own.then(|| per_query(own_after, own_before)));
        if let (Some(before), Some(after)) = (before, after) {
            let cpu_us = per_query(after, before);
            sample.set(Figure::CpuUsPerQuery, Some(cpu_us));
            let is_large = matches!(self.workload, Workload::Rows1000 | Workload::Result10Mb);
            let megabytes = float(measured.received_bytes) / 1e6 / float(queries);
            sample.set(Figure::CpuUsPerMb, (is_large && megabytes > 0.0).then(|| cpu_us / megabytes));
        }
        let memory = pid.map(Memory::of).transpose()?;
        sample.set(Figure::RssKib, memory.map(|memory| float(memory.peak_kib)));
        Ok(sample)
    }

    fn load(&self, target: &Target, pid: Option<u32>) -> Result<Measured<(Option<Cpu>, Cpu)>> {
        let cpu = || Ok((pid.map(Cpu::of).transpose()?, Cpu::of(std::process::id())?));
        let shape = Shape::of(self.connections);
        match self.sysbench {
            Some(sysbench) => run_sysbench(target, sysbench, self.connections, self.window, cpu),
            None if self.workload == Workload::Connect => {
                run_connects(target, self.script, shape, self.window, cpu)
            }
            None => run(target, self.script, shape, self.window, cpu),
        }
    }

    /// Starts the system, and loads it before, beside and after the idle connections.
    pub(crate) fn measure_idle(&self, peer: &Peer, site: &Site<'_>) -> Result<Sample> {
        let running = peer.start(site, self.workload)?;
        let target = site.target(peer.port(self.workload)?);
        let before = self.measure(&target, running.pid()).context("before the idle connections")?;
        let memory_before = running.pid().map(settled_kib).transpose()?;
        let idle = IdleConnections::open(&target, idle_connections(peer, site))?;
        let memory_beside = running.pid().map(settled_kib).transpose()?;
        let mut sample = self.measure(&target, running.pid()).context("beside the idle connections")?;
        let count = float(idle.count() as u64);
        drop(idle);
        thread::sleep(GOOD_BYES);
        let after = self.measure(&target, running.pid()).context("after the idle connections")?;
        for (figure, without) in [
            (Figure::CpuUsPerQuery, Figure::WithoutCpuUsPerQuery),
            (Figure::P50Ms, Figure::WithoutP50Ms),
            (Figure::P99Ms, Figure::WithoutP99Ms),
        ] {
            let both = before.get(figure).zip(after.get(figure));
            sample.set(without, both.map(|(before, after)| f64::midpoint(before, after)));
        }
        sample.set(Figure::IdleConnections, Some(count));
        let grown = memory_before.zip(memory_beside).map(|(before, beside)| beside - before);
        sample.set(Figure::BytesPerIdleConnection, grown.map(|kib| kib * 1024.0 / count));
        Ok(sample)
    }
}

/// How many connections can be idle: fewer where both ends of each are files of the same process.
pub(crate) fn idle_connections(peer: &Peer, site: &Site<'_>) -> usize {
    if peer.system.is_one_to_one() { site.idle_pairs.min(IDLE) } else { IDLE }
}

fn latencies<T>(measured: &Measured<T>, sample: &mut Sample) {
    for (figure, share) in [(Figure::P50Ms, 0.5), (Figure::P95Ms, 0.95), (Figure::P99Ms, 0.99)] {
        sample.set(figure, measured.latencies.quantile_ms(share));
    }
}

/// Resident memory once it stands still: right after many logins, buffers are still being given back.
fn settled_kib(pid: u32) -> Result<f64> {
    let began = Instant::now();
    let mut last = Memory::of(pid)?.rss_kib;
    loop {
        thread::sleep(Duration::from_millis(500));
        let now = Memory::of(pid)?.rss_kib;
        if now.abs_diff(last) <= last / 500 || began.elapsed() > SETTLED_LIMIT {
            return Ok(float(now));
        }
        last = now;
    }
}
