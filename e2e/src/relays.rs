//! Replication relays on real servers: MySQL and MariaDB replicas follow a relay as they would a primary, while it is killed, while
//! the log rotates, while transactions of all kinds go through it. `cargo xtask e2e relay` runs all parts.

mod chain;
mod compression;
mod ground;
mod kills;
mod load;
mod places;
mod refusals;
mod rpl;
mod several;
mod stream;
mod strong;

use anyhow::Result;
use delphinus_sandbox::Flavor;

pub use compression::check_compression;
pub use ground::{Ground, RelayProcess};
pub use stream::check_briefly;
pub use strong::check_kills_briefly;

/// What is checked on its own servers.
pub struct Part {
    /// Its name on the command line.
    pub name: &'static str,
    /// Only where it is named: it takes hours.
    pub is_extra: bool,
    /// Runs it: what was found, a line for each check. An error is a check that failed.
    pub run: fn(Flavor, Length) -> Result<Vec<String>>,
}

/// How much of it is run.
#[derive(Debug, Clone, Copy, Default)]
pub struct Length {
    /// The short form.
    pub is_quick: bool,
    /// How often something is killed, where the part does not say so itself.
    pub rounds: Option<u32>,
}

impl Length {
    fn rounds(self, usual: u32) -> u32 {
        self.rounds.unwrap_or(usual)
    }
}

/// All parts.
pub const PARTS: [Part; 10] = [
    Part { name: "stream", is_extra: false, run: stream::check },
    Part { name: "refusals", is_extra: false, run: refusals::check },
    Part { name: "places", is_extra: false, run: places::check },
    Part { name: "chain", is_extra: false, run: chain::check },
    Part { name: "compression", is_extra: false, run: compression::check },
    Part { name: "kills", is_extra: false, run: kills::check },
    Part { name: "primary", is_extra: false, run: strong::check },
    Part { name: "several", is_extra: false, run: several::check },
    Part { name: "large", is_extra: false, run: kills::large },
    Part { name: "rpl", is_extra: true, run: rpl::check },
];
