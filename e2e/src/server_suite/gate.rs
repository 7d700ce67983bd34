//! Runs the tests both ways and compares.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fs::{self, OpenOptions};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

use crate::server_suite::Protocol;
use crate::server_suite::ground::{Ground, Way};
use crate::server_suite::known;
use crate::server_suite::trial::{Trial, Verdict};

/// The pool of the gate.
pub(crate) const CONNECTIONS: u32 = 2;
/// A pool that no test empties: it shows whether a test needs more sessions at the same time than the gate's pool has.
const ENOUGH: u32 = 64;
/// What tests say when the pool is empty: Delphinus' own words, or that a session does not come to where others wait for it,
/// because it waits for a connection.
const POOL_IS_EMPTY: [&str; 2] = ["Delphinus: all 2 connections", "Timeout in wait_condition.inc"];
/// Time for one test.
const LIMIT: Duration = Duration::from_mins(2);
/// And for one that is run again: where the machine was busy, two minutes were not enough for several.
const LIMIT_AGAIN: Duration = Duration::from_mins(6);

/// What a test came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Came {
    /// Passed both ways.
    Passed,
    /// Passed straight, failed through Delphinus.
    Different,
    /// The same, on purpose.
    Known,
    /// It keeps more than two sessions busy at the same time, and passes with a larger pool.
    Crowded,
    /// It failed once and passed, or the other way round.
    Unsteady,
    /// It is known to differ on purpose, and passed: some depend on what was done on the connection before.
    NoDifference,
    /// It is for another kind of server.
    FailedStraight,
    /// It said that it cannot run.
    Skipped,
    /// `mariadb-test-run` does not run it.
    Refused,
}

impl Came {
    /// With all of these a test passes straight.
    pub(crate) const STRAIGHT: [Self; 6] =
        [Self::Passed, Self::Different, Self::Known, Self::Crowded, Self::Unsteady, Self::NoDifference];
}

/// What the tests came to in one protocol.
#[derive(Debug, Clone)]
pub struct Outcome {
    /// How statements were sent.
    pub protocol: Protocol,
    /// All tests that were run.
    pub tests: BTreeMap<String, Came>,
    /// What those said that differ, and those that are unsteady when they failed.
    pub said: BTreeMap<String, String>,
    /// How many tests of `main` are left out.
    pub left_out: usize,
    /// These are all tests, run both ways.
    pub is_whole: bool,
    /// How long it took.
    pub took: Duration,
}

impl Outcome {
    pub(crate) fn new(protocol: Protocol) -> Self {
        Self {
            protocol,
            tests: BTreeMap::new(),
            said: BTreeMap::new(),
            left_out: 0,
            is_whole: false,
            took: Duration::ZERO,
        }
    }

    /// Nothing fails through Delphinus that passes straight, but what is known to.
    pub fn is_good(&self) -> bool {
        self.count(&[Came::Different]) == 0
    }

    /// How many tests came to one of these.
    pub fn count(&self, wanted: &[Came]) -> usize {
        self.tests.values().filter(|came| wanted.contains(came)).count()
    }

    /// How many tests pass straight.
    pub fn passed_straight(&self) -> usize {
        self.count(&Came::STRAIGHT)
    }

    /// The tests that came to this.
    pub fn names(&self, wanted: Came) -> Vec<&str> {
        self.tests.iter().filter(|(_, came)| **came == wanted).map(|(name, _)| name.as_str()).collect()
    }
}

/// Where the tests run.
#[derive(Debug)]
pub(crate) struct Field<'a> {
    pub(crate) protocol: Protocol,
    /// What failing tests say goes there, a file each.
    pub(crate) keep: Option<&'a Path>,
    /// The same tests can run on each.
    pub(crate) grounds: &'a mut [Ground],
}

type Runs = BTreeMap<String, Trial>;

fn with(runs: &Runs, wanted: &[Verdict]) -> Vec<String> {
    runs.iter().filter(|(_, run)| wanted.contains(&run.verdict)).map(|(name, _)| name.clone()).collect()
}

