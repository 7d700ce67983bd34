//! Questions that somebody is asking a backend at the moment, so that who asks the same meanwhile can wait for the
//! answer, on whatever thread.
//!
//! Owns: who is the first, and who is woken. Must not know for how long anybody waits.

use std::collections::HashMap;
use std::collections::hash_map::RandomState;
use std::future::Future;
use std::hash::BuildHasher;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use crate::key::Key;

/// The parts that questions are divided into by their hash, so that threads seldom meet at a lock.
const PARTS: usize = 16;

/// So many questions of a part whose answers were not kept are remembered, by their hash.
const MOST_REMEMBERED: usize = 1024;

/// The questions under way, of all threads.
#[derive(Debug, Clone)]
pub struct Flights(Arc<Sky>);

#[derive(Debug)]
struct Sky {
    parts: [Mutex<Part>; PARTS],
    hashes: RandomState,
}

#[derive(Debug, Default)]
struct Part {
    /// Each with those who wait for it.
    under_way: HashMap<Key, Arc<Mutex<Waiting>>>,
    /// Of these the last answer was not kept. Two questions of the same hash only miss a chance to wait.
    not_kept: HashMap<u64, Vain>,
}

/// Whether to wait for an answer would be in vain, where the last one was not kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Vain {
    /// Not yet: the next one may be kept.
    Perhaps,
    /// Yes.
    Surely,
}

/// What came of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Came {
    /// There was none: who asked has gone, or its backend. That tells nothing of the next one.
    Nothing,
    Kept,
    /// It was not kept, but for a reason that may have passed.
    Doubtful,
    /// Its like are never kept.
    Unfit,
}

#[derive(Debug, Default)]
struct Waiting {
    has_landed: bool,
    wakers: Vec<Option<Waker>>,
}

/// Held by who asks a backend. Who waits is woken when it is dropped, whatever became of the answer.
#[derive(Debug)]
pub struct Flight {
    key: Key,
    hash: u64,
    sky: Arc<Sky>,
    came: Came,
}

/// Ready when somebody else's question has been answered, or will not be. Dropped before that, it is forgotten.
#[derive(Debug)]
pub struct Landing {
    waiting: Arc<Mutex<Waiting>>,
    place: Option<usize>,
}

/// How to go on with a question that nobody has the answer to.
#[derive(Debug)]
pub enum Takeoff {
    /// Ask; the others wait.
    First(Flight),
    /// Somebody asks already: wait.
    Wait(Landing),
    /// Ask; nobody waits, because the answer will not be kept.
    Alone,
}

impl Default for Flights {
    fn default() -> Self {
        Self(Arc::new(Sky { parts: Default::default(), hashes: RandomState::new() }))
    }
}

impl Sky {
    fn part(&self, hash: u64) -> MutexGuard<'_, Part> {
        lock(&self.parts[hash as usize % PARTS])
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Flights {
    /// Begins to ask, or says whom to wait for.
    pub fn begin(&self, key: &Key) -> Takeoff {
        let hash = self.0.hashes.hash_one(key);
        let mut part = self.0.part(hash);
        if let Some(waiting) = part.under_way.get(key) {
            return Takeoff::Wait(Landing { waiting: waiting.clone(), place: None });
        }
        if part.not_kept.get(&hash) == Some(&Vain::Surely) {
            return Takeoff::Alone;
        }
        Takeoff::First(self.take_off(&mut part, (key, hash)))
    }

    /// Begins to ask what is known already, but grows old; `None` if somebody asks it. Nobody waits for that, so it is never in vain.
    pub fn begin_again(&self, key: &Key) -> Option<Flight> {
        let hash = self.0.hashes.hash_one(key);
        let mut part = self.0.part(hash);
        (!part.under_way.contains_key(key)).then(|| self.take_off(&mut part, (key, hash)))
    }

    fn take_off(&self, part: &mut Part, (key, hash): (&Key, u64)) -> Flight {
        part.under_way.insert(key.clone(), Arc::default());
        Flight { key: key.clone(), hash, sky: self.0.clone(), came: Came::Nothing }
    }

    /// The answer to this was kept after all.
    pub fn is_kept(&self, key: &Key) {
        let hash = self.0.hashes.hash_one(key);
        self.0.part(hash).not_kept.remove(&hash);
    }
}

impl Flight {
    /// The answer is kept: who waits finds it.
    pub fn kept(mut self) {
        self.came = Came::Kept;
    }

    /// The answer is not kept, for a reason that may have passed when the next one asks. After the second such answer in a row nobody waits.
    pub fn doubtful(mut self) {
        self.came = Came::Doubtful;
    }

    /// Its like are never kept: nobody waits for the next one.
    pub fn unfit(mut self) {
        self.came = Came::Unfit;
    }
}

impl Part {
    fn remember(&mut self, hash: u64, came: Came) {
        let vain = match came {
            Came::Nothing => return,
            Came::Kept => {
                self.not_kept.remove(&hash);
                return;
            }
            Came::Doubtful if !self.not_kept.contains_key(&hash) => Vain::Perhaps,
            Came::Doubtful | Came::Unfit => Vain::Surely,
        };
        if self.not_kept.len() >= MOST_REMEMBERED {
            self.not_kept.clear();
        }
        self.not_kept.insert(hash, vain);
    }
}

impl Drop for Flight {
    fn drop(&mut self) {
        let mut part = self.sky.part(self.hash);
        part.remember(self.hash, self.came);
        let waiting = part.under_way.remove(&self.key);
        drop(part);
        let wakers = waiting.map(|waiting| {
            let mut waiting = lock(&waiting);
            waiting.has_landed = true;
            std::mem::take(&mut waiting.wakers)
        });
        wakers.into_iter().flatten().flatten().for_each(Waker::wake);
    }
}

impl Future for Landing {
    type Output = ();

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let this = self.get_mut();
        let mut waiting = lock(&this.waiting);
        if waiting.has_landed {
            return Poll::Ready(());
        }
        let waker = Some(context.waker().clone());
        if let Some(place) = this.place {
            waiting.wakers[place] = waker;
        } else {
            this.place = Some(waiting.wakers.len());
            waiting.wakers.push(waker);
        }
        Poll::Pending
    }
}

