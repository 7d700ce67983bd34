//! Changes what runs while clients work, and counts their errors; `cargo xtask e2e change` builds and starts it.
//!
//! Arguments: `[--quick] [--only NAME]... [--flavor F] [--docs FILE]`. With `--docs` each result gets into the table of the page. The last
//! line is "N passed, M failed", counted in kinds of changes.

use std::io::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result, bail, ensure};
use delphinus_e2e::change::{CHANGES, Change, Ground, Row, run_change, write_row};
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

#[derive(Default)]
struct Arguments {
    is_quick: bool,
    only: Vec<String>,
    flavor: Option<String>,
    docs: Option<PathBuf>,
}

fn arguments(mut words: impl Iterator<Item = String>) -> Result<Arguments> {
    let mut found = Arguments::default();
    while let Some(word) = words.next() {
        if word == "--quick" {
            found.is_quick = true;
            continue;
        }
        let value = words.next().with_context(|| format!("{word} needs a value"))?;
        match word.as_str() {
            "--only" => found.only.push(value),
            "--flavor" => found.flavor = Some(value),
            "--docs" => found.docs = Some(value.into()),
            _ => bail!("{word} is not known"),
        }
    }
    let names: Vec<&str> = CHANGES.iter().map(|change| change.name).collect();
    for name in &found.only {
        let known = names.join(", ");
        ensure!(names.contains(&name.as_str()), "no change is called {name}; there are: {known}");
    }
    Ok(found)
}

impl Arguments {
    fn want(&self, change: &Change) -> bool {
        self.only.is_empty() || self.only.iter().any(|name| name == change.name)
    }
}

fn work() -> Result<bool> {
    let arguments = arguments(std::env::args().skip(1))?;
    let (mut passed, mut failed) = (0, 0);
    for flavor in [Flavor::MariaDb, Flavor::MySql] {
        if arguments.flavor.as_ref().is_some_and(|only| *only != flavor.to_string()) {
            continue;
        }
        let mut ground = Ground::start(flavor)?;
        for change in CHANGES.iter().filter(|change| arguments.want(change)) {
            let rounds = if arguments.is_quick { change.few } else { change.rounds };
            match run_change(&mut ground, change, rounds) {
                Ok(row) => {
                    say(&format!("{flavor} {}: {}", change.name, summary(&row)));
                    row.words.iter().for_each(|words| say(&format!("  {words}")));
                    if let Some(file) = &arguments.docs {
                        write_row(file, &row)?;
                    }
                    if row.errors == 0 { passed += 1 } else { failed += 1 }
                }
                Err(error) => {
                    say(&format!("{flavor} {}: FAILED: {error:#}", change.name));
                    failed += 1;
                    // What the next one finds is not known.
                    ground = Ground::start(flavor)?;
                }
            }
        }
    }
    say(&format!("{passed} passed, {failed} failed"));
    Ok(failed == 0)
}

fn summary(row: &Row) -> String {
    let [transactions, statements] = row.work;
    format!(
        "{} errors in {} rounds; {} s, {transactions} transactions, {statements} statements, {} moved, longest {} ms",
        row.errors,
        row.rounds,
        row.took.as_secs(),
        row.moved,
        row.longest.as_millis()
    )
}

fn say(text: &str) {
    let _ = writeln!(std::io::stdout(), "{text}");
}
