//! `cargo xtask check`: what is quick and needs no server.

use std::process::ExitCode;

use anyhow::Result;

use crate::cargo::{self, cargo};
use crate::docs::{self, DocsArgs};
use crate::steps::Steps;
use crate::{libtest, tidy};

/// Runs the checks and the unit tests.
pub(crate) fn run() -> Result<ExitCode> {
    let mut steps = Steps::begin();
    static_checks(&mut steps);
    steps.tests("unit tests", || {
        libtest::run(cargo(&["test", "--workspace", "--lib", "--bins", "--no-fail-fast"]))
    });
    steps.finish()
}

/// Everything that looks at the source without running it; the cheap things first.
pub(crate) fn static_checks(steps: &mut Steps) {
    steps.check("format", format);
    steps.check("tidy", tidy::run);
    steps.check("reference pages", || docs::run(&DocsArgs { check: true }));
    steps.check("clippy", || {
        cargo::run(cargo(&[
            "clippy",
            "--workspace",
            "--all-targets",
            "--keep-going",
            "--",
            "--deny",
            "warnings",
        ]))
    });
    steps.check("rustdoc", || {
        let mut command =
            cargo(&["doc", "--workspace", "--no-deps", "--keep-going", "--document-private-items"]);
        command.env("RUSTDOCFLAGS", "--deny warnings");
        cargo::run(command)
    });
}

fn format() -> Result<()> {
    cargo::run(cargo(&["fmt", "--all", "--check"]))?;
    cargo::run(cargo(&["fmt", "--manifest-path", "fuzz/Cargo.toml", "--check"]))
}
