//! `cargo xtask bench --micro`: instructions of the small steps of every statement, counted by callgrind, beside those
//! in the repository. They repeat to the instruction on the same machine with the same compiler, so that a change of
//! one in a hundred is a change of the code.

use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use anyhow::{Context, Result, ensure};
use clap::Args;
use serde::{Deserialize, Serialize};

use crate::cargo::{self, cargo};
use crate::needs;

/// Where the counts of the last agreed state are.
const BASELINE: &str = "bench/micro/baseline.json";
/// A change from here on is marked, in percent.
const NOTABLE: f64 = 1.0;
/// The function of the measured program between whose entry and exit is counted. Wide: the symbol is mangled.
const MEASURED: &str = "*micro*measured*";

/// Cases that need no more instructions than another one, which does the same with less beside it.
const NO_DEARER: [(&str, &str); 1] = [("settled-prepared-of-1000", "settled-prepared")];
/// More than by so much is dearer, in percent: a larger table is searched in a few steps more.
const ROOM: f64 = 5.0;

/// Options of `bench --micro`.
#[derive(Debug, Default, Args)]
pub(crate) struct MicroArgs {
    /// With --micro: write what was counted to the repository, as the new baseline.
    #[arg(long, requires = "micro")]
    save_baseline: bool,
    /// With --micro: fail if a case needs more instructions than its baseline by more than this, in percent.
    #[arg(long, requires = "micro", value_name = "PERCENT")]
    fail_above: Option<f64>,
    /// With --micro: only cases whose names contain this.
    #[arg(long, requires = "micro", value_name = "PART")]
    case: Option<String>,
}

/// Counts, and what they were counted with.
#[derive(Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Counts {
    /// Compiler, valgrind and processor: with others, the counts differ.
    measured_with: Vec<String>,
    /// Instructions for one run of each case.
    instructions: BTreeMap<String, u64>,
}

