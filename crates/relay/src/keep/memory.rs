//! Which replicas there are and were, and which files each of them has for certain. Pure: the clock is told.
//!
//! What a replica was sent it need not keep: with `relay_log_recovery`, and on MariaDB after each restart, it throws away what it has not
//! applied, and asks for it again. So a file counts as a replica's own some time after it was sent, or when the replica itself says so: by
//! the place that it asks for when it connects.

use std::collections::{BTreeMap, VecDeque};

use super::rules::{Needs, Rules};

/// More replicas than this are not remembered. It is newcomers that are not: who logs in under many names has no file go that another
/// one needs.
const MOST: usize = 1024;
/// The margin is kept in so many steps: the memory of a replica is small however fast files change.
const STEPS: u64 = 16;

/// A replica that is being served.
#[derive(Debug, Clone)]
pub(crate) struct Seen {
    /// Its user, with its uuid, or its `server_id` and address.
    pub(crate) key: String,
    /// For operators.
    pub(crate) name: String,
    /// The number of its connection.
    pub(crate) connection: u32,
    /// The file in which this connection began.
    pub(crate) began: u32,
    /// The file that it is in.
    pub(crate) now_in: u32,
    /// True if it may come again: programs such as `mysqlbinlog` are forgotten when they leave.
    pub(crate) comes_again: bool,
}

/// A replica that is known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Known {
    pub(crate) name: String,
    /// It has all files before this one.
    pub(crate) first: u32,
    /// When it was there last, in seconds since 1970.
    pub(crate) seen_s: u64,
    connection: u32,
    comes_again: bool,
    /// When it was in which file, oldest first.
    marks: VecDeque<(u64, u32)>,
}

/// All replicas that are known.
#[derive(Debug, Default)]
pub(crate) struct Memory {
    known: BTreeMap<String, Known>,
}

impl Memory {
    /// Takes in what was known before a restart.
    pub(crate) fn recall(&mut self, key: String, name: String, (first, seen_s): (u32, u64)) {
        // Numbers of connections begin with 1.
        let known = Known { name, first, seen_s, connection: 0, comes_again: true, marks: VecDeque::new() };
        self.known.insert(key, known);
    }

    /// Takes in one that begins.
    pub(crate) fn meet(&mut self, seen: &Seen, now_s: u64, rules: &Rules) {
        if self.known.len() >= MOST && !self.known.contains_key(&seen.key) {
            return;
        }
        let known = self.known.entry(seen.key.clone()).or_insert_with(|| Known::new(seen));
        if known.connection != seen.connection {
            // It has said itself what it has: that may be less than it was sent before.
            *known = Known::new(seen);
        }
        known.seen_s = now_s;
        known.pass(seen.now_in, now_s, rules.margin.as_secs());
    }

    /// Takes in who is there now, and forgets who was not there for too long.
    pub(crate) fn see(&mut self, all: &[Seen], now_s: u64, rules: &Rules) {
        for seen in all {
            self.meet(seen, now_s, rules);
        }
        let remember_s = rules.remember.as_secs();
        self.known.retain(|_, known| {
            known.seen_s == now_s || (known.comes_again && now_s.saturating_sub(known.seen_s) <= remember_s)
        });
    }

    /// What each of them has.
    pub(crate) fn needs(&self) -> Vec<Needs> {
        self.known.values().map(|known| Needs { name: known.name.clone(), first: known.first }).collect()
    }

    /// Those that may come again, by their keys.
    pub(crate) fn lasting(&self) -> impl Iterator<Item = (&String, &Known)> {
        self.known.iter().filter(|(_, known)| known.comes_again)
    }
}

impl Known {
    fn new(seen: &Seen) -> Self {
        Self {
            name: seen.name.clone(),
            first: seen.began,
            seen_s: 0,
            connection: seen.connection,
            comes_again: seen.comes_again,
            marks: VecDeque::new(),
        }
    }

