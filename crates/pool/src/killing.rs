//! Connections to one backend that are being killed from the side, by the sessions of all workers.
//!
//! Owns: that a KILL which was meant for one session reaches no other one. A connection that changes hands while a KILL for it is under way
//! is closed. Who kills looks after its mark whether the session still runs something there. The session says that it does not before
//! the connection is given back. So one of the two sees the other.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering, fence};

use crate::budget::{Budget, Permit};
use crate::connection::{Connection, Thread};

/// So many are known; of more, one of the others is forgotten. Only those whose KILL was never answered can become that many.
const MOST: usize = 256;

/// No mark.
const FREE: u64 = 0;

/// Those of one backend. Nobody takes a lock: a KILL that is never answered must not be in the way of all sessions until its connection ends.
#[derive(Debug)]
pub(crate) struct Killing {
    /// How many may be marked, for who has no reason to look.
    count: AtomicUsize,
    marks: [AtomicU64; MOST],
    /// Which one is forgotten next.
    forgets: AtomicUsize,
}

impl Default for Killing {
    fn default() -> Self {
        let marks = std::array::from_fn(|_| AtomicU64::new(FREE));
        Self { count: AtomicUsize::default(), marks, forgets: AtomicUsize::default() }
    }
}

/// What a thread is marked by.
fn mark_of(thread: Thread) -> u64 {
    (1 << 63) | (u64::from(thread.moves) << 32) | u64::from(thread.id)
}

impl Killing {
    fn add(&self, thread: Thread) {
        // Before there is a mark: the count is never less than what there is.
        self.count.fetch_add(1, Ordering::Relaxed);
        let mark = mark_of(thread);
        let takes = |slot: &AtomicU64| {
            // Whoever frees it takes one off the count, which must not come before the one that was added.
            slot.compare_exchange(FREE, mark, Ordering::Release, Ordering::Relaxed).is_ok()
        };
        if !self.marks.iter().any(takes) {
            let at = self.forgets.fetch_add(1, Ordering::Relaxed) % MOST;
            if self.marks[at].swap(mark, Ordering::AcqRel) != FREE {
                self.count.fetch_sub(1, Ordering::Relaxed);
            }
        }
        // The look of who kills is not before this.
        fence(Ordering::SeqCst);
    }

    /// Frees the place if this is what is marked in it.
    fn free(&self, slot: &AtomicU64, mark: u64) -> bool {
        let is_freed = slot.load(Ordering::Relaxed) == mark
            && slot.compare_exchange(mark, FREE, Ordering::Acquire, Ordering::Relaxed).is_ok();
        if is_freed {
            self.count.fetch_sub(1, Ordering::Relaxed);
        }
        is_freed
    }

    /// Another KILL may be under way to the same one.
    fn remove_one(&self, thread: Thread) {
        let mark = mark_of(thread);
        let _ = self.marks.iter().any(|slot| self.free(slot, mark));
    }

    /// True if a KILL for this connection is under way: whoever asks is about to give it to another session, and closes it then.
    pub(crate) fn takes(&self, thread: Thread) -> bool {
        // The look is not before the session has said that it runs nothing there.
        fence(Ordering::SeqCst);
        if self.count.load(Ordering::Relaxed) == 0 {
            return false;
        }
        let mark = mark_of(thread);
        self.marks.iter().filter(|slot| self.free(slot, mark)).count() > 0
    }
}

impl Connection {
    /// It has ended, and no session gets it: what is known of KILLs for it ends, too. Gives its place.
    pub(crate) fn ended(self) -> Permit {
        self.permit.budget().killing.takes(self.thread());
        self.permit
    }
}

/// A KILL that is under way, until it is dropped. If it was sent and not answered, the mark stays until the connection ends: the server may
/// come to it at any time.
pub(crate) struct Mark {
    budget: Arc<Budget>,
    thread: Thread,
    is_sent: bool,
}

impl Mark {
    /// Marks the connection that `thread` names; `None` where it names none any more once it is marked.
    pub(crate) fn of(budget: &Arc<Budget>, thread: impl Fn() -> Option<Thread>) -> Option<Self> {
        let found = thread()?;
        budget.killing.add(found);
        let mark = Self { budget: budget.clone(), thread: found, is_sent: false };
        (thread() == Some(found)).then_some(mark)
    }

    /// What is killed.
    pub(crate) fn thread(&self) -> Thread {
        self.thread
    }

    /// The server is about to be told.
    pub(crate) fn is_sent(&mut self) {
        self.is_sent = true;
    }

    /// The server has done it.
    pub(crate) fn is_answered(&mut self) {
        self.is_sent = false;
    }
}

impl Drop for Mark {
    fn drop(&mut self) {
        if !self.is_sent {
            self.budget.killing.remove_one(self.thread);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;
    use crate::budget::BackendLimits;

    fn budget() -> Arc<Budget> {
        Budget::new(BackendLimits { max: 1, ..BackendLimits::default() }, vec![Arc::default()])
    }

    const ONE: Thread = Thread { id: 1, moves: 0 };
    const OTHER: Thread = Thread { id: 2, moves: 0 };

    #[test]
    fn what_is_being_killed_does_not_change_hands() {
        let budget = budget();
        let mark = Mark::of(&budget, || Some(ONE)).unwrap();
        let second = Mark::of(&budget, || Some(ONE)).unwrap();
        assert!(!budget.killing.takes(OTHER));
        drop(mark);
        assert!(budget.killing.takes(ONE), "the second KILL is under way");
        drop(second);
        assert!(!budget.killing.takes(ONE));
    }

    #[test]
    fn an_answered_kill_leaves_no_mark_and_one_without_an_answer_does() {
        let budget = budget();
        let mut mark = Mark::of(&budget, || Some(ONE)).unwrap();
        mark.is_sent();
        mark.is_answered();
        drop(mark);
        assert!(!budget.killing.takes(ONE));
        let mut mark = Mark::of(&budget, || Some(ONE)).unwrap();
        mark.is_sent();
        drop(mark);
        assert!(budget.killing.takes(ONE));
        assert!(!budget.killing.takes(ONE), "it was closed then");
    }

    #[test]
    fn nothing_is_killed_that_ends_while_it_is_marked() {
        let (budget, looks) = (budget(), Cell::new(0));
        let then_gone = || {
            looks.set(looks.get() + 1);
            (looks.get() == 1).then_some(ONE)
        };
        assert!(Mark::of(&budget, then_gone).is_none());
        assert!(!budget.killing.takes(ONE), "there is no mark");
        assert!(Mark::of(&budget, || None).is_none());
    }

    #[test]
    fn threads_of_a_server_that_has_moved_are_others() {
        let budget = budget();
        let mut mark = Mark::of(&budget, || Some(ONE)).unwrap();
        mark.is_sent();
        assert!(!budget.killing.takes(Thread { moves: 1, ..ONE }));
        assert!(budget.killing.takes(ONE));
    }

    #[test]
    fn marks_have_a_bound() {
        let budget = budget();
        for id in 0..10_000 {
            Mark::of(&budget, || Some(Thread { id, moves: 0 })).unwrap().is_sent();
        }
        let marked = |id: &u32| budget.killing.takes(Thread { id: *id, moves: 0 });
        assert!(marked(&9_999));
        assert_eq!((0..10_000).filter(marked).count(), MOST - 1);
        assert_eq!(budget.killing.count.load(Ordering::Relaxed), 0, "nobody looks any more");
    }
}
