//! Keys that this process wants, and those that it gives back.

use std::time::Instant;

use super::{Keeper, failsafe};
use crate::clock::boot_now;
use crate::store::{Claimed, StoreError};

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
        let shared = self.shared.clone();
        let _taking = shared.taking();
        let mut refused = None;
        for (key, value) in wants {
            let is_open = match view.entries.get(&key) {
                None => self.may_take(&key, &value),
                Some(entry) => view.held(&key).is_some() && entry.value != value,
            };
            if is_open {
                // An answer that is lost says nothing: it may be taken.
                self.shared.state().taken.insert(key.clone());
                match self.store.claim(&key, &value, self.lease) {
                    Ok(Claimed::Ours) => {}
                    Ok(Claimed::Taken) => {
                        self.shared.state().taken.remove(&key);
                    }
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

    /// Another member may have been promised it.
    fn may_take(&self, key: &str, value: &str) -> bool {
        failsafe::may_take(&self.shared.state(), (key, value), boot_now())
    }
}
