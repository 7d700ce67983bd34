//! The texts of the configuration: what runs, what the file had when it was read or written last, and what ran after earlier changes.
//! It does no I/O: `history.rs` keeps them in `data_dir`.

use std::sync::Arc;
use std::time::SystemTime;

use delphinus_admin::ConfigChange;

/// So many changes are kept, and so many bytes of texts.
pub(crate) const MOST: usize = 64;
pub(crate) const MOST_BYTES: usize = 8 << 20;

/// All of them.
pub(crate) struct Texts {
    running: Arc<str>,
    /// A hash would do; a text says the same and cannot collide.
    file: Arc<str>,
    kept: Vec<Kept>,
    next: u64,
    /// The changes below this one are on disk, or are not kept.
    unstored: u64,
}

/// A change, and what ran after it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Kept {
    pub number: u64,
    pub at: SystemTime,
    pub by: String,
    pub what: String,
    pub changes: usize,
    pub text: Arc<str>,
}

impl Texts {
    /// At the start: with the changes of earlier starts, and the number of the next one.
    pub(crate) fn new(text: &str, (earlier, next): (Vec<Kept>, u64)) -> Self {
        let text: Arc<str> = text.into();
        let is_new = earlier.last().is_none_or(|last| last.text != text);
        let mut texts =
            Self { running: text.clone(), file: text.clone(), kept: earlier, next, unstored: next };
        if is_new {
            texts.keep(text, ("the proxy", "start"), 0);
        }
        texts
    }

    /// What runs.
    pub(crate) fn running(&self) -> &str {
        &self.running
    }

    /// True if the file is as it was read or written last.
    pub(crate) fn is_file(&self, text: &str) -> bool {
        *self.file == *text
    }

    /// True if what runs is what the file had when it was read or written last.
    pub(crate) fn is_saved(&self) -> bool {
        self.running == self.file
    }

    /// The file has this text now.
    pub(crate) fn is_in_file(&mut self, text: &str) {
        self.file = text.into();
    }

    /// This runs from now on.
    pub(crate) fn follow(&mut self, text: &str, told: (&str, &str), changes: usize) {
        self.running = text.into();
        if changes > 0 {
            self.keep(self.running.clone(), told, changes);
        }
    }

    /// What ran after a change.
    pub(crate) fn after(&self, number: u64) -> Option<String> {
        self.kept.iter().find(|kept| kept.number == number).map(|kept| kept.text.to_string())
    }

    /// The changes that are not on disk yet, and the oldest that is kept.
    pub(crate) fn unstored(&self) -> (Vec<Kept>, u64) {
        let unstored = self.kept.iter().filter(|kept| kept.number >= self.unstored).cloned().collect();
        (unstored, self.kept.first().map_or(self.next, |kept| kept.number))
    }

    /// All changes below this one are on disk.
    pub(crate) fn is_stored(&mut self, below: u64) {
        self.unstored = below;
    }

    /// The changes that are kept, the newest last.
    pub(crate) fn history(&self) -> Vec<ConfigChange> {
        let one = |kept: &Kept| ConfigChange {
            number: kept.number,
            at: kept.at,
            by: kept.by.clone(),
            what: kept.what.clone(),
            changes: kept.changes,
            is_running: kept.text == self.running,
            is_saved: kept.text == self.file,
        };
        self.kept.iter().map(one).collect()
    }

    fn keep(&mut self, text: Arc<str>, (by, what): (&str, &str), changes: usize) {
        let number = self.next;
        self.next += 1;
        let at = SystemTime::now();
        self.kept.push(Kept { number, at, by: by.to_owned(), what: what.to_owned(), changes, text });
        let bytes = |kept: &[Kept]| kept.iter().map(|one| one.text.len()).sum::<usize>();
        while self.kept.len() > 1 && (self.kept.len() > MOST || bytes(&self.kept) > MOST_BYTES) {
            self.kept.remove(0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_ran_is_kept_within_bounds() {
        let mut texts = Texts::new("a", (Vec::new(), 0));
        texts.follow("b", ("x", "y"), 1);
        texts.follow("b", ("x", "y"), 0);
        assert_eq!(texts.history().len(), 2);
        assert_eq!((texts.after(0).as_deref(), texts.after(1).as_deref()), (Some("a"), Some("b")));
        let flags = |texts: &Texts| {
            texts.history().iter().map(|one| (one.is_running, one.is_saved)).collect::<Vec<_>>()
        };
        assert_eq!(flags(&texts), [(false, true), (true, false)]);
        assert!(texts.is_file("a") && !texts.is_file("b") && !texts.is_saved());
        texts.is_in_file("b");
        assert!(texts.is_saved());
        assert_eq!(flags(&texts), [(false, false), (true, true)]);
        for number in 0..200 {
            texts.follow(&format!("{number}{}", "z".repeat(1 << 20)), ("x", "y"), 1);
        }
        assert!(texts.history().len() <= 9, "{}", texts.history().len());
        assert!(texts.after(0).is_none());
    }

    #[test]
    fn changes_of_earlier_starts_go_on() {
        let mut first = Texts::new("a", (Vec::new(), 0));
        first.follow("b", ("x", "y"), 1);
        let (earlier, oldest) = first.unstored();
        assert_eq!((earlier.len(), oldest), (2, 0));
        first.is_stored(2);
        assert!(first.unstored().0.is_empty());
        // The same text is no change.
        let same = Texts::new("b", (earlier.clone(), 2));
        assert_eq!((same.history().len(), same.unstored().0.len()), (2, 0));
        let other = Texts::new("c", (earlier, 2));
        assert_eq!(other.unstored().0.iter().map(|kept| kept.number).collect::<Vec<_>>(), [2]);
        assert_eq!(other.after(0).as_deref(), Some("a"));
    }
}
