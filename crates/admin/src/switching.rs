//! By which operators have the primary's role of a cluster moved, and see how that went.

use std::pin::Pin;
use std::time::{Duration, SystemTime};

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
    /// What has become of all moves since the start, by their kinds.
    fn ends(&self) -> Vec<MoveEnds>;
    /// The relays of other processes that acknowledge to the primary.
    fn remote_relays(&self) -> Vec<RemoteRelayRow>;
}

/// What has become of all moves of one kind.
#[derive(Debug, Clone)]
pub struct MoveEnds {
    /// As [`MoveRow::kind`].
    pub kind: &'static str,
    /// How often, by the state in which they ended.
    pub counts: Vec<(&'static str, u64)>,
    /// How long the last one took.
    pub last: Duration,
}

/// What a relay of another process has answered. It is asked while the role moves, and in looks before that.
#[derive(Debug, Clone)]
pub struct RemoteRelayRow {
    /// Its name.
    pub name: String,
    /// It has answered the last time; `None`: it was not asked yet.
    pub answers: Option<bool>,
    /// Questions that it has answered, and those that it has not, or not as it should.
    pub questions: [u64; 2],
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