    /// It is in this file now.
    fn pass(&mut self, file: u32, now_s: u64, margin_s: u64) {
        let is_new = match self.marks.back() {
            None => true,
            Some(&(when, last)) => file != last && now_s.saturating_sub(when) >= margin_s / STEPS,
        };
        if is_new {
            self.marks.push_back((now_s, file));
        }
        while let Some(&(when, file)) = self.marks.front() {
            if now_s.saturating_sub(when) < margin_s {
                break;
            }
            self.first = self.first.max(file);
            if self.marks.len() == 1 {
                break;
            }
            self.marks.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn rules() -> Rules {
        Rules { remember: Duration::from_hours(1), margin: Duration::from_secs(160), ..Rules::default() }
    }

    fn seen(connection: u32, began: u32, now_in: u32) -> Seen {
        Seen { key: "k".to_owned(), name: "n".to_owned(), connection, began, now_in, comes_again: true }
    }

    fn first(memory: &Memory) -> Option<u32> {
        memory.needs().first().map(|needs| needs.first)
    }

    #[test]
    fn what_was_sent_counts_after_the_margin() {
        let mut memory = Memory::default();
        for now_s in 1000..1160 {
            memory.see(&[seen(1, 3, 9)], now_s, &rules());
            assert_eq!(first(&memory), Some(3), "{now_s}");
        }
        memory.see(&[seen(1, 3, 12)], 1160, &rules());
        assert_eq!(first(&memory), Some(9));
        memory.see(&[seen(1, 3, 14)], 1319, &rules());
        assert_eq!(first(&memory), Some(9));
        memory.see(&[seen(1, 3, 14)], 1320, &rules());
        assert_eq!(first(&memory), Some(12));
    }

    #[test]
    fn however_fast_files_change_little_is_kept() {
        let mut memory = Memory::default();
        for now_s in 0..10_000 {
            memory.see(&[seen(1, 0, now_s as u32)], now_s, &rules());
        }
        assert!(memory.known["k"].marks.len() <= STEPS as usize + 2, "{:?}", memory.known["k"].marks);
        // Late by one step at most.
        let first = first(&memory).unwrap();
        assert!((9_999 - 160 - 10..=9_999 - 160).contains(&first), "{first}");
    }

    #[test]
    fn a_replica_that_connects_says_itself_what_it_has() {
        let mut memory = Memory::default();
        memory.see(&[seen(1, 3, 9)], 1000, &rules());
        memory.see(&[seen(1, 3, 9)], 2000, &rules());
        assert_eq!(first(&memory), Some(9));
        memory.see(&[seen(2, 4, 9)], 2001, &rules());
        assert_eq!(first(&memory), Some(4), "it has thrown its relay log away");
        memory.see(&[seen(3, 20, 20)], 2002, &rules());
        assert_eq!(first(&memory), Some(20), "it was filled from a backup");
    }

    #[test]
    fn a_replica_that_is_gone_is_waited_for_and_then_forgotten() {
        let mut memory = Memory::default();
        memory.recall("old".to_owned(), "o".to_owned(), (2, 900));
        memory.see(&[seen(1, 3, 9)], 1000, &rules());
        memory.see(&[], 900 + 3600, &rules());
        assert_eq!(memory.needs().len(), 2);
        memory.see(&[], 901 + 3600, &rules());
        assert_eq!(memory.needs().len(), 1);
        memory.see(&[], 1001 + 3600, &rules());
        assert_eq!(first(&memory), None);
        // The clock was set back.
        memory.see(&[seen(1, 3, 9)], 1000, &rules());
        memory.see(&[], 10, &rules());
        assert_eq!(memory.needs().len(), 1);
    }

    #[test]
    fn programs_that_read_the_log_hold_it_only_while_they_are_there() {
        let mut memory = Memory::default();
        let program = Seen { comes_again: false, ..seen(1, 0, 0) };
        memory.see(&[program], 1000, &rules());
        assert_eq!((memory.needs().len(), memory.lasting().count()), (1, 0));
        memory.see(&[], 1001, &rules());
        assert_eq!(memory.needs().len(), 0);
    }

    #[test]
    fn there_is_an_end_to_what_is_remembered() {
        let mut memory = Memory::default();
        for number in 0..2 * MOST as u64 {
            let one = Seen { key: number.to_string(), ..seen(1, 0, 0) };
            memory.see(&[one], number, &Rules { remember: Duration::from_hours(999), ..rules() });
        }
        assert_eq!(memory.needs().len(), MOST);
        assert!(memory.known.contains_key("0") && !memory.known.contains_key("1024"));
        // There is room again for those that are there.
        memory.see(&[seen(1, 0, 0)], 2 * MOST as u64, &rules());
        memory.see(&[seen(1, 0, 0)], 2 * MOST as u64 + 7200, &rules());
        memory.see(&[seen(1, 0, 0)], 2 * MOST as u64 + 7201, &rules());
        assert_eq!(memory.needs().len(), 1);
    }
}
