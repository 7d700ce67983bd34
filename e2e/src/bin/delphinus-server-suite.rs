//! Runs MariaDB's own test suite as a gate; `cargo xtask e2e server-suite` builds and starts it.
//!
//! Arguments: `[--only TEST]... [--variant plain|ps-protocol]... [--quick] [--servers N]
//! [--keep FOLDER] [--docs FILE]`. The last line is "N passed, M failed", counted in tests of all variants. `--page FILE` runs nothing and writes the page of what is kept.

use std::io::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use delphinus_e2e::exit_after;
use delphinus_e2e::server_suite::{self, Came, Protocol, Selection, summary};

fn main() -> ExitCode {
    exit_after(work)
}

fn work() -> Result<bool> {
    let Arguments { selection, docs, page } = arguments(std::env::args().skip(1))?;
    if let Some(file) = page {
        server_suite::record(&[], &file)?;
        return Ok(true);
    }
    // Each variant is kept when it is done: a later one may not come to its end.
    let outcomes = server_suite::run(&selection, |outcome| {
        say(&summary(outcome));
        let kept = docs.as_ref().map(|file| server_suite::record(std::slice::from_ref(outcome), file));
        if let Some(Err(error)) = kept {
            eprintln!("error: the results were not kept: {error:#}");
        }
    })?;
    let sum = |wanted: &[Came]| -> usize { outcomes.iter().map(|one| one.count(wanted)).sum() };
    let (passed, failed) = (sum(&[Came::Passed, Came::NoDifference]), sum(&[Came::Different]));
    say(&format!("{passed} passed, {failed} failed"));
    Ok(failed == 0 && passed > 0)
}

#[derive(Default)]
struct Arguments {
    selection: Selection,
    docs: Option<PathBuf>,
    page: Option<PathBuf>,
}

fn arguments(mut words: impl Iterator<Item = String>) -> Result<Arguments> {
    let mut arguments = Arguments::default();
    let selection = &mut arguments.selection;
    while let Some(word) = words.next() {
        let mut value = || words.next().with_context(|| format!("{word} needs a value"));
        match word.as_str() {
            "--only" => selection.tests.push(value()?),
            "--variant" => selection.protocols.push(Protocol::named(&value()?)?),
            "--servers" => selection.servers = value()?.parse().context("--servers needs a number")?,
            "--quick" => selection.is_quick = true,
            "--keep" => selection.keep = Some(value()?.into()),
            "--docs" => arguments.docs = Some(value()?.into()),
            "--page" => arguments.page = Some(value()?.into()),
            _ => bail!("unknown argument {word}"),
        }
    }
    Ok(arguments)
}

/// The reader may have gone; the exit code is what counts.
fn say(text: &str) {
    let mut out = std::io::stdout().lock();
    let _ = writeln!(out, "{text}").and_then(|()| out.flush());
}
