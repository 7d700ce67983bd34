//! What a row says in words, for whoever ran it.

use std::fmt::Write as _;
use std::time::Duration;

use super::{Part, Row};

/// Until a write was acknowledged again after a kill: the median, and the longest.
const AFTER_KILL: [Duration; 2] = [Duration::from_secs(3), Duration::from_secs(6)];

impl Row {
    /// Rounds, errors, what was lost, and the waits for writes, in a line; then what is wrong, each in a line of its own.
    pub fn summary(&self) -> String {
        let [median, worst] = self.pauses();
        let errors: Vec<_> = self.errors.iter().map(|(kind, count)| format!("{count} × {kind}")).collect();
        let of_errors = if errors.is_empty() { String::new() } else { format!(" ({})", errors.join(", ")) };
        let mut text = format!(
            "{} {}: {} of {} rounds, {} errors{of_errors}, {} lost; writes again after {:.2} s (median) and {:.2} s (worst), \
             longest wait for a write {:.2} s; {} acknowledged writes, {} transactions of sysbench: {}",
            self.part.word(),
            self.servers.word(),
            self.until_writes.len(),
            self.rounds,
            self.errors.values().sum::<usize>(),
            self.lost,
            median.as_secs_f64(),
            worst.as_secs_f64(),
            self.longest.as_secs_f64(),
            self.work[0],
            self.work[1],
            if self.is_good() { "good" } else { "WRONG" }
        );
        for wrong in &self.wrongs {
            let _ = write!(text, "\n    wrong: {wrong}");
        }
        if self.part == Part::Kill {
            for (pause, bound, what) in [(median, AFTER_KILL[0], "median"), (worst, AFTER_KILL[1], "worst")] {
                if pause > bound {
                    let _ = write!(text, "\n    slow: the {what} is above {} s", bound.as_secs());
                }
            }
        }
        text
    }

    /// From the command or the kill until a write was acknowledged: the median, and the longest.
    pub(super) fn pauses(&self) -> [Duration; 2] {
        let mut times = self.until_writes.clone();
        times.sort_unstable();
        [times.get(times.len() / 2), times.last()].map(|time| time.copied().unwrap_or_default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::failover::Servers;

    #[test]
    fn a_line_has_the_figures_and_says_what_is_wrong() {
        let mut row = Row {
            part: Part::Kill,
            servers: Servers::MySqlSemiSync,
            rounds: 3,
            work: [1200, 0],
            lost: 0,
            wrongs: Vec::new(),
            errors: [("9101".to_owned(), 4), ("1213".to_owned(), 1)].into(),
            until_writes: [2000, 1000, 7000].map(Duration::from_millis).into(),
            longest: Duration::from_millis(7100),
        };
        let said = row.summary();
        assert!(
            said.starts_with("kill mysql-semi-sync: 3 of 3 rounds, 5 errors (1 × 1213, 4 × 9101), 0 lost; "),
            "{said}"
        );
        assert!(said.contains("2.00 s (median) and 7.00 s (worst)") && said.contains(": good\n"), "{said}");
        assert!(said.ends_with("slow: the worst is above 6 s"), "{said}");
        (row.lost, row.wrongs) = (1, vec!["two writers".to_owned()]);
        let said = row.summary();
        assert!(said.contains("1 lost") && said.contains(": WRONG\n    wrong: two writers\n"), "{said}");
    }
}
