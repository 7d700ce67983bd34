//! Replication relays: what comes in.

use delphinus_telemetry::{Distribution, Point, Value};

use super::{Measured, counter, gauge, histogram};
use crate::command::relays::{RelayRow, RelayTimes};

/// All words for what one does.
const STATES: [&str; 6] = ["stopped", "connecting", "receiving", "retrying", "failed", "cut"];

fn each(reading: &super::Reading<'_>, value: impl Fn(&RelayRow) -> Option<Value>) -> Vec<Point> {
    let relays = reading.console.parts.proxy.relays();
    relays.iter().filter_map(|relay| Some(Point::new([&relay.name], value(relay)?))).collect()
}

fn times(times: &RelayTimes) -> Value {
    Value::Histogram(Distribution { up_to: times.up_to.clone(), sum: times.sum, count: times.count })
}

pub(super) static METRICS: [Measured; 14] = [
    gauge(
        "delphinus_relay_state",
        &["relay", "state"],
        "1 for what the relay does, 0 for all other states.",
        |reading| {
            let mut points = Vec::new();
            for relay in reading.console.parts.proxy.relays() {
                let one = |state| Point::whole([&*relay.name, state], (state == relay.state).into());
                points.extend(STATES.map(one));
            }
            points
        },
    ),
    gauge(
        "delphinus_relay_acknowledging",
        &["relay"],
        "1 while the relay acknowledges what is on its disk (semi-sync). The source may wait for that, or may not.",
        |reading| each(reading, |relay| Some(Value::Whole(relay.is_acknowledging.into()))),
    ),
    gauge(
        "delphinus_relay_epoch",
        &["relay"],
        "Grows each time that the source is cut off, or is another one.",
        |reading| each(reading, |relay| Some(Value::Whole(relay.epoch))),
    ),
    gauge("delphinus_relay_files", &["relay"], "Files of the relay.", |reading| {
        each(reading, |relay| Some(Value::Whole(relay.files)))
    }),
    gauge("delphinus_relay_file_bytes", &["relay"], "Bytes in the files of the relay.", |reading| {
        each(reading, |relay| Some(Value::Whole(relay.bytes)))
    }),
    gauge(
        "delphinus_relay_receive_delay_seconds",
        &["relay"],
        "How long after it began on the source the newest transaction was durable here.",
        |reading| each(reading, |relay| Some(Value::Real(relay.delay?.as_secs_f64()))),
    ),
    gauge(
        "delphinus_relay_source_silence_seconds",
        &["relay"],
        "The time since the source last sent something, heartbeats included.",
        |reading| each(reading, |relay| Some(Value::Real(relay.silence?.as_secs_f64()))),
    ),
    counter(
        "delphinus_relay_received_bytes_total",
        &["relay"],
        "Bytes received from the source.",
        |reading| each(reading, |relay| Some(Value::Whole(relay.received_bytes))),
    ),
    counter(
        "delphinus_relay_failures_total",
        &["relay"],
        "Connections to the source that have failed or ended.",
        |reading| each(reading, |relay| Some(Value::Whole(relay.failures))),
    ),
    counter("delphinus_relay_removed_files_total", &["relay"], "Old files that were removed.", |reading| {
        each(reading, |relay| Some(Value::Whole(relay.removed_files)))
    }),
    gauge(
        "delphinus_relay_unarchived_files",
        &["relay"],
        "Closed files that archive_command has not taken yet.",
        |reading| each(reading, |relay| Some(Value::Whole(relay.archive.as_ref()?.waiting))),
    ),
    counter(
        "delphinus_relay_archive_failures_total",
        &["relay"],
        "Times that archive_command has not taken a file.",
        |reading| each(reading, |relay| Some(Value::Whole(relay.archive.as_ref()?.failures))),
    ),
    histogram(
        "delphinus_relay_sync_seconds",
        &["relay"],
        "How long each write with its fdatasync took.",
        |reading| each(reading, |relay| Some(times(&relay.syncs))),
    ),
    histogram(
        "delphinus_relay_ack_seconds",
        &["relay"],
        "From the arrival of bytes of the source to their acknowledgement.",
        |reading| each(reading, |relay| Some(times(&relay.ack_times))),
    ),
];
