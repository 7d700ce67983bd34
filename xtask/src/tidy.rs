//! `cargo xtask tidy`: the project's own rules, one file each.
//!
//! A rule is a function from the [`Project`] to what breaks it. What rustc and clippy can check is left to them.

mod calls;
mod crate_docs;
mod crate_table;
mod err_packets;
mod error_numbers;
mod exceptions;
mod file_layout;
mod hosts;
mod licences;
mod links;
mod manifests;
mod names;
mod packages;
mod panics;
mod pure_crates;
mod runtime;
mod rust_file;
mod scan;
mod tree;
mod tuples;
mod unused;

use std::fmt;

use anyhow::{Result, bail};

use crate::cargo;
use packages::Packages;
pub(crate) use tree::Tree;

/// What the rules look at.
#[derive(Debug, Default)]
pub(crate) struct Project {
    pub(crate) tree: Tree,
    /// The workspace, as `cargo metadata` sees it.
    pub(crate) packages: Packages,
    /// The fuzz targets' workspace.
    pub(crate) fuzz_packages: Packages,
}

impl Project {
    fn read() -> Result<Self> {
        Ok(Self {
            tree: Tree::read(&cargo::root())?,
            packages: Packages::read("Cargo.toml")?,
            fuzz_packages: Packages::read("fuzz/Cargo.toml")?,
        })
    }
}

/// Something that breaks a rule.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Violation {
    path: String,
    /// From 1; 0 is the whole file.
    line: usize,
    what: String,
}

impl Violation {
    pub(crate) fn new(path: &str, line: usize, what: impl Into<String>) -> Self {
        Self { path: path.to_owned(), line, what: what.into() }
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { path, line, what } = self;
        if *line == 0 { write!(f, "{path}: {what}") } else { write!(f, "{path}:{line}: {what}") }
    }
}

type Rule = fn(&Project) -> Vec<Violation>;

const RULES: [Rule; 17] = [
    calls::check,
    crate_table::check,
    pure_crates::check,
    runtime::check,
    file_layout::check,
    names::check,
    panics::check,
    tuples::check,
    err_packets::check,
    error_numbers::check,
    exceptions::check,
    hosts::check,
    manifests::check,
    unused::check,
    crate_docs::check,
    licences::check,
    links::check,
];

/// Checks every rule, names everything that breaks one, and lists the exceptions that the source asks for.
pub(crate) fn run() -> Result<()> {
    let project = Project::read()?;
    let exceptions = exceptions::list(&project);
    eprintln!("{} exceptions with a reason:", exceptions.len());
    for exception in &exceptions {
        eprintln!("  {exception}");
    }
    let mut found: Vec<Violation> = RULES.iter().flat_map(|rule| rule(&project)).collect();
    found.sort();
    for violation in &found {
        eprintln!("{violation}");
    }
    match found.len() {
        0 => Ok(()),
        1 => bail!("tidy: 1 violation"),
        count => bail!("tidy: {count} violations"),
    }
}

/// What the rules' own tests need.
#[cfg(test)]
mod testing {
    use super::*;

    /// A project of these files and nothing else.
    pub(super) fn files(files: &[(&str, &str)]) -> Project {
        Project { tree: Tree::of(files), ..Project::default() }
    }

    /// Where a rule finds something: "path:line".
    pub(super) fn places(found: &[Violation]) -> Vec<String> {
        found.iter().map(|violation| format!("{}:{}", violation.path, violation.line)).collect()
    }

    #[test]
    fn a_violation_names_its_place() {
        assert_eq!(Violation::new("a.rs", 3, "wrong").to_string(), "a.rs:3: wrong");
        assert_eq!(Violation::new("a.rs", 0, "wrong").to_string(), "a.rs: wrong");
    }
}