/// Counts, compares and prints.
pub(crate) fn run(args: &MicroArgs) -> Result<ExitCode> {
    needs::ensure_program("valgrind", "valgrind")?;
    let build = cargo(&["build", "--release", "--package", "delphinus-bench-micro"]);
    let program = cargo::build_program(build, "micro").context("the measured program cannot be built")?;
    let names = cargo::output(program_command(&program, "--list"))?;
    let wanted = |name: &&str| args.case.as_ref().is_none_or(|part| name.contains(part));
    let mut now = Counts { measured_with: measured_with()?, ..Counts::default() };
    for name in names.lines().filter(wanted) {
        now.instructions.insert(name.to_owned(), count(&program, name)?);
    }
    ensure!(!now.instructions.is_empty(), "no case has such a name; there are:\n{names}");
    let baseline = read_baseline()?;
    let order: Vec<&str> = names.lines().filter(wanted).collect();
    let (table, worst) = compare(&order, &now, &baseline);
    let mut out = std::io::stdout();
    write!(out, "{table}")?;
    if !baseline.instructions.is_empty() && now.measured_with != baseline.measured_with {
        let (were, are) = (baseline.measured_with.join(", "), now.measured_with.join(", "));
        writeln!(out, "The baseline was made with other tools: {were}; these are: {are}.")?;
    }
    let dearer = dearer(&now);
    for text in &dearer {
        writeln!(out, "{text}")?;
    }
    if args.save_baseline {
        let mut saved = if args.case.is_some() { baseline } else { Counts::default() };
        saved.measured_with = now.measured_with;
        saved.instructions.extend(now.instructions);
        fs::write(baseline_path(), serde_json::to_string_pretty(&saved)? + "\n")?;
        writeln!(out, "Written: {BASELINE}")?;
    }
    let is_worse = args.fail_above.is_some_and(|limit| worst > limit) || !dearer.is_empty();
    Ok(if is_worse { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

fn program_command(program: &Path, argument: &str) -> Command {
    let mut command = Command::new(program);
    command.arg(argument);
    command
}

/// Instructions of one run of a case.
fn count(program: &Path, name: &str) -> Result<u64> {
    let counts = std::env::temp_dir().join(format!("delphinus-callgrind-{}", std::process::id()));
    let mut command = Command::new("valgrind");
    command.args(["--tool=callgrind", "--quiet", "--collect-atstart=no"]);
    command
        .arg(format!("--toggle-collect={MEASURED}"))
        .arg(format!("--callgrind-out-file={}", counts.display()));
    command.arg(program).arg(name);
    let done = command.output().context("cannot start valgrind")?;
    let text = fs::read_to_string(&counts);
    // It is made anew for each case, and is nobody's afterwards.
    let _ = fs::remove_file(&counts);
    let errors = String::from_utf8_lossy(&done.stderr);
    ensure!(done.status.success(), "{name} ended with {}: {errors}", done.status);
    let times: u64 =
        String::from_utf8_lossy(&done.stdout).trim().parse().context("no number of iterations")?;
    let total = total_of(&text?).with_context(|| format!("callgrind says no total of {name}"))?;
    ensure!(total > 0 && times > 0, "{name}: callgrind has not seen the measured function");
    Ok(total / times)
}

/// The sum at the end of callgrind's file.
fn total_of(text: &str) -> Option<u64> {
    let mut sums = text.lines().filter_map(|line| line.strip_prefix("totals: "));
    sums.next_back()?.split_whitespace().next()?.parse().ok()
}

/// A table, and the largest increase in percent.
fn compare(order: &[&str], now: &Counts, baseline: &Counts) -> (String, f64) {
    let mut table = format!("{:<24} {:>12} {:>12} {:>9}\n", "case", "instructions", "baseline", "change");
    let mut worst: f64 = 0.0;
    for name in order {
        let count = now.instructions.get(*name).copied().unwrap_or_default();
        let line = match baseline.instructions.get(*name) {
            None => format!("{name:<24} {count:>12} {:>12} {:>9}", "-", "new"),
            Some(before) => {
                let change = percent(*before, count);
                worst = worst.max(change);
                let mark = match change {
                    change if change >= NOTABLE => "  more",
                    change if change <= -NOTABLE => "  less",
                    _ => "",
                };
                format!("{name:<24} {count:>12} {before:>12} {change:>+8.2}%{mark}")
            }
        };
        table += &line;
        table.push('\n');
    }
    (table, worst)
}

/// What is said of each case that is dearer than it may be.
fn dearer(now: &Counts) -> Vec<String> {
    let said = |(name, other): (&str, &str)| {
        let (count, base) = (*now.instructions.get(name)?, *now.instructions.get(other)?);
        let more = percent(base, count);
        (more > ROOM).then(|| format!("{name} needs {more:.1}% more than {other}; {ROOM}% are allowed"))
    };
    NO_DEARER.into_iter().filter_map(said).collect()
}

#[expect(clippy::cast_precision_loss, reason = "counts are far below 2^52")]
fn percent(before: u64, now: u64) -> f64 {
    (now as f64 / before.max(1) as f64 - 1.0) * 100.0
}

fn baseline_path() -> PathBuf {
    cargo::root().join(BASELINE)
}

/// Nothing to compare with if there is none yet.
fn read_baseline() -> Result<Counts> {
    match fs::read_to_string(baseline_path()) {
        Ok(text) => serde_json::from_str(&text).with_context(|| format!("{BASELINE} cannot be read")),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(Counts::default()),
        Err(error) => Err(error).context(BASELINE),
    }
}

fn measured_with() -> Result<Vec<String>> {
    let version = |program: &str| {
        let said = cargo::output(program_command(Path::new(program), "--version"))?;
        Ok::<_, anyhow::Error>(said.lines().next().unwrap_or_default().to_owned())
    };
    let rustc = std::env::var("RUSTC").unwrap_or_else(|_| "rustc".to_owned());
    // Some code of others asks the processor what it can do.
    let processor = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = processor.lines().find_map(|line| line.strip_prefix("model name"));
    let model = model.map_or("an unknown processor", |rest| rest.trim_start_matches([' ', '\t', ':']));
    Ok(vec![version(&rustc)?, version("valgrind")?, model.to_owned()])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(all: &[(&str, u64)]) -> Counts {
        let instructions = all.iter().map(|(name, count)| ((*name).to_owned(), *count)).collect();
        Counts { instructions, ..Counts::default() }
    }

    #[test]
    fn changes_are_marked_from_one_percent_on() {
        let baseline = counts(&[("a", 1_000), ("b", 1_000), ("c", 1_000)]);
        let now = counts(&[("a", 1_009), ("b", 1_010), ("c", 900), ("d", 7)]);
        let (table, worst) = compare(&["a", "b", "c", "d"], &now, &baseline);
        let ends: Vec<_> =
            table.lines().skip(1).map(|line| line.split_whitespace().last().unwrap()).collect();
        assert_eq!(ends, ["+0.90%", "more", "less", "new"]);
        assert!((worst - 1.0).abs() < 1e-9, "{worst}");
    }

    #[test]
    fn a_case_that_is_dearer_than_its_other_one_is_said() {
        let [(name, other)] = NO_DEARER;
        assert_eq!(dearer(&counts(&[(name, 1_040), (other, 1_000)])), Vec::<String>::new());
        assert_eq!(dearer(&counts(&[(name, 1_060)])), Vec::<String>::new(), "nothing to compare with");
        let said = dearer(&counts(&[(name, 1_060), (other, 1_000)]));
        assert!(matches!(&said[..], [text] if text.contains("6.0% more")), "{said:?}");
    }

    #[test]
    fn the_total_is_the_last_sum() {
        let text = "version: 1\ntotals: 5\nfn=(1) x\ntotals: 610011\n";
        assert_eq!(total_of(text), Some(610_011));
        assert_eq!(total_of("version: 1\n"), None);
    }
}
