//! A holder that has lost the store stays, as long as all other members promise to take nothing over; and what a member does that has
//! promised. Nothing here is used without `on_store_loss = "failsafe"`.
//!
//! Who the members are is a list in the store, written by whoever holds something. A member that is not in it takes nothing over, so
//! that a holder that cannot see the store need not know of those that have come since. Whoever has let a member in knows it, also in its
//! next life, and promises nothing to a holder that does not.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::time::Duration;

use delphinus_topology::{BootTime, may_stay};

use super::{Keeper, Lease, State};
use crate::clock::boot_now;
use crate::own_file::OwnFile;
use crate::peers::Promise;
use crate::store::{Entry, StoreError};
use crate::view::View;

/// What is kept by promises: keys that only one member may have at a time, for clients' sake.
const KEPT: &str = "vips/";
/// Where members are reached, each with its lease.
const REACH: &str = "reach/";
/// The members that may take something over.
pub(super) const LIST: &str = "failsafe";

/// So many promises are kept; there are not more members.
const MOST: usize = 64;

/// What this member has promised, and what it knows of the others.
#[derive(Debug, Default)]
pub(super) struct Promises {
    /// Before that nothing is taken: what this process's predecessor has promised may hold so long, and is not known.
    from: BootTime,
    /// Until when nothing of a holder is taken.
    given: BTreeMap<String, BootTime>,
    /// Who had each key last.
    last: BTreeMap<String, String>,
    /// The members that the process before this one knew; `None`: nobody knows which. It counts until the store was listed.
    before: Option<BTreeSet<String>>,
    /// Members that an operator's word lets in, until the list has them.
    let_in: BTreeSet<String>,
    /// It was said that this member stays, or cannot.
    pub(super) told: Option<bool>,
}

impl Promises {
    /// Remembers who holds what.
    pub(super) fn note(&mut self, entries: &BTreeMap<String, Entry>) {
        let held = entries.iter().filter(|(key, entry)| key.starts_with(KEPT) && entry.lease != 0);
        self.last.extend(held.map(|(key, entry)| (key.clone(), entry.value.clone())));
        let listed = entries.get(LIST).map(|entry| names(&entry.value)).unwrap_or_default();
        self.let_in.retain(|name| !listed.contains(name));
    }

    /// This process has just started; its own file says whom the one before it knew.
    pub(super) fn begin(&mut self, (now, ttl): (BootTime, Duration), own: Option<&OwnFile>) {
        self.from = now + ttl;
        self.before = own.and_then(OwnFile::members).map(names);
    }

    fn forbids(&self, key: &str, member: &str, now: BootTime) -> bool {
        if now < self.from {
            return true;
        }
        let holder = self.last.get(key).filter(|holder| *holder != member);
        holder.is_some_and(|holder| self.given.get(holder).is_some_and(|until| *until > now))
    }
}

/// True if this member may take a key that is free.
pub(super) fn may_take(state: &State, (key, member): (&str, &str), now: BootTime) -> bool {
    if !key.starts_with(KEPT) {
        return true;
    }
    let list = state.view.entries.get(LIST).map(|entry| names(&entry.value));
    // What operators want where is no reason: that may be a word of long ago.
    let is_listed = list.is_none_or(|list| list.is_empty() || list.contains(member));
    is_listed && !state.promises.forbids(key, member, now)
}

fn names(text: &str) -> BTreeSet<String> {
    text.split(',').filter(|name| !name.is_empty()).map(str::to_owned).collect()
}

/// The members that are there, and those that the list has.
fn known(view: &View) -> BTreeSet<String> {
    let mut known: BTreeSet<_> = view.below(REACH).map(|(name, _)| name.to_owned()).collect();
    known.extend(view.entries.get(LIST).map(|entry| names(&entry.value)).unwrap_or_default());
    known
}

