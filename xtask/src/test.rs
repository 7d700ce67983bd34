//! `cargo xtask test`: everything, as CI runs it.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::{Command, ExitCode};

use anyhow::{Context, Result, bail};
use clap::Args;

use crate::cargo::{self, Built, cargo};
use crate::check::static_checks;
use crate::fuzz;
use crate::lanes;
use crate::libtest::{self, Outcome};
use crate::needs;
use crate::steps::{Steps, Tally};
use crate::tidy::Tree;

/// How long each fuzz target runs, in seconds. Enough for its seeds and some hundred thousand inputs.
const FUZZ_SECONDS: u64 = 6;
/// Tests of one program that run at the same time. Most wait for servers, so that more than the cores are good; each
/// may have a cluster of its own, so that many more are not.
const TEST_THREADS: &str = "4";
/// Programs that run at the same time: most of the time of each goes by in waiting.
const LANES: usize = 2;

/// So many tests at most may fail once and pass alone. More are no accident of a busy machine.
const MOST_UNSTEADY: usize = 3;

/// Options of `test`.
#[derive(Debug, Default, Args)]
pub(crate) struct TestArgs {
    /// Run only the tests whose names contain this, and none of the other checks.
    filter: Option<String>,
}

/// Runs all checks and tests, or those that the filter names.
pub(crate) fn run(args: &TestArgs) -> Result<ExitCode> {
    let mut steps = Steps::begin();
    steps.check("what the tests need", needs::ensure);
    if let Some(filter) = &args.filter {
        steps.tests(&format!("tests named *{filter}*"), || {
            Ok(workspace_tests(&[filter], LANES, |_| true)?.tally)
        });
        return steps.finish();
    }
    static_checks(&mut steps);
    let (mut unsteady, mut why) = (Vec::new(), Vec::new());
    steps.tests("tests", || {
        let first = workspace_tests(&[], LANES, |_| true)?;
        why.clone_from(&first.why);
        let programs = first.programs.clone();
        let (tally, names) = once_more(first, |names| {
            eprintln!("\n== these failed, and run once more, alone: {}", names.join(" "));
            let arguments =
                ["--exact", "--test-threads", "1"].into_iter().chain(names.iter().map(String::as_str));
            let has_failed = |program: &Built| programs.contains(&lanes::shown(program));
            let second = workspace_tests(&arguments.collect::<Vec<_>>(), 1, has_failed)?;
            why.extend(second.why.iter().map(|text| format!("alone, {text}")));
            Ok(second)
        })?;
        unsteady = names;
        Ok(tally)
    });
    steps.tests("examples in comments", comment_examples);
    for text in why {
        steps.note(format!("panic  {text}"));
    }
    for name in unsteady {
        steps.note(format!("UNSTEADY {name}: it failed beside other tests and passed alone; find out why"));
    }
    fuzz::smoke(&mut steps, FUZZ_SECONDS);
    steps.finish()
}

/// Runs again what failed, if that is little. A test that passes alone is counted as passed, and named: tests of real servers wait for
/// real time, and one that a busy machine has delayed once is to be looked at, but is no reason to throw away a whole change.
fn once_more(
    first: Outcome,
    again: impl FnOnce(&[String]) -> Result<Outcome>,
) -> Result<(Tally, Vec<String>)> {
    let count = first.failed.len();
    let is_few = (1..=MOST_UNSTEADY).contains(&count);
    // A program that died has no name to run again.
    if !is_few || first.tally.failed != count as u64 {
        return Ok((first.tally, Vec::new()));
    }
    let second = again(&first.failed)?;
    // Each has run, not only none failed.
    if second.tally.failed > 0 || second.tally.passed < count as u64 {
        return Ok((first.tally, Vec::new()));
    }
    let tally = Tally { passed: first.tally.passed + first.tally.failed, failed: 0 };
    Ok((tally, first.failed))
}

/// All tests of all crates but the examples in comments, for which each crate is compiled once more. Those of `e2e` start the binary
/// that is built here. `is_wanted`: of which programs.
fn workspace_tests(arguments: &[&str], lanes: usize, is_wanted: impl Fn(&Built) -> bool) -> Result<Outcome> {
    let built =
        cargo::build(cargo(&["test", "--workspace", "--no-run"])).context("the tests cannot be built")?;
    let binary = cargo::program(&built, "delphinus")?;
    let programs: Vec<_> = built.iter().filter(|one| one.is_test && is_wanted(one)).collect();
    let command = |program: &Built| {
        let mut command = Command::new(&program.path);
        with_arguments(&mut command, arguments);
        // As cargo has it.
        command.current_dir(&program.folder).env("CARGO_MANIFEST_DIR", &program.folder);
        command.env("DELPHINUS_BIN", &binary);
        command
    };
    let outcome = lanes::run(&programs, lanes, &command)?;
    if outcome == Outcome::default() {
        bail!("no test was run");
    }
    Ok(outcome)
}

