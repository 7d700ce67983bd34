//! The load generator: a closed loop over many connections, cheap enough that it is not what is measured.
//!
//! | what | file |
//! |---|---|
//! | what is sent | `script` |
//! | a connection before the load: login, prepare | `session` |
//! | where an answer ends | `finder` |
//! | one busy connection | `connection` |
//! | one thread of them | `worker` |
//! | a new connection for each statement | `connects` |
//! | connections that do nothing | `idle` |
//! | sysbench's | `sysbench` |
//! | latencies | `histogram` |
//!
//! It knows neither the proxies nor the workloads by name.

mod connection;
mod connects;
mod finder;
mod histogram;
mod idle;
mod script;
mod session;
mod sysbench;
mod worker;

use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

use crate::cache::Host;
use connection::Connection;
pub(crate) use connection::Random;
pub(crate) use connects::run_connects;

pub(crate) use histogram::Histogram;
pub(crate) use idle::IdleConnections;
pub(crate) use script::Script;
pub(crate) use script::{Expected, Pick, Statement, Value};
pub(crate) use session::{Session, Target};
pub(crate) use sysbench::{Sysbench, run_sysbench};
use worker::{Phase, Tally, drive};

/// How long to load.
#[derive(Debug, Clone, Copy)]
pub struct Window {
    /// Before anything is counted.
    pub warm_up: Duration,
    /// While it is.
    pub measure: Duration,
}

/// How many connections, driven by how many threads.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Shape {
    /// Connections at the same time.
    pub connections: usize,
    /// Threads of this process that drive them.
    pub threads: usize,
}

impl Shape {
    /// So many connections; every second core drives them, so that one is left for the proxy.
    pub(crate) fn of(connections: usize) -> Self {
        let cores = thread::available_parallelism().map_or(1, usize::from);
        Self { connections, threads: (cores / 2).clamp(1, 4).min(connections) }
    }
}

/// What a load has measured; `T` is what was sampled at the window's two ends.
#[derive(Debug)]
pub(crate) struct Measured<T> {
    /// Latencies of all statements that ended in the window; of sysbench's transactions, where it makes some.
    pub latencies: Histogram,
    /// The statements.
    pub statements: u64,
    /// Bytes of their answers.
    pub received_bytes: u64,
    /// The window as it really was.
    pub took: Duration,
    /// The sample at the window's start.
    pub before: T,
    /// The sample at its end.
    pub after: T,
}

/// Runs the script on all connections. A wrong answer or an error ends the load with an error.
pub(crate) fn run<T>(
    target: &Target,
    script: &Script,
    shape: Shape,
    window: Window,
    sample: impl FnMut() -> Result<T>,
) -> Result<Measured<T>> {
    let Shape { connections, threads } = shape;
    let work = |thread: usize, ready: &mpsc::Sender<Result<()>>, phase: &Phase| {
        let own = (thread..connections).step_by(threads);
        let opened: Result<Vec<_>> =
            own.map(|place| Connection::open(target, script, (place, connections))).collect();
        match opened {
            Ok(opened) => {
                let _ = ready.send(Ok(()));
                drive(opened, phase)
            }
            Err(error) => {
                let _ = ready.send(Err(error));
                Ok(Tally::default())
            }
        }
    };
    window_of(threads, work, window, sample)
}

/// Where a part of the load comes from, and where it goes.
#[derive(Debug)]
pub(crate) struct Origin<'a> {
    /// The host of these clients.
    pub(crate) host: &'a Host,
    /// What they connect to there.
    pub(crate) target: Target,
}

/// Runs the script on so many connections, which come from all of these in turn.
pub(crate) fn run_from<T>(
    origins: &[Origin<'_>],
    script: &Script,
    shape: Shape,
    window: Window,
    sample: impl FnMut() -> Result<T>,
) -> Result<Measured<T>> {
    let work = |thread: usize, ready: &mpsc::Sender<Result<()>>, phase: &Phase| {
        let opened = open_from(origins, script, shape, thread);
        let (said, opened) = match opened {
            Ok(opened) => (Ok(()), Some(opened)),
            Err(error) => (Err(error), None),
        };
        let _ = ready.send(said);
        opened.map_or_else(|| Ok(Tally::default()), |opened| drive(opened, phase))
    };
    window_of(shape.threads, work, window, sample)
}

/// Asks for everything once, from each of these.
pub(crate) fn ask_once(origins: &[Origin<'_>], script: &Script, connections: usize) -> Result<()> {
    for origin in origins {
        let one = std::slice::from_ref(origin);
        let shape = Shape { connections, threads: 1 };
        thread::scope(|scope| {
            let asking = scope.spawn(|| drive(open_from(one, script, shape, 0)?, &Phase::default()));
            asking.join().expect("invariant: no panic in a thread of the load").map(drop)
        })?;
    }
    Ok(())
}

/// A thread's part of the connections. It is on another host afterwards.
fn open_from<'a>(
    origins: &[Origin<'_>],
    script: &'a Script,
    shape: Shape,
    thread: usize,
) -> Result<Vec<Connection<'a>>> {
    let mut opened = Vec::new();
    for (at, origin) in origins.iter().enumerate() {
        origin.host.enter()?;
        let own = (thread..shape.connections).step_by(shape.threads);
        for place in own.filter(|place| place / shape.threads % origins.len() == at) {
            opened.push(Connection::open(&origin.target, script, (place, shape.connections))?);
        }
    }
    Ok(opened)
}

/// Starts the threads, waits until all are ready, and takes the samples at the window's ends.
fn window_of<T>(
    threads: usize,
    work: impl Fn(usize, &mpsc::Sender<Result<()>>, &Phase) -> Result<Tally> + Sync,
    window: Window,
    mut sample: impl FnMut() -> Result<T>,
) -> Result<Measured<T>> {
    let phase = &Phase::default();
    let work = &work;
    thread::scope(|scope| {
        let (ready, is_ready) = mpsc::channel();
        let spawn = |thread| {
            let ready = ready.clone();
            scope.spawn(move || work(thread, &ready, phase))
        };
        let running: Vec<_> = (0..threads).map(spawn).collect();
        drop(ready);
        let mut measure = || {
            for _ in 0..threads {
                is_ready.recv().context("a thread of the load ended before it began")??;
            }
            thread::sleep(window.warm_up);
            let (before, began) = (sample()?, Instant::now());
            phase.set(Phase::MEASURING);
            thread::sleep(window.measure);
            phase.set(Phase::OVER);
            let took = began.elapsed();
            Ok((before, sample()?, took))
        };
        let measured: Result<(T, T, Duration)> = measure();
        phase.set(Phase::OVER);
        let mut total = Tally::default();
        for thread in running {
            let tally = thread.join().expect("invariant: no panic in a thread of the load")?;
            total.histogram.add(&tally.histogram);
            total.received += tally.received;
        }
        let (before, after, took) = measured?;
        let (latencies, received_bytes) = (total.histogram, total.received);
        Ok(Measured { statements: latencies.total(), latencies, received_bytes, took, before, after })
    })
}
