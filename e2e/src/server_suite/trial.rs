//! One test, run once.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

use crate::programs::run_or_kill;
use crate::server_suite::Protocol;
use crate::server_suite::mtr::{Call, Prepared};
use crate::stage::Address;

/// What `mariadb-test` ends with when a test says that it cannot run here.
const SKIPPED: i32 = 62;
/// What `timeout` ends with when it had to end something.
const TIMED_OUT: i32 = 124;
/// `timeout` needs this to end what does not want to.
const KILL_AFTER: Duration = Duration::from_secs(5);
/// So much of what a test says is kept.
const LINES: usize = 60;

/// What a test came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    Passed,
    Skipped,
    Failed,
    TimedOut,
}

/// A run of a test.
#[derive(Debug, Clone)]
pub(crate) struct Trial {
    pub(crate) name: String,
    pub(crate) verdict: Verdict,
    /// The difference, or the error, in its first lines.
    pub(crate) said: String,
    pub(crate) took: Duration,
}

impl Trial {
    /// What it needs could not be started.
    pub(crate) fn not_begun(name: &str, why: &str) -> Self {
        Self { name: name.to_owned(), verdict: Verdict::Failed, said: short(why), took: Duration::ZERO }
    }

    pub(crate) fn has_passed(&self) -> bool {
        self.verdict == Verdict::Passed
    }

    /// What it came to, in a few words.
    pub(crate) fn came_to(&self) -> String {
        format!("{:?} after {:.1} s", self.verdict, self.took.as_secs_f64())
    }

    /// That, and what it said.
    pub(crate) fn report(&self) -> String {
        format!("{}\n{}", self.came_to(), self.said)
    }
}

/// Where a test runs.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Place<'a> {
    pub(crate) protocol: Protocol,
    pub(crate) vardir: &'a Path,
    pub(crate) address: &'a Address,
    pub(crate) limit: Duration,
    /// `TZ`, if not the suite's.
    pub(crate) zone: Option<&'a str>,
}

/// Runs it. The results that it compares with are copied first, because `mariadb-test` writes beside them.
pub(crate) fn run(suite: &Prepared, call: &Call, place: Place<'_>) -> Result<Trial> {
    let Place { protocol, vardir, address, limit, zone } = place;
    let results = vardir.join("results");
    fs::create_dir_all(&results)?;
    let mut command = Command::new("timeout");
    // The programs that a test starts are in the same group and end with it.
    command.arg(format!("--kill-after={}", KILL_AFTER.as_secs())).arg(limit.as_secs().to_string());
    command.arg("mariadb-test");
    for argument in &call.arguments {
        match argument.strip_prefix("--result-file=").map(Path::new) {
            Some(file) => command.arg(format!("--result-file={}", copied(file, &results)?.display())),
            None => command.arg(argument),
        };
    }
    command.args(protocol.options());
    let variables = suite.environment.iter().map(|(name, value)| (name, value));
    command.current_dir(&suite.folder).env_clear().envs(variables);
    command.env("MASTER_MYSOCK", &address.socket).env("MASTER_MYPORT", address.port.to_string());
    command.envs(zone.map(|zone| ("TZ", zone)));
    let begun = Instant::now();
    let (status, said) = run_or_kill(&mut command, limit + KILL_AFTER * 2)?;
    let verdict = match status.and_then(|status| status.code()) {
        Some(0) => Verdict::Passed,
        Some(SKIPPED) => Verdict::Skipped,
        Some(TIMED_OUT) | None => Verdict::TimedOut,
        Some(_) => Verdict::Failed,
    };
    Ok(Trial { name: call.name.clone(), verdict, said: short(&said), took: begun.elapsed() })
}

fn copied(file: &Path, to: &Path) -> Result<std::path::PathBuf> {
    let name = file.file_name().context("invariant: a result file has a name")?;
    let copy = to.join(name);
    // A test without results is one that only has to end well.
    if file.is_file() {
        fs::copy(file, &copy).with_context(|| format!("cannot copy {}", file.display()))?;
    }
    Ok(copy)
}

/// The first lines, each cut, without what is the same for all tests.
fn short(said: &str) -> String {
    let lines = said.lines().filter(|line| !line.trim().is_empty());
    lines.take(LINES).map(|line| line.chars().take(300).collect::<String>() + "\n").collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_kept_is_short() {
        let said = format!("a\n\n{}\n", "x".repeat(1000));
        assert_eq!(short(&said), format!("a\n{}\n", "x".repeat(300)));
        assert_eq!(short(&"a\n".repeat(100)).lines().count(), LINES);
    }
}
