//! The logs of the process, and a thread's ends of them.

use std::sync::Arc;
use std::time::Duration;

use delphinus_memory::Account;

use crate::journal::{Journal, Settings};
use crate::pen::Pen;

/// The logs of statements that there are.
#[derive(Debug, Clone)]
pub struct Logs {
    /// Statements that take long.
    pub slow: Arc<Journal>,
    /// All statements.
    pub sql: Arc<Journal>,
}

impl Logs {
    /// Both, each with its thread.
    pub fn start(account: &Account, slow: Settings, sql: Settings) -> Self {
        Self {
            slow: Journal::start("slow-log", account.clone(), slow),
            sql: Journal::start("sql-log", account.clone(), sql),
        }
    }

    /// Both with their names.
    pub fn all(&self) -> [(&'static str, &Arc<Journal>); 2] {
        [("slow_log", &self.slow), ("sql_log", &self.sql)]
    }

    /// A thread's ends of them.
    pub fn pens(&self) -> Pens {
        Pens { slow: self.slow.pen(), sql: self.sql.pen() }
    }

    /// Waits until what was taken in is written, but for each not beyond `limit`.
    pub fn finish(&self, limit: Duration) {
        self.slow.finish(limit);
        self.sql.finish(limit);
    }
}

/// A thread's ends of the logs.
#[derive(Debug)]
pub struct Pens {
    /// Of the slow log.
    pub slow: Pen,
    /// Of the log of all statements.
    pub sql: Pen,
}

impl Pens {
    /// True if a statement of a client that took so long may be one for a log.
    #[inline]
    pub fn may_want(&self, took_us: u64) -> bool {
        self.slow.may_want(took_us) || self.sql.may_want(took_us)
    }

    /// Gives back what is held for logs that are off.
    pub fn rest(&self) {
        self.slow.rest();
        self.sql.rest();
    }
}
