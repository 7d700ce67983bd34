//! Keys that this process wants, and those that it gives back.

use std::time::Instant;

use super::{Keeper, failsafe};
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
