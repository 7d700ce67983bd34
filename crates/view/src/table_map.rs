//! What is known of the tables of a cluster, for whoever keeps answers: what the monitor has read last, and whether anything has
//! changed since.
//!
//! Owns: whether what was read can be trusted. When it is read is the monitor's; what follows from it is in `delphinus_sql::Reach`.
//! A session that changes tables says so before it sends that and when it has ended. From then on nothing is known, until a reading
//! has begun after that: no statement waits for it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use arc_swap::ArcSwapOption;
use delphinus_net::rt::Notify;
use delphinus_sql::Reach;

/// The lowest bits count the changes that run, those above them the changes that have begun.
const RUNNING: u64 = (1 << 20) - 1;
const BEGUN: u64 = RUNNING + 1;

/// What is known of the tables of a cluster; for any thread.
#[derive(Debug, Default)]
pub struct TableMap {
    known: ArcSwapOption<Known>,
    changes: AtomicU64,
    /// Grows when what is known becomes something else.
    edition: AtomicU64,
    /// Somebody keeps answers by it.
    is_wanted: AtomicBool,
    bell: Notify,
}

#[derive(Debug)]
struct Known {
    reach: Arc<Reach>,
    /// The changes that it has seen.
    as_of: u64,
}

/// A change of the tables that runs. Dropped without an end it runs for ever.
#[derive(Debug)]
#[must_use = "the change runs until it is ended"]
pub struct Changing(());

impl TableMap {
    /// From now on it is read.
    pub fn want(&self) {
        self.is_wanted.store(true, Ordering::Release);
        self.bell.notify_one();
    }

    /// True if it has to be read.
    pub fn is_wanted(&self) -> bool {
        self.is_wanted.load(Ordering::Acquire)
    }

    /// What is known, if that is how it is.
    pub fn current(&self) -> Option<Arc<Reach>> {
        let known = self.known.load();
        let known = known.as_ref()?;
        (known.as_of == self.changes.load(Ordering::SeqCst)).then(|| known.reach.clone())
    }

    /// Of what is known now. What was found by another edition may read and write other tables.
    pub fn edition(&self) -> u64 {
        self.edition.load(Ordering::SeqCst)
    }

    /// A statement is about to be sent that may change tables, views, triggers or foreign keys.
    pub fn begin(&self) -> Changing {
        self.changes.fetch_add(BEGUN + 1, Ordering::SeqCst);
        Changing(())
    }

    /// It has ended: what there is is read anew.
    pub fn end(&self, Changing(()): Changing) {
        self.changes.fetch_add(BEGUN - 1, Ordering::SeqCst);
        self.bell.notify_one();
    }

    /// Something has changed what was not sent through here.
    pub fn has_changed(&self) {
        self.changes.fetch_add(BEGUN, Ordering::SeqCst);
        self.bell.notify_one();
    }

    /// Rings when it should be read anew.
    pub async fn changed(&self) {
        self.bell.notified().await;
    }

    /// What a reading sees that begins now.
    pub fn seen(&self) -> u64 {
        self.changes.load(Ordering::SeqCst)
    }

    /// Takes in what was read, by a reading that had `seen` this when it began. `None`: it could not be read, and nothing is known.
    pub fn take_in(&self, reach: Option<Reach>, seen: u64) {
        // What changed while it was read has been seen in part: the next reading tells.
        let reach = reach.filter(|_| seen & RUNNING == 0);
        let before = self.known.load_full();
        let is_same = match (&before, &reach) {
            (None, None) => true,
            (Some(before), Some(reach)) => *before.reach == *reach,
            _ => false,
        };
        // Before and behind it: a reader takes the number first. So none has the new number with what was known before, and none finds an
        // answer valid by the old number once a write was counted by what is known now.
        if !is_same {
            self.edition.fetch_add(1, Ordering::SeqCst);
        }
        self.known.store(reach.map(|reach| Arc::new(Known { reach: Arc::new(reach), as_of: seen })));
        if !is_same {
            self.edition.fetch_add(1, Ordering::SeqCst);
        }
    }
}

#[cfg(test)]
mod tests {
    use delphinus_sql::{ReachBuilder, TableKind};

    use super::*;

    fn reach(tables: &[&str]) -> Option<Reach> {
        let mut builder = ReachBuilder::default();
        for name in tables {
            builder.table("app", name, TableKind::Plain);
        }
        builder.build()
    }

    #[test]
    fn what_changes_is_not_known_until_a_reading_has_begun_after_it() {
        let map = TableMap::default();
        assert!(map.current().is_none(), "it was not read");
        map.take_in(reach(&["t"]), map.seen());
        let edition = map.edition();
        assert_eq!(map.current().map(|reach| reach.len()), Some(1));
        let seen = map.seen();
        let changing = map.begin();
        assert!(map.current().is_none());
        map.take_in(reach(&["t"]), seen);
        assert!(map.current().is_none(), "the reading began before the change");
        map.take_in(reach(&["t"]), map.seen());
        assert!(map.current().is_none(), "the change was still running");
        map.end(changing);
        map.take_in(reach(&["t"]), map.seen());
        assert!(map.current().is_some());
        let same = map.edition();
        map.take_in(reach(&["t"]), map.seen());
        assert_eq!(map.edition(), same);
        map.take_in(reach(&["t", "u"]), map.seen());
        assert!(map.edition() > same && same > edition);
        map.has_changed();
        assert!(map.current().is_none());
        map.take_in(None, map.seen());
        assert!(map.current().is_none(), "it could not be read");
    }
}