impl Field<'_> {
    /// Runs all tests straight, and those that pass through Delphinus.
    pub(crate) fn whole(&mut self, names: &[String]) -> Result<Outcome> {
        let begun = Instant::now();
        let straight = self.sweep(names, Way::Direct, LIMIT)?;
        let proxied = self.sweep(&with(&straight, &[Verdict::Passed]), Way::Through(CONNECTIONS), LIMIT)?;
        self.compare(begun, &straight, &proxied)
    }

    /// Runs tests through Delphinus, and only those straight that fail there.
    pub(crate) fn quick(&mut self, names: &[String]) -> Result<Outcome> {
        let begun = Instant::now();
        let proxied = self.sweep(names, Way::Through(CONNECTIONS), LIMIT)?;
        let failed = with(&proxied, &[Verdict::Failed, Verdict::TimedOut]);
        let mut straight = self.sweep(&failed, Way::Direct, LIMIT)?;
        // They did what the suite expects, or said that they cannot run: straight it is the same.
        let as_expected = proxied.iter().filter(|(name, _)| !failed.contains(name));
        straight.extend(as_expected.map(|(name, run)| (name.clone(), run.clone())));
        self.compare(begun, &straight, &proxied)
    }

    fn compare(&mut self, begun: Instant, straight: &Runs, proxied: &Runs) -> Result<Outcome> {
        let mut outcome = Outcome::new(self.protocol);
        let mut failed = Vec::new();
        for (name, run) in straight {
            let is_known = known::is_known(name);
            let passes = proxied.get(name).is_some_and(Trial::has_passed);
            let came = match (run.verdict, passes) {
                (Verdict::Skipped, _) => Came::Skipped,
                (Verdict::Failed | Verdict::TimedOut, _) => Came::FailedStraight,
                (Verdict::Passed, true) if is_known => Came::NoDifference,
                (Verdict::Passed, true) => Came::Passed,
                (Verdict::Passed, false) if is_known => Came::Known,
                (Verdict::Passed, false) => {
                    failed.push(name.clone());
                    continue;
                }
            };
            outcome.tests.insert(name.clone(), came);
        }
        self.again(&failed, proxied, &mut outcome)?;
        outcome.took = begun.elapsed();
        Ok(outcome)
    }

    /// Runs tests that failed through Delphinus once more, both ways, and finds out what kind of failure each is.
    fn again(&mut self, failed: &[String], before: &Runs, outcome: &mut Outcome) -> Result<()> {
        let proxied = self.sweep(failed, Way::Through(CONNECTIONS), LIMIT_AGAIN)?;
        let straight = self.sweep(failed, Way::Direct, LIMIT_AGAIN)?;
        let is_crowded =
            |run: &Trial| !run.has_passed() && POOL_IS_EMPTY.iter().any(|words| run.said.contains(words));
        let crowded: Vec<String> =
            proxied.values().filter(|run| is_crowded(run)).map(|run| run.name.clone()).collect();
        let roomy = self.sweep(&crowded, Way::Through(ENOUGH), LIMIT_AGAIN)?;
        for (name, run) in proxied {
            // What the proxy does beside sessions fails a test now and then: that is seen only where the failure is shown.
            let mut unsteady = |one: Option<&Trial>| {
                outcome.said.extend(one.map(|one| (name.clone(), one.report())));
                Came::Unsteady
            };
            let came = match (roomy.get(&name), straight.get(&name)) {
                _ if run.has_passed() => unsteady(before.get(&name)),
                (_, Some(straight)) if !straight.has_passed() => unsteady(Some(straight)),
                (Some(roomy), _) if roomy.has_passed() => Came::Crowded,
                (other, _) => {
                    outcome.said.insert(name.clone(), other.unwrap_or(&run).report());
                    Came::Different
                }
            };
            outcome.tests.insert(name, came);
        }
        Ok(())
    }

    /// Runs tests on all grounds at the same time. Each ground goes its way through the list from another end, because
    /// neighbours in it want the same options.
    fn sweep(&mut self, names: &[String], way: Way, limit: Duration) -> Result<Runs> {
        let places: BTreeSet<&String> = names.iter().collect();
        let order = self.grounds.first().map(Ground::names).unwrap_or_default();
        let left: Mutex<VecDeque<String>> =
            Mutex::new(order.into_iter().filter(|name| places.contains(name)).collect());
        let runs = Mutex::new(Runs::new());
        let (protocol, keep, left, runs) = (self.protocol, self.keep, &left, &runs);
        let of = names.len();
        let work = |index: usize, ground: &mut Ground| -> Result<()> {
            loop {
                let mut names = left.lock().expect("invariant: no panic in a sweep");
                let next = if index.is_multiple_of(2) { names.pop_front() } else { names.pop_back() };
                drop(names);
                let Some(name) = next else { return Ok(()) };
                let run = ground.run((&name, protocol), way, limit).with_context(|| name.clone())?;
                let mut runs = runs.lock().expect("invariant: no panic in a sweep");
                keep_run(keep, protocol, &run, way)?;
                runs.insert(name, run);
                if runs.len().is_multiple_of(50) {
                    eprintln!("{} {way:?}: {} of {of} tests", protocol.word(), runs.len());
                }
            }
        };
        std::thread::scope(|scope| {
            let grounds = self.grounds.iter_mut().enumerate();
            let threads: Vec<_> =
                grounds.map(|(index, ground)| scope.spawn(move || work(index, ground))).collect();
            threads.into_iter().try_for_each(|one| one.join().expect("invariant: no panic in a sweep"))
        })?;
        Ok(std::mem::take(&mut *runs.lock().expect("invariant: no panic in a sweep")))
    }
}

/// Leaves what came of a test in the folder: a line in the list of all, and a file if it failed.
fn keep_run(folder: Option<&Path>, protocol: Protocol, run: &Trial, way: Way) -> Result<()> {
    let Some(folder) = folder else { return Ok(()) };
    let way = match way {
        Way::Direct => "straight".to_owned(),
        Way::Through(connections) => format!("through-{connections}"),
    };
    let folder: PathBuf = folder.join(protocol.word()).join(way);
    fs::create_dir_all(&folder)?;
    let mut list = OpenOptions::new().create(true).append(true).open(folder.join("all.log"))?;
    writeln!(list, "{} {}", run.name, run.came_to())?;
    let file = folder.join(format!("{}.txt", run.name));
    if run.verdict != Verdict::Passed {
        fs::write(&file, run.report()).with_context(|| format!("cannot write {}", file.display()))?;
    }
    Ok(())
}
