//! What statements cost, by backend: the numbers of the table `statements_by_backend`.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use delphinus_net::rt;
use delphinus_stats::{Place, Sum};
use delphinus_telemetry::{CLUSTER, Distribution, Metric, MetricKind, Point, Value};

use super::{BACKEND, Measured, Reading, counter};
use crate::console::Console;

const LABELS: &[&str] = &[CLUSTER, BACKEND];
/// What stands for the backend of statements that the proxy has answered itself.
const PROXY: &str = "(proxy)";
/// And of those whose backend is none any more.
const REMOVED: &str = "(removed)";
/// The bounds of the histogram are 2 to the power of these, in microseconds, where buckets of the proxy's own histogram begin: so
/// that counts are exact.
const BOUNDS: std::ops::RangeInclusive<u32> = 6..=26;

pub(super) static METRICS: [Measured; 6] = [
    counter(
        "delphinus_statements_total",
        LABELS,
        "Statements (queries and executions of prepared statements) by the backend that ran them; (proxy): the \
         proxy answered.",
        |reading| one(reading, |sum| sum.totals.count),
    ),
    counter(
        "delphinus_statement_errors_total",
        LABELS,
        "Of these, statements that ended with an error.",
        |reading| one(reading, |sum| sum.totals.failed),
    ),
    counter(
        "delphinus_statement_rows_total",
        &[CLUSTER, BACKEND, "kind"],
        "Rows of their results (sent), and rows that they have changed (affected).",
        |reading| {
            several(reading, |sum| {
                let totals = &sum.totals;
                [("sent", totals.rows_sent), ("affected", totals.rows_affected)]
                    .map(|(kind, rows)| (kind, Value::Whole(rows)))
                    .to_vec()
            })
        },
    ),
    counter(
        "delphinus_statement_bytes_total",
        &[CLUSTER, BACKEND, "direction"],
        "Bytes of the commands (received from clients), and of the answers (sent to them).",
        |reading| {
            several(reading, |sum| {
                let totals = &sum.totals;
                [("received", totals.bytes_received), ("sent", totals.bytes_sent)]
                    .map(|(direction, bytes)| (direction, Value::Whole(bytes)))
                    .to_vec()
            })
        },
    ),
    counter(
        "delphinus_statement_seconds_total",
        &[CLUSTER, BACKEND, "place"],
        "Where their time went: queue (limits, a pause, a primary, a replica that catches up), pool (a connection), sync (its state), \
         backend, client (takes the answer).",
        |reading| {
            several(reading, |sum| {
                let at = |place: Place| (place.as_str(), Value::Real(seconds(sum.totals.at(place))));
                Place::ALL.map(at).to_vec()
            })
        },
    ),
    Measured {
        metric: Metric::new(
            MetricKind::Histogram,
            "delphinus_statement_duration_seconds",
            LABELS,
            "How long they took, from the command's last byte to the answer's.",
        ),
        points: |reading| {
            let points = reading.statements.iter();
            points.map(|(labels, sum)| Point::new(labels, Value::Histogram(distribution(sum)))).collect()
        },
    },
];

fn one(reading: &Reading<'_>, of: fn(&Sum) -> u64) -> Vec<Point> {
    reading.statements.iter().map(|(labels, sum)| Point::whole(labels, of(sum))).collect()
}

fn several(reading: &Reading<'_>, of: fn(&Sum) -> Vec<(&'static str, Value)>) -> Vec<Point> {
    let mut points = Vec::new();
    for ([cluster, backend], sum) in &reading.statements {
        let point = |(word, value): (&str, Value)| Point::new([&**cluster, &**backend, word], value);
        points.extend(of(sum).into_iter().map(point));
    }
    points
}

fn seconds(us: u64) -> f64 {
    Duration::from_micros(us).as_secs_f64()
}

fn distribution(sum: &Sum) -> Distribution {
    let bound = |power: u32| {
        let us = 1 << power;
        (seconds(us), sum.times.below(us))
    };
    Distribution {
        up_to: BOUNDS.map(bound).collect(),
        count: sum.times.count(),
        sum: seconds(sum.totals.total_us),
    }
}

/// What has been counted since the start, by the names of cluster and backend. Added up on a thread of its own: there may be many rows.
pub(super) async fn sums(console: &Console) -> BTreeMap<[Arc<str>; 2], Sum> {
    let mut names = HashMap::new();
    let [proxy, removed]: [Arc<str>; 2] = [PROXY.into(), REMOVED.into()];
    for (id, cluster) in console.clusters() {
        names.insert((id, None), [cluster.name.clone(), proxy.clone()]);
        for backend in cluster.reader.load().backends.iter().filter(|backend| !backend.name.is_empty()) {
            names.insert((id, Some(backend.id)), [cluster.name.clone(), backend.name.clone()]);
        }
    }
    let statistics = console.parts.statistics.clone();
    let added = rt::compute(move || {
        statistics.since_start(|who, backend| {
            let cluster =
                || names.get(&(who.cluster, None)).map_or_else(|| removed.clone(), |[name, _]| name.clone());
            names.get(&(who.cluster, backend)).cloned().unwrap_or_else(|| [cluster(), removed.clone()])
        })
    });
    added.await.unwrap_or_default()
}
