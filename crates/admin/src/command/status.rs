//! `SHOW STATUS`: what is counted, and what is so at the moment.

use delphinus_net::rt;
use delphinus_telemetry::Sample;

use super::Call;
use crate::table::{Table, text};
use crate::time::seconds_since;

pub(super) fn show(call: &Call<'_>) -> Table {
    let console = call.console;
    let registry = &console.parts.registry;
    let sessions = registry.list();
    let pinned = sessions.iter().filter(|info| info.pin().is_some()).count();
    let (limits, attendance) = (registry.limits(), registry.attendance());
    let gauge = |limit: Option<u32>| u64::from(limit.unwrap_or(0));
    let now = [
        ("delphinus_uptime_seconds", seconds_since(console.started, rt::now()), "Seconds since the start."),
        ("delphinus_clients", u64::from(registry.connected()), "Clients connected, logged in or not."),
        ("delphinus_clients_max", limits.max_connections.into(), "Most clients at the same time."),
        (
            "delphinus_clients_reserved",
            limits.reserved.into(),
            "Of these, kept for users with connection_admin.",
        ),
        (
            "delphinus_user_connections_max",
            gauge(limits.per_user),
            "Most clients of a user without a limit of its own; 0: no limit.",
        ),
        (
            "delphinus_address_connections_max",
            gauge(limits.per_address),
            "Most clients of an address; 0: no limit.",
        ),
        (
            "delphinus_address_connections",
            attendance.busiest_address.into(),
            "Clients of the address that has the most.",
        ),
        ("delphinus_logins_pending", attendance.logins.into(), "Clients that have not logged in yet."),
        (
            "delphinus_sessions_admin",
            attendance.administrators.into(),
            "Sessions of users with connection_admin.",
        ),
        ("delphinus_sessions", sessions.len() as u64, "Clients that have logged in."),
        ("delphinus_sessions_pinned", pinned as u64, "Sessions that keep their backend connection."),
        ("delphinus_admin_connections", u64::from(console.open.get()), "Connections of operators."),
    ];
    let now = now.into_iter().chain(super::cache::gauges(call));
    let now = now.map(|(name, value, help)| vec![text(name), text(value), text(help)]);
    let counted = console.parts.counters.snapshot();
    let counted =
        counted.iter().map(|sample| vec![text(name(sample)), text(sample.value), text(sample.help)]);
    Table::new(["variable_name", "#value", "help"]).with(now).with(counted)
}

/// As Prometheus has it: what tells samples of one name apart stands in braces.
fn name(sample: &Sample) -> String {
    match sample.label {
        Some((label, value)) => format!("{}{{{label}=\"{value}\"}}", sample.name),
        None => sample.name.to_owned(),
    }
}
