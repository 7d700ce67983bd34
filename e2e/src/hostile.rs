//! Hostile clients beside ordinary ones: what an attack costs the proxy in memory, and the others in time.
//!
//! Owns: the run of one attack (`run_attack`), the attacks (`attack`), and the table of docs/limits.md (`page`).

mod attack;
mod bystander;
mod page;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use delphinus_sandbox::Flavor;

use crate::config_file::ConfigFile;
use crate::poll::eventually;
use crate::stage::Stage;

pub use attack::{ATTACKS, Attack};
use bystander::Bystanders;
pub use bystander::Times;
pub use page::write_table;

/// `memory_limit` in these runs, in MiB: small, so that it is reached.
pub const LIMIT_MIB: u64 = 64;

/// What the process may take beside its limit and 16 KiB for each client, in MiB.
const BESIDE_MIB: u64 = 128;

/// How long the others are looked at before and after an attack, and how long an attack holds on to what it has.
const LOOK: Duration = Duration::from_secs(2);

/// What one attack came to.
#[derive(Debug)]
pub struct Row {
    /// Its name.
    pub name: &'static str,
    /// On which servers.
    pub flavor: Flavor,
    /// How many hostile clients there were.
    pub clients: usize,
    /// Resident memory of the proxy before, at most during, and after the attack, in MiB.
    pub mib: [u64; 3],
    /// What the ordinary clients noticed at these times.
    pub times: [Times; 3],
    /// How often something was refused them.
    pub errors: u64,
}

impl Row {
    /// The memory that the proxy may have taken, in MiB.
    pub fn allowed_mib(&self) -> u64 {
        LIMIT_MIB + BESIDE_MIB + (self.clients as u64 * 16).div_ceil(1024)
    }

    /// Why this is not what it has to be, if it is not.
    pub fn fault(&self) -> Option<String> {
        let [_, during, _] = self.mib;
        if during > self.allowed_mib() {
            return Some(format!("{during} MiB are more than {}", self.allowed_mib()));
        }
        (self.errors > 0).then(|| format!("ordinary clients got {} errors", self.errors))
    }
}

/// A cluster for attacks, and the proxy before it.
pub fn stage(flavor: Flavor) -> Result<Stage> {
    let config = ConfigFile {
        proxy: vec![
            format!("memory_limit = {}", LIMIT_MIB << 20),
            "max_connections = 12000".to_owned(),
            "connect_timeout_ms = 60000".to_owned(),
        ],
        pool: vec!["max_connections = 40".to_owned()],
        ..ConfigFile::default()
    };
    let stage = Stage::with_servers(flavor, &["general_log=OFF", "max_connections=400"], &config)?;
    stage.address.connect()?.query("CREATE TABLE app.ordinary (a INT PRIMARY KEY, b INT)")?;
    stage.address.connect()?.query("INSERT INTO app.ordinary VALUES (1, 0), (2, 0), (3, 0), (4, 0)")?;
    stage.wait_for_replicas("SELECT COUNT(*) FROM app.ordinary")?;
    Ok(stage)
}

/// Runs one attack with so many clients beside ordinary ones.
pub fn run_attack(stage: &mut Stage, flavor: Flavor, attack: &Attack, clients: usize) -> Result<Row> {
    let bystanders = Bystanders::start(stage)?;
    thread::sleep(LOOK);
    let before = bystanders.take();
    let pid_memory = Highest::watch(stage)?;
    let first = pid_memory.now();
    let held = (attack.run)(stage, clients).with_context(|| attack.name.to_owned())?;
    thread::sleep(LOOK);
    let during = bystanders.take();
    let most = pid_memory.end();
    drop(held);
    let proxy = stage.proxy()?;
    ensure!(proxy.ended()?.is_none(), "the proxy has ended:\n{}", proxy.log());
    thread::sleep(LOOK);
    let after = bystanders.take();
    let last = proxy.resident_kib()? / 1024;
    let errors = bystanders.end()?;
    let times = [before, during, after];
    Ok(Row { name: attack.name, flavor, clients, mib: [first, most, last], times, errors })
}

/// The most memory that the proxy has had since it is watched.
struct Highest {
    most_kib: Arc<AtomicU64>,
    stop: Arc<AtomicBool>,
    thread: thread::JoinHandle<()>,
}

impl Highest {
    fn watch(stage: &mut Stage) -> Result<Self> {
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

    fn now(&self) -> u64 {
        self.most_kib.load(Ordering::Relaxed) / 1024
    }

    fn end(self) -> u64 {
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
