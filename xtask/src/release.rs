//! `cargo xtask release`: the binary to hand out. It is compiled twice: the first build counts which way its code goes while
//! the benchmark trains it, and the second is laid out by these counts (profile-guided optimisation).
//!
//! Source: <https://doc.rust-lang.org/rustc/profile-guided-optimization.html>

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

use anyhow::{Context, Result, ensure};

use crate::{bench, cargo, needs};

/// What reads the counts. `rustup` has one for the very same LLVM; Debian's reads them, too.
const PROFDATA: (&str, &str) = ("llvm-profdata-19", "llvm-19");

/// The workloads of the benchmark that train it: texts and prepared statements, reads and writes, large results, logins.
const TRAINING: [&str; 6] = [
    "point-select-text",
    "point-select-prepared",
    "read-only-prepared",
    "read-write-text",
    "rows-1000",
    "connect",
];

/// Makes the binary and says where it is.
pub(crate) fn run() -> Result<ExitCode> {
    eprintln!("made: {}", build()?.display());
    Ok(ExitCode::SUCCESS)
}

/// Makes the binary.
pub(crate) fn build() -> Result<PathBuf> {
    needs::ensure_program(PROFDATA.0, PROFDATA.1)?;
    let folder = cargo::target_dir().join("guided");
    let counts = folder.join("counts");
    if counts.exists() {
        // Of an older program, they would be mixed with those of this one.
        fs::remove_dir_all(&counts).with_context(|| counts.display().to_string())?;
    }
    let counting = compile(&folder.join("training"), &[format!("-Cprofile-generate={}", counts.display())])?;
    train(&counting)?;
    let profile = merge(&counts, &folder.join("delphinus.profdata"))?;
    let flags = [
        format!("-Cprofile-use={}", profile.display()),
        // Most of the program is not part of the training.
        "-Cllvm-args=-pgo-warn-missing-function=false".to_owned(),
    ];
    compile(&folder.join("release"), &flags)
}

fn compile(target_dir: &Path, flags: &[String]) -> Result<PathBuf> {
    let host = cargo::host_triple()?;
    // A target is named so that build scripts are built without the flags.
    let mut command = cargo::cargo(&["build", "--release", "--locked", "--package", "delphinus-cli"]);
    command.args(["--target", &host, "--target-dir"]).arg(target_dir);
    command.env("CARGO_ENCODED_RUSTFLAGS", flags.join("\u{1f}")).env("DELPHINUS_BUILD", "profile-guided");
    cargo::build_program(command, "delphinus").context("delphinus cannot be built")
}

/// Runs the workloads, one short round of each.
fn train(delphinus: &Path) -> Result<()> {
    let mut command = Command::new(bench::build_program()?);
    command.arg(format!("--delphinus={}", delphinus.display()));
    command.args(["--quick", "--rounds=1", "--systems=delphinus"]);
    command.args(TRAINING.map(|workload| format!("--only={workload}")));
    // Figures of a program that counts mean nothing; progress goes to standard error.
    command.stdout(Stdio::null()).env_remove("LLVM_PROFILE_FILE");
    cargo::run(command).context("the training has failed")
}

fn merge(counts: &Path, profile: &Path) -> Result<PathBuf> {
    let is_there = fs::read_dir(counts).is_ok_and(|mut files| files.next().is_some());
    ensure!(is_there, "the training has left no counts in {}", counts.display());
    let mut command = Command::new(PROFDATA.0);
    command.arg("merge").arg("-o").arg(profile).arg(counts);
    cargo::run(command).context("the counts cannot be read: is this LLVM much older than that of rustc?")?;
    Ok(profile.to_path_buf())
}
