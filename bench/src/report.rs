//! The results for people and programs: a table, JSON, a plot, and the page in docs.

mod json;
mod table;

pub use json::json;
pub use table::table;
