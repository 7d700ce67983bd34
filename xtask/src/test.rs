//! `cargo xtask test`: everything, as CI runs it.

use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::Args;

use crate::cargo::{self, cargo};
use crate::check::static_checks;
use crate::fuzz;
use crate::libtest;
use crate::needs;
use crate::steps::{Steps, Tally};

/// How long each fuzz target runs, in seconds. Enough for its seeds and some hundred thousand inputs.
const FUZZ_SECONDS: u64 = 6;
/// Tests of one program that run at the same time. Most wait for servers, so that more than the cores are good; each
/// may have a cluster of its own, so that many more are not.
const TEST_THREADS: &str = "4";

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
        steps.tests(&format!("tests named *{filter}*"), || workspace_tests(&[filter]));
        return steps.finish();
    }
    static_checks(&mut steps);
    steps.tests("tests", || workspace_tests(&[]));
    fuzz::smoke(&mut steps, FUZZ_SECONDS);
    steps.finish()
}

/// All tests of all crates, one program after the other; those of `e2e` start the binary that is built here.
fn workspace_tests(arguments: &[&str]) -> Result<Tally> {
    let build = cargo(&["test", "--workspace", "--no-run"]);
    let binary = cargo::build_program(build, "delphinus").context("the tests cannot be built")?;
    run_tests(&["--workspace"], arguments, &binary)
}

/// Runs tests of some packages, with arguments for the test programs.
pub(crate) fn run_tests(packages: &[&str], arguments: &[&str], binary: &Path) -> Result<Tally> {
    let mut command = cargo(&["test", "--no-fail-fast"]);
    command.args(packages).args(["--", "--test-threads", TEST_THREADS]).args(arguments);
    command.env("DELPHINUS_BIN", binary);
    libtest::run(command)
}
