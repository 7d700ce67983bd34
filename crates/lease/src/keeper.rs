//! The thread that talks to the store: renews the lease, claims the keys that are wanted, gives back those that are not, lists all. It asks
//! one question after the other, so that what it has listed is never older than what it has done.

mod change;
mod claims;
mod failsafe;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use delphinus_topology::{BootTime, Promises, Roll, Tenure, Terms};

use self::change::Change;
pub use self::failsafe::ListChange;
use crate::clock::boot_now;
use crate::own_file::OwnFile;
use crate::peers::{Failsafe, Peers};
use crate::store::{Entry, Holding, Store, StoreError};
use crate::view::View;

/// How the lease is kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// TTL and margin.
    pub terms: Terms,
    /// Where the lease's number is kept, so that a process that starts again in time goes on with it.
    pub own_file: Option<PathBuf>,
    /// How other members are asked when the store is lost; `None`: what is held is given up then.
    pub failsafe: Option<Failsafe>,
}

/// Between two lists, if the store tells of no change.
const LIST_PACE: Duration = Duration::from_secs(1);
/// A list that is not older says who may be claimed.
const FRESH: Duration = Duration::from_millis(100);
/// After a mistake.
const PAUSE: Duration = Duration::from_millis(250);

/// Called with what has become of a change of a key that stays.
pub type Answered = Box<dyn FnOnce(Result<(), StoreError>) + Send>;

/// Called when other entries were listed than before. It must not block.
pub type Heard = Box<dyn Fn() + Send>;

/// The lease of this process. Dropping it ends it: all keys are free at once.
#[derive(Debug)]
pub struct Lease {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
    ttl: Duration,
}

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    view: Arc<View>,
    /// Grows with each change of the view.
    generation: u64,
    wants: BTreeMap<String, String>,
    given_back: BTreeMap<String, u64>,
    /// Keys that this process has taken and not given back, whether the view shows it or not.
    taken: BTreeSet<String>,
    /// What is promised to others; and who may take something.
    promises: Promises,
    /// It was said that this member stays, or cannot.
    told_stay: Option<bool>,
    /// Changes of keys that stay.
    changes: VecDeque<Change>,
    /// Whoever wants to hear of other entries.
    listeners: Vec<Heard>,
    /// Something is to be done at once.
    bell: bool,
    stops: bool,
}

impl std::fmt::Debug for State {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("State").field("view", &self.view).field("wants", &self.wants).finish_non_exhaustive()
    }
}

impl Settings {
    /// Looks whether a lease can start with them. Their file is left out: a lease that runs may have it.
    ///
    /// # Errors
    /// Certificates of the other members' doors that cannot be used.
    pub fn check(&self) -> io::Result<()> {
        self.peers().map(drop)
    }

