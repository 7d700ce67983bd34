//! MariaDB's own test suite as a gate: the tests of `main` that can run on a server that is there already pass through
//! Delphinus, with a pool of two connections, if they pass straight.
//!
//! Debian's packages have the suite and its programs. `mariadb-test-run` chooses the tests and makes their surroundings;
//! each test is started by this crate, which looks after the server between them.

mod catalogue;
mod first_data;
mod gate;
mod ground;
mod known;
mod mtr;
mod options;
mod page;
mod trial;

use std::fs;
use std::path::PathBuf;

use anyhow::{Result, bail, ensure};

pub use catalogue::PACKAGES;
pub use gate::{Came, Outcome};
pub use known::Difference;
pub use page::{record, summary};

use crate::server_suite::catalogue::Catalogue;
use crate::server_suite::gate::Field;
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
    /// Run only what fails through Delphinus straight, too; and leave out what is known not to pass straight.
    pub is_quick: bool,
    /// How many servers run tests at the same time; one unless told otherwise.
    pub servers: usize,
    /// A folder for what failing tests say.
    pub keep: Option<PathBuf>,
}

/// Runs the suite both ways and calls `seen` after each variant.
pub fn run(selection: &Selection, mut seen: impl FnMut(&Outcome)) -> Result<Vec<Outcome>> {
    let catalogue = Catalogue::read()?;
    let all: Vec<String> = catalogue.tests.keys().cloned().collect();
    let tests = if selection.tests.is_empty() { &all } else { &selection.tests };
    let protocols = if selection.protocols.is_empty() { &Protocol::ALL[..] } else { &selection.protocols };
    let mut grounds = vec![Ground::start(&catalogue, tests)?];
    for _ in 1..selection.servers {
        grounds.push(grounds[0].start_another(&catalogue)?);
    }
    let mut outcomes = Vec::new();
    for protocol in protocols {
        // What an earlier run has left would be taken for this one's.
        let _ = selection.keep.as_ref().map(|folder| fs::remove_dir_all(folder.join(protocol.word())));
        let outcome = one(selection, *protocol, &mut grounds)?;
        let refused = tests.iter().filter(|name| !grounds[0].names().contains(name));
        let refused: Vec<(String, Came)> = refused.map(|name| (name.clone(), Came::Refused)).collect();
        let outcome = Outcome {
            left_out: catalogue.left_out,
            is_whole: selection.tests.is_empty() && !selection.is_quick,
            tests: outcome.tests.into_iter().chain(refused).collect(),
            ..outcome
        };
        seen(&outcome);
        let passed = outcome.passed_straight();
        ensure!(!selection.tests.is_empty() || passed >= FEWEST, "only {passed} tests passed straight");
        outcomes.push(outcome);
    }
    Ok(outcomes)
}

fn one(selection: &Selection, protocol: Protocol, grounds: &mut [Ground]) -> Result<Outcome> {
    let mut names = grounds[0].names();
    if selection.is_quick && selection.tests.is_empty() {
        let in_vain = page::in_vain(protocol)?;
        names.retain(|name| !in_vain.contains(name));
    }
    let mut field = Field { protocol, keep: selection.keep.as_deref(), grounds };
    if selection.is_quick { field.quick(&names) } else { field.whole(&names) }
}
