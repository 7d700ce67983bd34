//! Hostile clients beside ordinary ones: what an attack costs the proxy in memory, and the others in time.
//!
//! Owns: the run of one attack (`run_attack`), the attacks (`attack`), what the account has back after one (`given_back`), and the table
//! of docs/limits.md (`page`).

mod arena;
mod attack;
mod bystander;
mod given_back;
mod page;
mod rogue;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use delphinus_sandbox::Flavor;

use crate::poll::eventually;
use crate::stage::Stage;

pub use arena::Arena;
pub use attack::{ATTACKS, Attack};
pub(crate) use bystander::Bystanders;
pub use bystander::Times;
pub use page::write_row;

/// How large a run is.
#[derive(Debug, Clone, Copy)]
pub struct Scale {
    /// `memory_limit`, in MiB: so small that it is reached.
    pub limit_mib: u64,
    /// Connections to each backend: so many that those who pin their sessions need not wait for each other.
    pool: u32,
    /// How long the others are looked at before and after an attack, and how long an attack holds on to what it has.
    look: Duration,
}

impl Scale {
    /// With few clients.
    pub const SHORT: Self = Self { limit_mib: 64, pool: 40, look: Duration::from_millis(500) };
    /// With up to 10,000.
    pub const FULL: Self = Self { limit_mib: 512, pool: 200, look: Duration::from_secs(3) };
}

/// What the process may take beside its limit and 16 KiB for each client, in MiB.
const BESIDE_MIB: u64 = 128;

/// What one attack came to.
#[derive(Debug)]
pub struct Row {
    /// Its name.
    pub name: &'static str,
    /// On which servers.
    pub flavor: Flavor,
    /// `memory_limit`, in MiB.
    pub limit_mib: u64,
    /// How many hostile clients there were.
    pub clients: usize,
    /// Resident memory of the proxy before, at most during, and after the attack, in MiB.
    pub mib: [u64; 3],
    /// What the ordinary clients noticed at these times.
    pub times: [Times; 3],
    /// How often something was refused them.
    pub errors: u64,
    /// What was not given back to `memory_limit` after the attack, by owner.
    pub missing: Vec<String>,
}

impl Row {
    /// The memory that the proxy may have taken, in MiB.
    pub fn allowed_mib(&self) -> u64 {
        self.limit_mib + BESIDE_MIB + (self.clients as u64 * 16).div_ceil(1024)
    }

    /// Why this is not what it has to be, if it is not.
    pub fn fault(&self) -> Option<String> {
        let [_, during, _] = self.mib;
        if during > self.allowed_mib() {
            return Some(format!("{during} MiB are more than {}", self.allowed_mib()));
        }
        if !self.missing.is_empty() {
            return Some(format!("memory is not given back: {}", self.missing.join("; ")));
        }
        (self.errors > 0).then(|| format!("ordinary clients got {} errors", self.errors))
    }
}

/// Runs one attack with so many clients beside ordinary ones.
pub fn run_attack(arena: &mut Arena, attack: &Attack, clients: usize) -> Result<Row> {
    let look = arena.scale.look;
    let taken = given_back::taken(arena)?;
    let stage = &mut arena.stage;
    let bystanders = Bystanders::start(stage)?;
    thread::sleep(look);
    let before = bystanders.take();
    let pid_memory = Highest::watch(stage)?;
    let first = pid_memory.now();
    let held = (attack.run)(arena, clients).with_context(|| attack.name.to_owned())?;
    thread::sleep(look);
    let during = bystanders.take();
    let most = pid_memory.end();
    drop(held);
    let proxy = arena.stage.proxy()?;
    ensure!(proxy.ended()?.is_none(), "the proxy has ended:\n{}", proxy.log());
    thread::sleep(look);
    let after = bystanders.take();
    let last = proxy.resident_kib()? / 1024;
    let errors = bystanders.end()?;
    let missing = given_back::missing(arena, &taken)?;
    let times = [before, during, after];
    let (flavor, limit_mib) = (arena.flavor, arena.scale.limit_mib);
    Ok(Row {
        name: attack.name,
        flavor,
        limit_mib,
        clients,
        mib: [first, most, last],
        times,
        errors,
        missing,
    })
}

/// The most memory that the proxy has had since it is watched.
pub(crate) struct Highest {
    most_kib: Arc<AtomicU64>,
    stop: Arc<AtomicBool>,
    thread: thread::JoinHandle<()>,
}

impl Highest {
    pub(crate) fn watch(stage: &mut Stage) -> Result<Self> {
        let (most_kib, stop) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicBool::new(false)));
        let status = format!("/proc/{}/status", stage.proxy()?.pid());
        let (most, end) = (most_kib.clone(), stop.clone());
        let first = stage.proxy()?.resident_kib()?;
        most_kib.store(first, Ordering::Relaxed);
        let thread = thread::spawn(move || {
            while !end.load(Ordering::Relaxed) {
                let text = std::fs::read_to_string(&status).unwrap_or_default();
                let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:"));
                let kib = line.and_then(|line| line.trim().trim_end_matches(" kB").parse().ok());
                most.fetch_max(kib.unwrap_or(0), Ordering::Relaxed);
                thread::sleep(Duration::from_millis(10));
            }
        });
        Ok(Self { most_kib, stop, thread })
    }

    pub(crate) fn now(&self) -> u64 {
        self.most_kib.load(Ordering::Relaxed) / 1024
    }

    pub(crate) fn end(self) -> u64 {
        self.stop.store(true, Ordering::Relaxed);
        let _ = self.thread.join();
        self.most_kib.load(Ordering::Relaxed) / 1024
    }
}

/// Waits until something is so that attackers have begun.
pub(crate) fn until_so(what: &str, mut is_so: impl FnMut() -> Result<bool>) -> Result<()> {
    let began = Instant::now();
    eventually(Duration::from_mins(1), what, || Ok(is_so()?.then_some(())))
        .with_context(|| format!("after {:?}", began.elapsed()))
}
