//! A holder that has lost the store stays, as long as all other members promise to take nothing over. Nothing here is used without
//! `on_store_loss = "failsafe"`. Which members may take something, what is promised and when the list of members changes is decided by
//! `delphinus_topology::Promises`; here the store and the other members are asked.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::thread;
use std::time::Duration;

use delphinus_topology::{BootTime, MemberNames, Plea, Promises, Roll, Terms, may_stay};

use super::{Keeper, Lease, State};
use crate::clock::boot_now;
use crate::peers::Promise;
use crate::store::{Entry, StoreError};
use crate::view::View;

/// What is kept by promises: keys that only one member may have at a time, for clients' sake.
pub(super) const KEPT: &str = "vips/";
/// Where members are reached, each with its lease.
const REACH: &str = "reach/";
/// The members that may take something over.
pub(super) const LIST: &str = "failsafe";

/// Between two rounds of questions to the other members.
const BREATH: Duration = Duration::from_millis(200);
/// So many rounds are asked between two turns: one answer that is late must not end what all others would leave here, and the store may
/// answer again at any time.
const ROUNDS: usize = 2;
/// How often a process that stops tries to leave the list: others may change it at the same time.
const TRIES: usize = 3;

/// A change of the list of members, that is made only where it is as it was seen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListChange {
    pub(super) text: String,
    /// Who is let in by it.
    pub(super) member: String,
    pub(super) seen: u64,
}

/// The members, as the store has shown them last.
fn roll(view: &View, member: Option<&str>) -> Roll {
    let is_own = |(name, entry): (&str, &Entry)| Some(name) == member && entry.lease == view.lease;
    Roll {
        there: view.below(REACH).map(|(name, _)| name.to_owned()).collect(),
        list: view.entries.get(LIST).map(|entry| Roll::names(&entry.value)).unwrap_or_default(),
        is_there: view.lease != 0 && view.below(REACH).any(is_own),
    }
}

fn revision(view: &View) -> u64 {
    view.entries.get(LIST).map_or(0, |entry| entry.revision)
}

/// Takes in who holds what.
pub(super) fn note(promises: &mut Promises, view: &View) {
    let held = view.entries.iter().filter(|(key, entry)| key.starts_with(KEPT) && entry.lease != 0);
    promises.note(held.map(|(key, entry)| (key.clone(), entry.value.clone())), boot_now());
}

/// True if this member may take a key that is free.
pub(super) fn may_take(state: &State, (key, member): (&str, &str), now: BootTime) -> bool {
    // What operators want where is no reason: that may be a word of long ago.
    !key.starts_with(KEPT) || state.promises.may_take(key, member, &roll(&state.view, Some(member)), now)
}

impl State {
    /// All members that this process knows.
    fn members(&self) -> MemberNames {
        self.promises.members(&roll(&self.view, None))
    }

    /// Whether an operator may let a member in.
    fn may_let_in(&self, member: &str) -> Result<(), String> {
        if let Some((vip, entry)) = self.view.below(KEPT).find(|(_, entry)| entry.lease != 0) {
            let holder = &entry.value;
            return Err(format!(
                "{member} is new, and takes nothing over before a member of the list has let it in: {holder}, which has {vip}, does so; try again"
            ));
        }
        self.promises.may_let_in(boot_now())
    }
}

impl Lease {
    /// What has to be changed so that a member may take something at an operator's word. Nothing, if it may already.
    ///
    /// # Errors
    /// Why that is not for this member to say.
    pub fn let_in(&self, member: &str) -> Result<Option<ListChange>, String> {
        let state = self.shared.state();
        let mut list = roll(&state.view, None).list;
        if list.is_empty() || list.contains(member) {
            return Ok(None);
        }
        // Without that option there is nobody who lets others in, and nobody who stays by promises.
        if state.promises.is_on() {
            state.may_let_in(member)?;
        }
        list.insert(member.to_owned());
        let seen = revision(&state.view);
        Ok(Some(ListChange { text: Roll::text(&list), member: member.to_owned(), seen }))
    }

