//! Runs the drivers' test suites as a gate; `cargo xtask e2e drivers` builds and starts it.
//!
//! Arguments: `[--only SUITE]... [--flavor mariadb|mysql] [--plain] [--docs FILE]`. The last line is
//! "N passed, M failed", counted in runs of suites.

use std::io::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result, bail, ensure};
use delphinus_e2e::suites::{self, Outcome, Selection};
use delphinus_sandbox::Flavor;

fn main() -> ExitCode {
    match work() {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn work() -> Result<bool> {
    if std::env::args().nth(1).as_deref() == Some("--orm") {
        return orms();
    }
    let (selection, docs) = arguments(std::env::args().skip(1))?;
    ensure!(docs.is_none() || selection.is_whole(), "--docs needs a whole run: no --only or --flavor");
    let outcomes = suites::run(&selection, |outcome| say(&suites::summary(outcome)))?;
    if let Some(file) = docs {
        std::fs::write(&file, suites::document(&outcomes))
            .with_context(|| format!("cannot write {}", file.display()))?;
    }
    let failed = outcomes.iter().filter(|outcome| !outcome.is_good()).count();
    let not_run = outcomes.iter().filter(|outcome| outcome.not_run.is_some()).count();
    if not_run > 0 {
        say(&format!("{not_run} variants were not run, see above"));
    }
    say(&format!("{} passed, {failed} failed", passed(&outcomes)));
    Ok(failed == 0 && passed(&outcomes) > 0)
}

fn orms() -> Result<bool> {
    let outcomes = suites::run_orms(&[Flavor::MariaDb, Flavor::MySql], 20, |one| say(&one.summary()))?;
    let failed = outcomes.iter().filter(|one| !one.is_good()).count();
    say(&format!("{} passed, {failed} failed", outcomes.len() - failed));
    Ok(failed == 0)
}

fn passed(outcomes: &[Outcome]) -> usize {
    outcomes.iter().filter(|outcome| outcome.is_good() && outcome.not_run.is_none()).count()
}

fn arguments(mut words: impl Iterator<Item = String>) -> Result<(Selection, Option<PathBuf>)> {
    let mut selection = Selection::default();
    let mut docs = None;
    while let Some(word) = words.next() {
        let mut value = || words.next().with_context(|| format!("{word} needs a value"));
        match word.as_str() {
            "--only" => selection.suites.push(value()?),
            "--flavor" => selection.flavors.push(flavor(&value()?)?),
            "--plain" => selection.is_plain = true,
            "--docs" => docs = Some(value()?.into()),
            _ => bail!("unknown argument {word}"),
        }
    }
    Ok((selection, docs))
}

fn flavor(name: &str) -> Result<Flavor> {
    match name {
        "mariadb" => Ok(Flavor::MariaDb),
        "mysql" => Ok(Flavor::MySql),
        _ => bail!("no flavor {name}; there are mariadb and mysql"),
    }
}

/// The reader may have gone; the exit code is what counts.
fn say(text: &str) {
    let mut out = std::io::stdout().lock();
    let _ = writeln!(out, "{text}").and_then(|()| out.flush());
}
