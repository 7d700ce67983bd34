//! Logs of statements. Owns what a line says in each format, the queues between workers and the file, and the thread that writes it.
//! Must not know sessions, nor how a statement is run.
//!
//! | question | file |
//! |---|---|
//! | what is known of a statement that is logged | `entry` |
//! | MySQL's slow log, JSON lines, `key=value` | `format/*` |
//! | what of a text may be written | `mask` |
//! | what a worker does: what is wanted, its queue | `pen`, `record` |
//! | what is set, what is counted | `journal` |
//! | which logs there are | `logs` |
//! | the thread that writes | `writer` |
//! | the file: rotation, errors | `file` |
//!
//! A statement never waits for its log: each worker has a bounded queue of its own for each log, and an entry for which there is no room
//! is counted and dropped. The thread looks into the queues twenty times a second, so that no worker has to wake it.

mod entry;
mod file;
mod format;
mod journal;
mod logs;
mod mask;
mod pen;
mod record;
mod writer;

pub use entry::{Command, Entry, Origin, PLACES, Route, Side};
pub use journal::{Counts, Flush, Format, Journal, Rotation, Settings, Sides};
pub use logs::{Logs, Pens};
pub use pen::Pen;
