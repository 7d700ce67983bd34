//! What the keeper has found, for others to read.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use delphinus_topology::BootTime;

use crate::store::Entry;

/// How the store looked last, and how long this process is sure to be known there.
#[derive(Debug, Clone, Default)]
pub struct View {
    /// This process's lease; 0: it has none.
    pub lease: u64,
    /// When its tenure ends, if it has one. The margin is taken off already.
    pub ends: Option<BootTime>,
    /// All keys, as they were listed last.
    pub entries: BTreeMap<String, Entry>,
    /// When they were listed.
    pub listed: Option<BootTime>,
    /// What is wrong with the store now.
    pub trouble: Option<String>,
    /// How often something was.
    pub troubles: u64,
    /// Keys that this process keeps without the store, because all others have promised to take none of them; and until when.
    kept: (BTreeSet<String>, Option<BootTime>),
    /// Epochs of keys that this process has given back, or has tried to.
    pub(crate) given_back: BTreeMap<String, u64>,
}

/// A key that this process holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Held {
    /// Grows each time that the key is taken.
    pub epoch: u64,
    /// Until when it is sure to be this process's.
    pub until: BootTime,
}

impl View {
    /// A key, if this process holds it and has not begun to give it back.
    ///
    /// A key that was given back counts no more even if the store still shows it: the message may yet arrive.
    pub fn held(&self, key: &str) -> Option<Held> {
        let entry = self.entries.get(key)?;
        let is_ours = self.lease != 0 && entry.lease == self.lease;
        let is_given_back = self.given_back.get(key) == Some(&entry.epoch);
        (is_ours && !is_given_back)
            .then_some(self.ends)
            .flatten()
            .map(|until| Held { epoch: entry.epoch, until })
    }

    /// True if the others have promised to take none of what this process holds, this key among it.
    pub fn is_kept(&self, key: &str, now: BootTime) -> bool {
        self.kept.1.is_some_and(|until| until > now) && self.kept.0.contains(key)
    }

    /// All keys of which `is_kept` is true.
    pub(crate) fn kept(&self, now: BootTime) -> impl Iterator<Item = &String> {
        self.kept.0.iter().filter(move |key| self.is_kept(key, now))
    }

    /// When what this process has ends: by the store, or by the others' promises.
    pub fn until(&self) -> Option<BootTime> {
        self.ends.max(self.kept.1)
    }

    pub(crate) fn stay(&mut self, keys: Vec<String>, until: BootTime) {
        self.kept = (keys.into_iter().collect(), Some(until));
    }

    pub(crate) fn forget_kept(&mut self, key: &str) {
        self.kept.0.remove(key);
    }

    /// What the store shows in another's name is that one's, whatever was promised.
    pub(crate) fn let_go_of_others(&mut self, own: Option<&str>) {
        let entries = &self.entries;
        self.kept.0.retain(|key| entries.get(key).is_none_or(|entry| Some(entry.value.as_str()) == own));
    }

    /// The keys below a folder, without its name.
    pub fn below<'a>(&'a self, folder: &'a str) -> impl Iterator<Item = (&'a str, &'a Entry)> {
        self.entries
            .range(folder.to_owned()..)
            .map_while(move |(key, entry)| Some((key.strip_prefix(folder)?, entry)))
    }

    /// How long the tenure lasts.
    pub fn left(&self, now: BootTime) -> Duration {
        self.until().map_or(Duration::ZERO, |ends| ends.since(now))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn view() -> View {
        let entry = |key: &str, lease, epoch| Entry {
            key: key.into(),
            value: String::new(),
            lease,
            epoch,
            revision: epoch,
        };
        let entries = [entry("a/1", 7, 3), entry("a/2", 8, 4), entry("b/1", 7, 5)];
        View {
            lease: 7,
            ends: Some(BootTime(Duration::from_secs(9))),
            entries: entries.into_iter().map(|one| (one.key.clone(), one)).collect(),
            ..View::default()
        }
    }

    #[test]
    fn a_key_is_held_by_its_lease_and_until_it_is_given_back() {
        let mut view = view();
        assert_eq!(view.held("a/1").map(|held| held.epoch), Some(3));
        assert_eq!(view.held("a/2"), None, "another's");
        view.given_back.insert("a/1".into(), 3);
        assert_eq!(view.held("a/1"), None);
        view.given_back.insert("a/1".into(), 2);
        assert!(view.held("a/1").is_some(), "it was taken anew since");
        view.ends = None;
        assert_eq!(view.held("a/1"), None, "the store does not know the lease");
    }

    #[test]
    fn a_folder_is_what_begins_with_its_name() {
        let view = view();
        assert_eq!(view.below("a/").map(|(key, _)| key).collect::<Vec<_>>(), ["1", "2"]);
        assert_eq!(view.below("c/").count(), 0);
    }
}
