//! The tables of what statements cost: `digests`, `digests_by_origin`, `statements_by_backend`, `statements_by_user`; and `RESET DIGESTS`.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use delphinus_net::rt;
use delphinus_sql::Digest;
use delphinus_stats::{Place, Statistics, Sum};
use delphinus_tables::{self as tables, Cell, Column, Reads};
use delphinus_topology::{BackendId, ClusterId};

use super::{Call, usage_of};
use crate::answer::{Answer, Refused};
use crate::console::Console;
use crate::source::{Cells, Filling, Provider, Source};
use crate::table::{number, text};
use crate::time::stamp;
use crate::users::AdminRole;

const CLUSTER: Column = Column::text("cluster", "The cluster.");
const DIGEST: Column = Column::text(
    "digest",
    "The hash of the text without literals; NULL: the rest, for which there was no room, and commands without a text.",
);
const DIGEST_TEXT: Column = Column::text(
    "digest_text",
    "The text without literals, up to digests.max_length; NULL where it was not kept.",
);
const SCHEMA: Column = Column::text(
    "schema",
    "The schema that the sessions were in; NULL: in none, or in one of those for which there was no room.",
);
const USER: Column = Column::text("user", "The user; NULL: of all users for which there was no room.");
const BACKEND: Column = Column::text("backend", "The backend that ran them; NULL: the proxy answered.");

/// What is counted, behind what it is counted by.
const COUNTS: [Column; 21] = [
    Column::integer("count", "", "Statements."),
    Column::integer("errors", "", "Of these, those that ended with an error."),
    Column::integer(
        "total_us",
        "us",
        "The sum of their times, from the command's last byte to the answer's.",
    ),
    Column::integer("min_us", "us", "The shortest time."),
    Column::integer("avg_us", "us", "The average time."),
    Column::integer("max_us", "us", "The longest time."),
    Column::integer("p50_us", "us", "The median, within 5 percent."),
    Column::integer("p95_us", "us", "95 percent took no longer."),
    Column::integer("p99_us", "us", "99 percent took no longer."),
    Column::integer("p999_us", "us", "99.9 percent took no longer."),
    Column::integer(
        "queue_us",
        "us",
        "Of the total: waited for limits, a pause, a primary, or a replica to catch up.",
    ),
    Column::integer("pool_us", "us", "Of the total: waited for a backend connection."),
    Column::integer("sync_us", "us", "Of the total: the connection was brought into the session's state."),
    Column::integer("backend_us", "us", "Of the total: the backend worked, and the answer passed."),
    Column::integer("client_us", "us", "Of the total: waited for the client to take its answer."),
    Column::integer("rows_sent", "rows", "Rows of their results."),
    Column::integer("rows_affected", "rows", "Rows that they have changed."),
    Column::integer("bytes_received", "bytes", "Bytes of the commands."),
    Column::integer("bytes_sent", "bytes", "Bytes of the answers."),
    Column::text("first_seen", "When the first one ended, UTC."),
    Column::text("last_seen", "When the last one ended, UTC."),
];

/// The columns that come first, then the counts.
const fn with_counts<const N: usize, const ALL: usize>(first: [Column; N]) -> [Column; ALL] {
    let mut all = [CLUSTER; ALL];
    let mut at = 0;
    while at < ALL {
        all[at] = if at < N { first[at] } else { COUNTS[at - N] };
        at += 1;
    }
    all
}

const fn source(
    name: &'static str,
    help: &'static str,
    columns: &'static [Column],
    rows: for<'a> fn(&'a Console, Option<&'a Reads>) -> Filling<'a>,
) -> Source {
    Source {
        table: tables::Table { name, help, columns, over: "" },
        role: AdminRole::Viewer,
        rows: Provider::Asking(rows),
    }
}

pub(crate) static DIGESTS: Source = source(
    "digests",
    "What statements cost, by digest, since the start or RESET DIGESTS; those with the largest sum of times first.",
    &with_counts::<3, 24>([CLUSTER, DIGEST, DIGEST_TEXT]),
    |console, _| Box::pin(aside(console, digests)),
);

pub(crate) static DIGESTS_BY_ORIGIN: Source = source(
    "digests_by_origin",
    "The same by digest, user, schema and backend. Percentiles of rows cannot be added up; all other counts can.",
    &with_counts::<6, 27>([CLUSTER, SCHEMA, USER, BACKEND, DIGEST, DIGEST_TEXT]),
    |console, _| Box::pin(aside(console, digests_by_origin)),
);

pub(crate) static STATEMENTS_BY_BACKEND: Source = source(
    "statements_by_backend",
    "What statements cost, by backend, since the start.",
    &with_counts::<2, 23>([CLUSTER, BACKEND]),
    |console, _| Box::pin(aside(console, statements_by_backend)),
);

pub(crate) static STATEMENTS_BY_USER: Source = source(
    "statements_by_user",
    "What statements cost, by user, since the start.",
    &with_counts::<2, 23>([CLUSTER, USER]),
    |console, _| Box::pin(aside(console, statements_by_user)),
);

/// Adds up on a thread of its own: there may be many rows.
async fn aside(console: &Console, rows: fn(&Statistics, &Names) -> Cells) -> Result<Cells, Refused> {
    let (statistics, names) = (console.parts.statistics.clone(), Names::of(console));
    let added = rt::compute(move || rows(&statistics, &names)).await;
    added.ok_or_else(|| Refused::because("what statements cost could not be added up".to_owned()))
}

