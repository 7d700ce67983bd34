//! What operators see of statements, at length: that all figures of one run agree, that percentiles are right, that memory has its bound,
//! what it costs, and that no secret is shown. `cargo xtask e2e see`.
//!
//! Owns: which parts there are. What each does is in its file; the table of docs/see.md is `page`'s.

mod beside;
mod bound;
mod cost;
mod ground;
mod metrics;
mod page;
mod percentiles;
mod secrets;
mod sums;

use anyhow::Result;
use delphinus_sandbox::Flavor;

pub use ground::Ground;
pub use page::write_rows;

/// Something that was measured, beside what it may be.
#[derive(Debug, Clone)]
pub struct Row {
    /// What was measured; unique.
    pub what: &'static str,
    /// On which servers.
    pub flavor: Flavor,
    /// The figure.
    pub found: String,
    /// What it may be.
    pub bound: String,
    /// It is so.
    pub is_right: bool,
}

/// A part of the run.
pub struct Part {
    /// Its name on the command line.
    pub name: &'static str,
    /// What it measures, in the order of the table.
    pub measures: &'static [&'static str],
    /// Runs it; true: in short.
    pub run: fn(Flavor, bool) -> Result<Vec<Row>>,
}

/// A count as a number to reckon with.
#[expect(clippy::cast_precision_loss, reason = "counts of a run are far below 2^52")]
fn float(count: u64) -> f64 {
    count as f64
}

/// All parts.
pub const PARTS: [Part; 5] = [
    Part { name: "sums", measures: sums::MEASURES, run: sums::run },
    Part { name: "percentiles", measures: percentiles::MEASURES, run: percentiles::run },
    Part { name: "bound", measures: bound::MEASURES, run: bound::run },
    Part { name: "secrets", measures: secrets::MEASURES, run: secrets::run },
    Part { name: "cost", measures: cost::MEASURES, run: cost::run },
];
