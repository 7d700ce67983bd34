//! The names of what a session holds on its connection, and how often it holds each.
//!
//! Owns: that names take no more room than this. Must not know what they stand for.

use std::collections::BTreeMap;

/// So many names of a kind are kept, and so many bytes of them: texts that a server refuses may have any number.
const MOST: usize = 256;
const MOST_BYTES: usize = 16 << 10;

/// Names of one kind. Most sessions hold nothing, and an idle one is to be small.
#[derive(Debug, Default)]
pub(crate) struct HeldNames(Option<Box<Kept>>);

/// What is held.
#[derive(Debug, Default)]
struct Kept {
    times: BTreeMap<Box<str>, usize>,
    bytes: usize,
    /// Something is held whose name is not known, or was not kept.
    has_unnamed: bool,
}

impl HeldNames {
    /// True if nothing is held.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_none()
    }

    /// Held once more.
    pub(crate) fn add(&mut self, name: &str) {
        let kept = self.0.get_or_insert_default();
        if let Some(times) = kept.times.get_mut(name) {
            *times += 1;
        } else if kept.times.len() < MOST && kept.bytes + name.len() <= MOST_BYTES {
            kept.bytes += name.len();
            kept.times.insert(name.into(), 1);
        } else {
            kept.has_unnamed = true;
        }
    }

    /// Held at least once.
    pub(crate) fn add_once(&mut self, name: &str) {
        if !self.0.as_ref().is_some_and(|kept| kept.times.contains_key(name)) {
            self.add(name);
        }
    }

    /// Something is held that no name ends.
    pub(crate) fn add_unnamed(&mut self) {
        self.0.get_or_insert_default().has_unnamed = true;
    }

    /// Held once less.
    pub(crate) fn end_one(&mut self, name: &str) {
        let Some(kept) = &mut self.0 else { return };
        let Some(times) = kept.times.get_mut(name) else { return };
        *times -= 1;
        if *times == 0 {
            kept.times.remove(name);
            kept.bytes -= name.len();
        }
        if kept.times.is_empty() && !kept.has_unnamed {
            self.0 = None;
        }
    }

    /// Nothing is held any more.
    pub(crate) fn clear(&mut self) {
        self.0 = None;
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
        assert!(held.is_empty());
    }

    #[test]
    fn what_has_no_room_is_held_without_its_name() {
        let long = "x".repeat(MOST_BYTES / 2);
        let mut held = HeldNames::default();
        for number in 0..4 {
            held.add(&format!("{number}{long}"));
        }
        let kept = held.0.as_ref().unwrap();
        assert!(kept.times.len() == 1 && kept.bytes <= MOST_BYTES);
        held.end_one(&format!("0{long}"));
        let kept = held.0.as_ref().unwrap();
        assert!(kept.times.is_empty() && kept.bytes == 0, "what has no name is held");
        held.clear();
        assert!(held.is_empty());
        for number in 0..=MOST {
            held.add(&number.to_string());
        }
        let kept = held.0.unwrap();
        assert!(kept.times.len() == MOST && kept.has_unnamed);
    }
}
