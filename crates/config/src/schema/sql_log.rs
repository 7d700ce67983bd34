//! `[sql_log]`: all statements, in a file.

use std::path::PathBuf;

use super::{is, unset};
use crate::word::{LogFlush, SqlLogFormat, SqlLogMode};

section! {
    /// All statements are written into a file, those of clients, those that backends are asked, or both. See docs/see.md.
    pub struct SqlLog = "[sql_log]" at "sql_log" {
        /// The file that lines are appended to; it is made readable for its owner alone. It is opened anew each time the configuration is
        /// read again, so that it can be moved away before. Relative paths start at the directory of the configuration file.
        file: Option<PathBuf> = unset("there is no log of all statements"), "", Hot;
        /// "client": each statement of a client. "backend": each command that a backend is asked, the proxy's own in sessions included.
        /// "all": both.
        mode: SqlLogMode = is(SqlLogMode::Client), "", Hot;
        /// "text": a line of `key=value` for each statement. "json": one object for each line.
        format: SqlLogFormat = is(SqlLogFormat::Text), "", Hot;
        /// Statements that take at least this time are written. 0: all are.
        min_duration_ms: u64 = is(0), "ms", Hot, in 0..=86_400_000;
        /// One in this many of these is written, counted by each worker.
        rate_limit: u64 = is(1), "statements", Hot, in 1..=1_000_000_000;
        /// Condition: the client's user is one of these.
        user: Vec<String> = is(vec![]), "", Hot, aka "username";
        /// Condition: the digest of the statement is one of these, 16 hexadecimal digits.
        digest: Vec<String> = is(vec![]), "", Hot;
        /// Texts are written with their literals, which may be secrets. If not, each literal is a `?`. Statements that may tell a password,
        /// as CREATE USER, never have them. Values of prepared statements are never written.
        literals: bool = is(false), "", Hot;
        /// "batch": what has come within 50 ms is written at once. "line": each line is written by itself, within a few milliseconds.
        /// "fsync": each line is on the disk before the next is written. Statements wait for none of these; what the disk does not keep
        /// up with is dropped and counted.
        flush: LogFlush = is(LogFlush::Batch), "", Hot;
        /// A file of this size is moved away to `file.1`, the one before to `file.2`, and so on. 0: it grows.
        max_file_bytes: u64 = is(1_073_741_824), "bytes", Hot, in 0..=1_099_511_627_776;
        /// A file of this age is rotated, too. 0: age does not count.
        max_file_age_s: u64 = is(0), "s", Hot, in 0..=31_536_000;
        /// The number of rotated files that are kept.
        keep_files: u32 = is(7), "files", Hot, in 0..=10_000;
    }
}
