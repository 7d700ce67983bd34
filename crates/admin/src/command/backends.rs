//! The table `backends`, and `SET BACKEND`.

use std::sync::Arc;
use std::time::Duration;

use delphinus_clients::Activity;
use delphinus_config::Rows;
use delphinus_net::{Spot, rt};
use delphinus_pool::{Budget, left_to_others};
use delphinus_tables::{Cell, Column, Table};
use delphinus_topology::{Backend, ClusterId, Wish};

use super::pause::seconds;
use super::{Call, config, usage_of};
use crate::answer::{Answer, Refused};
use crate::cluster::ClusterView;
use crate::console::Console;
use crate::source::{Cells, Provider, Source};
use crate::table::{number, text, yes_or_no};
use crate::text::Word;
use crate::time::moment;
use crate::users::AdminRole;

pub(crate) static BACKENDS: Source = Source {
    table: Table {
        name: "backends",
        help: "The servers behind the proxy.",
        columns: &[
            Column::text("name", "Its name, unique over all clusters."),
            Column::text("address", "Host and port, or the path of a socket."),
            Column::text("role", "primary, replica, mirror or unknown."),
            Column::text(
                "state",
                "unknown, up, down; draining and maintenance after SET BACKEND .. OFFLINE.",
            ),
            Column::text("since", "Since when it is in this state, UTC."),
            Column::text("reason", "Why it is down, or not used."),
            Column::integer("weight", "", "Its weight for reads, compared with the other replicas."),
            Column::integer("connections", "", "Connections of all workers to it, idle ones included."),
            Column::integer("idle", "", "Of these, connections that no session uses."),
            Column::integer("max_connections", "", "The most connections that the pool uses."),
            Column::integer("reserved_connections", "", "Of these, kept for users with connection_admin."),
            Column::integer("server_max_connections", "", "max_connections of the server."),
            Column::integer("server_wait_timeout_s", "s", "wait_timeout of the server."),
            Column::integer("lag_ms", "ms", "How far it is behind the primary; NULL: not known."),
            Column::text(
                "read_only",
                "YES where the server takes no writes; NULL: it has not been asked yet.",
            ),
            Column::text("warning", "What an operator should look at."),
            Column::text("cluster", "Its cluster."),
            Column::text("lag_source", "How the lag is measured."),
            Column::text("origin", "Configured, or found and by which server."),
            Column::integer(
                "latency_us",
                "us",
                "How long its last answer to the monitor took; NULL: it has given none.",
            ),
            Column::integer(
                "backend_ndx",
                "",
                "Its place in this table, as Cetus and Atlas number backends.",
            )
            .of(Column::NUMBER),
            Column::text("type", "rw for the primary, ro for a replica, as Cetus and Atlas have it.")
                .of("CASE role WHEN 'primary' THEN 'rw' WHEN 'replica' THEN 'ro' END"),
            Column::integer("slave_delay", "ms", "lag_ms, as Cetus names it.").of("lag_ms"),
            Column::integer("idle_conns", "", "idle, as Cetus names it.").of("idle"),
            Column::integer("used_conns", "", "Connections that sessions use, as Cetus names it.")
                .of("max(connections - idle, 0)"),
            Column::integer("total_conns", "", "connections, as Cetus names it.").of("connections"),
        ],
        over: "",
    },
    role: AdminRole::Viewer,
    rows: Provider::Asking(|console, _| Box::pin(rows(console))),
};

async fn rows(console: &Console) -> Result<Cells, Refused> {
    let mut rows = Vec::new();
    for (_, cluster) in console.clusters() {
        rows.extend(of_cluster(cluster).await);
    }
    Ok(rows)
}

