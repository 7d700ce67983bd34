//! Snapshots of what is counted: their tables, how one is taken, and `SNAPSHOT NOW`.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use delphinus_history::{Grouped, Snapshot, StatementRow, Stored, TOTALS};
use delphinus_net::rt::{self, oneshot};
use delphinus_sql::Digest;
use delphinus_stats::{Place, Statistics, Sum};
use delphinus_tables::{Column, Table as TableOf};
use delphinus_topology::{BackendId, ClusterId};

use super::digests::Names;
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
    let late =
        || "the disk has not answered in time; the table snapshots shows whether it was stored".to_owned();
    let taken = call.console.take_snapshot(Some(call.caller.user.clone()));
    match rt::timeout(PATIENCE, taken).await.unwrap_or_else(|| Err(late())) {
        Ok(id) => Ok(Answer::Rows(Table::new(["#snapshot"]).with([vec![number(id)]]))),
        Err(why) => Err(Refused::because(format!("the snapshot was not stored: {why}"))),
    }
}

impl Console {
    /// Has what is counted by now stored; its number. `by` has asked for it.
    pub async fn take_snapshot(&self, by: Option<String>) -> Result<i64, String> {
        let snapshot = self.snapshot(by).await.ok_or("what is counted could not be added up")?;
        let (sender, stored) = oneshot::channel();
        // Who asks may have gone.
        self.parts.history.take(snapshot, move |result| drop(sender.send(result)));
        stored.await.unwrap_or_else(|_| Err("the history has ended".to_owned()))
    }

    /// What is counted by now. Added up on a thread of its own: there may be many rows.
    async fn snapshot(&self, by: Option<String>) -> Option<Snapshot> {
        let seconds =
            |at: SystemTime| at.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs().cast_signed();
        let (statistics, names) = (self.parts.statistics.clone(), Names::of(self));
        let most = self.parts.proxy.most_digests_of_snapshot();
        let (at, started) = (seconds(SystemTime::now()), seconds(self.began));
        let counters = status::numbers(self);
        let added = rt::compute(move || {
            let mut statements = backends(&statistics, &names);
            statements.extend(users(&statistics, &names));
            let (resets, digests) = of_one_time(&statistics, || digests(&statistics, &names, most));
            statements.extend(digests);
            (resets, statements)
        });
        let (resets, statements) = added.await?;
        Some(Snapshot { at, started, by, resets, counters, statements })
    }
}

/// What lies between two resets as a whole, and how many there had been before it.
fn of_one_time<T>(statistics: &Statistics, mut look: impl FnMut() -> T) -> (u32, T) {
    loop {
        let resets = statistics.resets();
        let seen = look();
        if statistics.resets() == resets {
            return (resets, seen);
        }
    }
}

fn backends(statistics: &Statistics, names: &Names) -> Vec<StatementRow> {
    let sums = statistics.since_start(|who, backend| (who.cluster, backend));
    let one = |((cluster, backend), sum): &((ClusterId, Option<BackendId>), Sum)| {
        let name = names.of_backend(*cluster, *backend).cloned();
        row((Grouped::Backend, names.of_cluster(*cluster).cloned()), name, None, sum)
    };
    sums.into_iter().map(|sum| one(&sum)).collect()
}

fn users(statistics: &Statistics, names: &Names) -> Vec<StatementRow> {
    let sums = statistics.since_start(|who, _| (who.cluster, who.user.clone()));
    let one = |((cluster, user), sum): ((ClusterId, Option<Arc<str>>), Sum)| {
        row((Grouped::User, names.of_cluster(cluster).cloned()), user, None, &sum)
    };
    sums.into_iter().map(one).collect()
}

/// Those with the largest sums of times, and the rest. No more than `most` of them are held at a time: they have large histograms.
fn digests(statistics: &Statistics, names: &Names, most: usize) -> Vec<StatementRow> {
    let (mut largest, mut rest) = (BTreeMap::new(), Sum::default());
    statistics.by_statement(|cluster, digest, sum| {
        let Some(digest) = digest else { return rest.merge(sum) };
        largest.insert((sum.totals.total_us, cluster, digest), sum.clone());
        if largest.len() > most
            && let Some((_, least)) = largest.pop_first()
        {
            rest.merge(&least);
        }
    });
    let one = |(&(_, cluster, digest), sum): (&(u64, ClusterId, Digest), &Sum)| StatementRow {
        text: statistics.text(digest),
        ..row((Grouped::Digest, names.of_cluster(cluster).cloned()), None, Some(digest), sum)
    };
    let mut rows: Vec<_> = largest.iter().rev().map(one).collect();
    if rest.totals.count > 0 {
        rows.push(row((Grouped::Digest, None), None, None, &rest));
    }
    rows
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

#[cfg(test)]
mod tests {
    use delphinus_memory::Account;
    use delphinus_stats::{Cost, Limits};

    use super::super::tests::console;
    use super::*;

    #[test]
    fn the_largest_digests_have_rows_and_the_others_are_in_the_rest() {
        let limits = Limits { by_digest: true, max_bytes: 1 << 30, max_text: 100 };
        let statistics = Statistics::new(Account::unlimited(), limits);
        let recorder = statistics.recorder(ClusterId(0));
        let who = recorder.who("app", None);
        for n in 0..100_u64 {
            // Neither the first nor the last ones are the largest.
            let cost = Cost { total_us: 1000 + (n * 37) % 100, ..Cost::default() };
            recorder.record(Some(Digest(n + 1)), (who, None), &cost, 0);
        }
        let console = console();
        let rows = digests(&statistics, &Names::of(&console), 10);
        let times: Vec<_> = rows.iter().map(|row| row.totals[2]).collect();
        let rest = (0..90).map(|us| 1000 + us).sum();
        assert_eq!(times, [1099, 1098, 1097, 1096, 1095, 1094, 1093, 1092, 1091, 1090, rest]);
        assert_eq!(rows.iter().map(|row| row.totals[0]).sum::<i64>(), 100);
        assert_eq!(digests(&statistics, &Names::of(&console), 0).len(), 1);
    }
    #[test]
    fn digests_are_not_those_of_another_reset_than_is_told() {
        let limits = Limits { by_digest: true, max_bytes: 1 << 20, max_text: 100 };
        let statistics = Statistics::new(Account::unlimited(), limits);
        let mut looks = 0;
        let seen = of_one_time(&statistics, || {
            looks += 1;
            if looks == 1 {
                statistics.reset();
            }
            looks
        });
        assert_eq!(seen, (1, 2));
    }
}
