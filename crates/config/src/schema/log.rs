//! `[log]`: what is written about the work of the proxy.

use std::path::PathBuf;

use super::{is, unset};
use crate::word::{LogFormat, LogLevel};

section! {
    /// What is written about the work of the proxy.
    pub struct Log = "[log]" at "log" {
        /// "text" for people, "json" with one object for each line.
        format: LogFormat = is(LogFormat::Text), "", Hot;
        /// Least important level that is written.
        level: LogLevel = is(LogLevel::Info), "", Hot;
        /// File that the lines are appended to. It is opened anew each time the configuration is read again, so that it can be
        /// moved away before. Relative paths start at the directory of the configuration file.
        file: Option<PathBuf> = unset("standard error"), "", Hot;
    }
}