    /// Promises to take nothing over that another member holds, for as long as it asks.
    ///
    /// # Errors
    /// Why it cannot be promised.
    pub fn promise(&self, promise: &Promise, member: &str) -> Result<(), String> {
        let mut state = self.shared.state();
        if state.stops {
            return Err("this process stops".to_owned());
        }
        // Also one that is on its way to the store.
        if let Some(key) = promise.keys.iter().find(|key| state.taken.contains(*key)) {
            return Err(format!("{key} is held by {member}"));
        }
        let view = state.view.clone();
        let of_another = |key: &&String| {
            view.entries.get(*key).is_some_and(|entry| entry.lease != 0 && entry.value != promise.holder)
        };
        if let Some(key) = promise.keys.iter().find(of_another) {
            return Err(format!("{key} is held by another member"));
        }
        let plea = Plea {
            holder: &promise.holder,
            keys: &promise.keys,
            members: &promise.members,
            ttl: promise.ttl,
        };
        let roll = view.listed.is_some().then(|| roll(&view, None));
        state.promises.promise(plea, roll.as_ref(), boot_now())?;
        tracing::info!(holder = promise.holder, "the lease store is lost there: nothing of it is taken over");
        Ok(())
    }
}

impl Keeper {
    fn member(&self) -> Option<&str> {
        self.peers.as_ref().map(|peers| peers.settings.member.as_str())
    }

    /// Writes the list of members, where that is this one's affair. Called with a view that was listed a moment ago.
    pub(super) fn write_list(&mut self) -> Result<(), StoreError> {
        let Some(member) = self.member().map(str::to_owned) else { return Ok(()) };
        let (next, seen) = {
            let mut state = self.shared.state();
            let view = state.view.clone();
            let holds = view.below(KEPT).any(|(name, _)| view.held(&format!("{KEPT}{name}")).is_some());
            let roll = roll(&view, Some(&member));
            (state.promises.list_to_write(&member, holds, &roll, boot_now()), revision(&view))
        };
        let Some(next) = next else { return Ok(()) };
        if let Err(error) = self.remember() {
            tracing::warn!(%error, "cannot keep the names of members: no new one is let in");
            return Ok(());
        }
        self.swap_list(&Roll::text(&next), seen).map(drop)
    }

    /// An operator lets a member in: from now on nothing is promised to a holder that does not know it.
    ///
    /// # Errors
    /// Why not. It was safe when the operator said so, and may not be any more.
    pub(super) fn begin_to_let_in(&mut self, member: &str) -> Result<(), StoreError> {
        let mut state = self.shared.state();
        if state.promises.is_on() {
            let may = state.may_let_in(member).and_then(|()| state.promises.let_in(member, boot_now()));
            may.map_err(StoreError::Refused)?;
        }
        drop(state);
        let kept = self.remember();
        kept.map_err(|error| StoreError::Refused(format!("cannot keep the names of members: {error}")))
    }

    /// An answer, whichever it is, says that no change before it is on its way any more.
    pub(super) fn swap_list(&mut self, text: &str, seen: u64) -> Result<bool, StoreError> {
        let done = self.store.swap(LIST, text, seen)?;
        self.shared.state().promises.answered();
        Ok(done)
    }

    /// This process stops, and holds nothing any more: the list need not wait for it.
    pub(super) fn leave_list(&mut self) -> Result<(), StoreError> {
        let Some(member) = self.member().map(str::to_owned) else { return Ok(()) };
        for _ in 0..TRIES {
            self.list()?;
            let (view, next) = {
                let state = self.shared.state();
                let roll = roll(&state.view, Some(&member));
                (state.view.clone(), state.promises.list_to_leave(&member, &roll, boot_now()))
            };
            if view.below(KEPT).any(|(name, _)| view.held(&format!("{KEPT}{name}")).is_some()) {
                return Ok(());
            }
            let Some(next) = next else { return Ok(()) };
            // Before it is done: the next life of this process promises nothing before it has seen what has come of it.
            if let Some(own) = &mut self.own
                && let Err(error) = own.keep_members("")
            {
                tracing::warn!(%error, "cannot keep the names of members: this one stays in their list");
                return Ok(());
            }
            if self.swap_list(&Roll::text(&next), revision(&view))? {
                return Ok(());
            }
        }
        Ok(())
    }

    /// Keeps on disk which members this process knows: its next life may be asked for a promise before it has seen the store.
    pub(super) fn remember(&mut self) -> io::Result<()> {
        let (Some(own), true) = (&mut self.own, self.peers.is_some()) else { return Ok(()) };
        let state = self.shared.state();
        if state.view.listed.is_none() {
            return Ok(());
        }
        let members = state.members();
        drop(state);
        own.keep_members(&Roll::text(&members))
    }

    /// The store does not answer: asks all members, and stays if all of them promise.
    pub(super) fn ask_to_stay(&self) {
        let Some(member) = self.member().map(str::to_owned) else { return };
        for round in 1..=ROUNDS {
            let Some((keys, until)) = self.at_stake() else { return };
            if self.ask_once(&member, keys) || round == ROUNDS {
                return;
            }
            if until.since(boot_now()) <= patience(self.terms) + BREATH || self.shared.state().stops {
                return;
            }
            thread::sleep(BREATH);
        }
    }

