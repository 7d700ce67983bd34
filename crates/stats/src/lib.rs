//! What statements cost. Owns the counts of all statements by digest, user, schema and backend, the texts of digests, and how counts are
//! added up for whoever asks. Must not know sessions, how a statement is run, or who asks.
//!
//! | question | file |
//! |---|---|
//! | what is counted of one statement | `cost` |
//! | the counts of one row | `row` |
//! | how a time is kept, percentiles | `histogram` |
//! | what a worker does for each statement | `recorder` |
//! | what all workers share: names, texts, bounds, RESET | `statistics` |
//! | sums, by whatever is asked | `sums` |
//!
//! Each worker has rows of its own, which no other thread writes: to count costs a few loads and stores, no lock and no allocation. Only
//! a row that is new takes a lock, and only if it is free.

mod cost;
mod histogram;
mod recorder;
mod row;
mod statistics;
mod sums;

pub use cost::{Cost, Place};
pub use histogram::{BUCKETS, Times, lower_us};
pub use recorder::Recorder;
pub use row::Totals;
pub use statistics::{Limits, Statistics, WhoNo};
pub use sums::{Sum, Who};
