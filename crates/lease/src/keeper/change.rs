//! Changes of keys that stay: made in their order, some of them only by the right of a key that this process holds.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use super::{Answered, Keeper};
use crate::store::{Holding, StoreError};

/// So long a change waits for a store that does not answer. An operator who has given it up must not see it done after an outage.
const WAITS: Duration = Duration::from_secs(10);

/// Until when a change of now may wait.
pub(super) fn limit() -> Instant {
    Instant::now() + WAITS
}

/// Of a key that stays.
pub(super) struct Change {
    pub(super) key: String,
    /// None deletes it.
    pub(super) value: Option<String>,
    /// It is made only as long as this process holds that; `None`: in any case.
    pub(super) by: Option<Holding>,
    /// It is the list of members, lets this one in, and is made only where the list has that revision.
    pub(super) lets_in: Option<(String, u64)>,
    /// If it has not been sent by then, it is not any more.
    pub(super) until: Instant,
    /// Who hears of it.
    pub(super) answered: Answered,
}

impl Keeper {
    pub(super) fn change_what_stays(&mut self) -> Result<(), StoreError> {
        // Taken one by one: what is left after a mistake is tried in the next turn.
        while let Some(Change { key, value, by, lets_in, answered, .. }) =
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
        self.drop_those(|change| change.by.is_some(), overtaken);
    }

    /// What has waited for too long is not done any more.
    pub(super) fn drop_late_changes(&self, now: Instant) {
        self.drop_those(|change| now >= change.until, late);
    }

    fn drop_those(&self, is_one: impl Fn(&Change) -> bool, why: fn() -> StoreError) {
        let mut state = self.shared.state();
        let (dropped, others): (VecDeque<_>, VecDeque<_>) =
            std::mem::take(&mut state.changes).into_iter().partition(is_one);
        state.changes = others;
        drop(state);
        for change in dropped {
            (change.answered)(Err(why()));
        }
    }
}

fn late() -> StoreError {
    let limit = WAITS.as_secs();
    StoreError::Unreachable(format!(
        "nothing was changed within {limit} s, and nothing will be; try again when it does"
    ))
}

fn changed() -> StoreError {
    StoreError::Refused("the list of members has changed meanwhile; try again".into())
}

fn overtaken() -> StoreError {
    StoreError::Refused("this process no longer holds the key that gave it the right to write".into())
}
