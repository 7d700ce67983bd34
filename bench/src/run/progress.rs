//! What runs now and how long the rest will take, on standard error.

use std::io::{IsTerminal, Write};
use std::time::Instant;

use crate::stats::float;

/// One line, written over again on a terminal.
#[derive(Debug)]
pub(super) struct ProgressLine {
    began: Instant,
    total: usize,
    done: usize,
    skipped: usize,
}

impl ProgressLine {
    pub(super) fn new(total: usize) -> Self {
        Self { began: Instant::now(), total, done: 0, skipped: 0 }
    }

    /// A measurement begins, in round `round.0` of `round.1`.
    pub(super) fn begin(&self, what: &str, round: (usize, usize)) {
        let (round, rounds) = round;
        let text = format!("  round {round} of {rounds}: {what}{}", self.time_left());
        let mut stderr = std::io::stderr().lock();
        let (clear, end) = if stderr.is_terminal() { ("\r\x1b[K", "") } else { ("", "\n") };
        // A terminal that went away must not stop the work.
        let _ = write!(stderr, "{clear}{text}{end}").and_then(|()| stderr.flush());
    }

    pub(super) fn done(&mut self) {
        self.done += 1;
    }

    /// So many measurements will not be made.
    pub(super) fn skip(&mut self, count: usize) {
        self.skipped += count;
    }

    pub(super) fn end(&self) {
        let seconds = self.began.elapsed().as_secs_f64();
        let clear = if std::io::stderr().is_terminal() { "\r\x1b[K" } else { "" };
        let _ = writeln!(std::io::stderr(), "{clear}  ok {} measurements ({seconds:.0} s)", self.done);
    }

    fn time_left(&self) -> String {
        if self.done == 0 {
            return String::new();
        }
        let left = self.total.saturating_sub(self.done + self.skipped);
        let seconds = self.began.elapsed().as_secs_f64() / float(self.done as u64) * float(left as u64);
        if seconds < 90.0 {
            format!(", about {seconds:.0} s left")
        } else {
            format!(", about {:.0} min left", seconds / 60.0)
        }
    }
}
