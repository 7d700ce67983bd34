//! Runs the tests both ways and compares.

use std::collections::BTreeMap;
use std::fs::{self, OpenOptions};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

use crate::server_suite::Protocol;
use crate::server_suite::ground::{Ground, Way};
use crate::server_suite::known::{self, Known};
use crate::server_suite::trial::{Trial, Verdict};

/// The pool of the gate.
pub(crate) const CONNECTIONS: u32 = 2;
/// A pool that no test empties: it shows whether a test needs more sessions at the same time than the gate's pool has.
const ENOUGH: u32 = 64;
/// What Delphinus says when its pool is empty.
const POOL_IS_EMPTY: &str = "Delphinus: all 2 connections";
/// Time for one test.
const LIMIT: Duration = Duration::from_mins(2);

/// The tests of `main` that are not run.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Of {
    /// All tests.
    pub(crate) all: usize,
    /// Those that this crate leaves out.
    pub(crate) left_out: usize,
    /// Those that `mariadb-test-run` does not run.
    pub(crate) refused: usize,
}

/// What the tests came to in one protocol.
#[derive(Debug, Clone)]
pub struct Outcome {
    /// How statements were sent.
    pub protocol: Protocol,
    /// Of how many tests these are.
    pub(crate) of: Of,
    /// Tests that passed straight.
    pub straight: Vec<String>,
    /// How many failed straight: they are for another kind of server.
    pub failed_straight: usize,
    /// How many said that they cannot run.
    pub skipped: usize,
    /// How many passed through Delphinus, of those that passed straight.
    pub through: usize,
    /// Passed straight, failed through: each with what it said.
    pub differences: Vec<(String, String)>,
    /// Deliberate differences.
    pub known: Vec<Known>,
    /// Known as deliberate differences, and passed.
    pub no_difference: Vec<String>,
    /// They keep more than two sessions busy at the same time, and pass with a larger pool.
    pub crowded: Vec<String>,
    /// They failed once and passed, or the other way round.
    pub unsteady: Vec<String>,
    /// How long it took.
    pub took: Duration,
}

impl Outcome {
    /// Nothing fails through Delphinus that passes straight, and what is known to differ does.
    pub fn is_good(&self) -> bool {
        self.differences.is_empty() && self.no_difference.is_empty()
    }
}

/// Where the tests run.
#[derive(Debug)]
pub(crate) struct Field<'a> {
    pub(crate) protocol: Protocol,
    /// What failing tests say goes there, a file each.
    pub(crate) keep: Option<&'a Path>,
}

/// Runs all tests both ways at the same time, each way on its own server.
pub(crate) fn both_ways(field: &Field<'_>, direct: &mut Ground, through: &mut Ground) -> Result<Outcome> {
    let begun = Instant::now();
    let names = direct.names();
    let (straight, proxied) = std::thread::scope(|scope| {
        let straight = scope.spawn(|| field.sweep(direct, &names, Way::Direct));
        let proxied = field.sweep(through, &names, Way::Through(CONNECTIONS));
        (straight.join().expect("invariant: no panic in a sweep"), proxied)
    });
    let (straight, proxied) = (straight.context("straight")?, proxied.context("through Delphinus")?);
    let has_passed =
        |runs: &BTreeMap<String, Trial>, name: &String| runs.get(name).is_some_and(Trial::has_passed);
    let count = |wanted: &[Verdict]| straight.values().filter(|one| wanted.contains(&one.verdict)).count();
    let passed: Vec<String> = names.iter().filter(|name| has_passed(&straight, name)).cloned().collect();
    let failed: Vec<String> = passed.iter().filter(|name| !has_passed(&proxied, name)).cloned().collect();
    let mut outcome = Outcome {
        failed_straight: count(&[Verdict::Failed, Verdict::TimedOut]),
        skipped: count(&[Verdict::Skipped]),
        through: passed.len() - failed.len(),
        straight: passed,
        ..Outcome::new(field.protocol)
    };
    outcome.no_difference = known_among(&outcome.straight, &failed, field.protocol);
    field.again(through, &failed, &mut outcome)?;
    outcome.took = begun.elapsed();
    Ok(outcome)
}

