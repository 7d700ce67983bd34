//! The numbers of `SHOW STATUS` as metrics.

use std::borrow::Cow;
use std::time::Duration;

use delphinus_telemetry::{CLUSTER, Metric, MetricKind, Point, Sample};

use crate::command::status::{Now, gauges};
use crate::console::Console;

/// What stands in the names of times in microseconds, and in those of metrics.
const UNITS: (&str, &str) = ("_microseconds", "_seconds");

/// All of them. Samples of one name stand together.
pub(super) fn metrics(console: &Console) -> Vec<(Metric, Vec<Point>)> {
    let now = Now::of(console);
    let read = gauges().map(|gauge| {
        let metric = Metric::new(kind(gauge.name), gauge.name, gauge.labels(), gauge.help);
        let values = gauge.values(&now).into_iter();
        (metric, values.map(|(labels, value)| Point::whole(labels, value)).collect())
    });
    let samples = console.parts.counters.snapshot();
    read.chain(samples.chunk_by(|one, next| one.name == next.name).map(counted)).collect()
}

/// The counters of one name.
pub(super) fn counted(family: &[Sample]) -> (Metric, Vec<Point>) {
    let Sample { name, help, cluster, label, .. } = &family[0];
    let is_time = name.contains(UNITS.0);
    let labels = cluster.as_ref().map(|_| CLUSTER).into_iter().chain(label.map(|(label, _)| label));
    let metric = Metric {
        name: if is_time { name.replace(UNITS.0, UNITS.1).into() } else { Cow::Borrowed(name) },
        kind: kind(name),
        labels: labels.collect(),
        help: help
            .strip_suffix(", microseconds.")
            .map_or(Cow::Borrowed(*help), |help| format!("{help}, seconds.").into()),
    };
    let point = |sample: &Sample| {
        let labels = sample.cluster.as_deref().into_iter().chain(sample.label.map(|(_, value)| value));
        if is_time {
            Point::time(labels, Duration::from_micros(sample.value))
        } else {
            Point::whole(labels, sample.value)
        }
    };
    (metric, family.iter().map(point).collect())
}

/// What only grows is called so.
pub(super) fn kind(name: &str) -> MetricKind {
    if name.ends_with("_total") { MetricKind::Counter } else { MetricKind::Gauge }
}
