//! Backend connections, over all workers and users.

use std::collections::BTreeMap;

use delphinus_pool::Census;
use delphinus_telemetry::{CLUSTER, Point};

use super::{BACKEND, Measured, Reading, gauge};

pub(super) static METRICS: [Measured; 3] = [
    gauge(
        "delphinus_pool_connections",
        &[CLUSTER, BACKEND, "state"],
        "Connections to the backend: idle, held for the session that used them last, or in use. Missing while a \
         worker does not answer.",
        |reading| {
            let states = |sum: &Census| {
                let free = sum.idle.saturating_sub(sum.held);
                vec![("idle", free), ("held", sum.held), ("in_use", sum.in_use)]
            };
            let points = sums(reading).into_iter().flat_map(|([cluster, backend], sum)| {
                let point =
                    |(state, count): (&str, u32)| Point::whole([&*cluster, &*backend, state], count.into());
                states(&sum).into_iter().map(point).collect::<Vec<_>>()
            });
            points.collect()
        },
    ),
    gauge(
        "delphinus_pool_waiting",
        &[CLUSTER, BACKEND],
        "Clients that wait for a connection to the backend. Missing while a worker does not answer.",
        |reading| {
            let points = sums(reading).into_iter();
            points.map(|(labels, sum)| Point::whole(labels, sum.waiting.into())).collect()
        },
    ),
    gauge(
        "delphinus_workers_silent",
        &[CLUSTER],
        "Workers that have not reported their pools in time.",
        |reading| {
            let clusters = reading.console.clusters().zip(&reading.pools);
            let silent = |told: &Vec<Option<_>>| told.iter().filter(|one| one.is_none()).count() as u64;
            clusters.map(|((_, cluster), told)| Point::whole([&cluster.name], silent(told))).collect()
        },
    ),
];

/// By the names of cluster and backend. A sum that lacks a worker would be wrong: there is none then.
fn sums(reading: &Reading<'_>) -> BTreeMap<[String; 2], Census> {
    let mut sums = BTreeMap::new();
    for ((_, cluster), workers) in reading.console.clusters().zip(&reading.pools) {
        if workers.iter().any(Option::is_none) {
            continue;
        }
        for backend in cluster.reader.load().present() {
            let sum: &mut Census =
                sums.entry([cluster.name.to_string(), backend.name.to_string()]).or_default();
            let pools = workers.iter().flatten().filter_map(|worker| worker.get(backend.id.index()));
            for one in pools.flat_map(|pool| &pool.users) {
                sum.idle += one.idle;
                sum.held += one.held;
                sum.in_use += one.in_use;
                sum.waiting += one.waiting;
            }
        }
    }
    sums
}
