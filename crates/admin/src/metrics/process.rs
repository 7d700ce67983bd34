//! The process as a whole, under the names that Prometheus' own clients have for it.

use std::fs;
use std::time::UNIX_EPOCH;

use delphinus_telemetry::Point;
use rustix::process::{Resource, getrlimit};
use rustix::time::{ClockId, clock_gettime};

use super::{Measured, counter, gauge};

pub(super) static METRICS: [Measured; 7] = [
    gauge("delphinus_build_info", &["version"], "1; the version is its label.", |_| {
        vec![Point::whole([env!("CARGO_PKG_VERSION")], 1)]
    }),
    gauge("process_start_time_seconds", &[], "When the process began, seconds since 1970.", |reading| {
        let since = reading.console.began.duration_since(UNIX_EPOCH).unwrap_or_default();
        plain(Some(since.as_secs_f64()))
    }),
    counter("process_cpu_seconds_total", &[], "CPU time of all threads, user and system.", |_| {
        let spent = clock_gettime(ClockId::ProcessCPUTime);
        plain(Some(spent.tv_sec as f64 + spent.tv_nsec as f64 / 1e9))
    }),
    gauge("process_resident_memory_bytes", &[], "Memory of the process that is in RAM.", |_| {
        plain(memory("VmRSS:"))
    }),
    gauge("process_virtual_memory_bytes", &[], "Addresses that the process has.", |_| {
        plain(memory("VmSize:"))
    }),
    // Where core files are forbidden, only root may look.
    gauge("process_open_fds", &[], "Open file descriptors.", |_| {
        plain(fs::read_dir("/proc/self/fd").ok().map(|open| open.count() as f64))
    }),
    gauge("process_max_fds", &[], "Most of them.", |_| {
        plain(getrlimit(Resource::Nofile).current.map(|most| most as f64))
    }),
];

/// One value without labels, if it is known.
fn plain(value: Option<f64>) -> Vec<Point> {
    value.map(|value| Point::real([""; 0], value)).into_iter().collect()
}

/// A number of KiB in what the kernel tells of the process, as bytes.
fn memory(name: &str) -> Option<f64> {
    let told = fs::read_to_string("/proc/self/status").ok()?;
    let line = told.lines().find_map(|line| line.strip_prefix(name))?;
    let kib: f64 = line.trim().trim_end_matches(" kB").parse().ok()?;
    Some(kib * 1024.0)
}