/// The examples in comments, of the crates that have any.
fn comment_examples() -> Result<Tally> {
    let tree = Tree::read(&cargo::root())?;
    let folders = folders_with_examples(&tree);
    let manifests = folders.iter().map(|folder| format!("{folder}/Cargo.toml"));
    let mut command = cargo(&["test", "--no-fail-fast", "--doc"]);
    for path in manifests {
        let manifest: toml::Table = tree.text(&path).with_context(|| format!("no {path}"))?.parse()?;
        let name = manifest.get("package").and_then(|package| package.get("name")?.as_str());
        command.args(["--package", name.with_context(|| format!("{path} names no package"))?]);
    }
    if folders.is_empty() { Ok(Tally::default()) } else { libtest::run(command) }
}

fn folders_with_examples(tree: &Tree) -> BTreeSet<String> {
    let with = tree.rust.iter().filter(|file| has_example(&file.text));
    with.map(|file| file.package_folder().to_owned()).collect()
}

/// True if a block in a comment is code that is run: it has no language, or is Rust.
fn has_example(text: &str) -> bool {
    let fence = |line: &str| {
        let line = line.trim_start();
        let comment = line.strip_prefix("///").or_else(|| line.strip_prefix("//!"))?;
        comment.trim_start().strip_prefix("```").map(str::to_owned)
    };
    let fences: Vec<String> = text.lines().filter_map(fence).collect();
    fences.iter().step_by(2).any(|language| language.is_empty() || language.starts_with("rust"))
}

/// Runs tests of some packages, with arguments for the test programs.
pub(crate) fn run_tests(packages: &[&str], arguments: &[&str], binary: &Path) -> Result<Tally> {
    libtest::run(test_command(packages, arguments, binary))
}

fn test_command(packages: &[&str], arguments: &[&str], binary: &Path) -> Command {
    let mut command = cargo(&["test", "--no-fail-fast"]);
    command.args(packages).arg("--");
    with_arguments(&mut command, arguments);
    command.env("DELPHINUS_BIN", binary);
    command
}

fn with_arguments(command: &mut Command, arguments: &[&str]) {
    if !arguments.contains(&"--test-threads") {
        command.args(["--test-threads", TEST_THREADS]);
    }
    command.args(arguments);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outcome(passed: u64, failed: u64, names: &[&str]) -> Outcome {
        Outcome {
            tally: Tally { passed, failed },
            failed: names.iter().map(|&name| name.to_owned()).collect(),
            ..Outcome::default()
        }
    }

    #[test]
    fn crates_whose_comments_have_examples_are_found() {
        let tree = Tree::of(&[
            ("crates/wire/src/frame.rs", "/// It does.\n///\n/// ```\n/// one();\n/// ```\nfn one() {}\n"),
            ("crates/net/src/lib.rs", "//! It does not.\n// ```\nconst A: &str = \"```\";\n"),
            ("crates/sql/src/lib.rs", "//! A picture.\n//! ```text\n//! a -> b\n//! ```\n"),
        ]);
        assert_eq!(folders_with_examples(&tree), BTreeSet::from(["crates/wire".to_owned()]));
    }

    #[test]
    fn a_test_that_passes_alone_is_counted_and_named() {
        let (tally, names) = once_more(outcome(10, 1, &["slow"]), |_| Ok(outcome(1, 0, &[]))).unwrap();
        assert_eq!((tally, names), (Tally { passed: 11, failed: 0 }, vec!["slow".to_owned()]));
    }

    #[test]
    fn a_test_that_fails_again_has_failed() {
        let (tally, names) =
            once_more(outcome(10, 1, &["broken"]), |_| Ok(outcome(0, 1, &["broken"]))).unwrap();
        assert_eq!((tally, names), (Tally { passed: 10, failed: 1 }, Vec::new()));
        // It was not found: that is no pass.
        let (tally, _) = once_more(outcome(10, 1, &["gone"]), |_| Ok(outcome(0, 0, &[]))).unwrap();
        assert_eq!(tally.failed, 1);
    }

    #[test]
    fn nothing_runs_again_where_much_failed_or_a_program_died() {
        let never = |_: &[String]| panic!("it ran again");
        for first in [
            outcome(10, 4, &["a", "b", "c", "d"]),
            outcome(10, 2, &["a"]),
            outcome(10, 1, &[]),
            outcome(10, 0, &[]),
        ] {
            let before = first.tally;
            assert_eq!(once_more(first, never).unwrap(), (before, Vec::new()));
        }
    }
}
