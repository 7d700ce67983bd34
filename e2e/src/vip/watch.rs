//! Looks at the kernels of several machines all the time: who has an address, since when, and whether two ever had it.

use std::fs;
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

const PAUSE: Duration = Duration::from_millis(3);

/// Watches one address.
#[derive(Debug)]
pub(super) struct Watch {
    seen: Arc<Seen>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug, Default)]
struct Seen {
    stops: AtomicBool,
    doubles: AtomicU32,
    /// For how long, in microseconds.
    doubles_us: AtomicU64,
    /// Each holder, or none, and since when.
    changes: Mutex<Vec<(Instant, Option<usize>)>>,
}

impl Watch {
    /// Of machines, in whose networks these processes are.
    pub(super) fn begin(address: IpAddr, processes: Vec<u32>) -> Self {
        let seen = Arc::<Seen>::default();
        let told = seen.clone();
        let thread = thread::spawn(move || {
            while !told.stops.load(Ordering::Relaxed) {
                let began = Instant::now();
                let is_double = told.look(address, &processes);
                thread::sleep(PAUSE);
                if is_double {
                    let took = u64::try_from(began.elapsed().as_micros()).unwrap_or(u64::MAX);
                    told.doubles_us.fetch_add(took, Ordering::Relaxed);
                }
            }
        });
        Self { seen, thread: Some(thread) }
    }

    /// Who has it now.
    pub(super) fn holder(&self) -> Option<usize> {
        self.changes().last().and_then(|(_, holder)| *holder)
    }

    /// How often two machines had it at the same time.
    pub(super) fn doubles(&self) -> u32 {
        self.seen.doubles.load(Ordering::Relaxed)
    }

    /// For how long two machines have had it at the same time.
    pub(super) fn double_for(&self) -> Duration {
        Duration::from_micros(self.seen.doubles_us.load(Ordering::Relaxed))
    }

    fn changes(&self) -> Vec<(Instant, Option<usize>)> {
        self.seen.changes.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// How long after that moment another one had it.
    pub(super) fn taken_from(&self, holder: usize, since: Instant) -> Option<Duration> {
        let is_another =
            |(at, found): &&(Instant, Option<usize>)| *at >= since && found.is_some_and(|one| one != holder);
        self.changes().iter().find(is_another).map(|(at, _)| at.saturating_duration_since(since))
    }

    /// How often it has come to a machine, since then.
    pub(super) fn moves_since(&self, since: Instant) -> usize {
        self.changes().iter().filter(|(at, holder)| *at >= since && holder.is_some()).count()
    }

    /// How long nobody had it, since then.
    pub(super) fn gap_since(&self, since: Instant) -> Duration {
        let changes = self.changes();
        let mut gap = Duration::ZERO;
        for (at, (from, holder)) in changes.iter().enumerate() {
            let to = changes.get(at + 1).map_or_else(Instant::now, |(next, _)| *next);
            if holder.is_none() && to > since {
                gap += to - (*from).max(since);
            }
        }
        gap
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.seen.stops.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Seen {
    /// True if two had it.
    fn look(&self, address: IpAddr, processes: &[u32]) -> bool {
        let holders =
            || -> Vec<usize> { (0..processes.len()).filter(|at| has(processes[*at], address)).collect() };
        let (first, second) = (holders(), holders());
        // The machines are looked at one after the other: only what is so in both turns was so at the same time.
        let is_double = first.len() > 1 && first == second;
        if is_double {
            self.doubles.fetch_add(1, Ordering::Relaxed);
        }
        let holder = second.first().copied();
        let mut changes = self.changes.lock().unwrap_or_else(PoisonError::into_inner);
        if changes.last().is_none_or(|(_, before)| *before != holder) {
            changes.push((Instant::now(), holder));
        }
        is_double
    }
}

/// Whether the kernel has the address as its own, in the network of a process.
pub(super) fn has(process: u32, address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => {
            let table = fs::read_to_string(format!("/proc/{process}/net/fib_trie")).unwrap_or_default();
            let mut lines = table.lines();
            let own = format!("|-- {address}");
            while let Some(line) = lines.next() {
                if line.trim_end().ends_with(&own)
                    && lines.next().is_some_and(|next| next.contains("host LOCAL"))
                {
                    return true;
                }
            }
            false
        }
        IpAddr::V6(address) => {
            let table = fs::read_to_string(format!("/proc/{process}/net/if_inet6")).unwrap_or_default();
            let own = format!("{:032x}", address.to_bits());
            table.lines().any(|line| line.starts_with(&own))
        }
    }
}
