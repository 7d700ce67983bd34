//! What rules, filters and limits have done. There are as many values as the configuration has of them.

use std::sync::atomic::Ordering;

use delphinus_session::Routing;
use delphinus_telemetry::{CLUSTER, Point};

use super::{Measured, Reading, counter, gauge};

pub(super) static METRICS: [Measured; 4] = [
    counter(
        "delphinus_rule_hits_total",
        &[CLUSTER, "rule"],
        "Statements that the rule has matched.",
        |reading| {
            each(reading, |routing| {
                routing.rules.iter().map(|rule| (vec![&*rule.name], rule.hits())).collect()
            })
        },
    ),
    counter(
        "delphinus_filter_hits_total",
        &[CLUSTER, "filter", "action"],
        "Statements that the filter has refused or logged.",
        |reading| {
            each(reading, |routing| {
                let counts = |filter| {
                    let filter: &delphinus_route::Filter = filter;
                    let name = &*filter.name;
                    [(vec![name, "reject"], filter.rejected()), (vec![name, "log"], filter.logged())]
                };
                routing.filters.iter().flat_map(counts).collect()
            })
        },
    ),
    counter(
        "delphinus_limit_hits_total",
        &[CLUSTER, "limit", "result"],
        "What the limit has done: statements that waited, that were refused (rate, concurrency), results that were cut, sessions that \
         were ended because they were idle in a transaction.",
        |reading| {
            each(reading, |routing| {
                let counts = |limit| {
                    let limit: &delphinus_clients::Limit = limit;
                    let counts = &limit.counts;
                    [
                        ("waited", &counts.waited),
                        ("refused_rate", &counts.refused_rate),
                        ("refused_concurrency", &counts.refused_concurrency),
                        ("cut", &counts.cut),
                        ("ended_idle", &counts.ended_idle),
                    ]
                    .map(|(result, count)| (vec![&*limit.name, result], count.load(Ordering::Relaxed)))
                };
                routing.limits.iter().flat_map(counts).collect()
            })
        },
    ),
    gauge(
        "delphinus_limit_statements",
        &[CLUSTER, "limit", "state"],
        "Statements that run or wait by the limit now, where it has a concurrency.",
        |reading| {
            each(reading, |routing| {
                let counts = |limit| {
                    let limit: &delphinus_clients::Limit = limit;
                    let name = &*limit.name;
                    [(vec![name, "running"], limit.running()), (vec![name, "waiting"], limit.waiting())]
                };
                routing.limits.iter().flat_map(counts).collect()
            })
        },
    ),
];

type Counted<'a> = Vec<(Vec<&'a str>, u64)>;

/// What each cluster has, with its name as the first label.
fn each(reading: &Reading<'_>, of: for<'a> fn(&'a Routing) -> Counted<'a>) -> Vec<Point> {
    let mut points = Vec::new();
    for (_, cluster) in reading.console.clusters() {
        let routing = (cluster.routing)().0;
        let point = |(labels, value): (Vec<&str>, u64)| {
            Point::whole([&*cluster.name].into_iter().chain(labels), value)
        };
        points.extend(of(&routing).into_iter().map(point));
    }
    points
}
