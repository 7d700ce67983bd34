//! `cargo xtask docs`: the pages that are made from the source.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};
use clap::Args;

use crate::cargo;

/// Options of `docs`.
#[derive(Debug, Args)]
pub(crate) struct DocsArgs {
    /// Write nothing; fail when a page is not what the source says.
    #[arg(long)]
    pub(crate) check: bool,
}

struct Page {
    path: &'static str,
    /// What `delphinus config reference --of` calls it.
    name: &'static str,
}

/// The product prints them: linked in here, all of it would be built before any other command of xtask can run.
const PAGES: [Page; 6] = [
    Page { path: "docs/reference/options.md", name: "options" },
    Page { path: "docs/reference/commands.md", name: "commands" },
    Page { path: "docs/reference/tables.md", name: "tables" },
    Page { path: "docs/reference/status.md", name: "status" },
    Page { path: "docs/reference/metrics.md", name: "metrics" },
    Page { path: "docs/reference/pins.md", name: "pins" },
];

/// Writes or checks the pages.
pub(crate) fn run(args: &DocsArgs) -> Result<()> {
    let build = cargo::cargo(&["build", "--workspace", "--bin", "delphinus"]);
    let program = cargo::build_program(build, "delphinus").context("delphinus cannot be built")?;
    let mut stale = Vec::new();
    for Page { path, name } in PAGES {
        let file = cargo::root().join(path);
        let mut reference = Command::new(&program);
        reference.args(["config", "reference", "--of", name]);
        let text = cargo::output(reference)?;
        if args.check {
            stale.extend((!is_current(&file, &text)).then_some(path));
        } else if !is_current(&file, &text) {
            write(&file, &text)?;
            eprintln!("{path}: written anew");
        }
    }
    if !stale.is_empty() {
        bail!("{} is not what the source says; run `cargo xtask docs`", stale.join(", "));
    }
    Ok(())
}

fn is_current(file: &Path, text: &str) -> bool {
    fs::read_to_string(file).is_ok_and(|found| found == text)
}

fn write(file: &PathBuf, text: &str) -> Result<()> {
    if let Some(folder) = file.parent() {
        fs::create_dir_all(folder)?;
    }
    fs::write(file, text).with_context(|| format!("cannot write {}", file.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_that_differs_or_is_missing_is_not_current() {
        let folder = std::env::temp_dir().join(format!("delphinus-docs-{}", std::process::id()));
        let file = folder.join("page.md");
        assert!(!is_current(&file, "text\n"));
        write(&file, "text\n").unwrap();
        assert!(is_current(&file, "text\n"));
        assert!(!is_current(&file, "text of today\n"));
        fs::remove_dir_all(folder).unwrap();
    }
}
