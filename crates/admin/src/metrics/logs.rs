//! What has become of entries of the logs of statements.

use std::sync::Arc;

use delphinus_journal::Journal;
use delphinus_telemetry::Point;

use super::{Measured, Reading, counter};

pub(super) static METRICS: [Measured; 2] = [
    counter(
        "delphinus_log_entries_total",
        &["log", "result"],
        "Entries of the logs of statements (slow_log, sql_log): written, dropped because they came faster than the disk takes them, failed \
         because the file could not be written.",
        |reading| {
            let of = |(name, log): (&'static str, &Arc<Journal>)| {
                let counts = log.counts();
                [("written", counts.written), ("dropped", counts.dropped), ("failed", counts.failed)]
                    .map(|(result, count)| Point::whole([name, result], count))
            };
            both(reading).into_iter().flat_map(of).collect()
        },
    ),
    counter("delphinus_log_bytes_total", &["log"], "Bytes written into the logs of statements.", |reading| {
        both(reading).into_iter().map(|(name, log)| Point::whole([name], log.counts().bytes)).collect()
    }),
];

fn both<'a>(reading: &'a Reading<'_>) -> [(&'static str, &'a Arc<Journal>); 2] {
    let logs = &reading.console.parts.logs;
    [("slow_log", &logs.slow), ("sql_log", &logs.sql)]
}
