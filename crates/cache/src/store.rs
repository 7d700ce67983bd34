//! The answers that are kept: how many, for how long, and which make room. Shared by all workers; who does not ask for a
//! cached answer does not come here.
//!
//! The map and the choice of what makes room are those of `quick_cache` (S3-FIFO over shards, each with a lock of its own;
//! whole keys are compared). A rule with a share has a map of its own. What is too old is found when it is asked for, by
//! [`Cache::sweep`], or makes room like everything else.

use std::any::Any;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::{Duration, Instant};

use delphinus_topology::ClusterId;
use quick_cache::sync::Cache as Map;
use quick_cache::{DefaultHashBuilder, Lifecycle, OptionsBuilder, Weighter};

use crate::answer::Answer;
use crate::flights::Flights;
use crate::key::Key;
use crate::tables::{Feed, Tables};
use crate::tally::{Event, Tallies, Tally};

/// How much is kept.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Limits {
    /// Of all keys, answers, and what they need beside that, in bytes; 0: nothing is kept.
    pub max_bytes: u64,
    /// Of one answer with its key, in bytes.
    pub max_entry_bytes: u64,
    /// Rules that have a part of `max_bytes` to themselves, in bytes.
    pub shares: Vec<(Arc<str>, u64)>,
}

/// What an entry takes beside the bytes of its key and its answer, and what its `Origin` refers to: two slots of the map, [`Kept`],
/// `Origin`, and the counts of the shared pointers.
const OVERHEAD: u64 = 368;

/// An answer that is kept.
#[derive(Debug)]
pub struct Kept {
    /// The answer.
    pub answer: Answer,
    /// Whose it is, and what is counted of it and its like.
    pub tally: Arc<Tally>,
    /// What its caller has kept with it.
    pub beside: Option<Arc<dyn Any + Send + Sync>>,
    ttl: Duration,
    took_us: u64,
    weight: u64,
    /// It is asked for anew, or was in vain.
    is_renewed: AtomicBool,
}

impl Kept {
    /// True for the first who asks: the answer is to be asked for anew.
    pub fn is_first_to_renew(&self) -> bool {
        !self.is_renewed.load(Ordering::Relaxed) && !self.is_renewed.swap(true, Ordering::Relaxed)
    }

    /// It is not, after all: the next who asks is the first.
    pub fn renew_later(&self) {
        self.is_renewed.store(false, Ordering::Relaxed);
    }

    /// Counts that it was given, by the one with this number ([`Tallies::place`]).
    pub fn count_hit(&self, place: usize, is_stale: bool) {
        self.tally.hit(place, self.took_us, is_stale);
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        self.tally.went(self.weight);
    }
}

/// An answer that is to be kept.
#[derive(Debug)]
pub struct Incoming {
    /// It.
    pub answer: Answer,
    /// For how long, since it was asked for.
    pub ttl: Duration,
    /// How long the backend took, in microseconds.
    pub took_us: u64,
    /// The rule that wants it kept; `None`: a hint, or a setting of a session.
    pub rule: Option<Arc<str>>,
    /// Whose it is, and what counts it.
    pub tally: Arc<Tally>,
    /// What [`Cache::flushes`] said before it was asked for.
    pub flushes: u64,
    /// Anything that is to be found with it; many answers share it.
    pub beside: Option<Arc<dyn Any + Send + Sync>>,
    /// It is not to be asked for anew before its end: who gave it had kept it, and would give it again.
    pub is_renewed: bool,
}

#[derive(Debug, Clone, Copy)]
struct Weight;

impl Weighter<Key, Arc<Kept>> for Weight {
    fn weight(&self, _: &Key, kept: &Arc<Kept>) -> u64 {
        kept.weight
    }
}

fn weight(key: &Key, answer: &Answer) -> u64 {
    OVERHEAD + (key.size() + answer.bytes.len() + answer.origin.own_size()) as u64
}

/// What had to make room for one that was stored: freed when this is, which is after the lock is.
#[derive(Debug, Default)]
struct Evicted(Vec<(Key, Arc<Kept>)>);

#[derive(Debug, Clone, Copy)]
struct Evictions;

impl Lifecycle<Key, Arc<Kept>> for Evictions {
    type RequestState = Evicted;

    fn on_evict(&self, evicted: &mut Evicted, key: Key, kept: Arc<Kept>) {
        evicted.0.push((key, kept));
    }
}

/// All answers that are kept, and the questions under way.
#[derive(Debug)]
pub struct Cache {
    room: RwLock<Arc<Room>>,
    /// Questions whose answers are to be kept.
    pub flights: Flights,
    /// What came of it.
    pub tallies: Tallies,
    flushes: AtomicU64,
    /// Where writes end answers: of each cluster.
    tables: Box<[Tables]>,
}

