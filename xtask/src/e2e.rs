//! `cargo xtask e2e`: the tests of `e2e/` against real servers and drivers.

use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::Args;

use crate::cargo::{self, cargo};
use crate::needs;
use crate::steps::Steps;
use crate::test::run_tests;

/// Options of `e2e`.
#[derive(Debug, Args)]
pub(crate) struct E2eArgs {
    /// A file of e2e/tests without its ending, or a part of a test's name; all tests without it.
    name: Option<String>,
    /// Test the release build.
    #[arg(long)]
    release: bool,
}

/// Runs the tests.
pub(crate) fn run(args: &E2eArgs) -> Result<ExitCode> {
    let mut steps = Steps::begin();
    steps.check("what the tests need", needs::ensure);
    steps.tests("e2e", || {
        let mut build = cargo(&["build", "--package", "delphinus-cli"]);
        build.args(args.release.then_some("--release"));
        let binary = cargo::build_program(build, "delphinus").context("delphinus cannot be built")?;
        let (packages, arguments) = selection(args.name.as_deref(), &cargo::root().join("e2e/tests"));
        run_tests(&packages, &arguments, &binary)
    });
    steps.finish()
}

/// What to say to cargo, and what to the test programs.
fn selection<'a>(name: Option<&'a str>, folder: &Path) -> (Vec<&'a str>, Vec<&'a str>) {
    let mut packages = vec!["--package", "delphinus-e2e"];
    match name {
        None => (packages, vec![]),
        Some(name) if is_file_of(folder, name) => {
            packages.extend(["--test", name]);
            (packages, vec![])
        }
        Some(name) => (packages, vec![name]),
    }
}

fn is_file_of(folder: &Path, name: &str) -> bool {
    folder.join(name).with_extension("rs").is_file() || folder.join(name).join("main.rs").is_file()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_a_file_or_a_part_of_a_tests_name() {
        let folder = cargo::root().join("e2e/tests");
        let package = ["--package", "delphinus-e2e"];
        assert_eq!(selection(None, &folder), (package.to_vec(), vec![]));
        let file = [package.as_slice(), &["--test", "splitting"]].concat();
        assert_eq!(selection(Some("splitting"), &folder), (file, vec![]));
        assert_eq!(selection(Some("a_locking_read"), &folder), (package.to_vec(), vec!["a_locking_read"]));
    }
}
