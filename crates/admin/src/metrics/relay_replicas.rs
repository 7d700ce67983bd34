//! Replication relays: what goes out.

use delphinus_telemetry::{Point, Value};

use super::{Measured, counter, gauge};
use crate::command::relay_replicas::{RelayReplicaRow, RelaySentRow};

/// What tells replicas apart: two of one host have different ids.
const LABELS: [&str; 3] = ["relay", "host", "server_id"];

fn each(reading: &super::Reading<'_>, value: impl Fn(&RelayReplicaRow) -> Value) -> Vec<Point> {
    let replicas = reading.console.parts.proxy.relay_replicas();
    let point = |one: &RelayReplicaRow| {
        let server_id = one.server_id.to_string();
        Point::new([one.relay.as_str(), one.host.as_str(), server_id.as_str()], value(one))
    };
    replicas.iter().map(point).collect()
}

fn of_relay(reading: &super::Reading<'_>, value: impl Fn(&RelaySentRow) -> u64) -> Vec<Point> {
    let relays = reading.console.parts.proxy.relay_sent();
    relays.iter().map(|one| Point::whole([&one.relay], value(one))).collect()
}

pub(super) static METRICS: [Measured; 7] = [
    gauge("delphinus_relay_replicas", &["relay"], "Replicas that follow the relay.", |reading| {
        let replicas = reading.console.parts.proxy.relay_replicas();
        of_relay(reading, |relay| replicas.iter().filter(|one| one.relay == relay.relay).count() as u64)
    }),
    gauge(
        "delphinus_relay_replica_behind_bytes",
        &LABELS,
        "Bytes of the log that the replica was not sent yet.",
        |reading| each(reading, |replica| Value::Whole(replica.behind_bytes)),
    ),
    gauge(
        "delphinus_relay_replica_delay_seconds",
        &LABELS,
        "How old the last event is that the replica was sent; 0 where it was sent everything.",
        |reading| each(reading, |replica| Value::Real(replica.delay.as_secs_f64())),
    ),
    gauge(
        "delphinus_relay_replica_position_bytes",
        &LABELS,
        "The position up to which the replica was sent the file that it is in.",
        |reading| each(reading, |replica| Value::Whole(replica.position)),
    ),
    counter(
        "delphinus_relay_sent_bytes_total",
        &["relay"],
        "Bytes of events sent to all replicas.",
        |reading| of_relay(reading, |relay| relay.bytes),
    ),
    counter(
        "delphinus_relay_replica_connections_total",
        &["relay"],
        "Times that a replica has begun to follow.",
        |reading| of_relay(reading, |relay| relay.connections),
    ),
    counter(
        "delphinus_relay_replica_refusals_total",
        &["relay"],
        "Times that a replica was refused with error 1236.",
        |reading| of_relay(reading, |relay| relay.refused),
    ),
];
