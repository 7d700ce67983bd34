//! `SHOW BACKENDS`, `SET BACKEND`.

use delphinus_config::Rows;
use delphinus_net::{Spot, rt};
use delphinus_pool::{Budget, left_to_others};
use delphinus_topology::{Backend, Wish};

use super::{Call, config};
use crate::answer::{Answer, Refused};
use crate::cluster::ClusterView;
use crate::table::{Table, Value, text};
use crate::time::moment;

const COLUMNS: [&str; 19] = [
    "name",
    "address",
    "role",
    "state",
    "since",
    "reason",
    "#weight",
    "#connections",
    "#idle",
    "#max_connections",
    "#reserved_connections",
    "#server_max_connections",
    "#server_wait_timeout_s",
    "#lag_ms",
    "read_only",
    "warning",
    "cluster",
    "lag_source",
    "origin",
];

pub(super) async fn show(call: &Call<'_>) -> Result<Answer, Refused> {
    let mut rows = Vec::new();
    for (_, cluster) in call.console.clusters() {
        rows.extend(of_cluster(cluster).await);
    }
    Ok(Answer::Rows(Table::new(COLUMNS).with(rows)))
}

async fn of_cluster(cluster: &ClusterView) -> Vec<Vec<Value>> {
    let census = cluster.census().await;
    let snapshot = cluster.reader.load();
    // Where writes have stopped, who looks here has to see it.
    let no_writer = snapshot.primary().is_none().then(|| format!("no writes: {}", snapshot.why_no_primary()));
    let row = |backend: &Backend| {
        let of_workers = census.iter().flatten().filter_map(|worker| worker.get(backend.id.index()));
        let idle: u32 = of_workers.flat_map(|pool| &pool.users).map(|one| one.idle).sum();
        let (place, budget) = cluster.backends.get(backend.id.index())?;
        let spot = place.spot();
        let mut row =
            vec![text(&backend.name), spot.address.as_ref().and_then(text), text(backend.role.as_str())];
        row.extend(state(backend, budget.open()));
        let lag_ms = backend.lag.map(|lag| lag.as_millis().to_string());
        let read_only =
            backend.facts.as_ref().and_then(|_| text(if backend.read_only { "YES" } else { "NO" }));
        row.extend([text(backend.weight), text(budget.open()), text(idle), text(budget.max())]);
        row.extend([
            text(budget.reserved()),
            backend.limits.map(|limits| limits.max_connections.to_string()),
            backend.limits.map(|limits| limits.wait_timeout_s.to_string()),
            lag_ms,
            read_only,
            warning(budget, backend).or_else(|| no_writer.clone().filter(|_| backend.takes_statements())),
            text(&cluster.name),
            backend.lag_source.map(|source| source.as_str().to_owned()),
            text(origin(backend, &spot)),
        ]);
        Some(row)
    };
    snapshot.present().filter_map(row).collect()
}

/// How it has come to be a backend.
fn origin(backend: &Backend, spot: &Spot) -> String {
    let origin = match backend.origin.found() {
        Some(found) => format!("found, named by {}", found.by),
        None => "configured".to_owned(),
    };
    match spot.ip {
        Some(ip) => format!("{origin}; its name leads to {ip}"),
        None => origin,
    }
}

/// Where more is configured than the server gives.
pub(super) fn warning(budget: &Budget, backend: &Backend) -> Value {
    let limits = backend.limits?;
    if budget.max() >= budget.configured() {
        return None;
    }
    Some(format!(
        "max_connections = {} is configured; the server has {}, of which {} are left to others",
        budget.configured(),
        limits.max_connections,
        left_to_others(limits.max_connections)
    ))
}

/// State, since when, and why.
fn state(backend: &Backend, open: u32) -> [Value; 3] {
    let now = rt::now();
    let health = backend.health.reason().map(ToString::to_string);
    let fault = backend.fault.as_ref().map(|fault| format!("{}: {}", fault.kind(), fault.text()));
    match backend.wish {
        Wish::Offline { since } => {
            let word = if open > 0 { "draining" } else { "maintenance" };
            let also = health.or(fault).map(|text| format!("; {text}")).unwrap_or_default();
            [text(word), text(moment(since, now)), Some(format!("set OFFLINE by an operator{also}"))]
        }
        Wish::Online => {
            let since = backend.health.since().map(|since| moment(since, now));
            [text(backend.health.as_str()), since, health.or(fault)]
        }
    }
}

pub(super) async fn set(call: &Call<'_>) -> Result<Answer, Refused> {
    let [name, word] = call.words else { return config::alter(call, Rows::Backend, "SET BACKEND").await };
    let now = rt::now();
    let wish = if word.is("OFFLINE") {
        Wish::Offline { since: now }
    } else if word.is("ONLINE") {
        Wish::Online
    } else {
        return config::alter(call, Rows::Backend, "SET BACKEND").await;
    };
    // Names are unique over all clusters.
    let has_it = |cluster: &ClusterView| cluster.backend_names().iter().any(|known| **known == *name.text);
    if let Some((_, cluster)) = call.console.clusters().find(|(_, cluster)| has_it(cluster)) {
        return set_in(call, cluster, (&name.text, wish)).await;
    }
    let known: Vec<_> = call.console.clusters().flat_map(|(_, cluster)| cluster.backend_names()).collect();
    Err(Refused::because(format!("there is no backend '{}'; there are {}", name.text, known.join(", "))))
}

async fn set_in(
    call: &Call<'_>,
    cluster: &ClusterView,
    (name, wish): (&str, Wish),
) -> Result<Answer, Refused> {
    let snapshot = cluster.reader.load();
    let Some(backend) = snapshot.named(name) else {
        return Err(Refused::because(format!("there is no backend '{name}'")));
    };
    let word = if wish.is_offline() { "OFFLINE" } else { "ONLINE" };
    let caller = call.caller;
    tracing::warn!(
        admin.user = %caller.user, client.host = %caller.host, backend = %backend.name, wish = word, "SET BACKEND"
    );
    if !cluster.reader.wish(backend.id, rt::now(), wish).await {
        return Err(Refused::because("the proxy stops"));
    }
    // Only then is nothing new sent there, or everything that is wanted.
    if !cluster.followed(backend.id, wish.is_offline()).await {
        return Err(Refused::because("a worker has not followed yet; SHOW BACKENDS tells when it has"));
    }
    Ok(Answer::Done)
}
