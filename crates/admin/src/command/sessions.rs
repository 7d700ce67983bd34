//! The tables `sessions`, `pins` and `waiters`.

use std::collections::HashMap;
use std::sync::Arc;

use delphinus_clients::Activity;
use delphinus_net::rt;
use delphinus_state::Pin;
use delphinus_tables::{Cell, Column, Reads, Table};

use crate::answer::Refused;
use crate::cluster::ClusterView;
use crate::console::Console;
use crate::source::{Cells, Provider, Source};
use crate::table::{number, text, yes_or_no};
use crate::time::{moment, seconds_since};
use crate::users::AdminRole;

pub(crate) static SESSIONS: Source = Source {
    table: Table {
        name: "sessions",
        help: "The clients that have logged in.",
        columns: &[
            Column::integer("id", "", "Its id, as in CONNECTION_ID() and KILL."),
            Column::text("user", "Its user."),
            Column::text("host", "Where the client comes from."),
            Column::text("db", "The schema that it is in."),
            Column::text(
                "state",
                "query: a statement runs on a backend; waiting: a command has no backend connection yet; paused: it waits for RESUME; sleep.",
            ),
            Column::integer("time_s", "s", "The time since its last command began."),
            Column::text("backend", "Where its statement runs, or the backend that it is pinned to."),
            Column::integer("backend_thread_id", "", "The connection there, while a statement runs."),
            Column::text("pinned", "The oldest reason why it keeps its connection; the table pins has all."),
            Column::text("in_transaction", "YES while a transaction is open."),
            Column::text("statement", "The statement that runs, without literals."),
            Column::text("cluster", "Its cluster."),
        ],
        over: "",
    },
    role: AdminRole::Viewer,
    rows: Provider::Asking(|console, reads| Box::pin(rows(console, reads))),
};

pub(crate) static PINS: Source = Source {
    table: Table {
        name: "pins",
        help: "Why sessions keep their backend connection.",
        columns: &[
            Column::integer("session", "", "The id of the session."),
            Column::text("user", "Its user."),
            Column::text("backend", "The backend of the connection."),
            Column::text("reason", "Why the session keeps it; docs/pinning.md has the reasons."),
            Column::text("since", "Since when, UTC."),
            Column::integer("pinned_s", "s", "For how long."),
            Column::text("statement", "Because of which statement, without literals."),
            Column::text("cluster", "The cluster of the session."),
        ],
        over: "",
    },
    role: AdminRole::Viewer,
    rows: Provider::Now(all_pins),
};

pub(crate) static WAITERS: Source = Source {
    table: Table {
        name: "waiters",
        help: "Sessions with a command that has no backend connection yet. They wait for a free one of the pool, for a new one, \
               for a primary, or for RESUME; pools, backends and pauses tell which.",
        columns: &[
            Column::integer("session", "", "The id of the session."),
            Column::text("user", "Its user."),
            Column::text("host", "Where the client comes from."),
            Column::text("db", "The schema that it is in."),
            Column::integer("waiting_s", "s", "For how long its command has lasted."),
            Column::text("cluster", "Whose connection it waits for."),
        ],
        over: "",
    },
    role: AdminRole::Viewer,
    rows: Provider::Now(waiters),
};

async fn rows(console: &Console, reads: Option<&Reads>) -> Result<Cells, Refused> {
    let registry = &console.parts.registry;
    let sessions = registry.list();
    // Sessions that run something are rung for their statement, and some answer late: only for those who read it.
    let mut statements = match reads {
        Some(reads) if !reads.column("sessions", "statement") => HashMap::new(),
        _ => console.statements(&sessions).await,
    };
    let now_s = registry.clock_s();
    let row = |one: &Arc<Activity>| session(one, statements.remove(&one.id), console.cluster_of(one), now_s);
    Ok(sessions.iter().map(row).collect())
}

fn waiters(console: &Console) -> Cells {
    let registry = &console.parts.registry;
    let now_s = registry.clock_s();
    let row = |one: &Arc<Activity>| {
        vec![
            number(one.id.0),
            text(one.user()),
            text(&one.host),
            one.schema().map(text).into(),
            number(one.since_s(now_s)),
            text(&console.cluster_of(one).name),
        ]
    };
    registry.list().iter().filter(|one| one.is_waiting()).map(row).collect()
}

fn session(info: &Activity, statement: Option<String>, cluster: &ClusterView, now_s: u32) -> Vec<Cell> {
    let place = info.place();
    let hold = info.hold();
    let backend = place.map(|(backend, _)| backend).or(hold.backend);
    let state = match place {
        Some(_) => "query",
        None if info.is_paused() => "paused",
        None if info.is_waiting() => "waiting",
        None => "sleep",
    };
    vec![
        number(info.id.0),
        text(info.user()),
        text(&info.host),
        info.schema().map(text).into(),
        text(state),
        number(info.since_s(now_s)),
        backend.and_then(|backend| Some(text(&cluster.reader.load().backend(backend)?.name))).into(),
        place.map(|(_, thread)| number(thread.id)).into(),
        hold.pins.first().map(|pin| pin.reason.label()).into(),
        yes_or_no(hold.is_in_transaction),
        statement.into(),
        text(&cluster.name),
    ]
}

fn all_pins(console: &Console) -> Cells {
    let sessions = console.parts.registry.list();
    sessions.iter().flat_map(|one| pins(one, console.cluster_of(one))).collect()
}

fn pins(info: &Activity, cluster: &ClusterView) -> Cells {
    let (snapshot, hold) = (cluster.reader.load(), info.hold());
    let place = info.place().map(|(backend, _)| backend);
    let backend = place.or(hold.backend).and_then(|backend| snapshot.backend(backend));
    let row = |pin: &Pin| {
        let now = rt::now();
        vec![
            number(info.id.0),
            text(info.user()),
            backend.map(|backend| text(&backend.name)).into(),
            text(pin.reason.label()),
            text(moment(pin.since, now)),
            number(seconds_since(pin.since, now)),
            text(&pin.statement),
            text(&cluster.name),
        ]
    };
    hold.pins.iter().map(row).collect()
}