async fn of_cluster(cluster: &ClusterView) -> Cells {
    let census = cluster.census().await;
    let snapshot = cluster.reader.load();
    // Where writes have stopped, who looks here has to see it.
    let no_writer = snapshot.primary().is_none().then(|| format!("no writes: {}", snapshot.why_no_primary()));
    let row = |backend: &Backend| {
        let of_workers = census.iter().flatten().filter_map(|worker| worker.get(backend.id.index()));
        let idle: u32 = of_workers.flat_map(|pool| &pool.users).map(|one| one.idle).sum();
        let (place, budget) = cluster.backends.get(backend.id.index())?;
        let spot = place.spot();
        let address = spot.address.as_ref().map(text);
        let mut row = vec![text(&backend.name), address.into(), text(backend.role.as_str())];
        row.extend(state(backend, budget.open()));
        let limits = backend.limits;
        let read_only = backend.facts.as_ref().map(|_| yes_or_no(backend.read_only));
        row.extend([backend.weight, budget.open(), idle, budget.max(), budget.reserved()].map(number));
        row.extend([
            limits.map(|limits| number(limits.max_connections)).into(),
            limits.map(|limits| number(limits.wait_timeout_s)).into(),
            backend.lag.map(|lag| number(lag.as_millis())).into(),
            read_only.into(),
            warning(budget, backend)
                .or_else(|| no_writer.clone().filter(|_| backend.takes_statements()))
                .into(),
            text(&cluster.name),
            backend.lag_source.map(delphinus_topology::LagSource::as_str).into(),
            text(origin(backend, &spot)),
            backend.latency.map(|latency| number(latency.as_micros())).into(),
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
        Some(ip) => format!("{origin}; its name resolves to {ip}"),
        None => origin,
    }
}

/// Where more is configured than the server gives.
pub(super) fn warning(budget: &Budget, backend: &Backend) -> Option<String> {
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
fn state(backend: &Backend, open: u32) -> [Cell; 3] {
    let now = rt::now();
    let health = backend.health.reason().map(ToString::to_string);
    let fault = backend.fault.as_ref().map(|fault| format!("{}: {}", fault.kind(), fault.text()));
    match backend.wish {
        Wish::Offline { since } => {
            let word = state_word(backend, open);
            let also = health.or(fault).map(|text| format!("; {text}")).unwrap_or_default();
            [text(word), text(moment(since, now)), text(format!("set OFFLINE by an operator{also}"))]
        }
        Wish::Held { since } => {
            let reason = "its role is being moved, and new transactions wait";
            [text(state_word(backend, open)), text(moment(since, now)), text(reason)]
        }
        Wish::GivenUp { since } => [
            text("maintenance"),
            text(moment(since, now)),
            text("it is lost, and another backend takes its role"),
        ],
        Wish::Online => {
            let since = backend.health.since().map(|since| moment(since, now));
            [text(state_word(backend, open)), since.into(), health.or(fault).into()]
        }
    }
}

/// The word for its state.
pub(crate) fn state_word(backend: &Backend, open: u32) -> &'static str {
    match backend.wish {
        Wish::Offline { .. } | Wish::Held { .. } if open > 0 => "draining",
        Wish::Offline { .. } | Wish::Held { .. } | Wish::GivenUp { .. } => "maintenance",
        Wish::Online => backend.health.as_str(),
    }
}

/// How a backend is taken out of use.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Leaving {
    /// Sessions that are still held to it are ended.
    is_hard: bool,
    /// How long its connections have to end.
    wait: Option<Duration>,
}

/// `SOFT | HARD` and `WAIT seconds`, in any case; `None`: something else stands there.
fn leaving(words: &[Word]) -> Option<Leaving> {
    let (is_hard, rest) = match words {
        [word, rest @ ..] if word.is("HARD") => (true, rest),
        [word, rest @ ..] if word.is("SOFT") => (false, rest),
        rest => (false, rest),
    };
    let wait = match rest {
        [] => None,
        [word, time] if word.is("WAIT") => Some(seconds(&time.text)?),
        _ => return None,
    };
    Some(Leaving { is_hard, wait })
}

/// True for `option = value` behind the name of a backend.
pub(super) fn are_options(words: &[Word]) -> bool {
    words.iter().skip(1).any(|word| !word.is_quoted && word.text.contains('='))
}

pub(super) async fn set(call: &Call<'_>) -> Result<Answer, Refused> {
    let [name, word, rest @ ..] = call.words else {
        return config::alter(call, Rows::Backend, "SET BACKEND").await;
    };
    let now = rt::now();
    let (wish, leaving) = if word.is("OFFLINE") {
        let leaving = leaving(rest).ok_or_else(|| usage_of("SET BACKEND"))?;
        (Wish::Offline { since: now }, leaving)
    } else if word.is("ONLINE") && rest.is_empty() {
        (Wish::Online, Leaving::default())
    } else {
        return config::alter(call, Rows::Backend, "SET BACKEND").await;
    };
    // Names are unique over all clusters.
    let has_it = |cluster: &ClusterView| cluster.backend_names().iter().any(|known| **known == *name.text);
    if let Some((id, cluster)) = call.console.clusters().find(|(_, cluster)| has_it(cluster)) {
        set_in(cluster, (&name.text, wish)).await?;
        return leave(call, (id, cluster), &name.text, leaving).await;
    }
    let known: Vec<_> = call.console.clusters().flat_map(|(_, cluster)| cluster.backend_names()).collect();
    Err(Refused::because(format!("there is no backend '{}'; there are {}", name.text, known.join(", "))))
}

/// Waits for what is still open, and ends it, as the operator wants.
async fn leave(
    call: &Call<'_>,
    (id, cluster): (ClusterId, &ClusterView),
    name: &str,
    Leaving { is_hard, wait }: Leaving,
) -> Result<Answer, Refused> {
    let Some(backend) = cluster.reader.load().named(name).map(|found| found.id) else {
        return Ok(Answer::Done);
    };
    let open = || cluster.backends.get(backend.index()).map_or(0, |(_, budget)| budget.open());
    let all_closed = async {
        while open() > 0 {
            rt::sleep(Duration::from_millis(20)).await;
        }
    };
    if let Some(limit) = wait
        && rt::timeout(limit, all_closed).await.is_some()
    {
        return Ok(Answer::Done);
    }
    if is_hard {
        let is_there = |one: &Arc<Activity>| {
            let runs = one.place().is_some_and(|(place, _)| place == backend);
            one.cluster() == id && (runs || one.hold().backend == Some(backend))
        };
        let held: Vec<_> = call.console.parts.registry.list().into_iter().filter(is_there).collect();
        tracing::warn!(
            backend = name,
            sessions = held.len(),
            "sessions are ended: SET BACKEND .. OFFLINE HARD"
        );
        for one in held {
            one.kill_from_outside(true);
        }
        return Ok(Answer::Done);
    }
    match (wait, open()) {
        (Some(limit), open @ 1..) => Err(Refused::because(format!(
            "{name} is offline, and {open} connections to it are still open after {} s; SHOW SESSIONS shows whose \
             they are",
            limit.as_secs()
        ))),
        _ => Ok(Answer::Done),
    }
}

async fn set_in(cluster: &ClusterView, (name, wish): (&str, Wish)) -> Result<(), Refused> {
    let snapshot = cluster.reader.load();
    let Some(backend) = snapshot.named(name) else {
        return Err(Refused::because(format!("there is no backend '{name}'")));
    };
    if !cluster.reader.wish(backend.id, rt::now(), wish).await {
        return Err(Refused::because("the proxy stops"));
    }
    // Only then is nothing new sent there, or everything that is wanted.
    if !cluster.followed(backend.id, wish.is_offline()).await {
        return Err(Refused::because("a worker has not applied this yet; SHOW BACKENDS shows when it has"));
    }
    Ok(())
}
