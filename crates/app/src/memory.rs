//! The memory that the process may keep, and the answers that are kept in it.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use delphinus_cache::{Cache, Limits};
use delphinus_config::{self as config, Config};
use delphinus_memory::{Account, Owner, Permit};
use delphinus_stats::Statistics;

/// The part of the machine's memory, or the cgroup's, that is the limit if none is set.
const PART: u64 = 4;

/// The smallest limit that is chosen so.
const LEAST: u64 = 256 << 20;

/// What all clusters and workers share of it.
#[derive(Debug)]
pub(crate) struct Kept {
    /// The account.
    pub(crate) memory: Account,
    /// What statements cost.
    pub(crate) statistics: Arc<Statistics>,
    /// Answers that are kept; `None`: there is no room for any.
    pub(crate) cache: Option<Arc<Cache>>,
    /// Of the room for these, which is theirs from the start.
    _room: Option<Permit>,
}

impl Kept {
    /// As the configuration has it.
    pub(crate) fn new(config: &Config) -> Self {
        let limit = limit(config);
        let memory = Account::new(limit);
        let config::Cache { max_bytes, max_entry_bytes, .. } = config.cache;
        let bytes = usize::try_from(max_bytes).unwrap_or(usize::MAX);
        let fits = max_bytes > 0 && max_bytes <= limit / 2;
        let room = if fits { memory.take(Owner::Cache, bytes) } else { None };
        if max_bytes > 0 && room.is_none() {
            tracing::warn!(
                max_bytes,
                memory_limit = limit,
                "cache.max_bytes is more than half of memory_limit: nothing is cached"
            );
        }
        let cache = room.as_ref().map(|_| Arc::new(Cache::new(Limits { max_bytes, max_entry_bytes })));
        tracing::debug!(memory_limit = limit, "memory for what is kept");
        let statistics = Statistics::new(memory.clone(), digests(config));
        Self { memory, statistics, cache, _room: room }
    }

    /// As the configuration has it by now. The room of kept answers stays what it was.
    pub(crate) fn follow(&self, config: &Config) {
        self.memory.set_limit(limit(config));
        self.statistics.follow(digests(config));
    }
}

/// What is counted of statements.
fn digests(config: &Config) -> delphinus_stats::Limits {
    let config::Digests { enabled, max_bytes, max_length, .. } = config.digests;
    delphinus_stats::Limits { by_digest: enabled, max_bytes, max_text: max_length as usize }
}

fn limit(config: &Config) -> u64 {
    config.proxy.memory_limit.unwrap_or_else(|| (there_is() / PART).max(LEAST))
}

/// The memory of the machine, or what a cgroup leaves of it.
fn there_is() -> u64 {
    let text = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let machine = in_meminfo(&text).unwrap_or(LEAST * PART);
    let own = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    cgroups(&own)
        .iter()
        .filter_map(|file| fs::read_to_string(file).ok()?.trim().parse().ok())
        .fold(machine, u64::min)
}

fn in_meminfo(text: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib * 1024)
}

/// The files that may have a limit of the process: of its own cgroup and those above, of both versions.
fn cgroups(own: &str) -> Vec<String> {
    let mut files = Vec::new();
    for line in own.lines() {
        let mut parts = line.splitn(3, ':').skip(1);
        let (Some(controllers), Some(path)) = (parts.next(), parts.next()) else { continue };
        let (root, file) = match controllers {
            "" => ("/sys/fs/cgroup", "memory.max"),
            _ if controllers.split(',').any(|one| one == "memory") => {
                ("/sys/fs/cgroup/memory", "memory.limit_in_bytes")
            }
            _ => continue,
        };
        let above = Path::new(path).ancestors().map(|group| group.to_string_lossy().into_owned());
        files.extend(above.map(|group| format!("{root}{}/{file}", group.trim_end_matches('/'))));
    }
    files
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_where_the_kernel_shows_them() {
        assert_eq!(in_meminfo("MemTotal:       24615560 kB\nMemFree: 1 kB\n"), Some(24_615_560 * 1024));
        assert_eq!(
            cgroups("0::/a/b\n"),
            ["/sys/fs/cgroup/a/b/memory.max", "/sys/fs/cgroup/a/memory.max", "/sys/fs/cgroup/memory.max"]
        );
        assert_eq!(cgroups("9:cpu:/x\n8:memory:/\n"), ["/sys/fs/cgroup/memory/memory.limit_in_bytes"]);
        assert!(there_is() > 0);
    }
}
