//! The process as a whole, under the names that Prometheus' own clients have for it.

use std::fs;
use std::time::{Duration, UNIX_EPOCH};

use delphinus_telemetry::Point;
use rustix::process::{Resource, getrlimit};
use rustix::time::{ClockId, clock_gettime};

use super::{Measured, counter, gauge};

pub(super) static METRICS: [Measured; 7] = [
    gauge("delphinus_build_info", &["version"], "1; the version is its label.", |_| {
        vec![Point::whole([env!("CARGO_PKG_VERSION")], 1)]
    }),
    gauge("process_start_time_seconds", &[], "When the process began, seconds since 1970.", |reading| {
        vec![Point::time(NONE, reading.console.began.duration_since(UNIX_EPOCH).unwrap_or_default())]
    }),
    counter("process_cpu_seconds_total", &[], "CPU time of all threads, user and system.", |_| {
        let spent = Duration::try_from(clock_gettime(ClockId::ProcessCPUTime));
        vec![Point::time(NONE, spent.unwrap_or_default())]
    }),
    gauge("process_resident_memory_bytes", &[], "Memory of the process that is in RAM.", |_| {
        plain(memory("VmRSS:"))
    }),
    gauge("process_virtual_memory_bytes", &[], "Virtual memory of the process.", |_| {
        plain(memory("VmSize:"))
    }),
    // Where core files are forbidden, only root may look.
    gauge("process_open_fds", &[], "Open file descriptors.", |_| {
        plain(fs::read_dir("/proc/self/fd").ok().map(|open| open.count() as u64))
    }),
    gauge(
        "process_max_fds",
        &[],
        "The most file descriptors that the process may have \
     open.",
        |_| plain(getrlimit(Resource::Nofile).current),
    ),
];

/// No labels.
const NONE: [&str; 0] = [];

/// One value, if it is known.
fn plain(value: Option<u64>) -> Vec<Point> {
    value.map(|value| Point::whole(NONE, value)).into_iter().collect()
}

/// A number of KiB in what the kernel tells of the process, as bytes.
fn memory(name: &str) -> Option<u64> {
    let told = fs::read_to_string("/proc/self/status").ok()?;
    let line = told.lines().find_map(|line| line.strip_prefix(name))?;
    let kib: u64 = line.trim().trim_end_matches(" kB").parse().ok()?;
    Some(kib << 10)
}
