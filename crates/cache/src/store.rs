//! The answers that are kept: how many, for how long, and which make room. Shared by all workers; who does not ask for a
//! cached answer does not come here.
//!
//! The map and the choice of what makes room are those of `quick_cache` (S3-FIFO over shards, each with a lock of its own;
//! whole keys are compared). What is too old is found when it is asked for, or makes room like everything else.

use std::sync::{Arc, PoisonError, RwLock};
use std::time::{Duration, Instant};

use quick_cache::sync::Cache as Map;
use quick_cache::{DefaultHashBuilder, Lifecycle, OptionsBuilder, Weighter};

use crate::answer::Answer;
use crate::key::Key;

/// How much is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Of all keys, answers, and what they need beside that, in bytes; 0: nothing is kept.
    pub max_bytes: u64,
    /// Of one answer with its key, in bytes.
    pub max_entry_bytes: u64,
}

/// What an entry takes beside the bytes of its key and its answer: two slots of the map, `Origin`, and the counts of the
/// shared pointers.
const OVERHEAD: u64 = 256;

/// An answer that is kept.
#[derive(Debug, Clone)]
struct Entry {
    answer: Answer,
    ttl: Duration,
}

#[derive(Debug, Clone, Copy)]
struct Weight;

impl Weighter<Key, Entry> for Weight {
    fn weight(&self, key: &Key, entry: &Entry) -> u64 {
        weight(key, &entry.answer)
    }
}

fn weight(key: &Key, answer: &Answer) -> u64 {
    OVERHEAD + key.size() as u64 + answer.bytes.len() as u64
}

/// What had to make room for one that was stored: freed when this is, which is after the lock is.
#[derive(Debug, Default)]
struct Evicted(Vec<(Key, Entry)>);

#[derive(Debug, Clone, Copy)]
struct Evictions;

impl Lifecycle<Key, Entry> for Evictions {
    type RequestState = Evicted;

    fn on_evict(&self, evicted: &mut Evicted, key: Key, entry: Entry) {
        evicted.0.push((key, entry));
    }
}

/// All answers that are kept.
#[derive(Debug)]
pub struct Cache {
    room: RwLock<Arc<Room>>,
}

/// The answers that are kept within these limits.
#[derive(Debug)]
struct Room {
    map: Map<Key, Entry, Weight, DefaultHashBuilder, Evictions>,
    limits: Limits,
}

/// What was found.
#[derive(Debug, Clone)]
pub enum Found {
    /// It is young enough.
    Fresh(Answer),
    /// It was too old, and is not kept any more.
    Expired,
    /// None.
    Nothing,
}

/// What became of an answer that was to be kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stored {
    /// It is kept; so many others made room for it.
    Kept {
        /// How many.
        evicted: u64,
    },
    /// It is too large.
    TooLarge,
    /// A younger one is there.
    Outdated,
}

impl Room {
    fn new(limits: Limits) -> Self {
        let Limits { max_bytes, max_entry_bytes } = limits;
        // Each shard has its part of the room, in which the largest entry has to find its place beside others.
        let shards = (max_bytes / (max_entry_bytes.max(1) * 16)).clamp(1, 16);
        let shards = 1 << shards.ilog2();
        let entries = usize::try_from(max_bytes / 2048).unwrap_or(usize::MAX).max(64);
        let options = OptionsBuilder::new()
            .shards(shards)
            .estimated_items_capacity(entries)
            .weight_capacity(max_bytes)
            .build()
            .expect("invariant: the capacities are set");
        Self { map: Map::with_options(options, Weight, DefaultHashBuilder::default(), Evictions), limits }
    }
}

impl Cache {
    /// An empty one.
    ///
    /// # Panics
    ///
    /// Never: all that has to be set is set.
    pub fn new(limits: Limits) -> Self {
        Self { room: RwLock::new(Arc::new(Room::new(limits))) }
    }

    /// How much is kept at most.
    pub fn limits(&self) -> Limits {
        self.room().limits
    }

    /// True if there is room for any answer.
    pub fn is_on(&self) -> bool {
        self.limits().max_bytes > 0
    }

    /// Keeps so much from now on. It forgets everything: how the room is divided depends on its limits.
    pub fn set_limits(&self, limits: Limits) {
        if self.limits() != limits {
            let next = Arc::new(Room::new(limits));
            let before =
                std::mem::replace(&mut *self.room.write().unwrap_or_else(PoisonError::into_inner), next);
            // Not under the lock.
            drop(before);
        }
    }

    fn room(&self) -> Arc<Room> {
        self.room.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// How many answers are kept.
    pub fn len(&self) -> usize {
        self.room().map.len()
    }

    /// True if none is.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// What they take, in bytes.
    pub fn bytes(&self) -> u64 {
        self.room().map.weight()
    }

    /// The answer to this question, if it was asked for less than `ttl` ago.
    pub fn find(&self, key: &Key, ttl: Duration, now: Instant) -> Found {
        let map = &self.room().map;
        let Some(entry) = map.get(key) else { return Found::Nothing };
        let age = now.saturating_duration_since(entry.answer.origin.began);
        if age < ttl {
            return Found::Fresh(entry.answer);
        }
        if age < entry.ttl {
            // Young enough for others.
            return Found::Nothing;
        }
        let is_same = |there: &Entry| Arc::ptr_eq(&there.answer.origin, &entry.answer.origin);
        match map.remove_if(key, is_same) {
            Some(_) => Found::Expired,
            None => Found::Nothing,
        }
    }

    /// Keeps an answer for `ttl` since it was asked for.
    pub fn store(&self, key: &Key, answer: Answer, ttl: Duration) -> Stored {
        let room = self.room();
        let Room { map, limits } = &*room;
        if weight(key, &answer) > limits.max_entry_bytes.min(limits.max_bytes) {
            return Stored::TooLarge;
        }
        let began = answer.origin.began;
        // Another one that comes between is no harm: each tells its own age.
        if map.peek(key).is_some_and(|there| there.answer.origin.began > began) {
            return Stored::Outdated;
        }
        let mut evicted = Evicted::default();
        map.insert_with_lifecycle(key.clone(), Entry { answer, ttl }, &mut evicted);
        // One that was replaced is among them, too.
        let others = evicted.0.iter().filter(|(theirs, _)| theirs != key);
        Stored::Kept { evicted: others.count() as u64 }
    }

    /// Forgets everything; how many answers that were.
    pub fn clear(&self) -> u64 {
        let map = &self.room().map;
        let count = map.len();
        map.clear();
        count as u64
    }
}

#[cfg(test)]
mod tests;