impl State {
    /// All members that this process knows; an error: it may have known others.
    fn members(&self) -> Result<BTreeSet<String>, String> {
        let mut members = known(&self.view);
        members.extend(self.promises.let_in.iter().cloned());
        if self.view.listed.is_none() {
            let before = self.promises.before.as_ref();
            let before = before.ok_or("it has just started, and has not seen the lease store yet")?;
            members.extend(before.iter().cloned());
        }
        Ok(members)
    }
}

impl Lease {
    /// What has to be written, and where, so that a member may take something at an operator's word. Nothing, if it may already.
    ///
    /// # Errors
    /// Why that is not for this member to say.
    pub fn let_in(&self, member: &str) -> Result<Option<(&'static str, String)>, String> {
        let mut state = self.shared.state();
        let list = state.view.entries.get(LIST).map(|entry| names(&entry.value)).unwrap_or_default();
        if list.is_empty() || list.contains(member) {
            return Ok(None);
        }
        // Without that option there is nobody who lets others in, and nobody who stays by promises.
        if state.promises.from != BootTime::default() {
            if let Some((vip, entry)) = state.view.below(KEPT).find(|(_, entry)| entry.lease != 0) {
                let holder = &entry.value;
                return Err(format!(
                    "{member} is new, and takes nothing over before a holder has let it in: {holder}, which has {vip}, does so; try again"
                ));
            }
            let now = boot_now();
            if let Some((holder, _)) = state.promises.given.iter().find(|(_, until)| **until > now) {
                return Err(format!(
                    "{holder} has lost the lease store, and was promised that nothing is taken over"
                ));
            }
        }
        state.promises.let_in.insert(member.to_owned());
        let all: Vec<_> = list.iter().map(String::as_str).chain([member]).collect();
        Ok(Some((LIST, all.join(","))))
    }

    /// Promises to take nothing over that another member holds, for as long as it asks. Blocks while a key is being taken.
    ///
    /// # Errors
    /// Why it cannot be promised.
    pub fn promise(&self, promise: &Promise, member: &str) -> Result<(), String> {
        let _taking = self.shared.taking();
        let mut state = self.shared.state();
        if state.stops {
            return Err("this process stops".to_owned());
        }
        if let Some(key) = promise.keys.iter().find(|key| state.taken.contains(*key)) {
            return Err(format!("{key} is held by {member}"));
        }
        let of_another = |key: &&String| {
            state
                .view
                .entries
                .get(*key)
                .is_some_and(|entry| entry.lease != 0 && entry.value != promise.holder)
        };
        if let Some(key) = promise.keys.iter().find(of_another) {
            return Err(format!("{key} is held by another member"));
        }
        if let Some(other) = state.members()?.iter().find(|name| !promise.members.contains(name)) {
            return Err(format!("there is a member {other}, too"));
        }
        let now = boot_now();
        state.promises.given.retain(|_, until| *until > now);
        if state.promises.given.len() >= MOST {
            return Err("too many members ask for promises".to_owned());
        }
        for key in &promise.keys {
            state.promises.last.insert(key.clone(), promise.holder.clone());
        }
        state.promises.given.insert(promise.holder.clone(), now + promise.ttl);
        tracing::info!(holder = promise.holder, "the lease store is lost there: nothing of it is taken over");
        Ok(())
    }
}

impl Keeper {
    /// Writes the list of members, where this one holds something. Called with a view that was listed a moment ago.
    pub(super) fn write_list(&mut self) -> Result<(), StoreError> {
        if self.peers.is_none() {
            return Ok(());
        }
        let (view, is_bound) = {
            let state = self.shared.state();
            let now = boot_now();
            (state.view.clone(), state.promises.given.values().any(|until| *until > now))
        };
        let holds = view.below(KEPT).any(|(name, _)| view.held(&format!("{KEPT}{name}")).is_some());
        let there: Vec<_> = view.below(REACH).map(|(name, _)| name).collect();
        let text = there.join(",");
        // Whoever has promised something lets nobody in before that is over.
        if !holds || is_bound || view.entries.get(LIST).is_some_and(|entry| entry.value == text) {
            return Ok(());
        }
        self.listed.extend(there.iter().map(|name| (*name).to_owned()));
        if let Err(error) = self.remember() {
            tracing::warn!(%error, "cannot keep the names of members: no new one is let in");
            return Ok(());
        }
        self.store.put(LIST, &text)?;
        self.listed = there.iter().map(|name| (*name).to_owned()).collect();
        Ok(())
    }

