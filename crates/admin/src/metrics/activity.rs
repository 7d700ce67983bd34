//! What becomes of the samples of activity.

use delphinus_telemetry::Point;

use super::{Measured, counter, gauge};

pub(super) static METRICS: [Measured; 2] = [
    counter(
        "delphinus_activity_samples_total",
        &["result"],
        "Samples of activity: stored (those with an active session), dropped because the disk was too slow, failed because they could \
         not be written.",
        |reading| {
            let counts = reading.console.parts.history.counts();
            [("stored", counts.samples), ("dropped", counts.dropped), ("failed", counts.failed)]
                .map(|(result, count)| Point::whole([result], count))
                .to_vec()
        },
    ),
    gauge(
        "delphinus_activity_storage_bytes",
        &[],
        "The size of the files of activity and snapshots.",
        |reading| vec![Point::whole([""; 0], reading.console.parts.history.counts().bytes)],
    ),
];
