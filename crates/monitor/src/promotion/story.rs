//! What was done, step by step: the time line that operators read, of the last moves.

use std::collections::{BTreeMap, VecDeque};
use std::time::{Duration, Instant, SystemTime};

/// So many moves are kept.
const MOVES: usize = 32;
/// So many lines of each. A step that is tried again and again is one line.
const LINES: usize = 200;
/// Longest text of a line, in bytes.
const LONGEST: usize = 1024;

/// Who has wanted a move that turns relays to the primary.
pub(super) const RELAYS: &str = "relays";

/// A move.
#[derive(Debug, Clone)]
pub struct Told {
    /// Its number, from 1 on.
    pub number: u64,
    /// When it began.
    pub began: SystemTime,
    /// The same by a clock that is never set.
    since: Instant,
    /// `switchover` or `failover`.
    pub kind: &'static str,
    /// Who had the role.
    pub from: String,
    /// Who takes it, once that is known.
    pub to: Option<String>,
    /// Who has wanted it.
    pub by: String,
    /// `running`, `done`, `undone` or `failed`.
    pub state: &'static str,
    /// Why it was undone, or has failed.
    pub reason: Option<String>,
    /// What was done.
    pub lines: Vec<Line>,
}

/// One thing that was done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Line {
    /// When, since the move began.
    pub after: Duration,
    /// How long it took.
    pub took: Duration,
    /// Where; empty: in the proxy.
    pub backend: String,
    /// What.
    pub step: String,
    /// What came of it.
    pub result: String,
}

/// The last moves.
#[derive(Debug, Default)]
pub struct Story {
    moves: VecDeque<Told>,
    count: u64,
    ends: BTreeMap<&'static str, Ends>,
}

/// What has become of all moves of one kind that have ended.
#[derive(Debug, Clone, Default)]
pub struct Ends {
    /// How often, by the state in which they ended.
    pub counts: BTreeMap<&'static str, u64>,
    /// How long the last one took.
    pub last: Duration,
}

impl Story {
    /// All that are kept, the oldest first.
    pub fn moves(&self) -> impl Iterator<Item = &Told> {
        self.moves.iter()
    }

    /// The one that runs.
    pub fn running(&self) -> Option<&Told> {
        self.moves.back().filter(|last| last.state == "running")
    }

    pub(super) fn begin(&mut self, kind: &'static str, from: String, by: String) -> u64 {
        self.count += 1;
        let (number, began) = (self.count, SystemTime::now());
        let told = Told {
            number,
            began,
            since: Instant::now(),
            kind,
            from,
            to: None,
            by,
            state: "running",
            reason: None,
            lines: Vec::new(),
        };
        // One that cannot be turned is tried again and again: other moves are not forgotten for that.
        let repeats = |last: &Told| {
            (last.kind, &last.from, &*last.by) == (kind, &told.from, RELAYS) && told.by == RELAYS
        };
        if self.moves.back().is_some_and(repeats) {
            self.moves.pop_back();
        } else if self.moves.len() == MOVES {
            self.moves.pop_front();
        }
        self.moves.push_back(told);
        number
    }

    pub(super) fn last(&mut self) -> Option<&mut Told> {
        self.moves.back_mut()
    }

    /// What has become of them, by their kinds.
    pub fn ends(&self) -> &BTreeMap<&'static str, Ends> {
        &self.ends
    }

    /// The last one ends so.
    pub(super) fn end(&mut self, state: &'static str, reason: Option<String>) -> Option<&Told> {
        let told = self.moves.back_mut()?;
        (told.state, told.reason) = (state, reason);
        let ends = self.ends.entry(told.kind).or_default();
        *ends.counts.entry(state).or_default() += 1;
        ends.last = told.since.elapsed();
        Some(told)
    }

    pub(super) fn tell(&mut self, mut line: Line) {
        let Some(last) = self.moves.back_mut() else { return };
        cut(&mut line.result);
        cut(&mut line.step);
        if let Some(before) = last.lines.last_mut()
            && (&before.backend, &before.step, &before.result) == (&line.backend, &line.step, &line.result)
        {
            before.took = (line.after + line.took).saturating_sub(before.after);
            return;
        }
        if last.lines.len() < LINES {
            last.lines.push(line);
        }
    }
}

fn cut(text: &mut String) {
    if text.len() > LONGEST {
        let end = (0..=LONGEST).rev().find(|at| text.is_char_boundary(*at)).unwrap_or_default();
        text.truncate(end);
        text.push_str("...");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ends_are_counted_though_the_moves_are_forgotten() {
        let mut story = Story::default();
        for n in 0..100 {
            story.begin("failover", "db1".to_owned(), "ops".to_owned());
            assert!(story.running().is_some());
            let state = if n % 4 == 0 { "failed" } else { "done" };
            story.end(state, None).unwrap();
            assert!(story.running().is_none());
        }
        assert_eq!(story.moves().count(), MOVES);
        let ends = &story.ends()["failover"];
        assert_eq!((ends.counts["done"], ends.counts["failed"]), (75, 25));
        assert!(ends.last < Duration::from_secs(10) && story.ends().len() == 1);
    }

    #[test]
    fn what_is_tried_again_and_again_pushes_no_other_move_out() {
        let mut story = Story::default();
        story.begin("switchover", "db1".into(), "an operator".into());
        for _ in 0..MOVES * 2 {
            story.begin("reopening", "db2".into(), RELAYS.into());
        }
        let told: Vec<_> = story.moves().map(|told| (told.number, told.kind)).collect();
        assert_eq!(told, [(1, "switchover"), (1 + 2 * MOVES as u64, "reopening")]);
        story.begin("reopening", "db3".into(), RELAYS.into());
        story.begin("reopening", "db3".into(), "an operator".into());
        assert_eq!(story.moves().count(), 4);
    }
}
