//! Measures the proxy beside its peers, in one run, in turn.
//!
//! | what | file |
//! |---|---|
//! | the load generator | `load` |
//! | the workloads and their tables | `workload` |
//! | the systems: their configuration, start and stop | `system` |
//! | what passing on bytes costs at least | `relay` |
//! | what a process has used | `meter` |
//! | one measurement | `measure` |
//! | rounds | `run` |
//! | the machine | `machine` |
//! | figures, medians, ratios | `figures`, `stats` |
//! | table, JSON, plot, page | `report` |
//!
//! It must not know how the proxy works: that is a program with a configuration file and a port, as its peers are.

mod figures;
mod load;
mod machine;
mod measure;
mod meter;
mod relay;
mod report;
mod run;
mod stats;
mod system;
mod workload;

pub use figures::{Figure, LeftOut, Results, Row, Sample};
pub use load::Window;
pub use machine::Machine;
pub use relay::{RelayArgs, relay};
pub use report::{json, page, plot, table};
pub use run::{Options, Report, Schedule, run_all};
pub use stats::Spread;
pub use system::System;
pub use workload::{Protocol, Workload};
