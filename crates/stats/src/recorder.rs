//! A worker's end: for each statement its row is found, or made, and counts it.

use std::cell::RefCell;
use std::collections::HashMap;
use std::hash::{BuildHasher, Hasher};
use std::sync::Arc;

use delphinus_memory::Owner;
use delphinus_sql::{Digest, Sketch};
use delphinus_topology::{BackendId, ClusterId};

use crate::cost::Cost;
use crate::row::{Key, REST, ROW_BYTES, Row};
use crate::statistics::{Ledger, Statistics, WhoNo};

/// So many sketches are remembered with their digests; then all are forgotten. Texts that differ in the length of their lists only have
/// sketches of their own.
const MOST_SKETCHES: usize = 16_384;

/// What rows that are not the rest's leave free of the bound.
const FOR_REST: u64 = 8;

/// Counts the statements of one worker.
pub struct Recorder {
    shared: Arc<Statistics>,
    cluster: ClusterId,
    known: RefCell<Known>,
}

struct Known {
    ledger: Arc<Ledger>,
    /// Which RESET the rows are younger than.
    epoch: u32,
    digests: HashMap<Sketch, Digest, Mixed>,
    rows: HashMap<Key, Arc<Row>, Mixed>,
    /// What the ledger has not got yet.
    unpublished: Vec<Arc<Row>>,
    /// What is counted where nothing else has room.
    rest: Arc<Row>,
}

impl Recorder {
    pub(crate) fn new(shared: Arc<Statistics>, cluster: ClusterId) -> Self {
        let ledger = Arc::new(Ledger::new(shared.epoch()));
        shared.take_in(ledger.clone());
        let (seed, epoch) = (shared.seed(), shared.epoch());
        let rest = rest_row(&shared, cluster);
        let known = Known {
            ledger,
            epoch,
            digests: HashMap::with_hasher(Mixed(seed)),
            rows: HashMap::with_hasher(Mixed(seed)),
            unpublished: vec![rest.clone()],
            rest,
        };
        Self { shared, cluster, known: RefCell::new(known) }
    }

    /// True if statements are counted by digest.
    #[inline]
    pub fn wants_digests(&self) -> bool {
        self.shared.wants_digests()
    }

    /// What sketches of texts are made with.
    #[inline]
    pub fn seed(&self) -> u64 {
        self.shared.seed()
    }

    /// The digest of a text with this sketch. Where that is not known, `digest` makes it, and appends the normalised text.
    #[inline]
    pub fn digest(&self, sketch: Sketch, digest: impl FnOnce(&mut Vec<u8>) -> Digest) -> Digest {
        let mut known = self.known.borrow_mut();
        self.follow_resets(&mut known);
        match known.digests.get(&sketch) {
            Some(known) => *known,
            None => self.learn(&mut known, sketch, digest),
        }
    }

    #[cold]
    fn learn(
        &self,
        known: &mut Known,
        sketch: Sketch,
        digest: impl FnOnce(&mut Vec<u8>) -> Digest,
    ) -> Digest {
        let mut text = Vec::new();
        let digest = digest(&mut text);
        // Where others are at the texts just now, this one is learnt the next time.
        if self.shared.note_text(digest, &text) {
            if known.digests.len() >= MOST_SKETCHES {
                known.digests.clear();
            }
            known.digests.insert(sketch, digest);
        }
        digest
    }

    /// The text of a digest, if it is kept and nobody else is at the texts just now.
    pub fn text(&self, digest: Digest) -> Option<Arc<str>> {
        self.shared.text_at_once(digest)
    }

    /// The number of this user in this schema.
    pub fn who(&self, user: &str, schema: Option<&str>) -> WhoNo {
        self.shared.who(self.cluster, user, schema)
    }

    /// Counts a statement. `digest` is `None` for what has none; `now_s` is by the caller's clock, in seconds.
    #[inline]
    pub fn record(
        &self,
        digest: Option<Digest>,
        (who, backend): (WhoNo, Option<BackendId>),
        cost: &Cost,
        now_s: u32,
    ) {
        let mut known = self.known.borrow_mut();
        self.follow_resets(&mut known);
        if !known.unpublished.is_empty() {
            known.publish();
        }
        let key = Key { digest: digest.unwrap_or(REST), who, backend };
        match known.rows.get(&key) {
            Some(row) => row.add(cost, now_s),
            None => self.row(&mut known, key).add(cost, now_s),
        }
    }

