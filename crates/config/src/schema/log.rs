//! `[log]`: what is written about the work of the proxy.

use std::path::PathBuf;

use super::{is, unset};
use crate::word::{LogFormat, LogLevel};

section! {
    /// What is written about the work of the proxy.
    pub struct Log = "[log]" at "log" {
        /// "text" for people, "json" with one object for each line.
        format: LogFormat = is(LogFormat::Text), "", Hot;
        /// The proxy writes lines of this level and of more important ones, and those of the audit (what operators have changed) at
        /// every level.
        level: LogLevel = is(LogLevel::Info), "", Hot;
        /// File that the proxy appends the lines to. It opens the file anew each time it reads the configuration, also if
        /// that has a mistake, so rotate it by moving it away and then reloading. Relative paths start at the directory of the configuration file.
        file: Option<PathBuf> = unset("standard error"), "", Hot;
    }
}