    /// The other members; none without `failsafe`.
    fn peers(&self) -> io::Result<Option<Peers>> {
        let peers = self.failsafe.clone().map(|how| Peers::new(how, failsafe::patience(self.terms)));
        peers.transpose().map_err(io::Error::other)
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Lease {
    /// Starts the thread. It goes on trying where the store does not answer.
    ///
    /// # Errors
    /// The file cannot be opened, or another process has it.
    pub fn start(settings: &Settings, store: Box<dyn Store>) -> io::Result<Self> {
        let own = settings.own_file.as_deref().map(OwnFile::open).transpose()?;
        let shared = Arc::new(Shared::default());
        let peers = settings.peers()?;
        if let Some(peers) = &peers {
            let (name, address) = (&peers.settings.member, &peers.settings.address);
            let mut state = shared.state();
            state.wants.insert(format!("reach/{name}"), address.clone());
            let earlier = own.as_ref().and_then(OwnFile::members).map(Roll::names);
            state.promises = Promises::begin(boot_now(), settings.terms.ttl, earlier);
        }
        let keeper = Keeper {
            shared: shared.clone(),
            terms: settings.terms,
            tenure: Tenure::new(settings.terms),
            lease: 0,
            left_by_earlier: None,
            store,
            own,
            peers,
            next_renewal: Instant::now(),
            next_list: Instant::now(),
            listed_at: None,
            has_failed: false,
        };
        let thread = thread::Builder::new().name("lease".into()).spawn(move || keeper.run())?;
        Ok(Self { shared, thread: Some(thread), ttl: settings.terms.ttl })
    }

    /// So long after this process has died its keys are free.
    pub fn ttl(&self) -> Duration {
        self.ttl
    }

    /// How the store looked last.
    pub fn view(&self) -> Arc<View> {
        self.shared.state().view.clone()
    }

    /// Has `heard` called whenever other entries are listed than before.
    pub fn listen(&self, heard: Heard) {
        self.shared.state().listeners.push(heard);
    }

    /// Waits until the view is another than at `generation`, at most so long. Returns its generation.
    pub fn wait(&self, generation: u64, limit: Duration) -> u64 {
        let is_same = |state: &mut State| state.generation == generation && !state.stops;
        let waited = self.shared.changed.wait_timeout_while(self.shared.state(), limit, is_same);
        waited.unwrap_or_else(PoisonError::into_inner).0.generation
    }

    /// Ends a `wait` at once.
    pub fn nudge(&self) {
        self.shared.state().generation += 1;
        self.shared.changed.notify_all();
    }

    /// Holds a key as soon as it is free, until `give_up`. Another value is written into it while it is held.
    pub fn want(&self, key: &str, value: &str) {
        let mut state = self.shared.state();
        if state.wants.get(key).is_none_or(|before| before != value) {
            state.wants.insert(key.to_owned(), value.to_owned());
            self.ring(&mut state);
        }
    }

    /// Gives a key back, or does not want it any more. From now on the view does not show it as held.
    pub fn give_up(&self, key: &str) {
        let mut state = self.shared.state();
        let was_wanted = state.wants.remove(key).is_some();
        if let Some(held) = state.view.held(key) {
            state.given_back.insert(key.to_owned(), held.epoch);
            let mut view = (*state.view).clone();
            view.given_back.clone_from(&state.given_back);
            view.forget_kept(key);
            state.view = Arc::new(view);
            state.generation += 1;
        } else if state.view.is_kept(key, boot_now()) {
            let mut view = (*state.view).clone();
            view.forget_kept(key);
            state.view = Arc::new(view);
            state.generation += 1;
        } else if !was_wanted {
            return;
        }
        self.ring(&mut state);
    }

    /// Writes a key that stays, or deletes it. What has not been sent to the store after ten seconds is not done any more.
    pub fn put(&self, key: &str, value: Option<&str>, answered: Answered) {
        self.change(Change {
            key: key.to_owned(),
            value: value.map(str::to_owned),
            by: None,
            lets_in: None,
            until: change::limit(),
            answered,
        });
    }

    /// The same, by the right of a key that this process holds: whoever has lost that changes nothing, also if its word comes late.
    pub fn put_as(&self, key: &str, value: Option<&str>, by: Holding, answered: Answered) {
        self.change(Change {
            key: key.to_owned(),
            value: value.map(str::to_owned),
            by: Some(by),
            lets_in: None,
            until: change::limit(),
            answered,
        });
    }

    /// Changes the list of members as `let_in` has said.
    pub fn change_list(&self, change: ListChange, answered: Answered) {
        let ListChange { text, member, seen } = change;
        let key = failsafe::LIST.to_owned();
        let lets_in = Some((member, seen));
        self.change(Change { key, value: Some(text), by: None, lets_in, until: change::limit(), answered });
    }

    fn change(&self, change: Change) {
        /// Operators' commands: more at a time than this are not waited for.
        const MOST: usize = 64;
        let mut state = self.shared.state();
        if state.changes.len() >= MOST {
            drop(state);
            return (change.answered)(Err(StoreError::Unreachable("too many changes wait for it".into())));
        }
        state.changes.push_back(change);
        self.ring(&mut state);
    }

    fn ring(&self, state: &mut State) {
        state.bell = true;
        self.shared.changed.notify_all();
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        self.shared.state().stops = true;
        self.shared.changed.notify_all();
        if let Some(thread) = self.thread.take() {
            // It ends within the patience for one question.
            let _ = thread.join();
        }
    }
}

struct Keeper {
    shared: Arc<Shared>,
    terms: Terms,
    tenure: Tenure,
    lease: u64,
    left_by_earlier: Option<u64>,
    store: Box<dyn Store>,
    own: Option<OwnFile>,
    /// The other members; none without `failsafe`.
    peers: Option<Peers>,
    next_renewal: Instant,
    next_list: Instant,
    /// When all keys were listed.
    listed_at: Option<Instant>,
    /// A change was not made.
    has_failed: bool,
}

impl Keeper {
    fn run(mut self) {
        let shared = Arc::downgrade(&self.shared);
        self.store.watch(Box::new(move || {
            let Some(shared) = shared.upgrade() else { return false };
            shared.state().bell = true;
            shared.changed.notify_all();
            true
        }));
        self.left_by_earlier = self.own.as_ref().and_then(OwnFile::lease);
        while self.wait() {
            let begun = Instant::now();
            let done = self.turn();
            if let Err(error) = done {
                self.complain(&error);
                // One that refuses a single thing, and has listed all, is not lost.
                let answers = self.listed_at.is_some_and(|at| at >= begun);
                if !answers || !matches!(error, StoreError::Refused(_)) {
                    self.ask_to_stay();
                }
                self.next_list = Instant::now() + PAUSE;
            }
        }
        self.end();
    }

    /// Waits for something to do; false at the end.
    fn wait(&self) -> bool {
        let until = self.next_renewal.min(self.next_list);
        let limit = until.saturating_duration_since(Instant::now());
        let is_idle = |state: &mut State| !state.bell && !state.stops;
        let waited = self.shared.changed.wait_timeout_while(self.shared.state(), limit, is_idle);
        let mut state = waited.unwrap_or_else(PoisonError::into_inner).0;
        state.bell = false;
        !state.stops
    }

    fn turn(&mut self) -> Result<(), StoreError> {
        // Before anything that may end the turn: a store that hangs lets none come to the changes.
        self.drop_late_changes(Instant::now());
        if Instant::now() >= self.next_renewal {
            // An error leaves the next one to the pause, not to the pace: the tenure is short.
            self.next_renewal = Instant::now() + PAUSE;
            self.renew()?;
            self.next_renewal = Instant::now() + self.terms.pace();
        }
        if std::mem::take(&mut self.has_failed) {
            // Changes that fail again and again do not keep it from seeing that it holds what it holds.
            self.list()?;
        }
        // Other members wait for what is given back, and see by it that they may claim.
        let has_given = self.give_back().inspect_err(|_| self.has_failed = true)?;
        self.change_what_stays()?;
        // What was listed just now is claimed at once: the store says no if it is not free any more.
        let is_fresh = !has_given && self.listed_at.is_some_and(|at| at.elapsed() < FRESH);
        if !is_fresh {
            self.list()?;
        }
        if self.claim()? || is_fresh {
            self.list()?;
        }
        self.write_list()?;
        self.next_list = Instant::now() + LIST_PACE;
        Ok(())
    }

    fn renew(&mut self) -> Result<(), StoreError> {
        let sent = boot_now();
        if self.lease == 0
            && let Some(earlier) = self.left_by_earlier
        {
            let is_alive = self.store.renew(earlier)?;
            self.left_by_earlier = None;
            if let Some(ttl) = is_alive {
                tracing::info!("the lease of the process before this one is taken over");
                self.begin(earlier, sent, ttl);
                return Ok(());
            }
        }
        if self.lease == 0 {
            let granted = self.store.grant(self.terms.ttl)?;
            self.begin(granted.lease, sent, granted.ttl);
            return Ok(());
        }
        if let Some(ttl) = self.store.renew(self.lease)? {
            self.tenure.renewed(sent, ttl);
        } else {
            tracing::warn!("the lease store has forgotten this process: all of its keys are free");
            self.lease = 0;
            self.tenure.lost();
            self.next_renewal = Instant::now();
            let mut state = self.shared.state();
            state.given_back.clear();
            state.taken.clear();
            drop(state);
            self.publish(None);
            self.drop_changes();
            // At once: what is kept by promises has to be taken again before a list shows that it is free.
            return self.renew();
        }
        self.publish(None);
        Ok(())
    }

    fn begin(&mut self, lease: u64, sent: BootTime, ttl: Duration) {
        self.lease = lease;
        self.tenure.renewed(sent, ttl);
        if let Some(Err(error)) = self.own.as_mut().map(|own| own.write(lease)) {
            tracing::warn!(%error, "cannot keep the number of the lease: a restart after a crash will wait for one TTL");
        }
        self.publish(None);
    }

    fn list(&mut self) -> Result<(), StoreError> {
        let asked = boot_now();
        let entries = self.store.list()?;
        let entries = self.take_again(entries)?;
        self.publish(Some((asked, entries)));
        if let Err(error) = self.remember() {
            tracing::warn!(%error, "cannot keep the names of members: after a restart without the lease store this one promises nothing");
        }
        self.listed_at = Some(Instant::now());
        Ok(())
    }

    fn publish(&self, listed: Option<(BootTime, Vec<Entry>)>) {
        let mut state = self.shared.state();
        let before = state.view.clone();
        let mut view = (*before).clone();
        // What was listed under this lease is no older than the word that the store still knows it: a key may be gone all the same.
        if listed.is_some() || view.lease != self.lease || self.tenure.ends().is_none() {
            view.ends = self.tenure.ends();
        }
        view.lease = self.lease;
        let mut is_news = false;
        if let Some((asked, entries)) = listed {
            view.entries = entries.into_iter().map(|entry| (entry.key.clone(), entry)).collect();
            is_news = view.entries != before.entries;
            let member = self.peers.as_ref().map(|peers| peers.settings.member.as_str());
            claims::settle(&mut state, &view, member);
            failsafe::note(&mut state.promises, &view);
            state.told_stay = None;
            view.let_go_of_others(member);
            view.listed = Some(asked);
            view.trouble = None;
            if before.trouble.is_some() {
                tracing::info!("the lease store answers again");
            }
            // What is gone, or was taken anew, need not be remembered.
            state
                .given_back
                .retain(|key, epoch| view.entries.get(key).is_some_and(|entry| entry.epoch == *epoch));
        }
        view.given_back.clone_from(&state.given_back);
        state.view = Arc::new(view);
        state.generation += 1;
        if is_news {
            state.listeners.iter().for_each(|heard| heard());
        }
        drop(state);
        self.shared.changed.notify_all();
    }

    fn complain(&self, error: &StoreError) {
        let mut state = self.shared.state();
        if state.view.trouble.is_none() {
            tracing::warn!(%error, "trouble with the lease store");
        }
        let mut view = (*state.view).clone();
        view.trouble = Some(error.to_string());
        view.troubles += 1;
        state.view = Arc::new(view);
        state.generation += 1;
        drop(state);
        self.shared.changed.notify_all();
    }

    fn end(&mut self) {
        let changes = std::mem::take(&mut self.shared.state().changes);
        for Change { answered, .. } in changes {
            answered(Err(StoreError::Unreachable("the lease of this process has ended".into())));
        }
        if self.lease != 0
            && let Err(error) = self.leave_list().and_then(|()| self.store.end(self.lease))
        {
            tracing::warn!(%error, "the process could not give its lease back: others wait until it ends");
            return;
        }
        if let Some(own) = &mut self.own {
            // A number that is left only costs the next process one question.
            let _ = own.write(0);
        }
    }
}

#[cfg(test)]
mod tests;
