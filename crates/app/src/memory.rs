//! The memory that the process may keep, and the answers that are kept in it.

use std::cell::RefCell;
use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use delphinus_cache::{Cache, Feed, Limits, Tables};
use delphinus_config::{self as config, Config};
use delphinus_history::{History, Place};
use delphinus_journal::Logs;
use delphinus_memory::{Account, Owner, Permit};
use delphinus_net::rt;
use delphinus_stats::Statistics;

use crate::logs::{slow_log, sql_log};

/// The part of the machine's memory, or the cgroup's, that is the limit if none is set.
const PART: u64 = 4;

/// The smallest limit that is chosen so.
const LEAST: u64 = 256 << 20;

/// What is kept of the past where there is no `data_dir`, in bytes.
const IN_MEMORY: u64 = 8 << 20;

/// What all clusters and workers share of it.
#[derive(Debug)]
pub(crate) struct Kept {
    /// The account.
    pub(crate) memory: Account,
    /// What statements cost.
    pub(crate) statistics: Arc<Statistics>,
    /// The logs of statements.
    pub(crate) logs: Logs,
    /// What has been.
    pub(crate) history: Arc<History>,
    /// Answers that are kept.
    pub(crate) cache: Arc<Cache>,
    /// Of the room for these, which is theirs whether it is used or not.
    room: RefCell<Permit>,
}

/// The room that another configuration wants for the cache, taken.
#[derive(Debug)]
pub(crate) struct NextRoom {
    max_bytes: u64,
    /// Of all memory.
    limit: u64,
    /// The limit and the room before.
    before: (u64, usize),
}

impl Kept {
    /// As the configuration has it.
    pub(crate) fn new(config: &Config) -> Self {
        let memory = Account::new(limit(config));
        let cache = Cache::new(Limits::default());
        let cache = Arc::new(match config.cache.invalidation {
            config::CacheInvalidation::None => cache,
            config::CacheInvalidation::OwnWrites => {
                cache.ended_by_writes(config.clusters.iter().map(|_| Tables::default()))
            }
            config::CacheInvalidation::Stream => {
                let (start, max_lag) = (rt::now(), Duration::from_millis(config.cache.stream_max_lag_ms));
                let fed = |_| Tables::default().fed_by(Feed::new(start, max_lag));
                cache.ended_by_writes(config.clusters.iter().map(fed))
            }
        });
        let statistics = Statistics::new(memory.clone(), digests(config));
        let logs = Logs::start(&memory, slow_log(config), sql_log(config));
        let history = history(config, &memory, &statistics);
        let room = RefCell::new(memory.open(Owner::Cache));
        let kept = Self { memory, statistics, logs, history, cache, room };
        // Nothing has taken anything yet.
        if let Ok(room) = kept.prepare(config) {
            kept.follow(config, room);
        }
        tracing::debug!(memory_limit = kept.memory.limit(), "the memory limit is set");
        kept
    }

    /// Takes the room for the cache. An error says that there is none, and changes nothing.
    pub(crate) fn prepare(&self, config: &Config) -> Result<NextRoom, String> {
        let before = (self.memory.limit(), self.room.borrow().bytes());
        let (mut max_bytes, limit) = (config.cache.max_bytes, limit(config));
        if max_bytes > limit / 2 {
            tracing::warn!(
                max_bytes,
                memory_limit = limit,
                "cache.max_bytes is more than half of memory_limit: nothing is cached"
            );
            max_bytes = 0;
        }
        self.memory.set_limit(limit);
        let has_room = self.room.borrow_mut().grow_to(size(max_bytes));
        // As long as the configuration may still be given up, no other owner has less than before.
        self.memory.set_limit(if has_room { limit.max(before.0) } else { before.0 });
        if !has_room {
            return Err(format!(
                "there is no room for cache.max_bytes = {max_bytes}: {} of {limit} bytes of memory_limit are in use",
                self.memory.used()
            ));
        }
        Ok(NextRoom { max_bytes, limit, before })
    }

    /// The configuration was given up: the room is what it was.
    pub(crate) fn give_back(&self, NextRoom { before: (limit, bytes), .. }: NextRoom) {
        self.memory.set_limit(limit);
        self.room.borrow_mut().shrink_to(bytes);
    }

    /// As the configuration has it by now.
    pub(crate) fn follow(&self, config: &Config, NextRoom { max_bytes, limit, .. }: NextRoom) {
        self.memory.set_limit(limit);
        let max_lag = Duration::from_millis(config.cache.stream_max_lag_ms);
        self.cache.feeds().for_each(|feed| feed.set_max_lag(max_lag));
        self.statistics.follow(digests(config));
        self.reopen_logs(config);
        self.history.follow(activity(config));
        let (max_entry_bytes, shares) = (config.cache.max_entry_bytes, shares(config, max_bytes));
        self.cache.set_limits(Limits { max_bytes, max_entry_bytes, shares });
        self.room.borrow_mut().shrink_to(size(max_bytes));
    }

