//! Moves of the primary's role, and what they hang on: the lease store, and relays of other processes.

use delphinus_telemetry::{CLUSTER, Point, Value};

use super::{Measured, Reading, counter, gauge};
use crate::command::vips::LeaseRow;
use crate::switching::{MoveEnds, RemoteRelayRow, Switching};

/// All kinds of moves, and all states in which they end: each has its series from the start on, so that the first one is seen to come.
const KINDS: [&str; 4] = ["switchover", "failover", "rejoin", "reopening"];
const RESULTS: [&str; 4] = ["done", "undone", "refused", "failed"];

fn of_lease(reading: &Reading<'_>, value: impl Fn(&LeaseRow) -> Option<Value>) -> Vec<Point> {
    let lease = reading.console.parts.proxy.lease();
    let no_labels: [&str; 0] = [];
    lease.iter().filter_map(|lease| Some(Point::new(no_labels, value(lease)?))).collect()
}

fn of_clusters(reading: &Reading<'_>, points: fn(&str, &dyn Switching) -> Vec<Point>) -> Vec<Point> {
    let clusters = reading.console.clusters();
    clusters.flat_map(|(_, cluster)| points(&cluster.name, &*cluster.switching)).collect()
}

fn ended(cluster: &str, switching: &dyn Switching) -> Vec<Point> {
    let ends = switching.ends();
    let count = |kind: &str, result: &str| {
        let of_kind = ends.iter().filter(|ends| ends.kind == kind).flat_map(|ends| &ends.counts);
        of_kind.filter(|(state, _)| *state == result).map(|(_, count)| count).sum()
    };
    let of_kind = |kind| RESULTS.map(|result| Point::whole([cluster, kind, result], count(kind, result)));
    KINDS.iter().flat_map(|kind| of_kind(*kind)).collect()
}

fn last(cluster: &str, switching: &dyn Switching) -> Vec<Point> {
    let point = |ends: &MoveEnds| Point::new([cluster, ends.kind], Value::Real(ends.last.as_secs_f64()));
    switching.ends().iter().map(point).collect()
}

fn answers(cluster: &str, switching: &dyn Switching) -> Vec<Point> {
    let point = |one: &RemoteRelayRow| Some(Point::whole([cluster, &*one.name], one.answers?.into()));
    switching.remote_relays().iter().filter_map(point).collect()
}

fn questions(cluster: &str, switching: &dyn Switching) -> Vec<Point> {
    let points = |one: &RemoteRelayRow| {
        let [answered, failed] = one.questions;
        [("answered", answered), ("failed", failed)]
            .map(|(result, count)| Point::whole([cluster, &*one.name, result], count))
    };
    switching.remote_relays().iter().flat_map(points).collect()
}

pub(super) static METRICS: [Measured; 8] = [
    gauge(
        "delphinus_lease_up",
        &[],
        "1 while the lease store answers this process, 0 while it does not; missing where there is none.",
        |reading| of_lease(reading, |lease| Some(Value::Whole(lease.is_up.into()))),
    ),
    counter(
        "delphinus_lease_errors_total",
        &[],
        "Times that the lease store has not answered, or has refused something.",
        |reading| of_lease(reading, |lease| Some(Value::Whole(lease.errors))),
    ),
    gauge("delphinus_lease_age_seconds", &[], "Since the keys of the lease store were listed.", |reading| {
        of_lease(reading, |lease| Some(Value::Real(lease.age?.as_secs_f64())))
    }),
    gauge(
        "delphinus_lease_left_seconds",
        &[],
        "So long this process is sure to hold what it holds, without another word of the lease store.",
        |reading| of_lease(reading, |lease| Some(Value::Real(lease.left.as_secs_f64()))),
    ),
    counter(
        "delphinus_moves_total",
        &[CLUSTER, "kind", "result"],
        "Moves of the primary's role by this proxy that have ended, as in the table switchovers.",
        |reading| of_clusters(reading, ended),
    ),
    gauge(
        "delphinus_move_last_duration_seconds",
        &[CLUSTER, "kind"],
        "How long the last move of this kind took; missing where there was none.",
        |reading| of_clusters(reading, last),
    ),
    gauge(
        "delphinus_remote_relay_up",
        &[CLUSTER, "relay"],
        "1 if the relay of another process has answered the last question, 0 if not. It is asked while the role moves, and by SWITCHOVER CHECK.",
        |reading| of_clusters(reading, answers),
    ),
    counter(
        "delphinus_remote_relay_questions_total",
        &[CLUSTER, "relay", "result"],
        "Questions and orders to the relay of another process, by whether it has answered.",
        |reading| of_clusters(reading, questions),
    ),
];
