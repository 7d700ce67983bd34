//! The table `clusters`.

use delphinus_net::rt;
use delphinus_tables::{Cell, Column, Table};
use delphinus_topology::ClusterId;

use crate::cluster::ClusterView;
use crate::console::Console;
use crate::source::{Cells, Provider, Source};
use crate::table::{number, text, yes_or_no};
use crate::time::moment;
use crate::users::AdminRole;

pub(crate) static CLUSTERS: Source = Source {
    table: Table {
        name: "clusters",
        help: "The clusters, and which clients get to each.",
        columns: &[
            Column::text("name", "Its name."),
            Column::text(
                "is_default",
                "YES for the default: clients get to it when nothing else chooses a cluster.",
            ),
            Column::text("primary", "The backend that takes writes; NULL: none does."),
            Column::text("version", "The version that clients are told."),
            Column::integer("backends", "", "Its backends."),
            Column::integer("backends_up", "", "Of these, those that answer."),
            Column::integer("sessions", "", "Sessions in it."),
            Column::text("schemas", "The schemas that choose it."),
            Column::text("listeners", "The listeners that choose it."),
            Column::text("users", "The users that choose it."),
            Column::text(
                "paused_since",
                "Since when its statements wait because of PAUSE, UTC; NULL: they do not.",
            ),
            Column::integer("paused_statements", "", "Statements in it that wait for RESUME."),
            Column::integer("number", "", "Its place in this table.").of(Column::NUMBER),
        ],
        over: "",
    },
    role: AdminRole::Viewer,
    rows: Provider::Now(rows),
};

fn rows(console: &Console) -> Cells {
    let (parts, now) = (&console.parts, rt::now());
    let sessions = parts.registry.list();
    let (listeners, users) = (parts.proxy.listeners(), parts.proxy.client_users());
    let row = |(id, cluster): (ClusterId, &ClusterView)| {
        let snapshot = cluster.reader.load();
        let of_listeners = listeners.iter().filter(|one| one.cluster.as_deref() == Some(&*cluster.name));
        let of_users = users.iter().filter(|one| one.cluster.as_deref() == Some(&*cluster.name));
        vec![
            text(&cluster.name),
            yes_or_no(id == ClusterId::default()),
            snapshot.writer().ok().map(|primary| primary.name.to_string()).into(),
            snapshot.facts.as_ref().map(|facts| facts.version.clone()).into(),
            number(snapshot.present().count()),
            number(snapshot.backends.iter().filter(|backend| backend.is_up()).count()),
            number(sessions.iter().filter(|info| info.cluster() == id).count()),
            list((cluster.schemas)().iter().map(String::as_str)),
            list(of_listeners.map(|one| one.name.as_str())),
            list(of_users.map(|one| one.name.as_str())),
            (cluster.pauses.now)().since(None).map(|since| text(moment(since, now))).into(),
            number(sessions.iter().filter(|info| info.cluster() == id && info.is_paused()).count()),
        ]
    };
    console.clusters().map(row).collect()
}

fn list<'a>(names: impl Iterator<Item = &'a str>) -> Cell {
    let names: Vec<_> = names.collect();
    (!names.is_empty()).then(|| names.join(", ")).into()
}
