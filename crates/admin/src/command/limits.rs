//! The table `limits`: how much clients may do.

use std::sync::atomic::Ordering;
use std::time::Duration;

use delphinus_clients::{Limit, LimitPer, LimitTerms};
use delphinus_tables::{self as tables, Cell, Column};

use crate::cluster::ClusterView;
use crate::source::{Cells, Provider, Source};
use crate::table::{number, text};
use crate::users::AdminRole;

pub(crate) static LIMITS: Source = Source {
    table: tables::Table {
        name: "limits",
        help: "The limits for clients of each cluster, and what each has done.",
        columns: &[
            Column::text("name", "Its name."),
            Column::text("conditions", "The clients that it is about; empty: every client."),
            Column::text("per", "What it counts by itself: all, user, schema, client or digest."),
            Column::integer("statements_per_second", "statements/s", "The most statements in a second."),
            Column::integer(
                "burst",
                "statements",
                "The most statements that may come at once after a pause.",
            ),
            Column::integer("concurrency", "statements", "The most statements at the same time."),
            Column::integer("max_rows", "rows", "The most rows of one result."),
            Column::integer("max_bytes", "bytes", "The most bytes of the results of one statement."),
            Column::integer("timeout_ms", "ms", "The longest time that a statement may run."),
            Column::integer(
                "idle_in_transaction_timeout_s",
                "s",
                "The longest time that a session may be idle in a transaction.",
            ),
            Column::integer("running", "", "Statements that run under it now, where it has a concurrency."),
            Column::integer("waiting", "", "Statements that wait for it now."),
            Column::integer("waited", "", "Statements that have waited."),
            Column::integer(
                "refused_rate",
                "",
                "Statements that were refused because too many came in a second.",
            ),
            Column::integer("refused_concurrency", "", "Statements that were refused because too many ran."),
            Column::integer("cut", "", "Results that were cut because they had too many rows or bytes."),
            Column::integer(
                "ended_idle",
                "",
                "Sessions that were ended because they did nothing in a transaction.",
            ),
            Column::text("cluster", "The cluster."),
        ],
        over: "",
    },
    role: AdminRole::Viewer,
    rows: Provider::Now(|console| console.clusters().flat_map(|(_, cluster)| limits_of(cluster)).collect()),
};

fn limits_of(cluster: &ClusterView) -> Cells {
    let may = |value: Option<u128>| value.map_or(Cell::Null, number);
    let row = |limit: &Limit| {
        let (terms, counts) = (&limit.terms, &limit.counts);
        vec![
            text(&limit.name),
            text(conditions(terms)),
            text(per(terms.per)),
            may(terms.rate.map(|(rate, _)| rate.into())),
            may(terms.rate.map(|(_, burst)| burst.into())),
            may(terms.concurrency.map(u128::from)),
            may(terms.max_rows.map(u128::from)),
            may(terms.max_bytes.map(u128::from)),
            may(terms.timeout.map(|limit| limit.as_millis())),
            may(terms.idle_in_transaction.as_ref().map(Duration::as_secs).map(u128::from)),
            number(limit.running()),
            number(limit.waiting()),
            number(counts.waited.load(Ordering::Relaxed)),
            number(counts.refused_rate.load(Ordering::Relaxed)),
            number(counts.refused_concurrency.load(Ordering::Relaxed)),
            number(counts.cut.load(Ordering::Relaxed)),
            number(counts.ended_idle.load(Ordering::Relaxed)),
            text(&cluster.name),
        ]
    };
    (cluster.routing)().0.limits.iter().map(row).collect()
}

/// In the words of the configuration.
fn conditions(terms: &LimitTerms) -> String {
    let mut all = Vec::new();
    let mut list = |name: &str, values: Vec<String>| {
        if !values.is_empty() {
            all.push(format!("{name} {}", values.join("|")));
        }
    };
    list("user", terms.users.clone());
    list("schema", terms.schemas.clone());
    list("client", terms.clients.iter().map(ToString::to_string).collect());
    list("digest", terms.digests.iter().map(ToString::to_string).collect());
    all.join(", ")
}

fn per(per: LimitPer) -> &'static str {
    match per {
        LimitPer::All => "all",
        LimitPer::User => "user",
        LimitPer::Schema => "schema",
        LimitPer::Client => "client",
        LimitPer::Digest => "digest",
    }
}
