//! Tables that operators read by SELECT. Owns what a table is (columns with type, unit and help, or a view over other tables), and an
//! embedded SQLite that answers one statement over copies of them, within bounds of time and memory, on a thread of its own.
//! Must not know where rows come from, who asks, or how answers are sent.
//!
//! | question | file |
//! |---|---|
//! | what is a table, which are there | `table` |
//! | a value | `cell` |
//! | what a table has: rows, or files | `content` |
//! | functions of ours | `function` |
//! | functions of SQLite that would take too long | `timed`, `pattern` |
//! | a statement: what it reads, its answer | `query` |
//! | what a statement may do, and how much | `bounds` |
//! | the thread | `engine` |
//! | why there is no answer | `fault` |
//! | the reference page | `reference` |
//!
//! A statement runs in two steps. [`Query::plan`] lets SQLite read the text over empty tables: its authorizer tells which tables and
//! columns the statement reads, and refuses everything but reading. [`Query::run`] takes the rows of these tables and answers.
//! SQLite is given nothing that outlives the statement: each has a database of its own, in memory. Files of a table are only read.

mod bounds;
mod cell;
mod content;
mod engine;
mod fault;
mod function;
mod pattern;
mod query;
mod reference;
mod table;
mod timed;

pub use bounds::{MAX_ANSWER_BYTES, MAX_ANSWER_ROWS, MAX_BYTES, MAX_VALUE_BYTES, TIME_LIMIT};
pub use cell::Cell;
pub use content::{Content, MAX_FILES};
pub use engine::{Engine, Work};
pub use fault::Fault;
pub use function::Function;
pub use query::{Answer, Query, Reads};
pub use reference::reference;
pub use table::{Catalog, Column, Kind, Table};
