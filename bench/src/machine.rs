//! The machine that measured: what a reader has to know to judge the figures.

use std::fs;
use std::path::Path;
use std::process::Command;

/// Facts that were true during a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Machine {
    /// The processor's name.
    pub processor: String,
    /// Cores that this process may use.
    pub cores: usize,
    /// Memory in MiB.
    pub memory_mib: u64,
    /// The kernel's release.
    pub kernel: String,
    /// The distribution.
    pub system: String,
    /// The day, as YYYY-MM-DD, in UTC.
    pub day: String,
    /// The commit that was measured, with `-dirty` where files differ from it.
    pub revision: String,
}

impl Machine {
    /// Looks; `project` is a folder of the sources.
    pub fn look(project: &Path) -> Self {
        let mut git = Command::new("git");
        git.current_dir(project).args(["describe", "--always", "--dirty", "--exclude=*"]);
        let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
        Self {
            processor: value(&read("/proc/cpuinfo"), "model name", ':').unwrap_or_else(unknown),
            cores: std::thread::available_parallelism().map_or(1, usize::from),
            memory_mib: value(&read("/proc/meminfo"), "MemTotal", ':').map_or(0, |text| kib(&text) / 1024),
            kernel: read("/proc/sys/kernel/osrelease").trim().to_owned(),
            system: value(&read("/etc/os-release"), "PRETTY_NAME", '=').unwrap_or_else(unknown),
            day: said(Command::new("date").args(["--utc", "+%Y-%m-%d"])),
            revision: Some(said(&mut git)).filter(|text| !text.is_empty()).unwrap_or_else(unknown),
        }
    }
}

/// The average number of running threads in the last minute, as the kernel counts it; this run's own are among them.
pub(crate) fn load_average() -> Option<f64> {
    fs::read_to_string("/proc/loadavg").ok()?.split_whitespace().next()?.parse().ok()
}

/// The first line that starts with `key`, behind the separator and without quotes.
fn value(text: &str, key: &str, separator: char) -> Option<String> {
    let line = text.lines().find(|line| line.starts_with(key))?;
    let (_, value) = line.split_once(separator)?;
    Some(value.trim().trim_matches('"').to_owned())
}

fn kib(text: &str) -> u64 {
    text.trim_end_matches("kB").trim().parse().unwrap_or_default()
}

fn unknown() -> String {
    "unknown".to_owned()
}

fn said(command: &mut Command) -> String {
    let done = command.output().map(|done| done.stdout).unwrap_or_default();
    String::from_utf8_lossy(&done).trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_found_behind_their_keys() {
        assert_eq!(value("a\t: 1\nmodel name\t: X 3\n", "model name", ':').as_deref(), Some("X 3"));
        assert_eq!(value("PRETTY_NAME=\"D 12\"\n", "PRETTY_NAME", '=').as_deref(), Some("D 12"));
        assert_eq!(value("a=1\n", "b", '='), None);
        assert_eq!(kib("24576000 kB"), 24_576_000);
    }

    #[test]
    fn this_machine_is_described() {
        let machine = Machine::look(Path::new("/"));
        assert!(machine.cores > 0 && machine.memory_mib > 100, "{machine:?}");
        assert_eq!(machine.day.len(), 10, "{machine:?}");
        assert_eq!(machine.revision, "unknown");
        assert!(load_average().is_some());
    }
}
