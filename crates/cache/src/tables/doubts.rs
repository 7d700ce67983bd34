//! Writes whose outcome was not told, because a connection was lost or a client has gone: the server may do them yet. They go on running
//! for a while.
//!
//! Owns: those writes, a bounded number. Must not know how long is long enough: callers name the moment.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use super::{Place, Running, Spot, Tables};

/// More are counted as one that may have written anything.
const MOST: usize = 1024;

#[derive(Debug, Default)]
pub(super) struct Doubts {
    list: Mutex<List>,
    /// Looked at without a lock.
    are_there: AtomicBool,
}

#[derive(Debug, Default)]
struct List {
    each: Vec<Doubt>,
    /// What stands for those that there was no room for.
    others: Option<Doubt>,
}

#[derive(Debug)]
struct Doubt {
    until: Instant,
    running: Running,
    place: Place,
}

impl Doubts {
    fn list(&self) -> MutexGuard<'_, List> {
        self.list.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Tables {
    /// Nobody knows whether these writes have ended, at `place`: they run `until` then. `anything` stands for all writes.
    pub fn doubt(&self, running: Running, place: Place, until: Instant, anything: &[Spot]) {
        let mut list = self.doubts.list();
        self.doubts.are_there.store(true, Ordering::Release);
        if list.each.len() < MOST {
            list.each.push(Doubt { until, running, place });
            return;
        }
        match &mut list.others {
            Some(others) => others.until = others.until.max(until),
            others => {
                let running = self.begin(anything.iter().copied());
                *others = Some(Doubt { until, running, place: place.clone() });
            }
        }
        drop(list);
        self.end(running, Some(&place));
    }

    /// Ends those whose time is over.
    #[inline]
    pub fn settle_doubts(&self, now: Instant) {
        if self.doubts.are_there.load(Ordering::Acquire) {
            self.settle_old(now);
        }
    }

    #[cold]
    fn settle_old(&self, now: Instant) {
        let mut list = self.doubts.list();
        let mut over: Vec<Doubt> = list.each.extract_if(.., |doubt| doubt.until <= now).collect();
        over.extend(list.others.take_if(|doubt| doubt.until <= now));
        self.doubts.are_there.store(!list.each.is_empty() || list.others.is_some(), Ordering::Release);
        drop(list);
        for Doubt { running, place, .. } in over {
            self.end(running, Some(&place));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use delphinus_topology::{BackendId, ClusterId};

    use super::super::About;
    use super::*;

    #[test]
    fn what_is_in_doubt_runs_until_its_time_is_over_and_too_many_are_one() {
        let (tables, start) = (Tables::default(), Instant::now());
        let spot = |at| Spot::new(ClusterId(0), About::Table(at));
        let any = Spot::new(ClusterId(0), About::Some);
        let place = Place::new(BackendId(0), None);
        let minute = start + Duration::from_mins(1);
        for at in 0..=u64::try_from(MOST).unwrap() {
            tables.doubt(tables.begin([spot(at)]), place.clone(), minute, &[any]);
        }
        let is_free = |spot| tables.see([spot], start).is_some();
        assert!(!is_free(spot(0)) && !is_free(any));
        tables.settle_doubts(start);
        assert!(!is_free(spot(0)) && !is_free(any));
        tables.settle_doubts(minute);
        assert!(is_free(spot(0)) && is_free(any));
        assert!(!tables.doubts.are_there.load(Ordering::Acquire));
    }
}
