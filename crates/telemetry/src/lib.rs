//! How the proxy is seen: logs and counters. Nothing here decides anything, and no logic reads it.

mod calendar;
mod counters;
mod error_kind;
mod log;
mod metrics;
mod pace;

pub use calendar::{date_time, rfc3339};
pub use counters::{
    CLUSTER, ClusterCounters, Counter, CounterSet, ProcessCounters, Sample, ThreadCounters, series,
};
pub use error_kind::{ErrorKind, Retry, Source};
pub use log::{Error, LogControl, LogFormat, LogSettings, NextLog, start_logging};
pub use metrics::{Distribution, Exposition, METRICS_TYPE, Metric, MetricKind, Point, Value};
pub use pace::Pace;
