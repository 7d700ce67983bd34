//! How long-running work reports what it does and learns that it should stop.

use std::fmt;
use std::io::{IsTerminal, Write};
use std::time::{Duration, Instant};

use anyhow::Result;

/// Receives what the sandbox is doing. Called from several threads.
pub trait Progress: Sync {
    /// A step begins. Steps follow one another; they do not nest.
    fn started(&self, step: &str);
    /// The step that began last is complete.
    fn finished(&self, step: &str, took: Duration);
    /// The step that began last did not succeed; the error itself goes to the caller.
    fn failed(&self, step: &str);
    /// One line of what a step's program says, of interest only while it runs.
    fn detail(&self, _line: &str) {}
    /// Something the user has to know, between steps.
    fn note(&self, text: &str);
    /// True when the work should end as soon as it can, with [`Cancelled`].
    fn is_cancelled(&self) -> bool {
        false
    }
}

/// The error of work that ended because [`Progress::is_cancelled`] said so.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cancelled;

impl fmt::Display for Cancelled {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("interrupted")
    }
}

impl std::error::Error for Cancelled {}

/// Reports nothing; what tests want.
#[derive(Debug, Clone, Copy, Default)]
pub struct Silent;

impl Progress for Silent {
    fn started(&self, _step: &str) {}
    fn finished(&self, _step: &str, _took: Duration) {}
    fn failed(&self, _step: &str) {}
    fn note(&self, _text: &str) {}
}

/// Writes one line for each step to standard error, with its seconds; on a terminal the line shows
/// what happens while it happens.
#[derive(Debug, Clone, Copy, Default)]
pub struct Terminal;

impl Terminal {
    /// Writes over the current line; a terminal that went away must not stop the work.
    fn overwrite(text: &str, end: &str) {
        let mut stderr = std::io::stderr().lock();
        let clear = if stderr.is_terminal() { "\r\x1b[K" } else { "" };
        let _ = write!(stderr, "{clear}{text}{end}").and_then(|()| stderr.flush());
    }
}

impl Progress for Terminal {
    fn started(&self, step: &str) {
        if std::io::stderr().is_terminal() {
            Self::overwrite(&format!("  .. {step}"), "");
        }
    }

    fn finished(&self, step: &str, took: Duration) {
        Self::overwrite(&format!("  ok {step} ({:.1} s)", took.as_secs_f64()), "\n");
    }

    fn failed(&self, step: &str) {
        Self::overwrite(&format!("  -- {step}: failed"), "\n");
    }

    fn detail(&self, line: &str) {
        if std::io::stderr().is_terminal() {
            let line: String = line.chars().filter(|c| !c.is_control()).take(70).collect();
            Self::overwrite(&format!("     {line}"), "");
        }
    }

    fn note(&self, text: &str) {
        Self::overwrite(&format!("  {text}"), "\n");
    }
}

/// Runs one step and reports it.
pub(crate) fn step<T>(progress: &dyn Progress, name: &str, work: impl FnOnce() -> Result<T>) -> Result<T> {
    check(progress)?;
    progress.started(name);
    let began = Instant::now();
    match work() {
        Ok(value) => {
            progress.finished(name, began.elapsed());
            Ok(value)
        }
        Err(error) => {
            progress.failed(name);
            Err(error)
        }
    }
}

/// Fails with [`Cancelled`] when the work should end.
pub(crate) fn check(progress: &dyn Progress) -> Result<()> {
    if progress.is_cancelled() { Err(Cancelled.into()) } else { Ok(()) }
}

/// Asks `ready` every 20 ms until it says yes, for at most `limit`.
pub(crate) fn wait_until(
    progress: &dyn Progress,
    limit: Duration,
    what: &str,
    mut ready: impl FnMut() -> Result<bool>,
) -> Result<()> {
    let began = Instant::now();
    loop {
        check(progress)?;
        if ready()? {
            return Ok(());
        }
        anyhow::ensure!(began.elapsed() < limit, "{what}: still waiting after {} s", limit.as_secs());
        std::thread::sleep(Duration::from_millis(20));
    }
}
