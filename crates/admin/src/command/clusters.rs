//! `SHOW CLUSTERS`.

use delphinus_topology::ClusterId;

use super::Call;
use crate::cluster::ClusterView;
use crate::table::{Table, Value, text};

const COLUMNS: [&str; 10] = [
    "name",
    "is_default",
    "primary",
    "version",
    "#backends",
    "#backends_up",
    "#sessions",
    "schemas",
    "listeners",
    "users",
];

pub(super) fn show(call: &Call<'_>) -> Table {
    let parts = &call.console.parts;
    let sessions = parts.registry.list();
    let (listeners, users) = ((parts.listeners)(), (parts.client_users)());
    let row = |(id, cluster): (ClusterId, &ClusterView)| {
        let snapshot = cluster.reader.load();
        let of_listeners = listeners.iter().filter(|one| one.cluster.as_deref() == Some(&*cluster.name));
        let of_users = users.iter().filter(|one| one.cluster.as_deref() == Some(&*cluster.name));
        vec![
            text(&cluster.name),
            text(if id == ClusterId::default() { "YES" } else { "NO" }),
            snapshot.writer().ok().map(|primary| primary.name.to_string()),
            snapshot.facts.as_ref().map(|facts| facts.version.clone()),
            text(snapshot.present().count()),
            text(snapshot.backends.iter().filter(|backend| backend.is_up()).count()),
            text(sessions.iter().filter(|info| info.cluster() == id).count()),
            list((cluster.schemas)().iter().map(String::as_str)),
            list(of_listeners.map(|one| one.name.as_str())),
            list(of_users.map(|one| one.name.as_str())),
        ]
    };
    Table::new(COLUMNS).with(call.console.clusters().map(row))
}

fn list<'a>(names: impl Iterator<Item = &'a str>) -> Value {
    let names: Vec<_> = names.collect();
    (!names.is_empty()).then(|| names.join(", "))
}
