//! `SHOW VERSION`, `SHOW LISTENERS`, `SHOW USERS`, `SHOW CONFIG`: what was set, never a secret.

use std::collections::BTreeMap;

use delphinus_net::rt;

use super::Call;
use crate::table::{Table, text};
use crate::time::{moment, seconds_since};

pub(super) fn show_version(call: &Call<'_>) -> Table {
    let console = call.console;
    let now = rt::now();
    let cluster = console.first_cluster();
    let served = cluster.reader.load().facts.as_ref().map(|facts| facts.version.clone());
    let rows = [
        ("version", text(env!("CARGO_PKG_VERSION"))),
        ("process_id", text(std::process::id())),
        ("started", text(moment(console.started, now))),
        ("uptime_s", text(seconds_since(console.started, now))),
        ("workers", text(cluster.workers.len())),
        ("backend_version", served),
    ];
    let rows = rows.map(|(item, value)| vec![text(item), value]);
    Table::new(["item", "value"]).with(rows)
}

pub(super) fn show_listeners(call: &Call<'_>) -> Table {
    let row = |one: &crate::ListenerRow| {
        vec![text(&one.name), text(&one.address), text(one.tls), text(one.serves), one.cluster.clone()]
    };
    let listeners = (call.console.parts.listeners)();
    let rows = listeners.iter().map(row);
    Table::new(["name", "address", "tls", "serves", "cluster"]).with(rows)
}

pub(super) fn show_users(call: &Call<'_>) -> Table {
    let parts = &call.console.parts;
    let mut connected: BTreeMap<String, u32> = BTreeMap::new();
    for info in parts.registry.list() {
        *connected.entry(info.user().to_string()).or_default() += 1;
    }
    let every = parts.registry.limits().per_user;
    let yes = |is: bool| text(if is { "YES" } else { "NO" });
    let mut rows = Vec::new();
    for user in (parts.client_users)() {
        let connections = connected.remove(&user.name).unwrap_or(0);
        let every = every.filter(|_| !user.is_connection_admin);
        let limit = user.max_connections.or(every).map(|limit| limit.to_string());
        let schema = user.default_schema.clone();
        rows.push(vec![
            text(&user.name),
            text("client"),
            text(user.authentication),
            schema,
            text(connections),
            limit,
            yes(user.is_connection_admin),
            user.cluster.clone(),
        ]);
    }
    // Whom the primary lets in without being listed.
    let others = connected.into_iter();
    rows.extend(others.map(|(name, count)| {
        let limit = every.map(|limit| limit.to_string());
        vec![text(name), text("client"), text("backend"), None, text(count), limit, yes(false), None]
    }));
    let operator = |user: &crate::AdminUser| {
        vec![text(&user.name), text(user.role.as_str()), text("password"), None, None, None, None, None]
    };
    rows.extend(call.console.users.iter().map(operator));
    let columns = [
        "name",
        "role",
        "authentication",
        "default_schema",
        "#connections",
        "#max_connections",
        "connection_admin",
        "cluster",
    ];
    Table::new(columns).with(rows)
}

pub(super) fn show_config(call: &Call<'_>) -> Table {
    let options = (call.console.parts.options.all)();
    let rows = options.into_iter().map(|(option, value)| vec![Some(option), Some(value)]);
    Table::new(["option", "value"]).with(rows)
}
