//! Finds in a history what must not be in one. Pure: the same history has the same verdict.

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use serde::{Deserialize, Serialize};

use super::history::{History, Outcome, Row};

/// What was found: the values, transactions, or servers concerned.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Verdict {
    /// Values that were acknowledged and are not there in the end.
    pub lost: Vec<u64>,
    /// Values that are there more than once: in the end, in one read, or on two servers that each took the write.
    pub doubled: Vec<u64>,
    /// Values that are there, though the client was told that the write had failed.
    pub denied: Vec<u64>,
    /// Values that somebody read and that are not there in the end, though nobody was told that they were written.
    pub gone: Vec<u64>,
    /// Transactions of which only a part is there.
    pub torn: Vec<u64>,
    /// Reads (by their place in the history) that found less than an earlier one of their session.
    pub backwards: Vec<usize>,
    /// Reads that miss what their session has written and was told so. What is lost for all counts as lost only.
    pub own_missing: Vec<usize>,
    /// Pairs of servers that took writes at overlapping times.
    pub two_writers: Vec<(u32, u32)>,
}

impl Verdict {
    /// True if nothing was found.
    pub fn is_clean(&self) -> bool {
        *self == Self::default()
    }

    /// Reads of a session that are older than they may be.
    pub fn stale(&self) -> usize {
        self.backwards.len() + self.own_missing.len()
    }
}

/// Judges a history.
pub fn judge(history: &History) -> Verdict {
    let there: HashSet<u64> = history.last.iter().map(|row| row.value).collect();
    let values = |outcome| {
        let of_outcome = history.writes.iter().filter(move |write| write.outcome == outcome);
        of_outcome.map(|write| write.value)
    };
    let told: HashSet<u64> = values(Outcome::Ok).collect();
    let seen: BTreeSet<u64> = history.reads.iter().flat_map(|read| read.values.iter().copied()).collect();
    let denied: BTreeSet<u64> =
        values(Outcome::Failed).filter(|value| there.contains(value) || seen.contains(value)).collect();
    Verdict {
        lost: values(Outcome::Ok).filter(|value| !there.contains(value)).collect(),
        doubled: doubled(history),
        gone: seen
            .into_iter()
            .filter(|value| !there.contains(value) && !told.contains(value) && !denied.contains(value))
            .collect(),
        denied: denied.into_iter().collect(),
        torn: torn(history, &there),
        backwards: backwards(history, &there),
        own_missing: own_missing(history, &there),
        two_writers: two_writers(history),
    }
}

fn doubled(history: &History) -> Vec<u64> {
    let mut found = BTreeSet::new();
    let mut servers = HashMap::new();
    for row in &history.last {
        if servers.insert(row.value, row.server).is_some() {
            found.insert(row.value);
        }
    }
    let by_another = |row: &&Row| servers.get(&row.value).is_some_and(|server| *server != row.server);
    found.extend(history.strays.iter().filter(by_another).map(|row| row.value));
    for read in &history.reads {
        let mut once = HashSet::new();
        found.extend(read.values.iter().filter(|value| !once.insert(**value)));
    }
    found.into_iter().collect()
}

fn torn(history: &History, there: &HashSet<u64>) -> Vec<u64> {
    let mut transactions: BTreeMap<u64, (bool, bool)> = BTreeMap::new();
    for write in &history.writes {
        let (some, all) = transactions.entry(write.transaction).or_insert((false, true));
        let is_there = there.contains(&write.value);
        (*some, *all) = (*some || is_there, *all && is_there);
    }
    transactions.into_iter().filter(|(_, (some, all))| *some && !*all).map(|(id, _)| id).collect()
}

fn backwards(history: &History, there: &HashSet<u64>) -> Vec<usize> {
    let mut known: HashMap<(u32, u32), HashSet<u64>> = HashMap::new();
    let mut found = Vec::new();
    for (at, read) in history.reads.iter().enumerate() {
        let before = known.entry((read.session, read.list)).or_default();
        let now: HashSet<u64> = read.values.iter().copied().collect();
        if before.iter().any(|value| !now.contains(value) && there.contains(value)) {
            found.push(at);
        }
        before.extend(now);
    }
    found
}

fn own_missing(history: &History, there: &HashSet<u64>) -> Vec<usize> {
    let mut own: HashMap<(u32, u32), Vec<(u64, u64)>> = HashMap::new();
    for write in &history.writes {
        if write.outcome == Outcome::Ok && there.contains(&write.value) {
            own.entry((write.session, write.list)).or_default().push((write.end_us, write.value));
        }
    }
    let misses = |(at, read): (usize, &super::history::Read)| {
        let now: HashSet<u64> = read.values.iter().copied().collect();
        let own = own.get(&(read.session, read.list))?;
        own.iter().any(|(end_us, value)| *end_us <= read.begin_us && !now.contains(value)).then_some(at)
    };
    history.reads.iter().enumerate().filter_map(misses).collect()
}

/// A server takes writes at least from the end of the first to the beginning of the last one that it has acknowledged.
fn two_writers(history: &History) -> Vec<(u32, u32)> {
    let times: HashMap<u64, (u64, u64)> = history
        .writes
        .iter()
        .filter(|write| write.outcome == Outcome::Ok)
        .map(|write| (write.value, (write.begin_us, write.end_us)))
        .collect();
    let mut reigns: BTreeMap<u32, (u64, u64)> = BTreeMap::new();
    for row in history.last.iter().chain(&history.strays) {
        let Some((begin_us, end_us)) = times.get(&row.value) else { continue };
        let (first_us, last_us) = reigns.entry(row.server).or_insert((*end_us, *begin_us));
        (*first_us, *last_us) = ((*first_us).min(*end_us), (*last_us).max(*begin_us));
    }
    let reigns: Vec<_> = reigns.into_iter().collect();
    let mut found = Vec::new();
    for (at, (server, (first_us, last_us))) in reigns.iter().enumerate() {
        for (other, (other_first_us, other_last_us)) in &reigns[at + 1..] {
            if first_us.max(other_first_us) < last_us.min(other_last_us)
                || is_inside((*first_us, *last_us), (*other_first_us, *other_last_us))
                || is_inside((*other_first_us, *other_last_us), (*first_us, *last_us))
            {
                found.push((*server, *other));
            }
        }
    }
    found
}

/// A server of which only one write is known: its end comes behind its beginning, and both lie in the other's time.
fn is_inside((end_us, begin_us): (u64, u64), (first_us, last_us): (u64, u64)) -> bool {
    begin_us <= end_us && first_us < begin_us && end_us < last_us
}