impl Drop for Landing {
    fn drop(&mut self) {
        let Some(place) = self.place else { return };
        if let Some(waker) = lock(&self.waiting).wakers.get_mut(place) {
            *waker = None;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::sync::atomic::{AtomicU32, Ordering};
    use std::task::Wake;

    use super::*;
    use crate::key::{Asker, Command, Settings};

    fn key(text: &str) -> Key {
        let vars = BTreeMap::new();
        let asker = Asker {
            cluster: delphinus_topology::ClusterId(0),
            user: "a",
            rights: 0,
            told: b"",
            capabilities: 0,
        };
        let settings = Settings { schema: None, vars: &vars };
        Key::new(&asker, &settings, b"", Command::Query(text.as_bytes()))
    }

    #[derive(Default)]
    struct Count(AtomicU32);

    impl Wake for Count {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    #[test]
    fn the_second_waits_until_the_first_has_ended_whatever_came_of_it() {
        let count = Arc::new(Count::default());
        let woken = || count.0.load(Ordering::Relaxed);
        let waker = Waker::from(count.clone());
        let mut context = Context::from_waker(&waker);
        let flights = Flights::default();
        let begin = |text: &str| flights.begin(&key(text));
        let Takeoff::First(first) = begin("a") else { panic!("nobody asks yet") };
        let Takeoff::First(other) = begin("b") else { panic!("another question") };
        let [mut one, mut late, gone] = [0; 3].map(|_| match begin("a") {
            Takeoff::Wait(landing) => landing,
            _ => panic!("somebody asks"),
        });
        let mut gone = Box::pin(gone);
        for _ in 0..3 {
            assert!(Pin::new(&mut one).poll(&mut context).is_pending());
            assert!(gone.as_mut().poll(&mut context).is_pending());
        }
        drop(gone);
        assert!(flights.begin_again(&key("a")).is_none(), "somebody asks already");
        first.kept();
        assert_eq!(woken(), 1, "once each, but those that have gone");
        assert!(Pin::new(&mut one).poll(&mut context).is_ready());
        assert!(
            Pin::new(&mut late).poll(&mut context).is_ready(),
            "one that began to wait after it had landed"
        );
        let Takeoff::First(again) = begin("a") else { panic!("it has landed") };
        let Takeoff::Wait(mut landing) = begin("a") else { panic!("somebody asks") };
        assert!(Pin::new(&mut landing).poll(&mut context).is_pending());
        drop((again, other));
        assert_eq!(woken(), 2, "also where nothing came of it");
        assert!(
            matches!(begin("a"), Takeoff::First(_)),
            "who asked has gone: one of those who wait is the next"
        );
        assert!(flights.0.parts.iter().all(|part| lock(part).under_way.is_empty()));
    }

    #[test]
    fn nobody_waits_for_what_will_not_be_kept_and_one_chance_is_given_to_what_may_be() {
        let flights = Flights::default();
        let first = |text: &str| match flights.begin(&key(text)) {
            Takeoff::First(flight) => Some(flight),
            Takeoff::Alone => None,
            Takeoff::Wait(_) => panic!("nobody asks"),
        };
        for text in ["a", "b"] {
            if text == "a" {
                first(text).unwrap().unfit();
            } else {
                first(text).unwrap().doubtful();
                // Nothing is known by that.
                drop(first(text).unwrap());
                first(text).unwrap().doubtful();
            }
            assert!(first(text).is_none(), "{text}");
            drop(flights.begin_again(&key(text)).expect("nobody waits for a refresh"));
            assert!(first(text).is_none(), "{text}");
            flights.is_kept(&key(text));
            first(text).unwrap().doubtful();
            first(text).unwrap().kept();
            first(text).unwrap().doubtful();
            assert!(first(text).is_some(), "{text}: two in a row only");
        }
    }

    #[test]
    fn of_many_threads_one_asks_and_the_others_are_woken() {
        let (flights, firsts) = (Flights::default(), AtomicU32::new(0));
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    struct Thread(std::thread::Thread);
                    impl Wake for Thread {
                        fn wake(self: Arc<Self>) {
                            self.0.unpark();
                        }
                    }
                    let waker = Waker::from(Arc::new(Thread(std::thread::current())));
                    let mut context = Context::from_waker(&waker);
                    for round in 0..200 {
                        match flights.begin(&key(&round.to_string())) {
                            Takeoff::First(flight) => {
                                firsts.fetch_add(1, Ordering::Relaxed);
                                std::thread::yield_now();
                                flight.kept();
                            }
                            Takeoff::Wait(mut landing) => {
                                while Pin::new(&mut landing).poll(&mut context).is_pending() {
                                    std::thread::park();
                                }
                            }
                            Takeoff::Alone => panic!("all were kept"),
                        }
                    }
                });
            }
        });
        assert!((200..=1600).contains(&firsts.load(Ordering::Relaxed)));
    }
}
