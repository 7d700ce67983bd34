//! How the proxy is seen: logs, counters, and the words for what sessions wait for. Nothing here decides anything, and no logic reads it.

mod calendar;
mod counters;
mod error_kind;
mod log;
mod metrics;
mod pace;
mod wait;

pub use calendar::{date_time, rfc3339};
pub use counters::{
    CLUSTER, ClusterCounters, Counter, CounterSet, ProcessCounters, Sample, ThreadCounters, series,
};
pub use error_kind::{ErrorKind, Retry, Source};
pub use log::{AUDIT_TARGET, Error, LogControl, LogFormat, LogSettings, NextLog, start_logging};
pub use metrics::{Distribution, Exposition, METRICS_TYPE, Metric, MetricKind, Point, Value};
pub use pace::Pace;
pub use wait::{Wait, WaitCell, Waiting};
