//! Keys that this process wants, and those that it gives back.

use std::time::Instant;

use super::{Keeper, State, failsafe};
use crate::clock::boot_now;
use crate::store::{Claimed, StoreError};
use crate::view::View;

impl Keeper {
    pub(super) fn give_back(&mut self) -> Result<bool, StoreError> {
        let (view, given_back) = {
            let state = self.shared.state();
            (state.view.clone(), state.given_back.clone())
        };
        let mut has_changed = false;
        for (key, epoch) in given_back {
            if view.entries.get(&key).is_some_and(|entry| entry.epoch == epoch) {
                self.store.release(&key, epoch)?;
                self.shared.state().taken.remove(&key);
                has_changed = true;
                if self.puts_off() {
                    break;
                }
            }
        }
        Ok(has_changed)
    }

    pub(super) fn claim(&mut self) -> Result<bool, StoreError> {
        let (view, wants) = {
            let state = self.shared.state();
            (state.view.clone(), state.wants.clone())
        };
        let mut has_changed = false;
        if self.lease == 0 {
            return Ok(false);
        }
        let mut refused = None;
        for (key, value) in wants {
            if self.begins_to_take(&view, (&key, &value)) {
                match self.claim_one(&key, &value) {
                    Ok(()) => {}
                    // That is about this key: others can be had all the same.
                    Err(error @ StoreError::Refused(_)) => refused = Some(error),
                    Err(error) => return Err(error),
                }
                has_changed = true;
                if self.puts_off() {
                    break;
                }
            }
        }
        if let Some(error) = refused {
            self.list()?;
            return Err(error);
        }
        Ok(has_changed)
    }

    /// True if the rest has to wait for the next turn: a store that answers late must not keep this process from saying that it lives.
    pub(super) fn puts_off(&self) -> bool {
        let is_due = Instant::now() >= self.next_renewal;
        if is_due {
            self.shared.state().bell = true;
        }
        is_due
    }

    /// True if the key may be asked for. From now on nothing is promised about it: a promise comes before that, or is not given.
    fn begins_to_take(&self, view: &View, (key, value): (&str, &str)) -> bool {
        let mut state = self.shared.state();
        let is_open = match view.entries.get(key) {
            None => failsafe::may_take(&state, (key, value), boot_now()),
            Some(entry) => view.held(key).is_some() && entry.value != value,
        };
        if is_open {
            state.taken.insert(key.to_owned());
        }
        is_open
    }

    /// An answer that is lost says nothing: the key may be taken.
    pub(super) fn claim_one(&mut self, key: &str, value: &str) -> Result<(), StoreError> {
        self.shared.state().taken.insert(key.to_owned());
        if self.store.claim(key, value, self.lease)? == Claimed::Taken {
            self.shared.state().taken.remove(key);
        }
        Ok(())
    }
}

/// What a list says of claims whose answer was lost. A key that is another's was not taken: nothing keeps this member from a promise about it.
/// The claim may still be on its way, and arrive after that: a key of which another was promised meanwhile is given back.
pub(super) fn settle(state: &mut State, view: &View, member: Option<&str>) {
    let now = boot_now();
    for (key, entry) in view.entries.iter().filter(|(_, entry)| entry.lease != 0) {
        if entry.lease != view.lease {
            state.taken.remove(key);
        } else if member.is_some_and(|member| state.promises.is_promised(key, member, now)) {
            state.given_back.insert(key.clone(), entry.epoch);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use delphinus_topology::{Plea, Promises, Roll};

    use super::*;
    use crate::store::Entry;

    #[test]
    fn a_claim_without_an_answer_counts_until_another_has_the_key() {
        let (key, ttl) = ("vips/w", Duration::from_mins(1));
        let promises = Promises::begin(boot_now(), ttl, None);
        let mut state = State { promises, ..State::default() };
        state.taken.insert(key.to_owned());
        let mut view = View::default();
        view.lease = 7;
        settle(&mut state, &view, Some("a"));
        assert!(state.taken.contains(key), "it may have been made");
        let mut entry = Entry { key: key.to_owned(), value: "b".to_owned(), lease: 8, epoch: 3, revision: 3 };
        view.entries.insert(key.to_owned(), entry.clone());
        settle(&mut state, &view, Some("a"));
        assert!(!state.taken.contains(key));
        // It arrives when the other one stays by this member's promise.
        let (keys, members) = ([key.to_owned()], ["a", "b"].map(str::to_owned));
        let plea = Plea { holder: "b", keys: &keys, members: &members, ttl };
        let roll = Roll { list: members.clone().into(), ..Roll::default() };
        state.promises.promise(plea, Some(&roll), boot_now()).unwrap();
        (entry.lease, entry.epoch) = (7, 5);
        entry.value = "a".to_owned();
        view.entries.insert(key.to_owned(), entry);
        settle(&mut state, &view, Some("a"));
        assert_eq!(state.given_back.get(key), Some(&5));
        // It is free again, and the promise holds.
        failsafe::note(&mut state.promises, &view);
        view.entries.clear();
        failsafe::note(&mut state.promises, &view);
        assert!(state.promises.is_promised(key, "a", boot_now()));
    }
}
