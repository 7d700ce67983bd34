//! Asks the operators' tables while many clients are connected; `cargo xtask e2e tables` builds and starts it.
//!
//! Arguments: `[--clients N] [--docs FILE]`. The last line is "N passed, M failed", counted in questions.

use std::io::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use delphinus_e2e::crowd::{Crowd, QUESTIONS, Row, write_row};
use delphinus_e2e::exit_after;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

fn main() -> ExitCode {
    exit_after(work)
}

fn work() -> Result<bool> {
    let (mut clients, mut docs): (usize, Option<PathBuf>) = (10_000, None);
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        let value = words.next().with_context(|| format!("{word} needs a value"))?;
        match word.as_str() {
            "--clients" => clients = value.parse().context("--clients takes a number")?,
            "--docs" => docs = Some(value.into()),
            _ => bail!("{word} is not known"),
        }
    }
    // This process and the proxy, which inherits it, have a file for each client.
    let limit = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum })?;
    let mut crowd = Crowd::gather(clients)?;
    let mut failed = 0;
    for question in QUESTIONS {
        let row = crowd.ask(question)?;
        say(&summary(&row));
        if let Some(fault) = row.fault() {
            say(&format!("  FAILED: {fault}"));
            failed += 1;
        }
        if let Some(file) = &docs {
            write_row(file, &row)?;
        }
    }
    say(&format!("{} passed, {failed} failed", QUESTIONS.len() - failed));
    Ok(failed == 0)
}

fn summary(row: &Row) -> String {
    let took = row.took.map(|took| format!("{} ms", took.as_millis())).join(", ");
    let [before, during, after] = row.mib;
    let longest = row.times.map(|times| format!("{} ms", times.longest_us / 1000)).join(", ");
    let p99 = row.times.map(|times| format!("{} ms", times.p99_us / 1000)).join(", ");
    format!(
        "{} by {} beside {} clients: {took}; {} refused; {before}, {during}, {after} MiB; others: p99 {p99}; longest {longest}",
        row.sql, row.operators, row.clients, row.refused
    )
}

fn say(text: &str) {
    let _ = writeln!(std::io::stdout(), "{text}");
}