    /// The files of the logs are opened anew also under their old names: they may have been moved away meanwhile.
    pub(crate) fn reopen_logs(&self, config: &Config) {
        self.logs.slow.follow(slow_log(config));
        self.logs.sql.follow(sql_log(config));
    }
}

fn size(bytes: u64) -> usize {
    usize::try_from(bytes).unwrap_or(usize::MAX)
}

/// The rules that have a part of the room for kept answers to themselves, and how much.
fn shares(config: &Config, max_bytes: u64) -> Vec<(Arc<str>, u64)> {
    let share = |rule: &config::Rule| {
        let percent = rule.cache_share_pct?;
        Some((Arc::from(rule.name.as_str()), max_bytes / 100 * u64::from(percent)))
    };
    config.rules.iter().filter_map(share).collect()
}

/// What is counted of statements.
fn digests(config: &Config) -> delphinus_stats::Limits {
    let config::Digests { enabled, max_bytes, max_length, .. } = config.digests;
    delphinus_stats::Limits { by_digest: enabled, max_bytes, max_text: max_length as usize }
}

/// What has been, stored in `data_dir` if there is one.
fn history(config: &Config, memory: &Account, statistics: &Arc<Statistics>) -> Arc<History> {
    let (place, mut settings) = match &config.proxy.data_dir {
        Some(dir) => (Place::Dir(dir.join("activity")), activity(config)),
        None => (Place::memory(), activity(config)),
    };
    if matches!(place, Place::Memory(_)) {
        settings.limits.max_bytes = IN_MEMORY;
    }
    let statistics = statistics.clone();
    let text_of = move |digest| statistics.text(delphinus_sql::Digest(digest));
    History::start(memory, place, settings, Box::new(text_of))
}

/// How much of what sessions do is kept, and for how long.
fn activity(config: &Config) -> delphinus_history::Settings {
    let activity = &config.activity;
    delphinus_history::Settings {
        enabled: activity.enabled,
        limits: delphinus_history::Limits {
            max_bytes: activity.max_bytes,
            raw_days: activity.keep_samples_days,
            minute_days: activity.keep_minutes_days,
            hour_days: activity.keep_hours_days,
            snapshot_days: activity.keep_snapshots_days,
            most_groups: activity.max_rows_per_minute as usize,
        },
    }
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
    use delphinus_config::NoEnvironment;

    use super::*;

    #[test]
    fn the_room_of_the_cache_follows_the_configuration() {
        let config = |cache: u64, memory: u64| {
            let text = format!(
                "listener = [{{ address = '127.0.0.1:0' }}]\nuser = [{{ name = 'u', password = 'p' }}]\n\
                 [[cluster.backend]]\naddress = 'db:3306'\nrole = 'primary'\n[monitor]\nuser = 'm'\npassword = 'p'\n\
                 [proxy]\nmemory_limit = {memory}\n[activity]\nenabled = false\n[cache]\nmax_bytes = {cache}\nmax_entry_bytes = 1024\n"
            );
            delphinus_config::parse(&text, "a.toml", &NoEnvironment).unwrap()
        };
        let now = |kept: &Kept| {
            (kept.cache.limits().max_bytes, kept.memory.used_by(Owner::Cache), kept.memory.limit())
        };
        let follow =
            |kept: &Kept, config: &Config| kept.prepare(config).map(|room| kept.follow(config, room));
        let (mib, all) = (1 << 20, 64 << 20);
        let kept = Kept::new(&config(mib, all));
        assert_eq!(now(&kept), (mib, mib, all));
        for (cache, memory) in [(8 * mib, all), (2 * mib, all / 2), (0, all), (32 * mib, all)] {
            follow(&kept, &config(cache, memory)).unwrap();
            assert_eq!(now(&kept), (cache, cache, memory));
        }
        // A configuration that is given up has taken nothing.
        let room = kept.prepare(&config(40 * mib, 2 * all)).unwrap();
        assert_eq!(kept.memory.used_by(Owner::Cache), 40 * mib);
        kept.give_back(room);
        assert_eq!(now(&kept), (32 * mib, 32 * mib, all));
        // More than half of all is none.
        follow(&kept, &config(32 * mib, all / 2)).unwrap();
        assert_eq!(now(&kept), (0, 0, all / 2));
        // What others have cannot be taken from them, and nothing has changed then.
        let others = kept.memory.take(Owner::Sessions, 20 << 20);
        assert!(others.is_some() && follow(&kept, &config(16 * mib, all / 2 + mib)).is_err());
        assert_eq!(now(&kept), (0, 0, all / 2));
    }

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
