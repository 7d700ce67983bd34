//! The places of connections. When all are taken, the oldest connection that has not logged in makes way for a new one: who connects and
//! says nothing, or only guesses, keeps nobody out.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use delphinus_net::rt::Bell;

use crate::counts::{Closed, Counts};

/// The places of all connections.
#[derive(Clone, Default)]
pub(crate) struct Places(Rc<RefCell<Taken>>);

#[derive(Default)]
struct Taken {
    next: u64,
    /// The oldest first.
    connections: BTreeMap<u64, Connection>,
}

struct Connection {
    has_logged_in: Arc<AtomicBool>,
    evicted: Arc<Bell>,
}

/// The place of one connection, for as long as it lives.
pub(crate) struct Place {
    places: Places,
    counts: Arc<Counts>,
    number: u64,
    /// Rings when it has to make way.
    pub(crate) evicted: Arc<Bell>,
    /// Set when a login has succeeded on it: it need not make way then.
    pub(crate) has_logged_in: Arc<AtomicBool>,
}

impl Places {
    /// A place among so many; `None` if all are of those that have logged in.
    pub(crate) fn take(&self, most: usize, counts: &Arc<Counts>) -> Option<Place> {
        let mut taken = self.0.borrow_mut();
        while taken.connections.len() >= most {
            let is_strange = |connection: &Connection| !connection.has_logged_in.load(Ordering::Relaxed);
            let oldest = taken.connections.iter().find(|(_, one)| is_strange(one)).map(|(number, _)| *number);
            let Some(evicted) = oldest.and_then(|oldest| taken.connections.remove(&oldest)) else {
                counts.closed(Closed::Places);
                return None;
            };
            evicted.evicted.ring();
            counts.closed(Closed::Evicted);
        }
        let number = taken.next;
        taken.next += 1;
        let (evicted, has_logged_in) = (Arc::<Bell>::default(), Arc::<AtomicBool>::default());
        let connection = Connection { has_logged_in: has_logged_in.clone(), evicted: evicted.clone() };
        taken.connections.insert(number, connection);
        counts.set_open(taken.connections.len());
        Some(Place { places: self.clone(), counts: counts.clone(), number, evicted, has_logged_in })
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut taken = self.places.0.borrow_mut();
        taken.connections.remove(&self.number);
        self.counts.set_open(taken.connections.len());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use delphinus_net::rt;
    use std::time::Duration;

    #[test]
    fn strangers_make_way_and_those_inside_stay() {
        rt::block_on(async {
            let (places, counts) = (Places::default(), Arc::<Counts>::default());
            let take = || places.take(2, &counts);
            let (first, second) = (take().unwrap(), take().unwrap());
            first.has_logged_in.store(true, Ordering::Relaxed);
            let third = take().unwrap();
            second.evicted.rung().await;
            third.has_logged_in.store(true, Ordering::Relaxed);
            assert!(take().is_none());
            assert!(rt::timeout(Duration::from_millis(5), first.evicted.rung()).await.is_none());
            drop(first);
            assert!(take().is_some());
        })
        .unwrap();
    }
}
