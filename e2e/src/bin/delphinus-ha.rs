//! Moves the primary's role by the proxy itself, and kills primaries, while clients work; `cargo xtask e2e ha` builds and starts it.
//!
//! Arguments: `[--rounds N] [--part WORD]... [--servers WORD]... [--docs FILE]`. With `--docs` each result gets into the table of the
//! page. The last line is "N passed, M failed", counted in rows of the table.

use std::io::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result, bail, ensure};
use delphinus_e2e::exit_after;
use delphinus_e2e::failover::Servers;
use delphinus_e2e::ha::{Part, run, write_row};

fn main() -> ExitCode {
    exit_after(work)
}

struct Arguments {
    rounds: usize,
    parts: Vec<Part>,
    servers: Vec<Servers>,
    docs: Option<PathBuf>,
}

fn arguments(mut words: impl Iterator<Item = String>) -> Result<Arguments> {
    let mut found = Arguments { rounds: 50, parts: Vec::new(), servers: Vec::new(), docs: None };
    while let Some(word) = words.next() {
        let value = words.next().with_context(|| format!("{word} needs a value"))?;
        match word.as_str() {
            "--rounds" => found.rounds = value.parse().context("--rounds takes a number")?,
            "--part" => found.parts.push(one_of(&Part::ALL, Part::word, &value)?),
            "--servers" => found.servers.push(one_of(&Servers::ALL, Servers::word, &value)?),
            "--docs" => found.docs = Some(value.into()),
            _ => bail!("{word} is not known"),
        }
    }
    ensure!(found.rounds > 0, "--rounds 0 measures nothing");
    Ok(found)
}

fn one_of<T: Copy>(all: &[T], word: impl Fn(T) -> &'static str, value: &str) -> Result<T> {
    let found = all.iter().copied().find(|one| word(*one) == value);
    found.with_context(|| {
        let words: Vec<_> = all.iter().map(|one| word(*one)).collect();
        format!("there is no {value}; there are: {}", words.join(", "))
    })
}

fn work() -> Result<bool> {
    let arguments = arguments(std::env::args().skip(1))?;
    let wants = |part: &Part| arguments.parts.is_empty() || arguments.parts.contains(part);
    let on = |servers: &Servers| arguments.servers.is_empty() || arguments.servers.contains(servers);
    let (mut passed, mut failed) = (0, 0);
    let mut summaries = Vec::new();
    for part in Part::ALL.into_iter().filter(wants) {
        for servers in Servers::ALL.into_iter().filter(on).filter(|servers| part.fits(*servers)) {
            match run(part, servers, arguments.rounds) {
                Ok(row) => {
                    let is_good = row.is_good();
                    (passed, failed) = (passed + u32::from(is_good), failed + u32::from(!is_good));
                    say(&row.summary());
                    summaries.push(row.summary());
                    if let Some(file) = &arguments.docs {
                        write_row(file, &row)?;
                    }
                }
                Err(error) => {
                    failed += 1;
                    let said = format!("{} {}: not measured: {error:#}", part.word(), servers.word());
                    say(&said);
                    summaries.push(said);
                }
            }
        }
    }
    say("\nAll of them:");
    for summary in &summaries {
        say(summary);
    }
    say(&format!("{passed} passed, {failed} failed"));
    Ok(failed == 0)
}

/// The reader may have gone; the exit code is what counts.
fn say(text: &str) {
    let mut out = std::io::stdout().lock();
    let _ = writeln!(out, "{text}").and_then(|()| out.flush());
}
