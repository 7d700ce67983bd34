//! Which places of the code allocate on worker threads while something runs.

use std::alloc::System;
use std::backtrace::Backtrace;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, Once, PoisonError};

use tracking_allocator::{AllocationGroupId, AllocationRegistry, AllocationTracker, Allocator};

#[global_allocator]
static ALLOCATOR: Allocator<System> = Allocator::system();

/// How the proxy names the threads of its workers.
const WORKER: &str = "worker-";
/// Stacks that are kept; more would only say the same again.
const STACKS: usize = 200;
/// Frames of ours that are shown of each stack, the innermost first.
const DEPTH: usize = 6;

static COUNT: AtomicU64 = AtomicU64::new(0);
static SEEN: Mutex<Vec<Backtrace>> = Mutex::new(Vec::new());
/// One count at a time: it is the whole process that is counted.
static TURN: Mutex<()> = Mutex::new(());

/// What was allocated.
pub(crate) struct Found {
    /// How often. Growing a block counts as well.
    pub(crate) count: u64,
    stacks: Vec<Backtrace>,
}

/// Runs something and counts what worker threads allocate meanwhile.
pub(crate) fn counted(work: impl FnOnce()) -> Found {
    static INSTALLED: Once = Once::new();
    INSTALLED.call_once(|| AllocationRegistry::set_global_tracker(WorkerThreads).unwrap());
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    COUNT.store(0, Ordering::Relaxed);
    SEEN.lock().unwrap().clear();
    AllocationRegistry::enable_tracking();
    work();
    AllocationRegistry::disable_tracking();
    let stacks = std::mem::take(&mut *SEEN.lock().unwrap());
    Found { count: COUNT.load(Ordering::Relaxed), stacks }
}

struct WorkerThreads;

impl AllocationTracker for WorkerThreads {
    fn allocated(&self, _: usize, _: usize, _: usize, _: AllocationGroupId) {
        let is_worker = std::thread::current().name().is_some_and(|name| name.starts_with(WORKER));
        if is_worker {
            COUNT.fetch_add(1, Ordering::Relaxed);
            let mut seen = SEEN.lock().unwrap();
            if seen.len() < STACKS {
                seen.push(Backtrace::force_capture());
            }
        }
    }

    fn deallocated(&self, _: usize, _: usize, _: usize, _: AllocationGroupId, _: AllocationGroupId) {}
}

impl fmt::Display for Found {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut sites = BTreeMap::new();
        for stack in &self.stacks {
            *sites.entry(own_frames(&stack.to_string())).or_insert(0) += 1;
        }
        for (site, count) in sites {
            writeln!(f, "  {count} of {} stacks:\n{site}", self.stacks.len())?;
        }
        Ok(())
    }
}

/// The frames of this project in a stack, innermost first. Those of others stand between them: left out, unless the
/// stack has none of ours, or all are wanted.
fn own_frames(stack: &str) -> String {
    if std::env::var_os("RUST_BACKTRACE").is_some_and(|value| value == "full") {
        return stack.to_owned();
    }
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../../");
    let root = std::fs::canonicalize(root).unwrap().display().to_string();
    let lines: Vec<&str> = stack.lines().map(str::trim).collect();
    let frames = lines.windows(2).filter(|pair| pair[1].starts_with("at "));
    let all: Vec<_> = frames.map(|pair| (pair[0], pair[1].trim_start_matches("at "))).collect();
    let is_ours =
        |place: &str| (place.starts_with("./") || place.starts_with(&root)) && !place.contains("sites.rs:");
    let is_allocator = |name: &str| name.contains("__rust_alloc") || name.contains("__rust_realloc");
    let ours = all.iter().filter(|(name, place)| is_ours(place) && !is_allocator(name));
    let ours: Vec<_> = ours.take(DEPTH).collect();
    let shown = if ours.is_empty() { all.iter().take(20).collect() } else { ours };
    let lines = shown.iter().map(|(name, place)| {
        let place = place.strip_prefix(&root).unwrap_or(place).trim_start_matches('/');
        format!("    {place}  {}\n", name.split_once(": ").map_or(*name, |(_, name)| name))
    });
    lines.collect()
}
