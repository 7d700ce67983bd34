//! The steps of a long run: each is named, timed and counted, and none stops the others.

use std::fmt::Write as _;
use std::io::Write;
use std::ops::AddAssign;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

/// How many checks passed and failed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    pub(crate) passed: u64,
    pub(crate) failed: u64,
}

impl Tally {
    /// One check, passed.
    pub(crate) const PASSED: Self = Self { passed: 1, failed: 0 };
    /// One check, failed.
    pub(crate) const FAILED: Self = Self { passed: 0, failed: 1 };
}

impl AddAssign for Tally {
    fn add_assign(&mut self, other: Self) {
        self.passed += other.passed;
        self.failed += other.failed;
    }
}

#[derive(Debug)]
struct Step {
    name: String,
    tally: Tally,
    took: Duration,
}

/// The steps that have been done.
#[derive(Debug)]
pub(crate) struct Steps {
    done: Vec<Step>,
    notes: Vec<String>,
    began: Instant,
}

impl Steps {
    pub(crate) fn begin() -> Self {
        Self { done: Vec::new(), notes: Vec::new(), began: Instant::now() }
    }

    /// Does something that counts as one check.
    pub(crate) fn check(&mut self, name: &str, work: impl FnOnce() -> Result<()>) {
        self.tests(name, || work().map(|()| Tally::PASSED));
    }

    /// Does something that counts its checks itself. An error is one that failed.
    pub(crate) fn tests(&mut self, name: &str, work: impl FnOnce() -> Result<Tally>) {
        eprintln!("\n== {name}");
        let began = Instant::now();
        let tally = work().unwrap_or_else(|error| {
            eprintln!("error: {name}: {error:#}");
            Tally::FAILED
        });
        self.done.push(Step { name: name.to_owned(), tally, took: began.elapsed() });
    }

    /// Says something in the summary.
    pub(crate) fn note(&mut self, text: String) {
        self.notes.push(text);
    }

    /// Prints the summary; its last line is "N passed, M failed".
    pub(crate) fn finish(self) -> Result<ExitCode> {
        let text = self.summary();
        let mut stdout = std::io::stdout().lock();
        stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()).context("cannot show the summary")?;
        Ok(if self.is_success() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    }

    /// At least one check, and none failed.
    fn is_success(&self) -> bool {
        let total = self.total();
        total.failed == 0 && total.passed > 0
    }

    fn total(&self) -> Tally {
        let mut total = Tally::default();
        self.done.iter().for_each(|step| total += step.tally);
        total
    }

    fn summary(&self) -> String {
        let mut text = "\n".to_owned();
        for Step { name, tally, took } in &self.done {
            let verdict = if tally.failed == 0 { "ok" } else { "FAILED" };
            let Tally { passed, failed } = tally;
            let seconds = took.as_secs_f64();
            let _ = writeln!(
                text,
                "{verdict:<6} {name:<44} {passed:>5} passed {failed:>3} failed {seconds:>7.1} s"
            );
        }
        for note in &self.notes {
            let _ = writeln!(text, "{note}");
        }
        let Tally { passed, failed } = self.total();
        text + &format!(
            "{:.0} s in all\n{passed} passed, {failed} failed\n",
            self.began.elapsed().as_secs_f64()
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_line_adds_everything_up() {
        let mut steps = Steps::begin();
        steps.check("one", || Ok(()));
        steps.check("two", || anyhow::bail!("no"));
        steps.tests("many", || Ok(Tally { passed: 40, failed: 2 }));
        steps.note("UNSTEADY a".to_owned());
        let summary = steps.summary();
        assert_eq!(summary.lines().last(), Some("41 passed, 3 failed"));
        assert!(summary.contains("FAILED two") && summary.contains("\nUNSTEADY a\n"), "{summary}");
        assert!(!steps.is_success());
    }

    #[test]
    fn nothing_done_is_no_success() {
        assert!(!Steps::begin().is_success());
        let mut steps = Steps::begin();
        steps.check("one", || Ok(()));
        assert!(steps.is_success());
    }
}
