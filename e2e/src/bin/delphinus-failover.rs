//! Measures what failovers cost, run by run; `cargo xtask e2e failover` builds and starts it.
//!
//! Arguments: `[--runs N] [--servers WORD]... [--proxy WORD]... [--fault WORD]... [--keep FILE [--resume]] [--docs FILE]`. With
//! `--keep` runs are added to the file as they end, and `--docs` writes the table of all that is in it; the file's runs of the
//! chosen cases are forgotten first, or, with `--resume`, counted. The last line is "N passed, M failed", counted in runs.

use std::io::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;

use anyhow::{Context, Result, bail, ensure};
use delphinus_e2e::enter_own_network;
use delphinus_e2e::exit_after;
use delphinus_e2e::failover::{Case, Fault, Kept, Servers, Through, Trial, run_trial, write_table};

fn main() -> ExitCode {
    exit_after(work)
}

fn work() -> Result<bool> {
    let arguments = arguments(std::env::args().skip(1))?;
    let mut cases = arguments.cases();
    if cases.iter().any(|case| case.fault == Fault::Minority)
        && let Err(error) = enter_own_network()
    {
        say(&format!("left out: {}: {error:#}", Fault::Minority));
        cases.retain(|case| case.fault != Fault::Minority);
    }
    ensure!(!cases.is_empty(), "nothing of that can be done");
    let mut kept = arguments.keep.as_deref().map(Kept::open).transpose()?;
    if let Some(kept) = kept.as_mut().filter(|_| !arguments.is_resumed) {
        kept.forget(&cases);
    }
    let plan = plan(&cases, arguments.runs, |case| kept.as_ref().map_or(0, |kept| kept.count(case)));
    if let (true, Some(kept), Some(file)) = (plan.is_empty(), &kept, &arguments.docs) {
        // All of it is done already.
        write_table(file, &kept.trials)?;
    }
    let (began, mut passed, mut failed) = (Instant::now(), 0, 0);
    let mut all = Vec::new();
    for (at, case) in plan.iter().enumerate() {
        let progress = format!("{}/{}", at + 1, plan.len());
        match run_trial(*case) {
            Ok(trial) => {
                // Another proxy is measured, not judged.
                let is_passed = trial.is_good() || case.through != Through::Delphinus;
                (passed, failed) = (passed + usize::from(is_passed), failed + usize::from(!is_passed));
                say(&format!("{progress} {}", summary(&trial)));
                trial.words.iter().for_each(|(at_ms, text)| say(&format!("  after {at_ms} ms: {text}")));
                match &mut kept {
                    Some(kept) => kept.add(trial)?,
                    None => all.push(trial),
                }
            }
            Err(error) => {
                failed += 1;
                say(&format!("{progress} {case}: not measured: {error:#}"));
            }
        }
        // A run that takes long is not lost when it is stopped.
        let trials = kept.as_ref().map_or(&all, |kept| &kept.trials);
        if let Some(file) = arguments.docs.as_deref().filter(|_| !trials.is_empty()) {
            write_table(file, trials)?;
        }
        let (done, left) = (u32::try_from(at + 1)?, u32::try_from(plan.len() - at - 1)?);
        let left = began.elapsed() / done * left;
        say(&format!("  about {} min left", left.as_secs().div_ceil(60)));
    }
    say(&format!("{passed} passed, {failed} failed"));
    Ok(failed == 0)
}

/// What is left to do: one run of each case, then the next, so that an early end leaves something of all.
fn plan(cases: &[Case], runs: usize, done: impl Fn(Case) -> usize + Copy) -> Vec<Case> {
    let left = |number: usize| cases.iter().copied().filter(move |case| done(*case) <= number);
    (0..runs).flat_map(left).collect()
}

fn summary(trial: &Trial) -> String {
    let Trial { case, acknowledged, reads, verdict, .. } = trial;
    let word = match (trial.is_good(), case.through) {
        (true, _) => "good",
        (false, Through::Delphinus) => "BAD",
        (false, Through::Router) => "harm",
    };
    let found = if verdict.is_clean() { "nothing".to_owned() } else { format!("{verdict:?}") };
    let ms = |ms: Option<f64>| ms.map_or_else(|| "-".to_owned(), |ms| format!("{ms:.0} ms"));
    format!(
        "{case}: {word}; {acknowledged} writes, {reads} reads; failed writes {:?}, reads {:?}, {} sessions ended; found {found} \
         {:?}; noticed after {}, servers {}, beyond {}, longest wait {:.0} ms; took {:.0} s",
        trial.write_errors,
        trial.read_errors,
        trial.disconnects,
        trial.wrongs,
        ms(trial.noticed_ms),
        ms(trial.servers_ms),
        ms(trial.beyond_ms()),
        trial.longest_ms,
        trial.took_s,
    )
}

#[derive(Default)]
struct Arguments {
    runs: usize,
    servers: Vec<Servers>,
    through: Vec<Through>,
    faults: Vec<Fault>,
    keep: Option<PathBuf>,
    is_resumed: bool,
    docs: Option<PathBuf>,
}

impl Arguments {
    fn cases(&self) -> Vec<Case> {
        let is_chosen = |case: &Case| {
            (self.servers.is_empty() || self.servers.contains(&case.servers))
                && (self.through.is_empty() || self.through.contains(&case.through))
                && (self.faults.is_empty() || self.faults.contains(&case.fault))
        };
        Case::all().into_iter().filter(is_chosen).collect()
    }
}

fn arguments(mut words: impl Iterator<Item = String>) -> Result<Arguments> {
    let mut arguments = Arguments { runs: 1, ..Arguments::default() };
    while let Some(word) = words.next() {
        if word == "--resume" {
            arguments.is_resumed = true;
            continue;
        }
        let value = words.next().with_context(|| format!("{word} needs a value"))?;
        match word.as_str() {
            "--runs" => arguments.runs = value.parse().context("--runs takes a number")?,
            "--servers" => arguments.servers.push(one_of(&Servers::ALL, Servers::word, &value)?),
            "--proxy" => arguments.through.push(one_of(&Through::ALL, Through::word, &value)?),
            "--fault" => arguments.faults.push(one_of(&Fault::ALL, Fault::word, &value)?),
            "--keep" => arguments.keep = Some(value.into()),
            "--docs" => arguments.docs = Some(value.into()),
            _ => bail!("unknown argument {word}"),
        }
    }
    ensure!(arguments.runs > 0, "--runs 0 measures nothing");
    ensure!(!arguments.is_resumed || arguments.keep.is_some(), "--resume needs --keep FILE");
    Ok(arguments)
}

fn one_of<T: Copy>(all: &[T], word: impl Fn(T) -> &'static str, value: &str) -> Result<T> {
    let found = all.iter().copied().find(|one| word(*one) == value);
    found.with_context(|| {
        let words: Vec<_> = all.iter().map(|one| word(*one)).collect();
        format!("there is no {value}; there are: {}", words.join(", "))
    })
}

/// The reader may have gone; the exit code is what counts.
fn say(text: &str) {
    let mut out = std::io::stdout().lock();
    let _ = writeln!(out, "{text}").and_then(|()| out.flush());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_not_done_yet_is_left() {
        let all = Case::all();
        let (first, second) = (all[0], all[1]);
        let cases = [first, second];
        assert_eq!(plan(&cases, 2, |_| 0), [first, second, first, second]);
        assert_eq!(plan(&cases, 2, |case| usize::from(case == first)), [second, first, second]);
        assert!(plan(&cases, 2, |_| 5).is_empty());
    }
}
