//! By which operators have the primary's role of a cluster moved, and see how that went.

use std::pin::Pin;
use std::time::SystemTime;

/// What comes of it. An error says what state the servers are in.
pub type Moving<'a, T> = Pin<Box<dyn Future<Output = Result<T, String>> + 'a>>;

/// What moves the role.
pub trait Switching {
    /// What would go wrong with a switchover to this backend, or to whoever fits best.
    fn check(&self, to: Option<String>) -> Moving<'_, Vec<CheckRow>>;
    /// The primary gives its role up.
    fn switch_over<'a>(&'a self, to: Option<String>, by: &'a str) -> Moving<'a, MoveRow>;
    /// The primary is lost. `proceeds`: also where something acknowledged may be lost; `None`: as the configuration says.
    fn fail_over<'a>(
        &'a self,
        to: Option<String>,
        proceeds: Option<bool>,
        by: &'a str,
    ) -> Moving<'a, MoveRow>;
    /// A server that was lost, or rebuilt, follows the primary.
    fn rejoin<'a>(&'a self, name: &str, by: &'a str) -> Moving<'a, MoveRow>;
    /// The last moves, the oldest first.
    fn moves(&self) -> Vec<MoveRow>;
}

/// One look before a switchover.
#[derive(Debug, Clone)]
pub struct CheckRow {
    /// What was looked at.
    pub check: &'static str,
    /// Where; `None`: the cluster as a whole.
    pub backend: Option<String>,
    /// `ok`, `warning` or `failed`, and what was found.
    pub verdict: &'static str,
    /// What was found.
    pub result: String,
    /// What to do; empty: nothing.
    pub advice: String,
}

/// A move.
#[derive(Debug, Clone)]
pub struct MoveRow {
    /// Its number.
    pub number: u64,
    /// `switchover` or `failover`.
    pub kind: &'static str,
    /// Who had the role.
    pub from: String,
    /// Who takes it.
    pub to: Option<String>,
    /// Who has wanted it.
    pub by: String,
    /// `running`, `done`, `undone` or `failed`.
    pub state: &'static str,
    /// Why it is not done.
    pub reason: Option<String>,
    /// When it began.
    pub began: SystemTime,
    /// Its time line.
    pub lines: Vec<MoveLine>,
}

/// One thing that was done.
#[derive(Debug, Clone)]
pub struct MoveLine {
    /// When, in milliseconds since the move began.
    pub at_ms: u64,
    /// How long it took, in milliseconds.
    pub took_ms: u64,
    /// Where; empty: in the proxy.
    pub backend: String,
    /// What.
    pub step: String,
    /// What came of it.
    pub result: String,
}
