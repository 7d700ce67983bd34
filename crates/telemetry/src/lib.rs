//! How the proxy is seen: logs and counters. Nothing here decides anything, and no logic reads it.

mod counters;
mod log;

pub use counters::{Counter, CounterSet, Counters, Sample};
pub use log::{Error, LogControl, LogFormat, LogSettings, start_logging};
