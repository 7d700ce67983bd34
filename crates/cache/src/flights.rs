//! Questions that somebody is asking a backend at the moment, so that who asks the same meanwhile can wait for the
//! answer. Of one worker: with several, as many may ask at once.
//!
//! Owns: who is the first. Must not know how to wait.

use std::cell::RefCell;
use std::collections::hash_map::RandomState;
use std::collections::{HashMap, HashSet};
use std::hash::BuildHasher;
use std::rc::Rc;

use crate::key::Key;

/// So many questions whose answers could not be kept are remembered, by their hash.
const MOST_FUTILE: usize = 4096;

/// The questions under way, each with what those who wait for it wait on.
#[derive(Debug)]
pub struct Flights<B>(Rc<RefCell<Open<B>>>);

#[derive(Debug)]
struct Open<B> {
    bells: HashMap<Key, Rc<B>>,
    /// To wait for these would be in vain: the last answer was not one to keep. Two questions of the same hash only miss a
    /// chance to wait.
    futile: HashSet<u64>,
    hashes: RandomState,
}

/// Held by who asks a backend. Who waits is told when it is dropped, whatever became of the answer.
#[derive(Debug)]
pub struct Flight<B> {
    key: Key,
    open: Rc<RefCell<Open<B>>>,
    landed: fn(&B),
    is_kept: bool,
}

/// How to go on with a question that nobody has the answer to.
#[derive(Debug)]
pub enum Takeoff<B> {
    /// Ask; the others wait.
    First(Flight<B>),
    /// Somebody asks already: wait.
    Wait(Rc<B>),
    /// Ask; nobody waits, because the answer will not be kept.
    Alone,
}

impl<B> Default for Flights<B> {
    fn default() -> Self {
        let open = Open { bells: HashMap::new(), futile: HashSet::new(), hashes: RandomState::new() };
        Self(Rc::new(RefCell::new(open)))
    }
}

impl<B: Default> Flights<B> {
    /// Begins to ask, or says whom to wait for. `landed` is called when the flight ends.
    pub fn begin(&self, key: &Key, landed: fn(&B)) -> Takeoff<B> {
        let mut open = self.0.borrow_mut();
        if let Some(bell) = open.bells.get(key) {
            return Takeoff::Wait(bell.clone());
        }
        if !open.futile.is_empty() && open.futile.contains(&open.hashes.hash_one(key)) {
            return Takeoff::Alone;
        }
        open.bells.insert(key.clone(), Rc::default());
        Takeoff::First(Flight { key: key.clone(), open: self.0.clone(), landed, is_kept: false })
    }

    /// The answer to this was kept after all.
    pub fn is_kept(&self, key: &Key) {
        let mut open = self.0.borrow_mut();
        if !open.futile.is_empty() {
            let hash = open.hashes.hash_one(key);
            open.futile.remove(&hash);
        }
    }
}

impl<B> Flight<B> {
    /// The answer is kept: who waits finds it.
    pub fn kept(mut self) {
        self.is_kept = true;
    }
}

impl<B> Drop for Flight<B> {
    fn drop(&mut self) {
        let mut open = self.open.borrow_mut();
        if !self.is_kept {
            if open.futile.len() >= MOST_FUTILE {
                open.futile.clear();
            }
            let hash = open.hashes.hash_one(&self.key);
            open.futile.insert(hash);
        }
        let bell = open.bells.remove(&self.key);
        drop(open);
        if let Some(bell) = bell {
            (self.landed)(&bell);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::collections::BTreeMap;

    use super::*;
    use crate::key::{Asker, Command, Settings};

    #[test]
    fn the_second_waits_until_the_first_has_ended_whatever_came_of_it() {
        let vars = BTreeMap::new();
        let asker = Asker {
            cluster: delphinus_topology::ClusterId(0),
            user: "a",
            rights: 0,
            told: b"",
            capabilities: 0,
        };
        let key = |text: &'static str| {
            let settings = Settings { schema: None, vars: &vars };
            Key::new(&asker, &settings, b"", Command::Query(text.as_bytes()))
        };
        let flights: Flights<Cell<u32>> = Flights::default();
        let landed: fn(&Cell<u32>) = |bell| bell.set(bell.get() + 1);
        let begin = |text| flights.begin(&key(text), landed);
        let Takeoff::First(first) = begin("a") else { panic!("nobody asks yet") };
        let Takeoff::First(other) = begin("b") else { panic!("another question") };
        let Takeoff::Wait(bell) = begin("a") else { panic!("somebody asks") };
        assert_eq!(bell.get(), 0);
        first.kept();
        assert_eq!(bell.get(), 1);
        let Takeoff::First(again) = begin("a") else { panic!("it has landed") };
        let Takeoff::Wait(bell) = begin("a") else { panic!("somebody asks") };
        drop((again, other));
        assert_eq!(bell.get(), 1, "also where nothing came of it");
        assert!(matches!(begin("a"), Takeoff::Alone), "it was not kept the last time");
        flights.is_kept(&key("a"));
        assert!(matches!(begin("a"), Takeoff::First(_)));
        assert!(flights.0.borrow().bells.is_empty());
    }
}