/// Runs tests through Delphinus, and only those straight that fail there.
pub(crate) fn one_way(field: &Field<'_>, ground: &mut Ground) -> Result<Outcome> {
    let begun = Instant::now();
    let names = ground.names();
    let proxied = field.sweep(ground, &names, Way::Through(CONNECTIONS))?;
    let is = |name: &String, wanted: &[Verdict]| {
        proxied.get(name).is_some_and(|run| wanted.contains(&run.verdict))
    };
    let passed: Vec<String> = names.iter().filter(|name| is(name, &[Verdict::Passed])).cloned().collect();
    let mut failed: Vec<String> =
        names.into_iter().filter(|name| is(name, &[Verdict::Failed, Verdict::TimedOut])).collect();
    let skipped = proxied.len() - passed.len() - failed.len();
    let straight = field.sweep(ground, &failed, Way::Direct)?;
    failed.retain(|name| straight.get(name).is_some_and(Trial::has_passed));
    let mut outcome = Outcome {
        through: passed.len(),
        failed_straight: straight.len() - failed.len(),
        skipped,
        straight: [passed, failed.clone()].concat(),
        ..Outcome::new(field.protocol)
    };
    outcome.no_difference = known_among(&outcome.straight, &failed, field.protocol);
    field.again(ground, &failed, &mut outcome)?;
    outcome.took = begun.elapsed();
    Ok(outcome)
}

/// Tests that are known to differ and have passed both ways.
fn known_among(straight: &[String], failed: &[String], protocol: Protocol) -> Vec<String> {
    let is_known = |name: &&String| known::known(name, protocol).is_some() && !failed.contains(name);
    straight.iter().filter(is_known).cloned().collect()
}

impl Outcome {
    fn new(protocol: Protocol) -> Self {
        Self {
            protocol,
            of: Of::default(),
            straight: Vec::new(),
            failed_straight: 0,
            skipped: 0,
            through: 0,
            differences: Vec::new(),
            known: Vec::new(),
            no_difference: Vec::new(),
            crowded: Vec::new(),
            unsteady: Vec::new(),
            took: Duration::ZERO,
        }
    }
}

impl Field<'_> {
    fn sweep(&self, ground: &mut Ground, names: &[String], way: Way) -> Result<BTreeMap<String, Trial>> {
        let mut runs = BTreeMap::new();
        for name in names {
            let run = ground.run((name, self.protocol), way, LIMIT).with_context(|| name.clone())?;
            self.keep(&run, way)?;
            runs.insert(name.clone(), run);
            if runs.len().is_multiple_of(50) {
                eprintln!("{} {way:?}: {} of {} tests", self.protocol.word(), runs.len(), names.len());
            }
        }
        Ok(runs)
    }

    /// Runs tests that failed through Delphinus once more, both ways, and finds out what kind of failure each is.
    fn again(&self, ground: &mut Ground, failed: &[String], outcome: &mut Outcome) -> Result<()> {
        let (known, unknown): (Vec<&String>, Vec<&String>) =
            failed.iter().partition(|name| known::known(name, self.protocol).is_some());
        outcome.known.extend(known.into_iter().filter_map(|name| known::known(name, self.protocol)));
        let unknown: Vec<String> = unknown.into_iter().cloned().collect();
        let proxied = self.sweep(ground, &unknown, Way::Through(CONNECTIONS))?;
        let straight = self.sweep(ground, &unknown, Way::Direct)?;
        for (name, run) in proxied {
            let passes_straight = straight.get(&name).is_some_and(Trial::has_passed);
            if run.has_passed() || !passes_straight {
                outcome.unsteady.push(name);
                continue;
            }
            let mut said = run.said;
            if said.contains(POOL_IS_EMPTY) {
                let one = std::slice::from_ref(&name);
                let roomy = self.sweep(ground, one, Way::Through(ENOUGH))?.remove(&name);
                if roomy.as_ref().is_some_and(Trial::has_passed) {
                    outcome.crowded.push(name);
                    continue;
                }
                said = roomy.map_or(said, |run| run.said);
            }
            outcome.differences.push((name, said));
        }
        Ok(())
    }

    /// Leaves what came of a test in the folder: a line in the list of all, and a file if it failed.
    fn keep(&self, run: &Trial, way: Way) -> Result<()> {
        let Some(folder) = self.keep else { return Ok(()) };
        let way = match way {
            Way::Direct => "straight".to_owned(),
            Way::Through(connections) => format!("through-{connections}"),
        };
        let folder: PathBuf = folder.join(self.protocol.word()).join(way);
        fs::create_dir_all(&folder)?;
        let came_to = format!("{:?} after {:.1} s", run.verdict, run.took.as_secs_f64());
        let mut list = OpenOptions::new().create(true).append(true).open(folder.join("all.log"))?;
        writeln!(list, "{} {came_to}", run.name)?;
        let file = folder.join(format!("{}.txt", run.name));
        if matches!(run.verdict, Verdict::Failed | Verdict::TimedOut) {
            fs::write(&file, format!("{came_to}\n{}", run.said))
                .with_context(|| format!("cannot write {}", file.display()))?;
        }
        Ok(())
    }
}
