//! The results for people and programs: a table, JSON, a plot, and the page in docs.

mod json;
mod marked;
mod page;
mod plot;
mod table;

pub use json::json;
pub use marked::write_marked;
pub use page::page;
pub use plot::plot;
pub use table::table;
