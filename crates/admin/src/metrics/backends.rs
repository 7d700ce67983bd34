//! The backends: what each is for, its state, how far it is behind.

use delphinus_telemetry::{CLUSTER, Point};
use delphinus_topology::{Backend, Role};

use super::{BACKEND, Measured, Reading, gauge};
use crate::command::backends::state_word;

/// All words of [`state_word`].
const STATES: [&str; 8] =
    ["unknown", "up", "lagging", "shunned", "fenced", "down", "draining", "maintenance"];

pub(super) static METRICS: [Measured; 4] = [
    gauge(
        "delphinus_backend_role",
        &[CLUSTER, BACKEND, "role"],
        "1 for the role that the backend has, 0 for the other one.",
        |reading| {
            each(reading, |backend, _| {
                [Role::Primary, Role::Replica].map(|role| (role.as_str(), backend.role == role)).to_vec()
            })
        },
    ),
    gauge(
        "delphinus_backend_state",
        &[CLUSTER, BACKEND, "state"],
        "1 for the state that the backend is in, 0 for all others; draining and maintenance after SET BACKEND .. OFFLINE.",
        |reading| {
            each(reading, |backend, open| {
                let now = state_word(backend, open);
                STATES.map(|state| (state, state == now)).to_vec()
            })
        },
    ),
    gauge(
        "delphinus_backend_lag_seconds",
        &[CLUSTER, BACKEND],
        "How far the backend is behind its primary; missing where that is not known.",
        |reading| {
            let mut points = Vec::new();
            for (_, cluster) in reading.console.clusters() {
                for backend in cluster.reader.load().present() {
                    let lag = backend.lag.map(|lag| Point::time([&cluster.name, &backend.name], lag));
                    points.extend(lag);
                }
            }
            points
        },
    ),
    gauge(
        "delphinus_cluster_writable",
        &[CLUSTER],
        "1 while a backend of the cluster takes writes.",
        |reading| {
            let clusters = reading.console.clusters();
            let point = |cluster: &crate::ClusterView| {
                Point::whole([&cluster.name], cluster.reader.load().writer().is_ok().into())
            };
            clusters.map(|(_, cluster)| point(cluster)).collect()
        },
    ),
];

/// For each backend and each of the words that `of` has for it, whether that is so.
fn each(reading: &Reading<'_>, of: fn(&Backend, u32) -> Vec<(&'static str, bool)>) -> Vec<Point> {
    let mut points = Vec::new();
    for (_, cluster) in reading.console.clusters() {
        for backend in cluster.reader.load().present() {
            let open = cluster.backends.get(backend.id.index()).map_or(0, |(_, budget)| budget.open());
            let one =
                |(word, is): (&str, bool)| Point::whole([&*cluster.name, &*backend.name, word], is.into());
            points.extend(of(backend, open).into_iter().map(one));
        }
    }
    points
}
