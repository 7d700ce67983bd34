//! Runs the drivers' test suites as a gate, or the programs with ORMs; `cargo xtask e2e drivers` and `e2e orm` build and
//! start it.
//!
//! Arguments: `[--orm] [--only SUITE]... [--flavor mariadb|mysql] [--plain] [--variant NAME]...
//! [--docs FILE]`. The last line is
//! "N passed, M failed", counted in runs of suites.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use delphinus_e2e::exit_after;
use delphinus_e2e::suites::{self, OrmOutcome, Outcome, Selection};
use delphinus_sandbox::Flavor;

fn main() -> ExitCode {
    exit_after(work)
}

fn work() -> Result<bool> {
    let Arguments { selection, docs, is_orm } = arguments(std::env::args().skip(1))?;
    if is_orm {
        return orms(&selection.flavors, docs.as_deref());
    }
    let outcomes = suites::run(&selection, |outcome| {
        say(&suites::summary(outcome));
        keep(std::slice::from_ref(outcome), &[], docs.as_deref());
    })?;
    let failed = outcomes.iter().filter(|outcome| !outcome.is_good()).count();
    let not_run = outcomes.iter().filter(|outcome| outcome.not_run.is_some()).count();
    if not_run > 0 {
        say(&format!("{not_run} variants were not run, see above"));
    }
    say(&format!("{} passed, {failed} failed", passed(&outcomes)));
    Ok(failed == 0 && passed(&outcomes) > 0)
}

/// Rounds in each thread of an ORM's program.
const ROUNDS: u32 = 20;

fn orms(flavors: &[Flavor], docs: Option<&Path>) -> Result<bool> {
    let both = [Flavor::MariaDb, Flavor::MySql];
    let flavors = if flavors.is_empty() { &both[..] } else { flavors };
    let outcomes = suites::run_orms(flavors, ROUNDS, |one| say(&one.summary()))?;
    keep(&[], &outcomes, docs);
    let failed = outcomes.iter().filter(|one| !one.is_good()).count();
    say(&format!("{} passed, {failed} failed", outcomes.len() - failed));
    Ok(failed == 0)
}

/// A run that takes an hour is not lost because a file cannot be written.
fn keep(suites: &[Outcome], orms: &[OrmOutcome], docs: Option<&Path>) {
    if let Some(file) = docs
        && let Err(error) = suites::record(suites, orms, file)
    {
        eprintln!("error: the results were not kept: {error:#}");
    }
}

fn passed(outcomes: &[Outcome]) -> usize {
    outcomes.iter().filter(|outcome| outcome.is_good() && outcome.not_run.is_none()).count()
}

#[derive(Default)]
struct Arguments {
    selection: Selection,
    docs: Option<PathBuf>,
    is_orm: bool,
}

fn arguments(mut words: impl Iterator<Item = String>) -> Result<Arguments> {
    let mut arguments = Arguments::default();
    let selection = &mut arguments.selection;
    while let Some(word) = words.next() {
        let mut value = || words.next().with_context(|| format!("{word} needs a value"));
        match word.as_str() {
            "--orm" => arguments.is_orm = true,
            "--only" => selection.suites.push(value()?),
            "--flavor" => selection.flavors.push(flavor(&value()?)?),
            "--variant" => selection.variants.push(value()?),
            "--plain" => selection.is_plain = true,
            "--docs" => arguments.docs = Some(value()?.into()),
            _ => bail!("unknown argument {word}"),
        }
    }
    Ok(arguments)
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
