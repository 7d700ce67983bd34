//! What has become of entries of the logs of statements.

use delphinus_telemetry::Point;

use super::{Measured, counter};

pub(super) static METRICS: [Measured; 2] = [
    counter(
        "delphinus_slow_log_entries_total",
        &["result"],
        "Entries of the slow log: written, dropped because they came faster than the disk takes them, failed because the file could not \
         be written.",
        |reading| {
            let counts = reading.console.parts.slow_log.counts();
            [("written", counts.written), ("dropped", counts.dropped), ("failed", counts.failed)]
                .map(|(result, count)| Point::whole([result], count))
                .to_vec()
        },
    ),
    counter("delphinus_slow_log_bytes_total", &[], "Bytes written into the slow log.", |reading| {
        vec![Point::whole([""; 0], reading.console.parts.slow_log.counts().bytes)]
    }),
];
