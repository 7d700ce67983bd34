//! Connections to one backend that are being killed from the side, by the sessions of all workers.
//!
//! Owns: that a KILL which was meant for one session reaches no other one. A connection that changes hands while a KILL for it is under way
//! is closed. Who kills looks after its mark whether the session still runs something there. The session says that it does not before
//! the connection is given back. So one of the two sees the other.

use std::sync::atomic::{AtomicUsize, Ordering, fence};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::budget::Budget;
use crate::connection::Thread;

/// So many are known; of more the oldest are forgotten. Only those whose KILL was never answered can become that many.
const MOST: usize = 256;

/// Those of one backend.
#[derive(Debug, Default)]
pub(crate) struct Killing {
    /// How many, for who has no reason to look.
    count: AtomicUsize,
    threads: Mutex<Vec<Thread>>,
}

impl Killing {
    fn threads(&self) -> MutexGuard<'_, Vec<Thread>> {
        self.threads.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn change(&self, change: impl FnOnce(&mut Vec<Thread>)) {
        let mut threads = self.threads();
        change(&mut threads);
        self.count.store(threads.len(), Ordering::Relaxed);
    }

    fn add(&self, thread: Thread) {
        self.change(|threads| {
            if threads.len() == MOST {
                threads.remove(0);
            }
            threads.push(thread);
        });
        // The look of who kills is not before this.
        fence(Ordering::SeqCst);
    }

    /// Another KILL may be under way to the same one.
    fn remove_one(&self, thread: Thread) {
        self.change(|threads| {
            if let Some(at) = threads.iter().position(|one| *one == thread) {
                threads.remove(at);
            }
        });
    }

    /// True if a KILL for this connection is under way: whoever asks is about to give it to another session, and closes it then.
    pub(crate) fn takes(&self, thread: Thread) -> bool {
        // The look is not before the session has said that it runs nothing there.
        fence(Ordering::SeqCst);
        if self.count.load(Ordering::Relaxed) == 0 {
            return false;
        }
        let mut is_taken = false;
        self.change(|threads| {
            let before = threads.len();
            threads.retain(|one| *one != thread);
            is_taken = threads.len() < before;
        });
        is_taken
    }
}

/// A KILL that is under way, until it is dropped. If it was sent and not answered, the mark stays: the server may come to it at any time.
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
    fn marks_have_a_bound() {
        let budget = budget();
        for id in 0..10_000 {
            Mark::of(&budget, || Some(Thread { id, moves: 0 })).unwrap().is_sent();
        }
        assert_eq!(budget.killing.threads().len(), MOST);
        assert!(budget.killing.takes(Thread { id: 9_999, moves: 0 }));
    }
}
