//! What it costs when the proxy moves the primary's role itself: planned, and after kill -9 of the primary. Clients append to lists, as
//! for docs/failover.md, and sysbench works beside them; their history is judged. `cargo xtask e2e ha` writes the table of
//! docs/switchover.md with it.

mod actor;
mod kills;
mod moves;
mod page;
mod relayed;
mod scene;
mod summary;

use std::collections::BTreeMap;
use std::time::Duration;

pub use page::write_row;

use crate::failover::Servers;

/// So often on the same servers: the clients' lists grow, all that is read of them is kept to be judged, and that has the square of the
/// length.
const AT_ONCE: usize = 10;

/// What is done again and again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    /// `SWITCHOVER`.
    Switchover,
    /// kill -9 of the primary, with `auto_failover`.
    Kill,
    /// The same with two proxies, and the one that acts is killed, too: at each step of the failover in its turn.
    ActorKilled,
    /// kill -9 of the primary where a relay alone acknowledges, and is waited for without end.
    Relay,
    /// The same, and the process of the proxy and the relay is killed, too, when the relay is cut.
    RelayKilled,
    /// `SWITCHOVER` where a relay alone acknowledges.
    RelaySwitchover,
}

impl Part {
    /// All.
    pub const ALL: [Self; 6] = [
        Self::Switchover,
        Self::Kill,
        Self::ActorKilled,
        Self::Relay,
        Self::RelayKilled,
        Self::RelaySwitchover,
    ];

    /// The word for it on the command line.
    pub fn word(self) -> &'static str {
        match self {
            Self::Switchover => "switchover",
            Self::Kill => "kill",
            Self::Relay => "relay",
            Self::RelayKilled => "relay-killed",
            Self::ActorKilled => "actor-killed",
            Self::RelaySwitchover => "relay-switchover",
        }
    }

    /// What the table says.
    fn title(self) -> &'static str {
        match self {
            Self::Switchover => "SWITCHOVER",
            Self::Kill => "kill -9 of the primary",
            Self::Relay => "kill -9 of the primary, a relay acknowledges",
            Self::RelayKilled => "kill -9 of the primary, then of the proxy with its relay",
            Self::ActorKilled => "kill -9 of the primary, then of the proxy that acts",
            Self::RelaySwitchover => "SWITCHOVER, a relay acknowledges",
        }
    }

    /// True if a relay alone acknowledges.
    fn is_relayed(self) -> bool {
        matches!(self, Self::Relay | Self::RelayKilled | Self::RelaySwitchover)
    }

    /// True if sysbench works, too, and no client may see an error.
    pub(crate) fn is_planned(self) -> bool {
        matches!(self, Self::Switchover | Self::RelaySwitchover)
    }

    /// True if it can be done on these servers: without semi-sync a killed primary may take something with it, and a group does it
    /// itself.
    pub fn fits(self, servers: Servers) -> bool {
        self == Self::Switchover || matches!(servers, Servers::MySqlSemiSync | Servers::MariaDbSemiSync)
    }
}

/// What came of one kind.
#[derive(Debug)]
pub struct Row {
    /// What was done.
    pub part: Part,
    /// On which servers.
    pub servers: Servers,
    /// How often.
    pub rounds: usize,
    /// Writes that were acknowledged, and transactions of sysbench.
    pub work: [usize; 2],
    /// Acknowledged writes that were lost.
    pub lost: usize,
    /// What else must not be, in words.
    pub wrongs: Vec<String>,
    /// Errors of clients by number.
    pub errors: BTreeMap<String, usize>,
    /// From the command or the kill until a write was acknowledged that had begun after it, of each round.
    pub until_writes: Vec<Duration>,
    /// The longest that a client waited for the answer to a write.
    pub longest: Duration,
}

impl Row {
    /// How often it is still done on the next servers.
    fn left(&self) -> usize {
        self.rounds.saturating_sub(self.until_writes.len()).min(AT_ONCE)
    }

    /// For whoever waits: it takes an hour.
    fn say_progress(&self) {
        let (part, servers) = (self.part.word(), self.servers.word());
        eprintln!("{part} {servers}: {} of {} done", self.until_writes.len(), self.rounds);
    }

    /// True if nothing was found that must not be: a planned move costs no error, a killed primary those of what was under way.
    pub fn is_good(&self) -> bool {
        let ends_sessions = self.part == Part::RelayKilled;
        let may = |kind: &String| match kind.as_str() {
            "1213" | "9101" => !self.part.is_planned(),
            // Of the proxy that was killed.
            "closed" | "2013" => ends_sessions,
            _ => false,
        };
        self.lost == 0 && self.wrongs.is_empty() && self.errors.keys().all(may)
    }
}

/// Does it so often.
pub fn run(part: Part, servers: Servers, rounds: usize) -> anyhow::Result<Row> {
    let row = Row {
        part,
        servers,
        rounds,
        work: [0; 2],
        lost: 0,
        wrongs: Vec::new(),
        errors: BTreeMap::new(),
        until_writes: Vec::new(),
        longest: Duration::ZERO,
    };
    match part {
        Part::Switchover | Part::RelaySwitchover => moves::run(row),
        Part::Kill | Part::ActorKilled | Part::Relay | Part::RelayKilled => kills::run(row),
    }
}
