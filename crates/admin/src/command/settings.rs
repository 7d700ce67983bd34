//! The tables `version`, `listeners`, `users` and `config`: what was set, never a secret.

use std::collections::BTreeMap;

use delphinus_net::rt;
use delphinus_tables::{self as tables, Cell, Column};

use crate::console::Console;
use crate::source::{Cells, Provider, Source};
use crate::table::{number, text, yes_or_no};
use crate::time::{moment, seconds_since};
use crate::users::AdminRole;

pub(crate) static VERSION: Source = Source {
    table: tables::Table {
        name: "version",
        help: "The version, process and uptime of the proxy.",
        columns: &[Column::text("item", "What it is."), Column::text("value", "Its value.")],
        over: "",
    },
    role: AdminRole::Viewer,
    rows: Provider::Now(version),
};

fn version(console: &Console) -> Cells {
    let now = rt::now();
    let cluster = console.first_cluster();
    let served =
        cluster.and_then(|cluster| cluster.reader.load().facts.as_ref().map(|facts| facts.version.clone()));
    let rows = [
        ("version", text(env!("CARGO_PKG_VERSION"))),
        ("process_id", text(std::process::id())),
        ("started", text(moment(console.started, now))),
        ("uptime_s", text(seconds_since(console.started, now))),
        ("workers", text(cluster.map_or(0, |cluster| cluster.workers.len()))),
        ("backend_version", served.into()),
    ];
    rows.map(|(item, value)| vec![text(item), value]).to_vec()
}

pub(crate) static LISTENERS: Source = Source {
    table: tables::Table {
        name: "listeners",
        help: "The addresses where clients, operators and programs connect.",
        columns: &[
            Column::text("name", "Its name."),
            Column::text("address", "Address and port, or the path of a socket."),
            Column::text("tls", "disabled, optional or required."),
            Column::text("serves", "clients, operators or programs."),
            Column::text("cluster", "The cluster that all of its clients get to."),
        ],
        over: "",
    },
    role: AdminRole::Viewer,
    rows: Provider::Now(|console| {
        let row = |one: &crate::ListenerRow| {
            let texts = [text(&one.name), text(&one.address), text(one.tls), text(one.serves)];
            texts.into_iter().chain([one.cluster.clone().into()]).collect()
        };
        console.parts.proxy.listeners().iter().map(row).collect()
    }),
};

pub(crate) static USERS: Source = Source {
    table: tables::Table {
        name: "users",
        help: "The users of the configuration and those who are connected, clients and operators; never their passwords.",
        columns: &[
            Column::text("name", "The name."),
            Column::text("role", "client; viewer, operator or admin for operators."),
            Column::text("authentication", "What a password is checked against."),
            Column::text("default_schema", "The schema of clients that name none."),
            Column::integer("connections", "", "Sessions at the moment."),
            Column::integer("max_connections", "", "Most of these at the same time; NULL: no limit."),
            Column::text(
                "connection_admin",
                "YES where the user may take reserved places and end the sessions of others.",
            ),
            Column::text("cluster", "The cluster that the user gets to."),
            Column::text(
                "paused_since",
                "Since when its statements wait because of PAUSE .. USER, UTC; NULL: they do not.",
            ),
            Column::integer("paused_statements", "", "Statements of it that wait for RESUME."),
        ],
        over: "",
    },
    role: AdminRole::Viewer,
    rows: Provider::Now(users),
};

fn users(console: &Console) -> Cells {
    let parts = &console.parts;
    let (mut connected, now): (BTreeMap<String, [u32; 2]>, _) = (BTreeMap::new(), rt::now());
    for info in parts.registry.list() {
        let [sessions, paused] = connected.entry(info.user().to_string()).or_default();
        (*sessions, *paused) = (*sessions + 1, *paused + u32::from(info.is_paused()));
    }
    let pauses: Vec<_> = parts.clusters.iter().map(|cluster| (cluster.pauses.now)()).collect();
    let paused_since = |name: &str| -> Cell {
        let since = pauses.iter().filter_map(|pauses| pauses.since(Some(name))).min();
        since.map(|since| text(moment(since, now))).into()
    };
    let every = parts.registry.limits().per_user;
    let mut rows = Vec::new();
    for user in parts.proxy.client_users() {
        let [connections, paused] = connected.remove(&user.name).unwrap_or_default();
        let every = every.filter(|_| !user.is_connection_admin);
        rows.push(vec![
            text(&user.name),
            text("client"),
            text(user.authentication),
            user.default_schema.clone().into(),
            number(connections),
            user.max_connections.or(every).map(number).into(),
            yes_or_no(user.is_connection_admin),
            user.cluster.clone().into(),
            paused_since(&user.name),
            number(paused),
        ]);
    }
    // Whom the primary lets in without being listed.
    rows.extend(connected.into_iter().map(|(name, [count, paused])| {
        let (limit, by, since) = (every.map(number).into(), text("backend"), paused_since(&name));
        let mut row = vec![text(name), text("client"), by, Cell::Null, number(count), limit];
        row.extend([yes_or_no(false), Cell::Null, since, number(paused)]);
        row
    }));
    let operator = |user: &crate::AdminUser| {
        let mut row = vec![text(&user.name), text(user.role.as_str()), text("password")];
        row.resize(10, Cell::Null);
        row
    };
    rows.extend(console.users.borrow().iter().map(operator));
    rows
}

pub(crate) static CONFIG: Source = Source {
    table: tables::Table {
        name: "config",
        help: "Every option with the value that it has, secrets hidden.",
        columns: &[
            Column::text("option", "Its path; docs/reference/options.md explains it."),
            Column::text("value", "Its value; empty: nothing is written."),
        ],
        over: "",
    },
    role: AdminRole::Viewer,
    rows: Provider::Now(|console| {
        let options = console.parts.proxy.options();
        options.into_iter().map(|(option, value)| vec![option.into(), value.into()]).collect()
    }),
};
