//! The limit on connections to one backend over all workers. Each worker has a fair share of it; what one does
//! not use others may take, and have to give back when they hold more than their share and somebody waits.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use delphinus_net::rt::Notify;

/// The shared count of one backend's connections.
#[derive(Debug)]
pub struct Budget {
    max: u32,
    share: u32,
    open: AtomicU32,
    hungry: AtomicU32,
    /// One bell for each worker; all of its backends ring the same one.
    bells: Vec<Arc<Notify>>,
}

/// The right to one connection; given back when dropped.
#[derive(Debug)]
pub struct Permit {
    budget: Arc<Budget>,
    /// How many permits its worker has.
    count: Rc<Cell<u32>>,
}

impl Budget {
    /// At most `max` connections, divided among the workers that own `bells`.
    pub fn new(max: u32, bells: Vec<Arc<Notify>>) -> Arc<Self> {
        let share = (max / u32::try_from(bells.len().max(1)).unwrap_or(1)).max(1);
        Arc::new(Self { max, share, open: AtomicU32::new(0), hungry: AtomicU32::new(0), bells })
    }

    /// The limit.
    pub fn max(&self) -> u32 {
        self.max
    }

    /// What one worker may keep while others wait.
    pub fn share(&self) -> u32 {
        self.share
    }

    /// Connections open or being opened.
    pub fn open(&self) -> u32 {
        self.open.load(Ordering::Relaxed)
    }

    /// True if more clients wait than the `own` ones of the worker that asks.
    #[inline]
    pub fn is_wanted_beyond(&self, own: u32) -> bool {
        self.hungry.load(Ordering::Relaxed) > own
    }

    /// Takes a permit if one is left, and counts it as one of its worker's.
    pub fn take(self: &Arc<Self>, count: &Rc<Cell<u32>>) -> Option<Permit> {
        self.open
            .fetch_update(Ordering::AcqRel, Ordering::Relaxed, |open| (open < self.max).then_some(open + 1))
            .ok()?;
        count.set(count.get() + 1);
        Some(Permit { budget: self.clone(), count: count.clone() })
    }

    /// Says that a client of this worker waits; every worker looks what it can spare.
    pub(crate) fn begin_waiting(&self) {
        self.hungry.fetch_add(1, Ordering::AcqRel);
        self.ring();
    }

    /// A client waits no more.
    pub(crate) fn end_waiting(&self) {
        self.hungry.fetch_sub(1, Ordering::AcqRel);
    }

    fn ring(&self) {
        self.bells.iter().for_each(|bell| bell.notify_one());
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        self.count.set(self.count.get() - 1);
        self.budget.open.fetch_sub(1, Ordering::AcqRel);
        if self.budget.is_wanted_beyond(0) {
            self.budget.ring();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn permits_are_bounded_and_come_back() {
        let budget = Budget::new(2, vec![Arc::default(), Arc::default(), Arc::default()]);
        assert_eq!(budget.share(), 1);
        let count = Rc::default();
        let first = budget.take(&count);
        let second = budget.take(&count);
        assert!(first.is_some() && second.is_some() && budget.take(&count).is_none());
        drop(first);
        assert_eq!((budget.open(), count.get()), (1, 1));
        assert!(budget.take(&count).is_some());
    }
}
