//! Runs foreign programs with a deadline and keeps what they say.

use std::fs;
use std::io::{Read, Seek, SeekFrom};
use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use anyhow::{Context, Result, ensure};

use crate::poll::eventually;

/// What a program said and how it ended.
#[derive(Debug)]
pub struct Outcome {
    /// How it ended.
    pub status: ExitStatus,
    /// Standard output and standard error, as they came.
    pub output: String,
}

impl Outcome {
    /// The output, if the program succeeded; an error with its last lines, if not.
    pub fn success(self) -> Result<String> {
        // Some programs quote a statement of a megabyte in one line.
        let lines: Vec<String> = self.output.lines().map(|line| line.chars().take(500).collect()).collect();
        let tail = lines[lines.len().saturating_sub(60)..].join("\n");
        ensure!(self.status.success(), "{}:\n{tail}", self.status);
        Ok(self.output)
    }
}

/// Runs a program to its end, at most `limit`; after that it is killed and the call fails.
pub fn run(command: &mut Command, limit: Duration) -> Result<Outcome> {
    let (status, output) = run_or_kill(command, limit)?;
    let name = command.get_program().display();
    let status = status.with_context(|| format!("waited {limit:?} for {name} to end, it said:\n{output}"))?;
    Ok(Outcome { status, output })
}

/// Runs a program and gives what it said; no status if it had to be killed after `limit`.
pub(crate) fn run_or_kill(command: &mut Command, limit: Duration) -> Result<(Option<ExitStatus>, String)> {
    // A file, not a pipe: a program that says a lot must not wait for us.
    let mut said = unnamed_file()?;
    command.stdin(Stdio::null()).stdout(said.try_clone()?).stderr(said.try_clone()?);
    let name = command.get_program().display().to_string();
    let mut child = command.spawn().with_context(|| format!("cannot run {name}"))?;
    let ended = eventually(limit, &format!("{name} to end"), || Ok(child.try_wait()?));
    if ended.is_err() {
        child.kill()?;
        child.wait()?;
    }
    let mut bytes = Vec::new();
    said.seek(SeekFrom::Start(0))?;
    said.read_to_end(&mut bytes)?;
    Ok((ended.ok(), String::from_utf8_lossy(&bytes).into_owned()))
}

/// True if a program of this name is found in `PATH`.
pub(crate) fn is_installed(name: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|dir| dir.join(name).is_file())
}

/// A file that is gone when it is closed.
fn unnamed_file() -> Result<fs::File> {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    let path = std::env::temp_dir().join(format!("delphinus-e2e-{}-{number}.out", std::process::id()));
    let file = fs::OpenOptions::new().create_new(true).read(true).write(true).open(&path)?;
    fs::remove_file(&path)?;
    Ok(file)
}

/// Copies the files of a folder and of the folders in it.
pub(crate) fn copy_tree(from: &Path, to: &Path) -> Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from).with_context(|| format!("cannot list {}", from.display()))? {
        let entry = entry?;
        let target = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            copy_tree(&entry.path(), &target)?;
        } else {
            fs::copy(entry.path(), target)?;
        }
    }
    Ok(())
}