type Shelf = Map<Key, Arc<Kept>, Weight, DefaultHashBuilder, Evictions>;

/// The answers that are kept within these limits.
#[derive(Debug)]
struct Room {
    shelf: Shelf,
    shares: Vec<(Arc<str>, Shelf)>,
    limits: Limits,
}

/// What was found.
#[derive(Debug, Clone)]
pub enum Found {
    /// It is young enough.
    Fresh {
        /// The answer.
        kept: Arc<Kept>,
        /// It will soon be too old.
        is_aging: bool,
    },
    /// It was too old, and is not kept any more.
    Expired,
    /// None.
    Nothing,
}

/// How old an answer may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Age {
    /// It is not given when it is older.
    pub ttl: Duration,
    /// It is asked for anew when it has lived through so much of its time, in percent; 0: never before its end.
    pub soft_ttl_pct: u8,
}

impl Age {
    /// Whether this answer is given (`None`: it is too old), and is to be asked for anew.
    pub fn is_aging(self, kept: &Kept, now: Instant) -> Option<bool> {
        self.is_past(now.saturating_duration_since(kept.answer.origin.began))
    }

    /// The same of one that is so old.
    pub fn is_past(self, age: Duration) -> Option<bool> {
        let Self { ttl, soft_ttl_pct } = self;
        (age < ttl).then(|| soft_ttl_pct > 0 && age >= ttl / 100 * u32::from(soft_ttl_pct))
    }
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
    /// A younger one is there, or answers have been forgotten since it was asked for: it may be one of those.
    Outdated,
}

fn shelf(max_bytes: u64, max_entry_bytes: u64) -> Shelf {
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
    Map::with_options(options, Weight, DefaultHashBuilder::default(), Evictions)
}

impl Room {
    fn new(limits: Limits) -> Self {
        let shared = limits.shares.iter().map(|(_, bytes)| bytes).sum();
        let one = |(rule, bytes): &(Arc<str>, u64)| (rule.clone(), shelf(*bytes, limits.max_entry_bytes));
        let shares = limits.shares.iter().map(one).collect();
        Self { shelf: shelf(limits.max_bytes.saturating_sub(shared), limits.max_entry_bytes), shares, limits }
    }

    /// Where answers are that this rule wants kept; `None`: a hint, or a setting of a session.
    #[inline]
    fn shelf(&self, rule: Option<&str>) -> &Shelf {
        if self.shares.is_empty() {
            return &self.shelf;
        }
        let own = rule.and_then(|rule| self.shares.iter().find(|(name, _)| **name == *rule));
        own.map_or(&self.shelf, |(_, shelf)| shelf)
    }

    fn shelves(&self) -> impl Iterator<Item = &Shelf> {
        std::iter::once(&self.shelf).chain(self.shares.iter().map(|(_, shelf)| shelf))
    }

    /// Removes what this is true of; how many answers that were. No lock is held for longer than for one of them.
    fn remove(&self, event: Event, is_it: impl Fn(&Kept) -> bool) -> u64 {
        let mut count = 0;
        for shelf in self.shelves() {
            for (key, kept) in shelf.iter().filter(|(_, kept)| is_it(kept)) {
                if shelf.remove_if(&key, |there| Arc::ptr_eq(there, &kept)).is_some() {
                    kept.tally.count(event);
                    count += 1;
                }
            }
        }
        count
    }
}

impl Cache {
    /// An empty one.
    ///
    /// # Panics
    ///
    /// Never: all that has to be set is set.
    pub fn new(limits: Limits) -> Self {
        let room = RwLock::new(Arc::new(Room::new(limits)));
        Self {
            room,
            flights: Flights::default(),
            tallies: Tallies::default(),
            flushes: AtomicU64::new(0),
            tables: Box::default(),
        }
    }

    /// The same, where writes end answers: with what each cluster's tables begin with.
    #[must_use]
    pub fn ended_by_writes(self, tables: impl IntoIterator<Item = Tables>) -> Self {
        Self { tables: tables.into_iter().collect(), ..self }
    }

    /// The last writes of all tables of a cluster, where they end answers.
    pub fn tables(&self, cluster: ClusterId) -> Option<&Tables> {
        self.tables.get(cluster.index())
    }

    /// The streams that tell what others write.
    pub fn feeds(&self) -> impl Iterator<Item = &Feed> {
        self.tables.iter().filter_map(Tables::feed)
    }

    /// How much is kept at most.
    pub fn limits(&self) -> Limits {
        self.room().limits.clone()
    }

    /// How much of one answer with its key, in bytes.
    pub fn max_entry_bytes(&self) -> u64 {
        self.read(|room| room.limits.max_entry_bytes)
    }

    /// True if there is room for any answer.
    pub fn is_on(&self) -> bool {
        self.read(|room| room.limits.max_bytes > 0)
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
        self.read(Arc::clone)
    }

