//! `KILL`.

use delphinus_clients::ClientConnId;

use super::{Call, usage_of};
use crate::answer::{Answer, Refused};

pub(super) fn kill(call: &Call<'_>) -> Result<Answer, Refused> {
    let (ends_session, id) = match call.words {
        [id] => (true, id),
        [word, id] if word.is("CONNECTION") => (true, id),
        [word, id] if word.is("QUERY") => (false, id),
        _ => return Err(usage_of("KILL")),
    };
    let id: u64 = id.text.parse().map_err(|_| usage_of("KILL"))?;
    kill_session(call, id, ends_session)
}

/// Ends a session, or what it runs. It does so itself, as soon as it can: this returns before.
fn kill_session(call: &Call<'_>, id: u64, ends_session: bool) -> Result<Answer, Refused> {
    let registry = &call.console.parts.registry;
    let found = u32::try_from(id).ok().and_then(|id| registry.find(ClientConnId(id)));
    let Some(victim) = found else {
        return Err(Refused { code: 1094, state: *b"HY000", text: format!("Unknown thread id: {id}") });
    };
    let caller = call.caller;
    tracing::warn!(
        admin.user = %caller.user, client.host = %caller.host, session.id = id, session.user = %victim.user(),
        ends_session, "KILL"
    );
    victim.kill_from_outside(ends_session);
    Ok(Answer::Done)
}
