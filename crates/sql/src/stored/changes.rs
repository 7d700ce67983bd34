//! Code that has changed since all of it was read: the same names may mean what they did, or what the statements say that have
//! changed them since.

use std::collections::HashMap;
use std::sync::Arc;

use super::change::{Changed, CodeChange};
use super::node::RunBy;

/// More names at a time than anybody changes. Of others only a bit is kept, which they share with some.
const MOST: usize = 4096;

/// What it may take, in bytes. Code that finds no room may do anything.
const ROOM: usize = 4 << 20;

/// Words of bits for names that find no room.
const BITS: usize = 1024;

/// All that has changed, by name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Changes {
    by_name: HashMap<u64, Entry>,
    bytes: usize,
    /// What finds no room, and the last change of it.
    others: Option<(Box<[u64]>, u64)>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Entry {
    /// At most one for each way to run it.
    changed: Arc<[Changed]>,
    /// The last change of it.
    last: u64,
}

impl Changes {
    /// True if nothing has.
    pub fn is_empty(&self) -> bool {
        self.by_name.is_empty() && self.others.is_none()
    }

    /// What it takes, in bytes.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Takes in one more, the `last` one.
    pub fn add(&mut self, change: &CodeChange, last: u64) {
        for (name, changed) in &change.changed {
            if self.by_name.contains_key(name) || self.by_name.len() < MOST {
                self.add_one(*name, changed.clone(), last);
                continue;
            }
            let (bits, changed_last) = self.others.get_or_insert_with(|| (vec![0; BITS].into(), last));
            let (at, bit) = place(*name);
            bits[at] |= bit;
            *changed_last = last;
        }
    }

    fn add_one(&mut self, name: u64, changed: Changed, last: u64) {
        let had = self.by_name.remove(&name);
        let mut all = had.map(|entry| entry.changed.to_vec()).unwrap_or_default();
        let room = ROOM.saturating_sub(self.bytes);
        self.bytes -= all.iter().map(Changed::bytes).sum::<usize>();
        let changed = if changed.bytes() > room { changed.unknown() } else { changed };
        match all.iter_mut().find(|one| one.node.is_like(&changed.node)) {
            Some(one) => {
                one.own.add(&changed.own);
                one.node.add(&changed.node);
            }
            None => all.push(changed),
        }
        self.bytes += all.iter().map(Changed::bytes).sum::<usize>();
        self.by_name.insert(name, Entry { changed: all.into(), last });
    }

    /// Keeps what was changed by this one, or later.
    pub fn keep_from(&mut self, first: u64) {
        self.by_name.retain(|_, entry| entry.last >= first);
        self.others.take_if(|(_, last)| *last < first);
        let all = self.by_name.values().flat_map(|entry| entry.changed.iter());
        self.bytes = all.map(Changed::bytes).sum();
    }

    /// True if code of this name may do anything.
    pub(super) fn is_unknown(&self, name: u64) -> bool {
        let (at, bit) = place(name);
        self.others.as_ref().is_some_and(|(bits, _)| bits[at] & bit != 0)
    }

    pub(super) fn has(&self, name: u64) -> bool {
        self.by_name.contains_key(&name) || self.is_unknown(name)
    }

    /// What has changed that goes by this name, and is run so.
    pub(super) fn of(&self, name: u64, run_by: RunBy) -> impl Iterator<Item = &Changed> {
        let entry = self.by_name.get(&name);
        entry.into_iter().flat_map(|entry| entry.changed.iter()).filter(move |one| one.node.run_by == run_by)
    }
}

/// The word and the bit of a name.
fn place(name: u64) -> (usize, u64) {
    let at = usize::try_from(name >> 6).unwrap_or(usize::MAX) % BITS;
    (at, 1 << (name % 64))
}
