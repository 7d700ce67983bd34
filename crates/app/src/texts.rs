//! The texts of the configuration: what runs, what the file had when it was read or written last, and what ran after earlier changes.

use std::rc::Rc;
use std::time::SystemTime;

use delphinus_admin::ConfigChange;

/// So many changes are kept, and so many bytes of texts.
const MOST: usize = 64;
const MOST_BYTES: usize = 8 << 20;

/// All of them.
pub(crate) struct Texts {
    running: Rc<str>,
    /// A hash would do; a text says the same and cannot collide.
    file: Rc<str>,
    kept: Vec<Kept>,
    next: u64,
}

struct Kept {
    number: u64,
    at: SystemTime,
    by: String,
    what: String,
    changes: usize,
    text: Rc<str>,
}

impl Texts {
    /// At the start.
    pub(crate) fn new(text: &str) -> Self {
        let text: Rc<str> = text.into();
        let mut texts = Self { running: text.clone(), file: text.clone(), kept: Vec::new(), next: 0 };
        texts.keep(text, ("the proxy", "start"), 0);
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

    fn keep(&mut self, text: Rc<str>, (by, what): (&str, &str), changes: usize) {
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
        let mut texts = Texts::new("a");
        texts.follow("b", ("x", "y"), 1);
        texts.follow("b", ("x", "y"), 0);
        assert_eq!(texts.history().len(), 2);
        assert_eq!((texts.after(0).as_deref(), texts.after(1).as_deref()), (Some("a"), Some("b")));
        let flags = |texts: &Texts| {
            texts.history().iter().map(|one| (one.is_running, one.is_saved)).collect::<Vec<_>>()
        };
        assert_eq!(flags(&texts), [(false, true), (true, false)]);
        assert!(texts.is_file("a") && !texts.is_file("b"));
        texts.is_in_file("b");
        assert_eq!(flags(&texts), [(false, false), (true, true)]);
        for number in 0..200 {
            texts.follow(&format!("{number}{}", "z".repeat(1 << 20)), ("x", "y"), 1);
        }
        assert!(texts.history().len() <= 9, "{}", texts.history().len());
        assert!(texts.after(0).is_none());
    }
}
