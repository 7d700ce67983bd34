//! The table `pools`.

use delphinus_tables::{Column, Table};

use super::backends::warning;
use crate::answer::Refused;
use crate::cluster::ClusterView;
use crate::console::Console;
use crate::source::{Cells, Provider, Source};
use crate::table::{number, text};
use crate::users::AdminRole;

pub(crate) static POOLS: Source = Source {
    table: Table {
        name: "pools",
        help: "Backend connections by worker, backend and user.",
        columns: &[
            Column::integer("worker", "", "The worker, from 0 on."),
            Column::text("backend", "The backend."),
            Column::text("user", "The user that the connections are logged in as."),
            Column::integer("idle", "", "Connections that no session uses."),
            Column::integer("held", "", "Of these, connections held for the session that used them last."),
            Column::integer("in_use", "", "Connections that run something, or that a session is pinned to."),
            Column::integer("waiting", "", "Clients that wait for a connection."),
            Column::integer("max_connections", "", "Most connections to the backend, over all workers."),
            Column::integer("reserved_connections", "", "Of these, kept for users with connection_admin."),
            Column::text("warning", "Set where the server gives less than is configured."),
            Column::text("cluster", "The cluster of the backend."),
        ],
        over: "",
    },
    role: AdminRole::Viewer,
    rows: Provider::Asking(|console, _| Box::pin(rows(console))),
};

async fn rows(console: &Console) -> Result<Cells, Refused> {
    let mut rows = Vec::new();
    for (_, cluster) in console.clusters() {
        rows.extend(of_cluster(cluster).await?);
    }
    Ok(rows)
}

async fn of_cluster(cluster: &ClusterView) -> Result<Cells, Refused> {
    let snapshot = cluster.reader.load();
    let mut rows = Vec::new();
    for (worker, census) in cluster.census().await.into_iter().enumerate() {
        let Some(census) = census else {
            return Err(Refused::because(format!("worker {worker} does not answer")));
        };
        let backends = cluster.backends.iter().zip(&snapshot.backends);
        for (((place, budget), backend), pool) in backends.zip(census) {
            for one in pool.users {
                let limits = [budget.max(), budget.reserved()];
                let counts =
                    [one.idle, one.held, one.in_use, one.waiting].into_iter().chain(limits).map(number);
                let mut row = vec![number(worker), text(place.name()), text(one.user)];
                row.extend(counts);
                row.extend([warning(budget, backend).into(), text(&cluster.name)]);
                rows.push(row);
            }
        }
    }
    Ok(rows)
}
