//! `cargo xtask fuzz`: coverage-guided fuzzing on stable Rust; see fuzz/README.md.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use clap::Args;

use crate::cargo::{self, cargo};
use crate::steps::Steps;

/// An input that takes longer than this, in seconds, is a bug.
const SLOWEST_INPUT: u64 = 10;
/// More memory than this, in MiB, is a bug.
const MOST_MEMORY: u64 = 1024;

/// Options of `fuzz`.
#[derive(Debug, Args)]
pub(crate) struct FuzzArgs {
    /// The target, a file of fuzz/targets without its ending; all of them, one after the other, without it.
    target: Option<String>,
    /// How long each target runs.
    #[arg(long, value_name = "N", default_value_t = 60)]
    seconds: u64,
}

/// Fuzzes one target or all of them; stops at the first finding.
pub(crate) fn run(args: &FuzzArgs) -> Result<()> {
    let known = targets()?;
    let chosen = match &args.target {
        None => known,
        Some(target) => {
            ensure!(known.contains(target), "there is no target {target}; there are: {}", known.join(", "));
            vec![target.clone()]
        }
    };
    let programs = build()?;
    chosen.iter().try_for_each(|target| fuzz(&programs, target, args.seconds))
}

/// A short run of every target, each a step of its own.
pub(crate) fn smoke(steps: &mut Steps, seconds: u64) {
    let mut built = None;
    steps.check("fuzz: build", || {
        built = Some((build()?, targets()?));
        Ok(())
    });
    let Some((programs, targets)) = built else { return };
    for target in targets {
        steps.check(&format!("fuzz: {target}"), || fuzz(&programs, &target, seconds));
    }
}

/// The names of all targets.
fn targets() -> Result<Vec<String>> {
    let folder = cargo::root().join("fuzz/targets");
    let files = fs::read_dir(&folder).with_context(|| format!("cannot list {}", folder.display()))?;
    let mut names = Vec::new();
    for file in files {
        let path = file?.path();
        let name = path.file_stem().filter(|_| path.extension().is_some_and(|ending| ending == "rs"));
        names.extend(name.map(|name| name.to_string_lossy().into_owned()));
    }
    names.sort();
    ensure!(!names.is_empty(), "no targets in {}", folder.display());
    Ok(names)
}

/// Builds all targets; gives the folder they are in.
fn build() -> Result<PathBuf> {
    let host = cargo::host_triple()?;
    let folder = cargo::root().join("fuzz");
    // A target is named so that build scripts are built without the flags, which are in fuzz/.cargo/config.toml and
    // which these variables would replace.
    let mut command = cargo(&["build", "--release", "--locked", "--target", &host]);
    command.current_dir(&folder).env_remove("RUSTFLAGS").env_remove("CARGO_ENCODED_RUSTFLAGS");
    let target_dir = std::env::var_os("CARGO_TARGET_DIR")
        .map_or_else(|| folder.join("target"), |dir| cargo::root().join(dir).join("fuzz"));
    command.arg("--target-dir").arg(&target_dir);
    cargo::run(command)?;
    Ok(target_dir.join(host).join("release"))
}

/// Runs one target for some seconds, from its seeds and from what earlier runs have found.
fn fuzz(programs: &Path, target: &str, seconds: u64) -> Result<()> {
    let root = cargo::root().join("fuzz");
    // From the folder of the targets, so that the user sees short paths.
    let (corpus, seeds) = (format!("corpus/{target}"), format!("seeds/{target}"));
    let artifacts = format!("artifacts/{target}/");
    for folder in [&corpus, &artifacts] {
        fs::create_dir_all(root.join(folder))?;
    }
    let mut command = Command::new(programs.join(target));
    command.current_dir(&root).arg(&corpus).args(root.join(&seeds).is_dir().then_some(seeds));
    command.arg(format!("-max_total_time={seconds}")).arg(format!("-artifact_prefix={artifacts}"));
    command.arg(format!("-timeout={SLOWEST_INPUT}")).arg(format!("-rss_limit_mb={MOST_MEMORY}"));
    command.args(["-print_final_stats=1", "-verbosity=0"]);
    cargo::run(command).with_context(|| format!("the input is in fuzz/{artifacts}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_target_is_declared_and_has_seeds() {
        let root = cargo::root().join("fuzz");
        let manifest = fs::read_to_string(root.join("Cargo.toml")).unwrap();
        for target in targets().unwrap() {
            assert!(
                manifest.contains(&format!("path = \"targets/{target}.rs\"")),
                "{target} is not in Cargo.toml"
            );
            let seeds = fs::read_dir(root.join("seeds").join(&target)).map_or(0, Iterator::count);
            assert!(seeds > 0, "{target} has no seeds");
        }
    }
}
