//! Statements at the same time. As long as one has not to wait, to take a slot and to give it back is one atomic change each.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use delphinus_net::rt::oneshot;

/// So many statements run at the same time.
#[derive(Debug)]
pub struct Slots {
    most: u64,
    /// How many run, and above `WAITER` how many wait: while any waits, all slots are in use. Who waits is changed under the lock only.
    state: AtomicU64,
    /// In the order in which they came. One that has given up stays until its turn comes.
    waiters: Mutex<VecDeque<oneshot::Sender<Slot>>>,
}

/// One of them; dropped, it is the next one's.
#[derive(Debug)]
pub struct Slot(Option<Arc<Slots>>);

impl Drop for Slot {
    #[inline]
    fn drop(&mut self) {
        if let Some(slots) = self.0.take() {
            slots.give_back();
        }
    }
}

/// One that waits, in `state`.
const WAITER: u64 = 1 << 32;

impl Slots {
    pub(super) fn new(most: u32) -> Self {
        Self { most: most.into(), state: AtomicU64::new(0), waiters: Mutex::default() }
    }

    /// One, if one is free.
    #[inline]
    pub(super) fn take(self: &Arc<Self>) -> Option<Slot> {
        // The lower half says enough: whoever waits does so because it is full.
        let next = |state: u64| (state % WAITER < self.most).then_some(state + 1);
        self.state
            .fetch_update(Ordering::Acquire, Ordering::Relaxed, next)
            .is_ok()
            .then(|| Slot(Some(self.clone())))
    }

    /// The next one that is free, first come, first served. Dropped before that, it is another's turn.
    pub async fn next(self: Arc<Self>) -> Option<Slot> {
        match self.line_up() {
            Ok(slot) => Some(slot),
            Err(turn) => turn.await.ok(),
        }
    }

    fn line_up(self: &Arc<Self>) -> Result<Slot, oneshot::Receiver<Slot>> {
        let mut waiters = self.waiters();
        // Mostly those that came first give up first.
        while waiters.front().is_some_and(oneshot::Sender::is_closed) {
            waiters.pop_front();
            self.state.fetch_sub(WAITER, Ordering::Relaxed);
        }
        loop {
            if let Some(slot) = self.take() {
                return Ok(slot);
            }
            // If one has become free in this moment, it is taken.
            let next = |state: u64| (state % WAITER >= self.most).then_some(state + WAITER);
            if self.state.fetch_update(Ordering::Relaxed, Ordering::Relaxed, next).is_ok() {
                let (answer, turn) = oneshot::channel();
                waiters.push_back(answer);
                return Err(turn);
            }
        }
    }

    /// How many are in use.
    pub(super) fn running(&self) -> u64 {
        self.state.load(Ordering::Relaxed) % WAITER
    }

    #[inline]
    fn give_back(self: &Arc<Self>) {
        let next = |state: u64| (state < WAITER).then(|| state - 1);
        if self.state.fetch_update(Ordering::Release, Ordering::Relaxed, next).is_err() {
            self.hand_over();
        }
    }

    /// To the first that still waits.
    #[cold]
    fn hand_over(self: &Arc<Self>) {
        let mut waiters = self.waiters();
        while let Some(answer) = waiters.pop_front() {
            self.state.fetch_sub(WAITER, Ordering::Relaxed);
            match answer.send(Slot(Some(self.clone()))) {
                Ok(()) => return,
                // Its own end would give it back, which is done here.
                Err(mut slot) => slot.0 = None,
            }
        }
        self.state.fetch_sub(1, Ordering::Release);
    }

    fn waiters(&self) -> MutexGuard<'_, VecDeque<oneshot::Sender<Slot>>> {
        self.waiters.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::future::Future;
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};

    use super::*;

    fn poll<F: Future>(future: std::pin::Pin<&mut F>) -> Poll<F::Output> {
        future.poll(&mut Context::from_waker(Waker::noop()))
    }

    #[test]
    fn slots_go_to_those_that_wait_in_their_order() {
        let slots = Arc::new(Slots::new(1));
        let held = slots.take();
        assert!(held.is_some() && slots.take().is_none());
        let mut first = pin!(slots.clone().next());
        let mut second = pin!(slots.clone().next());
        assert!(poll(first.as_mut()).is_pending() && poll(second.as_mut()).is_pending());
        drop(held);
        assert!(slots.take().is_none(), "it is the first one's");
        assert!(poll(second.as_mut()).is_pending());
        let Poll::Ready(Some(slot)) = poll(first.as_mut()) else { panic!("it is its turn") };
        drop(slot);
        assert!(poll(second.as_mut()).is_ready());
        assert_eq!(slots.state.load(Ordering::Relaxed), 0, "all are back");
    }

    #[test]
    fn one_that_gives_up_is_passed_over_and_leaves_nothing() {
        let slots = Arc::new(Slots::new(1));
        for is_handed in [false, true] {
            let held = slots.take();
            let mut gone = Box::pin(slots.clone().next());
            let mut next = pin!(slots.clone().next());
            assert!(poll(gone.as_mut()).is_pending() && poll(next.as_mut()).is_pending());
            if is_handed {
                // It has got it, and does not know that yet.
                drop(held);
                drop(gone);
            } else {
                drop(gone);
                drop(held);
            }
            assert!(poll(next.as_mut()).is_ready());
            assert_eq!(slots.state.load(Ordering::Relaxed), 0);
        }
        let _held = slots.take();
        for _ in 0..100 {
            assert!(poll(pin!(slots.clone().next())).is_pending());
        }
        assert!(slots.waiters().len() <= 1, "those that have given up are forgotten");
    }

    #[test]
    fn many_threads_lose_no_slot_and_have_no_more() {
        let (slots, running) = (Arc::new(Slots::new(3)), AtomicU64::new(0));
        std::thread::scope(|scope| {
            for thread in 0..4 {
                let (slots, running) = (slots.clone(), &running);
                scope.spawn(move || {
                    for round in 0..20_000 {
                        let mut turn = Box::pin(slots.clone().next());
                        let slot = loop {
                            match poll(turn.as_mut()) {
                                Poll::Ready(slot) => break slot,
                                // Some give up.
                                Poll::Pending if (round + thread) % 3 == 0 => break None,
                                Poll::Pending => std::thread::yield_now(),
                            }
                        };
                        if let Some(_slot) = slot {
                            assert!(running.fetch_add(1, Ordering::SeqCst) < 3);
                            running.fetch_sub(1, Ordering::SeqCst);
                        }
                    }
                });
            }
        });
        assert_eq!(slots.running(), 0);
        // Nobody waits, whatever stands in the queue.
        assert!((0..3).map(|_| slots.take()).collect::<Vec<_>>().iter().all(Option::is_some));
    }
}
