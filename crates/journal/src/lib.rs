//! Logs of statements. Owns what a line says in each format, the queue between workers and the file, and the thread that writes it.
//! Must not know sessions, nor how a statement is run.
//!
//! | question | file |
//! |---|---|
//! | what is known of a statement that is logged | `entry` |
//! | MySQL's slow log, JSON lines | `format` |
//! | what workers do, bounds, counts | `journal` |
//! | the file: rotation, errors | `file` |
//!
//! A statement never waits for its log: entries go into a bounded queue, and one for which there is no room is counted and dropped. The
//! thread looks into the queue twenty times a second, so that no worker has to wake it.

mod entry;
mod file;
mod format;
mod journal;

pub use entry::Entry;
pub use journal::{Counts, Format, Journal, Rotation, Settings};
