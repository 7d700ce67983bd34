//! `SHOW SESSIONS`, `SHOW PINS`.

use std::sync::Arc;

use delphinus_net::rt;
use delphinus_session::{SessionInfo, Told};
use delphinus_sql::{Backslash, LexOptions, digest};
use delphinus_state::{Pin, PinReason};

use super::Call;
use crate::answer::{Answer, Refused};
use crate::cluster::ClusterView;
use crate::table::{Table, Value, text};
use crate::time::{moment, seconds_since};

const SESSIONS: [&str; 12] = [
    "#id",
    "user",
    "host",
    "db",
    "state",
    "#time_s",
    "backend",
    "#backend_thread_id",
    "pinned",
    "in_transaction",
    "statement",
    "cluster",
];
const PINS: [&str; 8] =
    ["#session", "user", "backend", "reason", "since", "#pinned_s", "statement", "cluster"];

pub(super) async fn show(call: &Call<'_>) -> Result<Answer, Refused> {
    let registry = &call.console.parts.registry;
    let sessions = registry.list();
    let told = call.console.told(&sessions).await;
    let now_s = registry.clock_s();
    let rows =
        sessions.iter().map(|info| session(info, told.get(&info.id), call.console.cluster_of(info), now_s));
    Ok(Answer::Rows(Table::new(SESSIONS).with(rows)))
}

fn session(info: &Arc<SessionInfo>, told: Option<&Told>, cluster: &ClusterView, now_s: u32) -> Vec<Value> {
    let place = info.place();
    let pin = info.pin();
    let backend = place.map(|(backend, _)| backend).or_else(|| told?.backend);
    let state = match place {
        Some(_) => "query",
        None if info.is_waiting() => "waiting",
        None => "sleep",
    };
    let in_transaction = match (told, &pin) {
        (Some(told), _) => told.is_in_transaction,
        (None, pin) => pin.as_ref().is_some_and(|pin| pin.reason == PinReason::Transaction),
    };
    vec![
        text(info.id.0),
        text(info.user()),
        text(&info.host),
        info.schema().map(|schema| schema.to_string()),
        text(state),
        text(info.since_s(now_s)),
        backend.and_then(|backend| Some(cluster.reader.load().backend(backend)?.name.to_string())),
        place.map(|(_, thread)| thread.id.to_string()),
        pin.map(|pin| pin.reason.as_str().to_owned()),
        text(if in_transaction { "YES" } else { "NO" }),
        told.and_then(|told| told.statement.clone()),
        text(&cluster.name),
    ]
}

pub(super) async fn show_pins(call: &Call<'_>) -> Result<Answer, Refused> {
    let sessions = call.console.parts.registry.list();
    let told = call.console.told(&sessions).await;
    let rows = sessions.iter().flat_map(|info| pins(info, told.get(&info.id), call.console.cluster_of(info)));
    Ok(Answer::Rows(Table::new(PINS).with(rows)))
}

/// All pins of a session that has answered, the oldest of one that has not.
fn pins(info: &Arc<SessionInfo>, told: Option<&Told>, cluster: &ClusterView) -> Vec<Vec<Value>> {
    let snapshot = cluster.reader.load();
    let place = info.place().map(|(backend, _)| backend);
    let backend = place.or_else(|| told?.backend).and_then(|backend| snapshot.backend(backend));
    let row = |pin: &Pin, statement: String| {
        let now = rt::now();
        vec![
            text(info.id.0),
            text(info.user()),
            backend.map(|backend| backend.name.to_string()),
            text(pin.reason.as_str()),
            text(moment(pin.since, now)),
            text(seconds_since(pin.since, now)),
            text(statement),
            text(&cluster.name),
        ]
    };
    match told {
        Some(told) => told.pins.iter().map(|pin| row(pin, pin.statement.to_string())).collect(),
        None => info.pin().iter().map(|pin| row(pin, without_literals(&pin.statement))).collect(),
    }
}

/// A statement without its literals, read without knowing its session: where it could be read in two ways, nothing of it
/// is shown.
fn without_literals(statement: &str) -> String {
    let [one, other] = [Backslash::Escapes, Backslash::Literal].map(|backslash| {
        let mut out = Vec::new();
        digest(statement.as_bytes(), LexOptions { backslash, ..LexOptions::default() }, &mut out);
        String::from_utf8_lossy(&out).into_owned()
    });
    if one == other { one } else { "?".to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_literal_is_shown_however_backslashes_are_meant() {
        assert_eq!(without_literals("SELECT GET_LOCK('secret', 10)"), "SELECT GET_LOCK(?, ...)");
        assert_eq!(without_literals("SET @a = 'x\\', @b = 'secret'"), "?");
        assert_eq!(without_literals("SET @a = 'cut off in the mid"), "SET @a = ?");
    }
}
