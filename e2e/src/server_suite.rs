//! MariaDB's own test suite as a gate: the tests of `main` that can run on a server that is there already pass through
//! Delphinus, with a pool of two connections, if they pass straight.
//!
//! Debian's packages have the suite and its programs. `mariadb-test-run` chooses the tests and makes their surroundings;
//! each test is started by this crate, which looks after the server between them.

mod catalogue;
mod gate;
mod ground;
mod known;
mod mtr;
mod page;
mod trial;

use std::fs;
use std::path::PathBuf;

use anyhow::{Result, bail, ensure};

pub use catalogue::PACKAGES;
pub use gate::Outcome;
pub use known::Known;
pub use page::{record, summary};

use crate::server_suite::catalogue::Catalogue;
use crate::server_suite::gate::{Field, Of};
use crate::server_suite::ground::Ground;

/// With fewer tests that pass straight, the suite did not really run.
const FEWEST: usize = 600;

/// How the suite's programs send statements.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Protocol {
    /// As text.
    Plain,
    /// Prepared, where that can be.
    Prepared,
}

impl Protocol {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Plain, Self::Prepared];

    /// Its name on the command line and in the results.
    pub fn word(self) -> &'static str {
        match self {
            Self::Plain => "plain",
            Self::Prepared => "ps-protocol",
        }
    }

    /// The one of this name.
    pub fn named(name: &str) -> Result<Self> {
        match Self::ALL.into_iter().find(|one| one.word() == name) {
            Some(one) => Ok(one),
            None => bail!("no variant {name}; there are {}", Self::ALL.map(Self::word).join(", ")),
        }
    }

    fn options(self) -> &'static [&'static str] {
        match self {
            Self::Plain => &[],
            Self::Prepared => &["--ps-protocol"],
        }
    }
}

/// What to run.
#[derive(Debug, Clone, Default)]
pub struct Selection {
    /// Tests by name; all if empty.
    pub tests: Vec<String>,
    /// Variants; both if empty.
    pub protocols: Vec<Protocol>,
    /// Run only what fails through Delphinus straight, too.
    pub is_quick: bool,
    /// A folder for what failing tests say.
    pub keep: Option<PathBuf>,
}

/// Runs the suite both ways and calls `seen` after each variant.
pub fn run(selection: &Selection, mut seen: impl FnMut(&Outcome)) -> Result<Vec<Outcome>> {
    let catalogue = Catalogue::read()?;
    let tests = if selection.tests.is_empty() { &catalogue.tests } else { &selection.tests };
    let protocols = if selection.protocols.is_empty() { &Protocol::ALL[..] } else { &selection.protocols };
    let mut direct = Ground::start(&catalogue, tests)?;
    let mut through = if selection.is_quick { None } else { Some(direct.start_another(&catalogue)?) };
    let mut outcomes = Vec::new();
    for protocol in protocols {
        // What an earlier run has left would be taken for this one's.
        let _ = selection.keep.as_ref().map(|folder| fs::remove_dir_all(folder.join(protocol.word())));
        let field = Field { protocol: *protocol, keep: selection.keep.as_deref() };
        let mut outcome = match &mut through {
            Some(through) => gate::both_ways(&field, &mut direct, through)?,
            None => gate::one_way(&field, &mut direct)?,
        };
        outcome.of = Of {
            all: catalogue.tests.len() + catalogue.left_out,
            left_out: catalogue.left_out,
            refused: tests.len() - direct.names().len(),
        };
        seen(&outcome);
        let passed = outcome.straight.len();
        ensure!(!selection.tests.is_empty() || passed >= FEWEST, "only {passed} tests passed straight");
        outcomes.push(outcome);
    }
    Ok(outcomes)
}
