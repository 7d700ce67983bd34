//! Changes of keys that stay: made in their order, some of them only by the right of a key that this process holds.

use std::collections::VecDeque;

use super::{Answered, Keeper};
use crate::store::{Holding, StoreError};

/// Of a key that stays.
pub(super) struct Change {
    pub(super) key: String,
    /// None deletes it.
    pub(super) value: Option<String>,
    /// It is made only as long as this process holds that; `None`: in any case.
    pub(super) by: Option<Holding>,
    /// It is the list of members, lets this one in, and is made only where the list has that revision.
    pub(super) lets_in: Option<(String, u64)>,
    /// Who hears of it.
    pub(super) answered: Answered,
}

impl Keeper {
    pub(super) fn change_what_stays(&mut self) -> Result<(), StoreError> {
        // Taken one by one: what is left after a mistake is tried in the next turn.
        while let Some(Change { key, value, by, lets_in, answered }) =
            { self.shared.state().changes.pop_front() }
        {
            if let Some((member, _)) = &lets_in
                && let Err(error) = self.begin_to_let_in(member)
            {
                answered(Err(error));
                continue;
            }
            let done = match (&lets_in, &by, &value) {
                (Some((_, seen)), _, value) => self.swap_list(value.as_deref().unwrap_or_default(), *seen),
                (None, Some(by), value) => self.store.write_as(&key, value.as_deref(), by),
                (None, None, Some(value)) => self.store.put(&key, value).map(|()| true),
                (None, None, None) => self.store.delete(&key).map(|()| true),
            };
            match done {
                Ok(true) => answered(Ok(())),
                Ok(false) if lets_in.is_some() => answered(Err(changed())),
                Ok(false) => answered(Err(overtaken())),
                Err(error) => {
                    self.has_failed = true;
                    answered(Err(error.clone()));
                    return Err(error);
                }
            }
            if self.puts_off() {
                break;
            }
        }
        Ok(())
    }

    /// What was to be done by the right of a key is not done any more: the keys are gone.
    pub(super) fn drop_changes(&self) {
        let mut state = self.shared.state();
        let (guarded, others): (VecDeque<_>, VecDeque<_>) =
            std::mem::take(&mut state.changes).into_iter().partition(|change| change.by.is_some());
        state.changes = others;
        drop(state);
        for change in guarded {
            (change.answered)(Err(overtaken()));
        }
    }
}

fn changed() -> StoreError {
    StoreError::Refused("the list of members has changed meanwhile; try again".into())
}

fn overtaken() -> StoreError {
    StoreError::Refused("this process does not hold the key any more by whose right it wrote".into())
}
