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
//! | where answers are kept, an experiment of its own | `cache` |
//! | the machine | `machine` |
//! | figures, medians, ratios | `figures`, `stats` |
//! | table, JSON, plot, page | `report` |
//! | what a virtual IP costs | `vip` |
//! | what a replication relay costs and brings | `stream` |
//! | sysbench's own load, and programs on machines of their own | `sysbench`, `running` |
//!
//! It must not know how the proxy works: that is a program with a configuration file and a port, as its peers are.

mod cache;
mod figures;
mod load;
mod machine;
mod measure;
mod meter;
mod relay;
mod report;
mod run;
mod running;
mod stats;
mod stream;
mod sysbench;
mod system;
mod vip;
mod workload;

pub use cache::{
    Asked, CacheOptions, CacheReport, CacheRow, EchoArgs, Setup, cache_json, cache_page, cache_plot,
    cache_table, echo, run_cache,
};
pub use figures::{Figure, LeftOut, Results, Row, Sample};
pub use load::Window;
pub use machine::Machine;
pub use relay::{RelayArgs, relay};
pub use report::{json, page, plot, table, write_marked};
pub use run::{Options, Report, Schedule, run_all};
pub use stats::Spread;
pub use stream::{StreamOptions, StreamReport, run_stream, stream_table};
pub use system::System;
pub use vip::{VipOptions, VipReport, VipRow, Way, run_vip, vip_table};
pub use workload::{Protocol, Workload};