    /// What would be lost, and when; nothing where promises do not help.
    fn at_stake(&self) -> Option<(Vec<String>, BootTime)> {
        let (view, now) = (self.shared.state().view.clone(), boot_now());
        let until = view.until().filter(|until| *until > now)?;
        let keys: Vec<_> = view
            .below(KEPT)
            .map(|(name, _)| format!("{KEPT}{name}"))
            .filter(|key| view.held(key).is_some() || view.is_kept(key, now))
            .collect();
        (!keys.is_empty()).then_some((keys, until))
    }

    /// True if it stays, or cannot by any answer.
    fn ask_once(&self, member: &str, keys: Vec<String>) -> bool {
        let Some(peers) = &self.peers else { return true };
        let (view, members) = {
            let state = self.shared.state();
            (state.view.clone(), state.members())
        };
        let others: BTreeSet<_> = members.iter().filter(|name| **name != member).cloned().collect();
        let is_listed = roll(&view, Some(member)).list.contains(member);
        if others.is_empty() || !is_listed {
            self.tell_stay(false, &others, &BTreeMap::new());
            return true;
        }
        let reach = |name: &String| {
            let address = view.entries.get(&format!("{REACH}{name}"));
            address.map(|entry| (name.clone(), entry.value.clone()))
        };
        let addresses: BTreeMap<_, _> = others.iter().filter_map(reach).collect();
        let promise = Promise {
            holder: member.to_owned(),
            ttl: self.terms.ttl,
            keys: keys.clone(),
            members: members.into_iter().collect(),
        };
        let answers = peers.ask(&addresses, &promise);
        let promised = |name: &str| answers.get(name).and_then(|answer| answer.as_ref().ok()).copied();
        let sure = self.terms.ttl.saturating_sub(self.terms.margin);
        let stays = may_stay(others.iter().map(String::as_str), promised, (boot_now(), sure));
        let first = others.iter().filter_map(|name| promised(name)).min().unwrap_or_default();
        self.tell_stay(stays, &others, &answers);
        if stays {
            self.stay(keys, first + sure);
        }
        stays || addresses.len() < others.len()
    }

    fn stay(&self, keys: Vec<String>, until: BootTime) {
        let mut state = self.shared.state();
        let mut view = (*state.view).clone();
        view.stay(keys, until);
        state.view = view.into();
        state.generation += 1;
        drop(state);
        self.shared.changed.notify_all();
    }

    fn tell_stay(
        &self,
        stays: bool,
        others: &BTreeSet<String>,
        answers: &BTreeMap<String, Result<BootTime, String>>,
    ) {
        if self.shared.state().told_stay.replace(stays) == Some(stays) {
            return;
        }
        if stays {
            tracing::warn!(members = ?others, "the lease store is lost; all members have promised to take nothing over");
            return;
        }
        let why = others.iter().find_map(|name| match answers.get(name) {
            Some(Ok(_)) => None,
            Some(Err(why)) => Some(format!("{name}: {why}")),
            None => Some(format!("{name}: it was not asked, or its address is not known")),
        });
        let why = why.unwrap_or_else(|| "there is no other member".to_owned());
        tracing::warn!(
            why,
            "the lease store is lost, and what is held here is given up unless all members promise in time"
        );
    }

    /// Takes again what this process keeps by promises and the store has forgotten, before anybody sees that it is free.
    pub(super) fn take_again(&mut self, entries: Vec<Entry>) -> Result<Vec<Entry>, StoreError> {
        let (view, mut wants) = {
            let state = self.shared.state();
            (state.view.clone(), state.wants.clone())
        };
        let now = boot_now();
        if let Some(member) = self.member() {
            // What the process before this one has taken is held without a wish.
            for key in view.kept(now) {
                wants.entry(key.clone()).or_insert_with(|| member.to_owned());
            }
        }
        if self.lease == 0 || !wants.keys().any(|key| view.is_kept(key, now)) {
            return Ok(entries);
        }
        // Another member may have been promised what is only wanted.
        let is_own = |key: &String| !key.starts_with(KEPT) || view.is_kept(key, now);
        let is_gone = |key: &String| !entries.iter().any(|entry| entry.key == *key);
        let gone: Vec<_> = wants.into_iter().filter(|(key, _)| is_own(key) && is_gone(key)).collect();
        if gone.is_empty() {
            return Ok(entries);
        }
        for (key, value) in gone {
            self.claim_one(&key, &value)?;
        }
        self.store.list()
    }
}

/// How long one round of questions may take.
pub(super) fn patience(terms: Terms) -> Duration {
    terms.patience().min(Duration::from_millis(700))
}