    /// Adds what a statement that was counted costs beyond that, as the rows that are fetched from its cursor.
    #[cold]
    pub fn record_more(
        &self,
        digest: Option<Digest>,
        (who, backend): (WhoNo, Option<BackendId>),
        cost: &Cost,
        now_s: u32,
    ) {
        let mut known = self.known.borrow_mut();
        self.follow_resets(&mut known);
        let key = Key { digest: digest.unwrap_or(REST), who, backend };
        let row = known.rows.get(&key).cloned().unwrap_or_else(|| self.row(&mut known, key));
        row.add_more(cost, now_s);
    }

    /// The row for what has none yet.
    #[cold]
    fn row(&self, known: &mut Known, key: Key) -> Arc<Row> {
        let of_rest = Key { digest: REST, ..key };
        for key in [key, of_rest] {
            if let Some(row) = known.rows.get(&key) {
                return row.clone();
            }
            let limit = self.shared.max_bytes();
            let limit = if key.digest == REST { limit } else { limit - limit / FOR_REST };
            let account = self.shared.account();
            if account.used_by(Owner::Digests) + ROW_BYTES as u64 > limit {
                continue;
            }
            let Some(permit) = account.take(Owner::Digests, ROW_BYTES) else { continue };
            let row = Arc::new(Row::new(key, permit));
            known.rows.insert(key, row.clone());
            known.unpublished.push(row.clone());
            known.publish();
            return row;
        }
        known.rest.clone()
    }

    #[inline]
    fn follow_resets(&self, known: &mut Known) {
        if known.epoch != self.shared.epoch() {
            self.start_over(known);
        }
    }

    /// Begins with new rows; the old ones are left to whoever adds up.
    #[cold]
    fn start_over(&self, known: &mut Known) {
        known.epoch = self.shared.epoch();
        known.ledger.start_over(known.epoch, std::mem::take(&mut known.unpublished));
        known.rows.clear();
        // So that the texts of what still runs are noted again.
        known.digests.clear();
        known.rest = rest_row(&self.shared, self.cluster);
        known.unpublished.push(known.rest.clone());
    }
}

fn rest_row(shared: &Statistics, cluster: ClusterId) -> Arc<Row> {
    let key = Key { digest: REST, who: shared.anybody(cluster), backend: None };
    Arc::new(Row::new(key, shared.account().reserve(Owner::Digests, ROW_BYTES)))
}

impl Known {
    /// Shows new rows to others, if the list is free.
    #[cold]
    fn publish(&mut self) {
        self.ledger.publish(&mut self.unpublished);
    }
}

/// Mixes what is hashed already with what no client knows.
#[derive(Clone, Copy)]
pub(crate) struct Mixed(u64);

impl BuildHasher for Mixed {
    type Hasher = Mix;

    #[inline]
    fn build_hasher(&self) -> Mix {
        Mix(self.0)
    }
}

pub(crate) struct Mix(u64);

impl Mix {
    #[inline]
    fn mix(&mut self, value: u64) {
        let product = u128::from(self.0 ^ value) * 0x9e37_79b9_7f4a_7c15_u128;
        self.0 = (product as u64) ^ (product >> 64) as u64;
    }
}

impl Hasher for Mix {
    #[inline]
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.mix(u64::from(*byte));
        }
    }

    #[inline]
    fn write_u16(&mut self, value: u16) {
        self.mix(value.into());
    }

    #[inline]
    fn write_u32(&mut self, value: u32) {
        self.mix(value.into());
    }

    #[inline]
    fn write_u64(&mut self, value: u64) {
        self.mix(value);
    }

    #[inline]
    fn write_isize(&mut self, value: isize) {
        self.mix(value.cast_unsigned() as u64);
    }
}

#[cfg(test)]
mod tests;
