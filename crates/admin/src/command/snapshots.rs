//! Snapshots of what is counted: their tables, how one is taken, and `SNAPSHOT NOW`.

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use delphinus_history::{Grouped, Snapshot, StatementRow, Stored, TOTALS};
use delphinus_net::rt::{self, oneshot};
use delphinus_sql::Digest;
use delphinus_stats::{Place, Sum};
use delphinus_tables::{Column, Table as TableOf};
use delphinus_topology::{BackendId, ClusterId};

use super::{Call, status, usage_of};
use crate::answer::{Answer, Refused};
use crate::console::Console;
use crate::source::{Provider, Source};
use crate::table::{Table, number};
use crate::users::AdminRole;

/// How long a snapshot may take to be stored.
const PATIENCE: Duration = Duration::from_secs(10);

const SNAPSHOT: Column = Column::integer("snapshot", "", "The number of the snapshot.");
const TAKEN: Column = Column::text("taken_at", "When it was taken, UTC.");

pub(crate) static SNAPSHOTS: Source = Source {
    table: TableOf {
        name: "snapshots",
        help: "The snapshots of what is counted that are kept, one an hour, and those of SNAPSHOT NOW.",
        columns: &[
            SNAPSHOT,
            TAKEN,
            Column::integer("unix_s", "s", "The same, in seconds since 1970."),
            Column::text("started_at", "When the proxy was started. Its counters were 0 then."),
            Column::text("operator", "The operator who asked for it; NULL: it was taken on schedule."),
            Column::integer(
                "resets",
                "",
                "How often RESET DIGESTS had been run since the start: sums by digest began at 0 there.",
            ),
        ],
        over: "",
    },
    role: AdminRole::Viewer,
    rows: Provider::Stored(Stored::Snapshots),
};

pub(crate) static COUNTERS: Source = Source {
    table: TableOf {
        name: "snapshot_counters",
        help: "Everything that SHOW STATUS has, as it was in each snapshot.",
        columns: &[
            SNAPSHOT,
            TAKEN,
            Column::text("variable_name", "The name, as in the table status."),
            Column::integer("value", "", "The number."),
        ],
        over: "",
    },
    role: AdminRole::Viewer,
    rows: Provider::Stored(Stored::Counters),
};

pub(crate) static STATEMENTS: Source = Source {
    table: TableOf {
        name: "snapshot_statements",
        help: "What statements had cost by each snapshot: by backend and by user since the start, by digest since the start or RESET DIGESTS.",
        columns: &[
            SNAPSHOT,
            TAKEN,
            Column::text("grouped_by", "backend, user or digest: each of the three has all statements."),
            Column::text("cluster", "The cluster; NULL for the rest of the digests."),
            Column::text("backend", "The backend; NULL: none, the proxy answered."),
            Column::text("user", "The user; NULL: of all users for which there was no room."),
            Column::text("digest", "The digest; NULL: the rest."),
            Column::text("digest_text", "The statement without literals."),
            Column::integer("count", "", "Statements."),
            Column::integer("errors", "", "Of these, those that ended with an error."),
            Column::integer("total_us", "us", "The sum of their times."),
            Column::integer(
                "queue_us",
                "us",
                "Of the total: waited for limits, a pause, a primary, or a replica to catch up.",
            ),
            Column::integer("pool_us", "us", "Of the total: waited for a backend connection."),
            Column::integer(
                "sync_us",
                "us",
                "Of the total: the connection was brought into the session's state.",
            ),
            Column::integer("backend_us", "us", "Of the total: the backend worked, and the answer passed."),
            Column::integer("client_us", "us", "Of the total: waited for the client to take its answer."),
            Column::integer("rows_sent", "rows", "Rows of their results."),
            Column::integer("rows_affected", "rows", "Rows that they have changed."),
            Column::integer("bytes_received", "bytes", "Bytes of the commands."),
            Column::integer("bytes_sent", "bytes", "Bytes of the answers."),
            Column::text(
                "histogram",
                "How their times are spread, for the functions histogram_minus, histogram_count and histogram_percentile.",
            ),
        ],
        over: "",
    },
    role: AdminRole::Viewer,
    rows: Provider::Stored(Stored::Statements),
};

