//! What others want of a session while it waits: they ask what it does, or end what it runs.

use delphinus_clients::{Calls, Registry};

use crate::hold::Held;

/// Does what others want of the session; `statement` is asked for what it runs. Returns what they want.
pub(crate) fn attend(held: &Held, registry: &Registry, statement: impl FnOnce() -> Option<String>) -> Calls {
    let activity = &held.activity;
    let calls = activity.take_calls();
    if calls.asks() {
        registry.answer(activity.id, statement);
    }
    // With its session its connection is killed: see `Doing::Killed`.
    if calls.kills_query() && !activity.is_killed() {
        held.end_statement();
    }
    calls
}