    /// Keeps on disk which members this process knows: its next life may be asked for a promise before it has seen the store.
    pub(super) fn remember(&mut self) -> io::Result<()> {
        let (Some(own), true) = (&mut self.own, self.peers.is_some()) else { return Ok(()) };
        let state = self.shared.state();
        if state.view.listed.is_none() {
            return Ok(());
        }
        let mut members = known(&state.view);
        members.extend(state.promises.let_in.iter().chain(&self.listed).cloned());
        drop(state);
        own.keep_members(&members.into_iter().collect::<Vec<_>>().join(","))
    }

    /// The store does not answer: asks all members, and stays if all of them promise.
    pub(super) fn ask_to_stay(&mut self) {
        let Some(peers) = &self.peers else { return };
        let now = boot_now();
        let (view, let_in) = {
            let state = self.shared.state();
            (state.view.clone(), state.promises.let_in.clone())
        };
        let own = peers.settings.member.clone();
        let keys: Vec<_> = view
            .below(KEPT)
            .map(|(name, _)| format!("{KEPT}{name}"))
            .filter(|key| view.held(key).is_some() || view.is_kept(key, now))
            .collect();
        if keys.is_empty() || view.until().is_none_or(|until| until <= now) {
            return;
        }
        let mut members = known(&view);
        members.extend(self.listed.iter().cloned().chain(let_in));
        let others: BTreeSet<_> = members.iter().filter(|name| **name != own).cloned().collect();
        let reach = |name: &String| {
            let address = view.entries.get(&format!("{REACH}{name}"));
            address.map(|entry| (name.clone(), entry.value.clone()))
        };
        let addresses = others.iter().filter_map(reach).collect();
        let promise = Promise {
            holder: own,
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
        if self.shared.state().promises.told.replace(stays) == Some(stays) {
            return;
        }
        if stays {
            tracing::warn!(members = ?others, "the lease store is lost; all members have promised to take nothing over");
            return;
        }
        let why = others.iter().find_map(|name| match answers.get(name) {
            Some(Ok(_)) => None,
            Some(Err(why)) => Some(format!("{name}: {why}")),
            None => Some(format!("{name}: it is not known where it is reached")),
        });
        let why = why.unwrap_or_else(|| "there is no other member".to_owned());
        tracing::warn!(why, "the lease store is lost, and what is held here will be given up");
    }

    /// Takes again what this process keeps by promises and the store has forgotten, before anybody sees that it is free.
    pub(super) fn take_again(&mut self, entries: Vec<Entry>) -> Result<Vec<Entry>, StoreError> {
        let (view, wants) = {
            let state = self.shared.state();
            (state.view.clone(), state.wants.clone())
        };
        let now = boot_now();
        if self.lease == 0 || !wants.keys().any(|key| view.is_kept(key, now)) {
            return Ok(entries);
        }
        let is_gone = |key: &String| !entries.iter().any(|entry| entry.key == *key);
        let gone: Vec<_> = wants.into_iter().filter(|(key, _)| is_gone(key)).collect();
        if gone.is_empty() {
            return Ok(entries);
        }
        for (key, value) in gone {
            self.store.claim(&key, &value, self.lease)?;
        }
        self.store.list()
    }
}

/// How long one round of questions may take.
pub(super) fn patience(terms: delphinus_topology::Terms) -> Duration {
    terms.patience().min(Duration::from_millis(700))
}