    #[inline]
    fn read<T>(&self, look: impl FnOnce(&Arc<Room>) -> T) -> T {
        look(&self.room.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// How many answers are kept.
    pub fn len(&self) -> usize {
        self.room().shelves().map(Map::len).sum()
    }

    /// True if none is.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// What they take, in bytes.
    pub fn bytes(&self) -> u64 {
        self.room().shelves().map(Map::weight).sum()
    }

    /// The answer to the question of these bytes, where no rule has a share of its own for it, however old it is.
    #[inline]
    pub fn peek(&self, key: &[u8]) -> Option<Arc<Kept>> {
        self.read(|room| room.shelf.get(key))
    }

    /// The answer to the question of these bytes ([`Key::write`]), if it was asked for less than `age.ttl` ago.
    pub fn find(&self, (key, rule): (&[u8], Option<&str>), age: Age, now: Instant) -> Found {
        let kept = self.read(|room| room.shelf(rule).get(key));
        let Some(kept) = kept else { return Found::Nothing };
        let old = now.saturating_duration_since(kept.answer.origin.began);
        if let Some(is_aging) = age.is_past(old) {
            return Found::Fresh { kept, is_aging };
        }
        if old < kept.ttl {
            // Young enough for others.
            return Found::Nothing;
        }
        let gone = self.read(|room| room.shelf(rule).remove_if(key, |there| Arc::ptr_eq(there, &kept)));
        match gone {
            Some(_) => {
                kept.tally.count(Event::Expiry);
                Found::Expired
            }
            None => Found::Nothing,
        }
    }

    /// Keeps an answer.
    pub fn store(&self, key: &Key, incoming: Incoming) -> Stored {
        let room = self.room();
        let Incoming { answer, ttl, took_us, rule, tally, flushes, beside, is_renewed } = incoming;
        let shelf = room.shelf(rule.as_deref());
        let weight = weight(key, &answer);
        if weight > room.limits.max_entry_bytes.min(shelf.capacity()) {
            return Stored::TooLarge;
        }
        let began = answer.origin.began;
        // Another one that comes between is no harm: each tells its own age.
        if flushes != self.flushes() || shelf.peek(key).is_some_and(|there| there.answer.origin.began > began)
        {
            return Stored::Outdated;
        }
        tally.came(weight);
        tally.count(Event::Insert);
        let is_renewed = AtomicBool::new(is_renewed);
        let kept = Arc::new(Kept { answer, tally, beside, ttl, took_us, weight, is_renewed });
        let mut evicted = Evicted::default();
        shelf.insert_with_lifecycle(key.clone(), kept.clone(), &mut evicted);
        if flushes != self.flushes() {
            // Who forgets may have looked here before it was there.
            shelf.remove_if(key, |there| Arc::ptr_eq(there, &kept));
            return Stored::Outdated;
        }
        // One that was replaced is among them, too.
        let mut count = 0;
        for (_, other) in evicted.0.iter().filter(|(theirs, _)| theirs != key) {
            other.tally.count(Event::Eviction);
            count += 1;
        }
        Stored::Kept { evicted: count }
    }

    /// Gives back what is too old for those who have stored it; how many answers that were, and how many there are. It looks at all of
    /// them, one after the other.
    pub fn sweep(&self, now: Instant) -> (u64, u64) {
        let room = self.room();
        let is_over = |kept: &Kept| now.saturating_duration_since(kept.answer.origin.began) >= kept.ttl;
        let gone = room.remove(Event::Expiry, is_over);
        (gone, room.shelves().map(Map::len).sum::<usize>() as u64)
    }

    /// Gives back an answer that a write has ended.
    pub fn end(&self, (key, rule): (&[u8], Option<&str>), kept: &Arc<Kept>) {
        let gone = self.read(|room| room.shelf(rule).remove_if(key, |there| Arc::ptr_eq(there, kept)));
        if gone.is_some() {
            kept.tally.count(Event::Invalidation);
        }
    }

    /// How often answers were forgotten.
    pub fn flushes(&self) -> u64 {
        self.flushes.load(Ordering::SeqCst)
    }

    /// Forgets what this is true of, and keeps none that is on its way; how many answers that were.
    pub fn forget(&self, is_it: impl Fn(&Kept) -> bool) -> u64 {
        self.flushes.fetch_add(1, Ordering::SeqCst);
        self.room().remove(Event::Invalidation, is_it)
    }

    /// Forgets everything, and keeps none that is on its way; how many answers that were.
    pub fn clear(&self) -> u64 {
        self.flushes.fetch_add(1, Ordering::SeqCst);
        let mut count = 0;
        for shelf in self.room().shelves() {
            count += shelf.len();
            shelf.clear();
        }
        count as u64
    }
}

#[cfg(test)]
mod tests;
