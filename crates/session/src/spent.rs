//! What the statement that runs waits for elsewhere than on its backend, and how long it has waited there.
//!
//! Owns: the clock of one statement. The lowest parts of a session tell it where they wait. What a statement costs in all is in `costs`.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use delphinus_clients::Activity;
use delphinus_net::rt;
use delphinus_stats::Place;
use delphinus_telemetry::{Wait, WaitCell};

/// What the statement that runs has spent elsewhere than on its backend, and, for others to see, what it waits for now.
#[derive(Debug)]
pub(crate) struct Spent {
    us: Cell<[u32; Place::ALL.len()]>,
    is_any: Cell<bool>,
    activity: Arc<Activity>,
}

impl Spent {
    /// Nothing yet, of the session that shows itself there.
    pub(crate) fn new(activity: Arc<Activity>) -> Self {
        Self { us: Cell::default(), is_any: Cell::new(false), activity }
    }

    /// Where it is said what is waited for.
    pub(crate) fn waits(&self) -> &WaitCell {
        &self.activity.waits
    }

    /// Adds so much time there.
    pub(crate) fn add(&self, place: Place, us: u32) {
        let mut all = if self.is_any.replace(true) { self.us.get() } else { Default::default() };
        all[place as usize] = all[place as usize].saturating_add(us);
        self.us.set(all);
    }

    /// Adds what it took since then to get a connection, of which `synced_us` are about the session's state.
    pub(crate) fn add_checkout(&self, began: Instant, synced_us: u32) {
        self.add(Place::Pool, micros(began.elapsed()).saturating_sub(synced_us));
        self.add(Place::Sync, synced_us);
    }

    /// A statement begins. What commands before it have spent, that were no statements, is forgotten.
    #[inline]
    pub(crate) fn begin(&self, now: Instant) {
        self.is_any.set(false);
        self.activity.begins(now);
    }

    /// The statement ends after so much time. Gives what it has spent at each place.
    #[inline]
    pub(crate) fn end(&self, total_us: u64) -> [u32; Place::ALL.len()] {
        self.activity.ends(total_us);
        if self.is_any.replace(false) { self.us.get() } else { Default::default() }
    }
}

/// Counts how long something takes, until it goes.
pub(crate) struct Timed {
    spent: Rc<Spent>,
    place: Place,
    began: Instant,
    /// What was waited for before.
    before: u64,
}

impl Timed {
    /// What follows waits for this.
    pub(crate) fn by(wait: Wait, spent: &Rc<Spent>) -> Self {
        let began = rt::now();
        let before = spent.waits().enter(wait, began);
        Self { spent: spent.clone(), place: place_of(wait), began, before }
    }
}

impl Drop for Timed {
    fn drop(&mut self) {
        let now = rt::now();
        self.spent.waits().leave(self.before, now);
        self.spent.add(self.place, micros(now.saturating_duration_since(self.began)));
    }
}

/// Where the time counts that is waited for this.
fn place_of(wait: Wait) -> Place {
    match wait {
        Wait::Limit | Wait::Pause | Wait::Primary | Wait::Replica | Wait::Flight => Place::Queue,
        Wait::Pool | Wait::Connect => Place::Pool,
        Wait::State | Wait::Prepare | Wait::Question => Place::Sync,
        Wait::Send | Wait::Receive => Place::Client,
    }
}

fn micros(time: Duration) -> u32 {
    u32::try_from(time.as_micros()).unwrap_or(u32::MAX)
}
