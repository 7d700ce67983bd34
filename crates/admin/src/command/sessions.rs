//! `SHOW SESSIONS`, `SHOW PINS`.

use delphinus_clients::Activity;
use delphinus_net::rt;
use delphinus_state::Pin;

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
    let mut statements = call.console.statements(&sessions).await;
    let now_s = registry.clock_s();
    let rows = sessions
        .iter()
        .map(|one| session(one, statements.remove(&one.id), call.console.cluster_of(one), now_s));
    Ok(Answer::Rows(Table::new(SESSIONS).with(rows)))
}

fn session(info: &Activity, statement: Option<String>, cluster: &ClusterView, now_s: u32) -> Vec<Value> {
    let place = info.place();
    let hold = info.hold();
    let backend = place.map(|(backend, _)| backend).or(hold.backend);
    let state = match place {
        Some(_) => "query",
        None if info.is_waiting() => "waiting",
        None => "sleep",
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
        hold.pins.first().map(|pin| pin.reason.as_str().to_owned()),
        text(if hold.is_in_transaction { "YES" } else { "NO" }),
        statement,
        text(&cluster.name),
    ]
}

pub(super) fn show_pins(call: &Call<'_>) -> Table {
    let sessions = call.console.parts.registry.list();
    let rows = sessions.iter().flat_map(|one| pins(one, call.console.cluster_of(one)));
    Table::new(PINS).with(rows)
}

fn pins(info: &Activity, cluster: &ClusterView) -> Vec<Vec<Value>> {
    let (snapshot, hold) = (cluster.reader.load(), info.hold());
    let place = info.place().map(|(backend, _)| backend);
    let backend = place.or(hold.backend).and_then(|backend| snapshot.backend(backend));
    let row = |pin: &Pin| {
        let now = rt::now();
        vec![
            text(info.id.0),
            text(info.user()),
            backend.map(|backend| backend.name.to_string()),
            text(pin.reason.as_str()),
            text(moment(pin.since, now)),
            text(seconds_since(pin.since, now)),
            text(&pin.statement),
            text(&cluster.name),
        ]
    };
    hold.pins.iter().map(row).collect()
}
