//! The names of what a session holds on its connection, and how often it holds each.
//!
//! Owns: that names take no more room than this. Must not know what they stand for.

use std::collections::BTreeMap;

/// So many names of a kind are kept, and so many bytes of them: texts that a server refuses may have any number.
const MOST: usize = 256;
const MOST_BYTES: usize = 16 << 10;

/// Names of one kind.
#[derive(Debug, Default)]
pub(crate) struct HeldNames {
    times: BTreeMap<Box<str>, usize>,
    bytes: usize,
    /// Something is held whose name is not known, or was not kept.
    has_unnamed: bool,
}

impl HeldNames {
    /// True if nothing is held.
    pub(crate) fn is_empty(&self) -> bool {
        self.times.is_empty() && !self.has_unnamed
    }

    /// Held once more.
    pub(crate) fn add(&mut self, name: &str) {
        if let Some(times) = self.times.get_mut(name) {
            *times += 1;
        } else if self.times.len() < MOST && self.bytes + name.len() <= MOST_BYTES {
            self.bytes += name.len();
            self.times.insert(name.into(), 1);
        } else {
            self.has_unnamed = true;
        }
    }

    /// Held at least once.
    pub(crate) fn add_once(&mut self, name: &str) {
        if !self.times.contains_key(name) {
            self.add(name);
        }
    }

    /// Something is held that no name ends.
    pub(crate) fn add_unnamed(&mut self) {
        self.has_unnamed = true;
    }

    /// Held once less.
    pub(crate) fn end_one(&mut self, name: &str) {
        let Some(times) = self.times.get_mut(name) else { return };
        *times -= 1;
        if *times == 0 {
            self.times.remove(name);
            self.bytes -= name.len();
        }
    }

    /// Nothing is held any more.
    pub(crate) fn clear(&mut self) {
        *self = Self::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_ends_when_it_was_ended_as_often_as_it_was_added() {
        let mut held = HeldNames::default();
        held.add("a");
        held.add("a");
        held.add_once("a");
        held.end_one("b");
        held.end_one("a");
        assert!(!held.is_empty());
        held.end_one("a");
        assert!(held.is_empty() && held.bytes == 0);
    }

    #[test]
    fn what_has_no_room_is_held_without_its_name() {
        let long = "x".repeat(MOST_BYTES / 2);
        let mut held = HeldNames::default();
        for number in 0..4 {
            held.add(&format!("{number}{long}"));
        }
        assert!(held.times.len() == 1 && held.bytes <= MOST_BYTES);
        held.end_one(&format!("0{long}"));
        assert!(held.times.is_empty() && !held.is_empty());
        held.clear();
        assert!(held.is_empty());
        for number in 0..MOST + 1 {
            held.add(&number.to_string());
        }
        assert!(held.times.len() == MOST && held.has_unnamed);
    }
}
