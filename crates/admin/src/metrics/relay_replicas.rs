//! Replication relays: what goes out.

use std::collections::BTreeMap;

use delphinus_telemetry::{Point, Value};

use super::{Measured, counter, gauge};
use crate::command::relay_replicas::{RelayReplicaRow, RelaySentRow};

const LABELS: [&str; 3] = ["relay", "host", "server_id"];
/// So many replicas of a relay have labels of their own. Both are the replica's own words: whoever may log in could make up any number.
const MOST: usize = 100;
/// What stands for the others.
const REST: &str = "(rest)";

/// The replicas by their labels. Of those that have the same ones, the one that is furthest behind counts. Programs as `mysqlbinlog` are
/// none: several of one host have the same labels.
fn by_labels(replicas: Vec<RelayReplicaRow>) -> BTreeMap<[String; 3], RelayReplicaRow> {
    let mut all: BTreeMap<[String; 3], RelayReplicaRow> = BTreeMap::new();
    for one in replicas.into_iter().filter(|one| !one.is_program) {
        let own = [one.relay.clone(), one.host.clone(), one.server_id.to_string()];
        let has_room = || all.keys().filter(|[relay, ..]| *relay == one.relay).count() < MOST;
        let labels = if all.contains_key(&own) || has_room() {
            own
        } else {
            [one.relay.clone(), REST.to_owned(), REST.to_owned()]
        };
        if all.get(&labels).is_none_or(|other| other.behind_bytes < one.behind_bytes) {
            all.insert(labels, one);
        }
    }
    all
}

fn each(reading: &super::Reading<'_>, value: impl Fn(&RelayReplicaRow) -> Value) -> Vec<Point> {
    let replicas = by_labels(reading.console.parts.proxy.relay_replicas());
    replicas.iter().map(|(labels, one)| Point::new(labels, value(one))).collect()
}

fn of_relay(reading: &super::Reading<'_>, value: impl Fn(&RelaySentRow) -> u64) -> Vec<Point> {
    let relays = reading.console.parts.proxy.relay_sent();
    relays.iter().map(|one| Point::whole([&one.relay], value(one))).collect()
}

pub(super) static METRICS: [Measured; 7] = [
    gauge(
        "delphinus_relay_replicas",
        &["relay"],
        "Servers that follow the relay; programs such as mysqlbinlog are in the table relay_replicas alone.",
        |reading| {
            let replicas = reading.console.parts.proxy.relay_replicas();
            of_relay(reading, |relay| {
                replicas.iter().filter(|one| one.relay == relay.relay && !one.is_program).count() as u64
            })
        },
    ),
    gauge(
        "delphinus_relay_replica_behind_bytes",
        &LABELS,
        "Bytes of the log that the replica was not sent yet; of those of a relay beyond 100, in (rest), that is furthest behind.",
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

#[cfg(test)]
mod tests {
    use super::*;

    fn replica(host: &str, server_id: u32, behind_bytes: u64) -> RelayReplicaRow {
        RelayReplicaRow {
            relay: "r".to_owned(),
            host: host.to_owned(),
            server_id,
            behind_bytes,
            ..RelayReplicaRow::default()
        }
    }

    #[test]
    fn labels_are_there_once_and_have_a_bound() {
        let program = RelayReplicaRow { is_program: true, ..replica("db1", 1, 9) };
        // Two containers of one host may have one server_id.
        let few =
            vec![program.clone(), program, replica("db1", 1, 5), replica("db1", 1, 7), replica("db2", 1, 0)];
        let seen: Vec<_> =
            by_labels(few).into_iter().map(|(labels, one)| (labels, one.behind_bytes)).collect();
        let labels = |host: &str, id: &str| ["r", host, id].map(str::to_owned);
        assert_eq!(seen, [(labels("db1", "1"), 7), (labels("db2", "1"), 0)]);
        let many = (0..1000).map(|id| replica("db", id, id.into()));
        let other = RelayReplicaRow { relay: "other".to_owned(), ..replica("db", 7, 0) };
        let all = by_labels(many.chain([other]).collect());
        assert_eq!(all.len(), MOST + 2);
        assert_eq!(all[&labels(REST, REST)].behind_bytes, 999);
    }
}
