//! What is measured, for `/metrics`: the one list of all metrics, read at one moment. Whoever has more of them adds a file and a
//! line to [`OWN`]. Must not know how they are sent.
//!
//! All that `SHOW STATUS` has is here, too, with the same names; only times are in seconds, as Prometheus wants them.

mod activity;
mod backends;
mod cache_streams;
mod logs;
mod moves;
mod pools;
mod process;
mod reference;
mod relay_replicas;
mod relays;
mod rules;
mod statements;
mod status;
mod vips;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use delphinus_net::rt;
use delphinus_pool::BackendCensus;
use delphinus_stats::Sum;
use delphinus_telemetry::{Metric, MetricKind, Point};

use crate::console::Console;

pub use reference::reference;

/// The label of what is so for each backend.
const BACKEND: &str = "backend";
/// How long the workers have, all together, to tell what their pools have.
const CENSUS_LIMIT: Duration = Duration::from_secs(2);

/// A metric, and where its values come from.
pub(crate) struct Measured {
    metric: Metric,
    points: fn(&Reading<'_>) -> Vec<Point>,
}

/// Those that `SHOW STATUS` does not have, in the order of the text.
static OWN: [&[Measured]; 12] = [
    &process::METRICS,
    &backends::METRICS,
    &pools::METRICS,
    &statements::METRICS,
    &rules::METRICS,
    &logs::METRICS,
    &activity::METRICS,
    &vips::METRICS,
    &moves::METRICS,
    &relays::METRICS,
    &relay_replicas::METRICS,
    &cache_streams::METRICS,
];

/// What values are read from, taken once for all of them.
pub(crate) struct Reading<'a> {
    console: &'a Console,
    /// Of each cluster: what each worker's pool has; `None`: it has not told in time.
    pools: Vec<Vec<Option<Vec<BackendCensus>>>>,
    /// What statements cost, by the names of cluster and backend.
    statements: BTreeMap<[Arc<str>; 2], Sum>,
}

impl<'a> Reading<'a> {
    async fn of(console: &'a Console) -> Self {
        let all = async {
            let mut pools = Vec::new();
            for (_, cluster) in console.clusters() {
                pools.push(cluster.census().await);
            }
            pools
        };
        let pools = rt::timeout(CENSUS_LIMIT, all).await;
        let nobody = || console.parts.clusters.iter().map(|one| vec![None; one.workers.len()]).collect();
        Self { console, pools: pools.unwrap_or_else(nobody), statements: statements::sums(console).await }
    }
}

impl Console {
    /// All metrics with their values at this moment.
    pub async fn metrics(&self) -> Vec<(Metric, Vec<Point>)> {
        let reading = Reading::of(self).await;
        let own = OWN.iter().flat_map(|list| list.iter());
        let own = own.map(|one| (one.metric.clone(), (one.points)(&reading)));
        status::metrics(self).into_iter().chain(own).collect()
    }
}

const fn gauge(
    name: &'static str,
    labels: &'static [&'static str],
    help: &'static str,
    points: fn(&Reading<'_>) -> Vec<Point>,
) -> Measured {
    Measured { metric: Metric::new(MetricKind::Gauge, name, labels, help), points }
}

const fn counter(
    name: &'static str,
    labels: &'static [&'static str],
    help: &'static str,
    points: fn(&Reading<'_>) -> Vec<Point>,
) -> Measured {
    Measured { metric: Metric::new(MetricKind::Counter, name, labels, help), points }
}

const fn histogram(
    name: &'static str,
    labels: &'static [&'static str],
    help: &'static str,
    points: fn(&Reading<'_>) -> Vec<Point>,
) -> Measured {
    Measured { metric: Metric::new(MetricKind::Histogram, name, labels, help), points }
}

#[cfg(test)]
mod tests;
