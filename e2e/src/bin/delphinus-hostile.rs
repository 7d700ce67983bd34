//! Attacks the proxy and measures what that costs; `cargo xtask e2e hostile` builds and starts it.
//!
//! Arguments: `[--only NAME]... [--flavor F] [--docs FILE]`. With `--docs` each result gets into the table of the page. The last line is
//! "N passed, M failed", counted in attacks.

use std::io::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result, bail, ensure};
use delphinus_e2e::exit_after;
use delphinus_e2e::hostile::{ATTACKS, Arena, Row, Scale, run_attack, write_row};
use delphinus_sandbox::Flavor;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

fn main() -> ExitCode {
    exit_after(work)
}

#[derive(Default)]
struct Arguments {
    only: Vec<String>,
    flavor: Option<String>,
    docs: Option<PathBuf>,
}

fn arguments(mut words: impl Iterator<Item = String>) -> Result<Arguments> {
    let mut found = Arguments::default();
    while let Some(word) = words.next() {
        let value = words.next().with_context(|| format!("{word} needs a value"))?;
        match word.as_str() {
            "--only" => found.only.push(value),
            "--flavor" => found.flavor = Some(value),
            "--docs" => found.docs = Some(value.into()),
            _ => bail!("{word} is not known"),
        }
    }
    let names: Vec<&str> = ATTACKS.iter().map(|attack| attack.name).collect();
    for name in &found.only {
        ensure!(
            names.contains(&name.as_str()),
            "no attack is called {name}; there are: {}",
            names.join(", ")
        );
    }
    Ok(found)
}

fn work() -> Result<bool> {
    let arguments = arguments(std::env::args().skip(1))?;
    // This process and the proxy, which inherits it, have a file for each client.
    let limit = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum })?;
    let (mut rows, mut failed) = (Vec::new(), 0);
    for flavor in [Flavor::MariaDb, Flavor::MySql] {
        if arguments.flavor.as_ref().is_some_and(|only| *only != flavor.to_string()) {
            continue;
        }
        for attack in ATTACKS {
            if !arguments.only.is_empty() && !arguments.only.iter().any(|name| name == attack.name) {
                continue;
            }
            // A proxy of its own: memory that allocators keep is not the next attack's.
            let mut arena = Arena::start(flavor, Scale::FULL)?;
            match run_attack(&mut arena, attack, attack.clients) {
                Ok(row) => {
                    let fault = row.fault();
                    say(&format!("{flavor} {}: {}", attack.name, summary(&row)));
                    if let Some(fault) = fault {
                        say(&format!("  FAILED: {fault}"));
                        failed += 1;
                    }
                    if let Some(file) = &arguments.docs {
                        write_row(file, &row)?;
                    }
                    rows.push(row);
                }
                Err(error) => {
                    say(&format!("{flavor} {}: {error:#}", attack.name));
                    failed += 1;
                }
            }
        }
    }
    let passed = rows.iter().filter(|row| row.fault().is_none()).count();
    say(&format!("{passed} passed, {failed} failed"));
    Ok(failed == 0)
}

fn summary(row: &Row) -> String {
    let [before, during, after] = row.mib;
    let longest = row.times.map(|times| format!("{} ms", times.longest_us / 1000)).join(", ");
    let p99 = row.times.map(|times| format!("{} ms", times.p99_us / 1000)).join(", ");
    format!(
        "{} clients; {before}, {during}, {after} MiB of {}; p99 {p99}; longest {longest}",
        row.clients,
        row.allowed_mib()
    )
}

fn say(text: &str) {
    let _ = writeln!(std::io::stdout(), "{text}");
}