/// Has a snapshot stored; its number.
pub(super) async fn take(call: &Call<'_>) -> Result<Answer, Refused> {
    if !matches!(call.words, [] | [_]) || call.words.first().is_some_and(|word| !word.is("NOW")) {
        return Err(usage_of("SNAPSHOT NOW"));
    }
    let history = &call.console.parts.history;
    if !history.wants_samples() {
        return Err(Refused::because(format!(
            "the activity history is {}: SET activity.enabled = true first",
            history.state().as_str()
        )));
    }
    let (sender, stored) = oneshot::channel();
    let snapshot = call.console.snapshot(Some(call.caller.user.clone()));
    // Who asks may have gone.
    history.take(snapshot, move |result| drop(sender.send(result)));
    let late =
        || "the disk has not answered in time; the table snapshots shows whether it was stored".to_owned();
    match rt::timeout(PATIENCE, stored).await.and_then(Result::ok).unwrap_or_else(|| Err(late())) {
        Ok(id) => Ok(Answer::Rows(Table::new(["#snapshot"]).with([vec![number(id)]]))),
        Err(why) => Err(Refused::because(format!("the snapshot was not stored: {why}"))),
    }
}

impl Console {
    /// What is counted by now; `by` has asked for it.
    pub fn snapshot(&self, by: Option<String>) -> Snapshot {
        let seconds =
            |at: SystemTime| at.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs().cast_signed();
        let mut statements = Vec::new();
        self.add_backends(&mut statements);
        self.add_users(&mut statements);
        self.add_digests(&mut statements);
        Snapshot {
            at: seconds(SystemTime::now()),
            started: seconds(self.began),
            by,
            resets: self.parts.statistics.resets(),
            counters: status::numbers(self),
            statements,
        }
    }

    fn cluster_name(&self, id: ClusterId) -> Option<Arc<str>> {
        self.parts.clusters.get(id.index()).map(|cluster| cluster.name.clone())
    }

    fn backend_name(&self, id: ClusterId, backend: BackendId) -> Option<Arc<str>> {
        let cluster = self.parts.clusters.get(id.index())?;
        cluster.reader.load().backend(backend).map(|backend| backend.name.clone())
    }

    fn add_backends(&self, rows: &mut Vec<StatementRow>) {
        let sums = self.parts.statistics.since_start(|who, backend| (who.cluster, backend));
        for ((cluster, backend), sum) in sums {
            let name = backend.and_then(|backend| self.backend_name(cluster, backend));
            rows.push(row((Grouped::Backend, self.cluster_name(cluster)), name, None, &sum));
        }
    }

    fn add_users(&self, rows: &mut Vec<StatementRow>) {
        let sums = self.parts.statistics.since_start(|who, _| (who.cluster, who.user.clone()));
        for ((cluster, user), sum) in sums {
            rows.push(row((Grouped::User, self.cluster_name(cluster)), user, None, &sum));
        }
    }

    /// Those with the largest sums of times, and the rest.
    fn add_digests(&self, rows: &mut Vec<StatementRow>) {
        let most = self.parts.proxy.most_digests_of_snapshot();
        let (mut all, mut rest) = (Vec::new(), Sum::default());
        self.parts.statistics.by_statement(|cluster, digest, sum| match digest {
            Some(digest) => all.push((cluster, digest, sum.clone())),
            None => rest.merge(sum),
        });
        all.sort_by_key(|(_, _, sum)| std::cmp::Reverse(sum.totals.total_us));
        for (_, _, sum) in all.iter().skip(most) {
            rest.merge(sum);
        }
        for (cluster, digest, sum) in all.iter().take(most) {
            rows.push(row((Grouped::Digest, self.cluster_name(*cluster)), None, Some(*digest), sum));
            if let Some(row) = rows.last_mut() {
                row.text = self.parts.statistics.text(*digest);
            }
        }
        if rest.totals.count > 0 {
            rows.push(row((Grouped::Digest, None), None, None, &rest));
        }
    }
}

fn row(
    (grouped, cluster): (Grouped, Option<Arc<str>>),
    name: Option<Arc<str>>,
    digest: Option<Digest>,
    sum: &Sum,
) -> StatementRow {
    let t = &sum.totals;
    let totals: [u64; TOTALS.len()] = [
        t.count,
        t.failed,
        t.total_us,
        t.at(Place::Queue),
        t.at(Place::Pool),
        t.at(Place::Sync),
        t.at(Place::Backend),
        t.at(Place::Client),
        t.rows_sent,
        t.rows_affected,
        t.bytes_received,
        t.bytes_sent,
    ];
    StatementRow {
        grouped,
        cluster,
        name,
        digest: digest.map(|digest| digest.0),
        text: None,
        totals: totals.map(|total| i64::try_from(total).unwrap_or(i64::MAX)),
        histogram: sum.times.to_text(),
    }
}
