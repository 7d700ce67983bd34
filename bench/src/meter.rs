//! What a process has used: read from /proc, so that it is the same for every system.

use std::collections::HashMap;
use std::fs;

use anyhow::{Context, Result};

/// The kernel's unit in /proc/PID/stat; 100 on every Linux that Debian builds.
const TICKS_PER_SECOND: u64 = 100;

/// The processor time of a process so far, user and system.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Cpu {
    /// Nanoseconds of each living thread.
    threads: HashMap<u32, u64>,
    /// Nanoseconds of all threads, in steps of 10 ms.
    coarse_ns: u64,
}

impl Cpu {
    /// Reads it.
    pub(crate) fn of(pid: u32) -> Result<Self> {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat"))
            .with_context(|| format!("process {pid} is gone"))?;
        let coarse_ns = coarse(&stat).context("a /proc/PID/stat of another shape")?;
        let mut threads = HashMap::new();
        for entry in fs::read_dir(format!("/proc/{pid}/task"))? {
            let entry = entry?;
            // A thread may end in between; a kernel may have no schedstat.
            let Ok(text) = fs::read_to_string(entry.path().join("schedstat")) else { continue };
            let id = entry.file_name().to_string_lossy().parse();
            let nanos = text.split_whitespace().next().and_then(|number| number.parse().ok());
            if let (Ok(id), Some(nanos)) = (id, nanos) {
                threads.insert(id, nanos);
            }
        }
        Ok(Self { threads, coarse_ns })
    }

    /// Nanoseconds used since an earlier reading. Exact where every thread of then still lives; in steps of 10 ms
    /// otherwise, because a thread takes its own count with it.
    pub(crate) fn since_ns(&self, earlier: &Self) -> u64 {
        let is_complete = !self.threads.is_empty()
            && earlier.threads.keys().all(|thread| self.threads.contains_key(thread));
        if !is_complete {
            return self.coarse_ns.saturating_sub(earlier.coarse_ns);
        }
        let used = |(thread, now): (&u32, &u64)| {
            now.saturating_sub(earlier.threads.get(thread).copied().unwrap_or_default())
        };
        self.threads.iter().map(used).sum()
    }
}

/// Nanoseconds of a process so far, with all threads that have ended, in steps of 10 ms.
pub(crate) fn process_ns(pid: u32) -> Result<u64> {
    let stat =
        fs::read_to_string(format!("/proc/{pid}/stat")).with_context(|| format!("process {pid} is gone"))?;
    coarse(&stat).context("a /proc/PID/stat of another shape")
}

/// Nanoseconds of all children of this process that have ended, in steps of 10 ms.
pub(crate) fn ended_children_ns() -> Result<u64> {
    times(&fs::read_to_string("/proc/self/stat")?, 13).context("a /proc/PID/stat of another shape")
}

/// utime + stime of /proc/PID/stat.
fn coarse(stat: &str) -> Option<u64> {
    times(stat, 11)
}

/// Two times beside each other, so many fields behind the name, which may hold anything.
fn times(stat: &str, skipped: usize) -> Option<u64> {
    let (_, rest) = stat.rsplit_once(')')?;
    let mut fields = rest.split_whitespace().skip(skipped);
    let (user, system): (u64, u64) = (fields.next()?.parse().ok()?, fields.next()?.parse().ok()?);
    Some((user + system) * (1_000_000_000 / TICKS_PER_SECOND))
}

/// Resident memory of a process, in KiB.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Memory {
    /// Now.
    pub rss_kib: u64,
    /// The most so far.
    pub peak_kib: u64,
}

impl Memory {
    /// Reads it.
    pub(crate) fn of(pid: u32) -> Result<Self> {
        let text = fs::read_to_string(format!("/proc/{pid}/status"))
            .with_context(|| format!("process {pid} is gone"))?;
        let kib = |name: &str| {
            let line = text.lines().find_map(|line| line.strip_prefix(name));
            line.and_then(|rest| rest.trim().trim_end_matches(" kB").parse().ok())
        };
        let found = kib("VmRSS:").zip(kib("VmHWM:"));
        found.map(|(rss_kib, peak_kib)| Self { rss_kib, peak_kib }).context("no VmRSS or VmHWM")
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::*;

    fn cpu(threads: &[(u32, u64)], coarse_ns: u64) -> Cpu {
        Cpu { threads: threads.iter().copied().collect(), coarse_ns }
    }

    #[test]
    fn the_time_is_that_of_all_threads() {
        let now = cpu(&[(1, 150), (2, 300), (3, 7)], 0);
        assert_eq!(now.since_ns(&cpu(&[(1, 100), (2, 300)], 0)), 57);
    }

    #[test]
    fn a_thread_that_ended_makes_the_coarse_count_the_true_one() {
        assert_eq!(cpu(&[(1, 150)], 900).since_ns(&cpu(&[(1, 100), (2, 300)], 400)), 500);
        assert_eq!(cpu(&[], 900).since_ns(&cpu(&[], 400)), 500);
    }

    #[test]
    fn a_name_with_parentheses_does_not_confuse() {
        let stat = "12 (a) (b c) S 1 2 3 4 5 6 7 8 9 10 22 33 0 0";
        assert_eq!(coarse(stat), Some(550_000_000));
        assert_eq!(coarse("12 (a) S 1 2"), None);
    }

    #[test]
    fn work_is_seen() {
        let pid = std::process::id();
        let before = Cpu::of(pid).unwrap();
        let until = Instant::now() + Duration::from_millis(80);
        let mut count = 0u64;
        while Instant::now() < until {
            count = std::hint::black_box(count + 1);
        }
        let used = Cpu::of(pid).unwrap().since_ns(&before);
        assert!(used > 5_000_000, "{used} ns after {count} steps");
        let memory = Memory::of(pid).unwrap();
        assert!(memory.peak_kib >= memory.rss_kib && memory.rss_kib > 500, "{memory:?}");
    }
}
