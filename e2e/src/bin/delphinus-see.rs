//! Compares and measures what operators see of statements; `cargo xtask e2e see` builds and starts it.
//!
//! Arguments: `[--quick] [--only PART]... [--flavor F] [--docs FILE]`. With `--docs` each figure gets into the table of the page. The last
//! line is "N passed, M failed", counted in figures.

use std::io::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result, bail, ensure};
use delphinus_e2e::see::{PARTS, write_rows};
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
    let names: Vec<&str> = PARTS.iter().map(|part| part.name).collect();
    for name in &found.only {
        ensure!(names.contains(&name.as_str()), "no part is called {name}; there are: {}", names.join(", "));
    }
    Ok(found)
}

fn work() -> Result<bool> {
    let arguments = arguments(std::env::args().skip(1))?;
    let (mut passed, mut failed) = (0, 0);
    for flavor in [Flavor::MariaDb, Flavor::MySql] {
        if arguments.flavor.as_ref().is_some_and(|only| *only != flavor.to_string()) {
            continue;
        }
        for part in &PARTS {
            if !arguments.only.is_empty() && !arguments.only.iter().any(|name| name == part.name) {
                continue;
            }
            let rows = match (part.run)(flavor, arguments.is_quick) {
                Ok(rows) => rows,
                Err(error) => {
                    say(&format!("{flavor} {}: FAILED: {error:#}", part.name));
                    failed += 1;
                    continue;
                }
            };
            for row in &rows {
                let mark = if row.is_right { "ok" } else { "FAILED" };
                say(&format!(
                    "{flavor} {}: {}: {} (bound {}) {mark}",
                    part.name, row.what, row.found, row.bound
                ));
                if row.is_right { passed += 1 } else { failed += 1 }
            }
            if let Some(file) = &arguments.docs {
                write_rows(file, &rows)?;
            }
        }
    }
    say(&format!("{passed} passed, {failed} failed"));
    Ok(failed == 0)
}

fn say(text: &str) {
    let _ = writeln!(std::io::stdout(), "{text}");
}
