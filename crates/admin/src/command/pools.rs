//! `SHOW POOLS`.

use super::Call;
use super::backends::warning;
use crate::answer::{Answer, Refused};
use crate::cluster::ClusterView;
use crate::table::{Table, Value, text};

const COLUMNS: [&str; 11] = [
    "#worker",
    "backend",
    "user",
    "#idle",
    "#held",
    "#in_use",
    "#waiting",
    "#max_connections",
    "#reserved_connections",
    "warning",
    "cluster",
];

pub(super) async fn show(call: &Call<'_>) -> Result<Answer, Refused> {
    let mut rows = Vec::new();
    for (_, cluster) in call.console.clusters() {
        rows.extend(of_cluster(cluster).await?);
    }
    Ok(Answer::Rows(Table::new(COLUMNS).with(rows)))
}

async fn of_cluster(cluster: &ClusterView) -> Result<Vec<Vec<Value>>, Refused> {
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
                    [one.idle, one.held, one.in_use, one.waiting].into_iter().chain(limits).map(text);
                let mut row = vec![text(worker), text(place.name()), text(one.user)];
                row.extend(counts);
                row.extend([warning(budget, backend), text(&cluster.name)]);
                rows.push(row);
            }
        }
    }
    Ok(rows)
}
