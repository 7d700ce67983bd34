//! Runs a suite both ways and compares, test by test.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use delphinus_sandbox::Flavor;

use crate::suites::arena::{Arena, Way};
use crate::suites::pinned::PinnedTime;
use crate::suites::suite::{Run, Suite};
use crate::suites::target::Variant;
use crate::suites::verdicts::Verdict;

/// So many differing tests are tried again by themselves; when there are more, flakiness is not the explanation.
const RETRIES: usize = 25;

/// What one suite came to in one variant.
#[derive(Debug)]
pub struct Outcome {
    /// The suite's key.
    pub key: &'static str,
    /// The driver and its version.
    pub title: &'static str,
    /// Whose tests these are.
    pub origin: &'static str,
    /// Which servers it ran on.
    pub flavor: Flavor,
    /// In which variant.
    pub variant: Variant,
    /// What came of it.
    pub result: Result<Compared, String>,
    /// Why it was not run at all; then the result means nothing.
    pub not_run: Option<&'static str>,
}

/// Both runs side by side.
#[derive(Debug, Clone, Default)]
pub struct Compared {
    /// Straight to the primary.
    pub direct: Side,
    /// Through Delphinus.
    pub through: Side,
    /// Tests that pass straight and not through Delphinus, each with what it said when it ran alone.
    pub new_failures: Vec<(String, String)>,
    /// Tests that are known to differ, each with the reason.
    pub known: Vec<(String, &'static str)>,
    /// How long the sessions through Delphinus were pinned.
    pub pinned: PinnedTime,
    /// Tests that differed between the runs and not when they were run once more, alone.
    pub flaky: Vec<String>,
}

/// One of the two runs.
#[derive(Debug, Clone, Copy, Default)]
pub struct Side {
    /// Tests that were run or skipped.
    pub tests: usize,
    /// Tests that passed.
    pub passed: usize,
    /// Tests that failed.
    pub failed: usize,
    /// Tests that the suite skipped by itself.
    pub skipped: usize,
    /// Logins that the server has seen.
    pub logins: u64,
    /// How long it took.
    pub took: Duration,
}

impl Outcome {
    /// Nothing fails that passes directly, and something passes.
    pub fn is_good(&self) -> bool {
        self.not_run.is_some() || self.result.as_ref().is_ok_and(|compared| compared.new_failures.is_empty())
    }
}

/// Runs `suite` both ways.
pub(crate) fn run(suite: &Suite, variant: Variant, arena: &Arena) -> Outcome {
    let not_run = match offered(variant, arena) {
        Ok(reason) => reason,
        Err(error) => return outcome(suite, variant, arena, Err(error)),
    };
    if not_run.is_some() {
        return Outcome { not_run, ..outcome(suite, variant, arena, Ok(Compared::default())) };
    }
    outcome(suite, variant, arena, compare(suite, variant, arena))
}

/// Why the variant cannot be had, if so.
fn offered(variant: Variant, arena: &Arena) -> Result<Option<&'static str>> {
    if !variant.compression {
        return Ok(None);
    }
    Ok(if !arena.offers_compression(Way::Direct)? {
        Some("the server offers no compression")
    } else if !arena.offers_compression(Way::Through)? {
        Some("Delphinus offers no compression")
    } else {
        None
    })
}

fn outcome(suite: &Suite, variant: Variant, arena: &Arena, result: Result<Compared>) -> Outcome {
    let Suite { key, title, origin, .. } = *suite;
    let result = result.map_err(|error| format!("{error:#}"));
    Outcome { key, title, origin, flavor: arena.flavor, variant, result, not_run: None }
}

fn compare(suite: &Suite, variant: Variant, arena: &Arena) -> Result<Compared> {
    let (direct, straight) = side(suite, variant, (arena, Way::Direct)).context("straight to the primary")?;
    let mark = arena.mark()?;
    let (through, proxied) = side(suite, variant, (arena, Way::Through)).context("through Delphinus")?;
    let pinned = arena.pinned_since(mark)?;
    let mut compared = Compared { direct, through, pinned, ..Compared::default() };
    let mut differing: Vec<&str> =
        straight.verdicts.passed().filter(|name| !proxied.verdicts.has_passed(name)).collect();
    differing.retain(|name| {
        let known = suite.known.iter().find(|(known, _)| known == name);
        compared.known.extend(known.map(|(known, why)| ((*known).to_owned(), *why)));
        known.is_none()
    });
    for (number, name) in differing.into_iter().enumerate() {
        if number >= RETRIES {
            compared.new_failures.push((name.to_owned(), "not run again: too many differ".to_owned()));
            continue;
        }
        match again(suite, variant, (arena, name))? {
            None => compared.flaky.push(name.to_owned()),
            Some(said) => compared.new_failures.push((name.to_owned(), said)),
        }
    }
    Ok(compared)
}

fn side(suite: &Suite, variant: Variant, (arena, way): (&Arena, Way)) -> Result<(Side, Run)> {
    let target = arena.target(way, variant, suite.schemas)?;
    let logins = arena.logins()?;
    let begun = Instant::now();
    let run = suite.run(&target, None)?;
    let took = begun.elapsed();
    keep(suite, variant, (arena, way), &run.output);
    ensure!(run.has_ended, "it did not end within {:?}; its last words:\n{}", suite.limit, tail(&run.output));
    let verdicts = &run.verdicts;
    let passed = verdicts.count(Verdict::Passed);
    let fewest = if way == Way::Direct { suite.fewest } else { 1 };
    ensure!(passed >= fewest, "only {passed} tests passed; its last words:\n{}", tail(&run.output));
    let side = Side {
        tests: verdicts.len(),
        passed,
        failed: verdicts.count(Verdict::Failed),
        skipped: verdicts.count(Verdict::Skipped),
        logins: arena.logins()? - logins,
        took,
    };
    Ok((side, run))
}

/// Runs one test alone, both ways. `None` if it does not differ now, else what it said through Delphinus.
fn again(suite: &Suite, variant: Variant, (arena, name): (&Arena, &str)) -> Result<Option<String>> {
    let passes = |way| -> Result<(bool, String)> {
        let run = suite.run(&arena.target(way, variant, suite.schemas)?, Some(name))?;
        Ok((run.has_ended && run.verdicts.has_passed(name), run.output))
    };
    let (through, said) = passes(Way::Through)?;
    if through {
        return Ok(None);
    }
    // One that fails alone and straight as well needs the tests before it: still it has failed here only.
    let alone = if passes(Way::Direct)?.0 { "" } else { "(alone, it fails straight to the primary too)\n" };
    Ok(Some(format!("{alone}{}", tail(&said))))
}

/// Leaves the output in `DELPHINUS_SUITES_OUTPUT`, if that names a folder.
fn keep(suite: &Suite, variant: Variant, (arena, way): (&Arena, Way), output: &str) {
    if let Some(folder) = std::env::var_os("DELPHINUS_SUITES_OUTPUT") {
        let name = format!("{}-{:?}-{variant}-{way:?}.txt", suite.key, arena.flavor).replace(", ", "-");
        let file = std::path::Path::new(&folder).join(name);
        let log = file.with_extension("proxy.log");
        if let Err(error) =
            std::fs::write(&file, output).and_then(|()| std::fs::write(log, arena.proxy.log()))
        {
            eprintln!("cannot write {}: {error}", file.display());
        }
    }
}

fn tail(output: &str) -> String {
    let lines: Vec<String> = output.lines().map(|line| line.chars().take(300).collect()).collect();
    lines[lines.len().saturating_sub(25)..].join("\n")
}