/// How what is counted by numbers is named.
pub(super) struct Names {
    clusters: HashMap<ClusterId, Arc<str>>,
    backends: HashMap<(ClusterId, BackendId), Arc<str>>,
    /// When the clock of sessions began.
    began: SystemTime,
}

impl Names {
    pub(super) fn of(console: &Console) -> Self {
        let (mut clusters, mut backends) = (HashMap::new(), HashMap::new());
        for (id, cluster) in console.clusters() {
            clusters.insert(id, cluster.name.clone());
            for backend in &cluster.reader.load().backends {
                backends.insert((id, backend.id), backend.name.clone());
            }
        }
        Self { clusters, backends, began: console.began }
    }

    pub(super) fn of_cluster(&self, cluster: ClusterId) -> Option<&Arc<str>> {
        self.clusters.get(&cluster)
    }

    pub(super) fn of_backend(&self, cluster: ClusterId, backend: Option<BackendId>) -> Option<&Arc<str>> {
        self.backends.get(&(cluster, backend?))
    }

    fn cluster(&self, cluster: ClusterId) -> Cell {
        self.of_cluster(cluster).map_or(Cell::Null, text)
    }

    fn backend(&self, cluster: ClusterId, backend: Option<BackendId>) -> Cell {
        self.of_backend(cluster, backend).map_or(Cell::Null, text)
    }

    /// The cells of [`COUNTS`].
    fn counts(&self, sum: &Sum) -> [Cell; COUNTS.len()] {
        let totals = &sum.totals;
        let at = |part| {
            sum.times.per_mille(part).map_or(Cell::Null, |us| {
                // The middle of a bucket may lie beyond them.
                number(us.clamp(totals.min_us.min(totals.max_us), totals.max_us))
            })
        };
        let moment = |since: u32| text(stamp(self.began + Duration::from_secs(since.into())));
        [
            number(totals.count),
            number(totals.failed),
            number(totals.total_us),
            number(totals.min_us),
            number(totals.total_us.checked_div(totals.count).unwrap_or(0)),
            number(totals.max_us),
            at(500),
            at(950),
            at(990),
            at(999),
            number(totals.at(Place::Queue)),
            number(totals.at(Place::Pool)),
            number(totals.at(Place::Sync)),
            number(totals.at(Place::Backend)),
            number(totals.at(Place::Client)),
            number(totals.rows_sent),
            number(totals.rows_affected),
            number(totals.bytes_received),
            number(totals.bytes_sent),
            moment(totals.first_s),
            moment(totals.last_s),
        ]
    }
}

/// The digest and its text.
fn digest_cells(statistics: &Statistics, digest: Option<Digest>) -> [Cell; 2] {
    let Some(digest) = digest else { return [Cell::Null, Cell::Null] };
    let known = statistics.text(digest);
    [text(digest), known.map_or(Cell::Null, text)]
}

fn digests(statistics: &Statistics, names: &Names) -> Cells {
    let mut rows = Vec::new();
    statistics.by_statement(|cluster, digest, sum| {
        let first = [names.cluster(cluster)].into_iter().chain(digest_cells(statistics, digest));
        rows.push((sum.totals.total_us, first.chain(names.counts(sum)).collect()));
    });
    by_time(rows)
}

fn digests_by_origin(statistics: &Statistics, names: &Names) -> Cells {
    let mut rows = Vec::new();
    statistics.by_digest(|digest, who, backend, sum| {
        let first = [
            names.cluster(who.cluster),
            who.schema.as_ref().map_or(Cell::Null, text),
            who.user.as_ref().map_or(Cell::Null, text),
            names.backend(who.cluster, backend),
        ];
        let first = first.into_iter().chain(digest_cells(statistics, digest));
        rows.push((sum.totals.total_us, first.chain(names.counts(sum)).collect()));
    });
    by_time(rows)
}

/// Those with the largest sum first.
fn by_time(mut rows: Vec<(u64, Vec<Cell>)>) -> Cells {
    rows.sort_by_key(|(total_us, _)| std::cmp::Reverse(*total_us));
    rows.into_iter().map(|(_, cells)| cells).collect()
}

fn statements_by_backend(statistics: &Statistics, names: &Names) -> Cells {
    let sums = statistics.since_start(|who, backend| (who.cluster, backend));
    let row = |((cluster, backend), sum): &((ClusterId, Option<BackendId>), Sum)| {
        let first = [names.cluster(*cluster), names.backend(*cluster, *backend)];
        first.into_iter().chain(names.counts(sum)).collect()
    };
    counted(sums).iter().map(row).collect()
}

fn statements_by_user(statistics: &Statistics, names: &Names) -> Cells {
    let sums = statistics.since_start(|who, _| (who.cluster, who.user.clone()));
    let row = |((cluster, user), sum): &((ClusterId, Option<Arc<str>>), Sum)| {
        let first = [names.cluster(*cluster), user.as_ref().map_or(Cell::Null, text)];
        first.into_iter().chain(names.counts(sum)).collect()
    };
    counted(sums).iter().map(row).collect()
}

/// Those that have counted something.
fn counted<G>(sums: impl IntoIterator<Item = (G, Sum)>) -> Vec<(G, Sum)> {
    sums.into_iter().filter(|(_, sum)| sum.totals.count > 0).collect()
}

pub(super) fn reset(call: &Call<'_>) -> Result<Answer, Refused> {
    if !call.words.is_empty() {
        return Err(usage_of("RESET DIGESTS"));
    }
    call.console.parts.statistics.reset();
    let caller = call.caller;
    tracing::info!(admin.user = %caller.user, client.host = %caller.host, "RESET DIGESTS");
    Ok(Answer::Done)
}
