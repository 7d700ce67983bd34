//! Measures what failovers cost, run by run; `cargo xtask e2e failover` builds and starts it.
//!
//! Arguments: `[--runs N] [--servers WORD]... [--fault WORD]... [--docs FILE]`. The last line is "N passed, M failed", counted
//! in runs.

use std::io::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result, ensure};
use delphinus_e2e::failover::{Fault, Servers, Trial, run_trial, write_table};

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
    let arguments = arguments(std::env::args().skip(1))?;
    let (mut trials, mut failed) = (Vec::new(), 0);
    for _ in 0..arguments.runs {
        for servers in arguments.servers() {
            for fault in arguments.faults() {
                match run_trial(servers, fault) {
                    Ok(trial) => {
                        failed += usize::from(!trial.is_good());
                        say(&summary(&trial));
                        trial
                            .words
                            .iter()
                            .for_each(|(at_ms, text)| say(&format!("  after {at_ms} ms: {text}")));
                        trials.push(trial);
                    }
                    Err(error) => {
                        failed += 1;
                        say(&format!("{servers}, {fault}: not measured: {error:#}"));
                    }
                }
                // A run that takes long is not lost when it is stopped.
                if let Some(file) = arguments.docs.as_deref().filter(|_| !trials.is_empty()) {
                    write_table(file, &trials)?;
                }
            }
        }
    }
    let passed = trials.iter().filter(|trial| trial.is_good()).count();
    say(&format!("{passed} passed, {failed} failed"));
    Ok(failed == 0)
}

fn summary(trial: &Trial) -> String {
    let Trial { servers, fault, acknowledged, reads, verdict, .. } = trial;
    let word = if trial.is_good() { "good" } else { "BAD" };
    let found = if verdict.is_clean() { "nothing".to_owned() } else { format!("{verdict:?}") };
    format!(
        "{servers}, {fault}: {word}; {acknowledged} writes, {reads} reads; failed writes {:?}, reads {:?}, {} sessions ended; \
         found {found}; noticed after {:.0} ms, servers {:.0} ms, beyond {:.0} ms, longest wait \
         {:.0} ms",
        trial.write_errors,
        trial.read_errors,
        trial.disconnects,
        trial.noticed_ms.unwrap_or(f64::NAN),
        trial.servers_ms,
        trial.beyond_ms(),
        trial.longest_ms
    )
}

#[derive(Default)]
struct Arguments {
    runs: u32,
    servers: Vec<Servers>,
    faults: Vec<Fault>,
    docs: Option<PathBuf>,
}

impl Arguments {
    fn servers(&self) -> Vec<Servers> {
        if self.servers.is_empty() { Servers::ALL.to_vec() } else { self.servers.clone() }
    }

    fn faults(&self) -> Vec<Fault> {
        if self.faults.is_empty() { Fault::ALL.to_vec() } else { self.faults.clone() }
    }
}

fn arguments(mut words: impl Iterator<Item = String>) -> Result<Arguments> {
    let mut arguments = Arguments { runs: 1, ..Arguments::default() };
    while let Some(word) = words.next() {
        let value = words.next().with_context(|| format!("{word} needs a value"))?;
        match word.as_str() {
            "--runs" => arguments.runs = value.parse().context("--runs takes a number")?,
            "--servers" => {
                let found = Servers::ALL.into_iter().find(|one| one.word() == value);
                arguments.servers.push(found.with_context(|| format!("no servers {value}"))?);
            }
            "--fault" => {
                let found = Fault::ALL.into_iter().find(|one| one.word() == value);
                arguments.faults.push(found.with_context(|| format!("no fault {value}"))?);
            }
            "--docs" => arguments.docs = Some(value.into()),
            _ => anyhow::bail!("unknown argument {word}"),
        }
    }
    ensure!(arguments.runs > 0, "--runs 0 measures nothing");
    Ok(arguments)
}

/// The reader may have gone; the exit code is what counts.
fn say(text: &str) {
    let mut out = std::io::stdout().lock();
    let _ = writeln!(out, "{text}").and_then(|()| out.flush());
}
