//! The wall clock of one process steps, by Debian's `faketime`; the machine's stays as it is. Clocks that never step (CLOCK_MONOTONIC,
//! CLOCK_BOOTTIME) are those of the kernel.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use delphinus_sandbox::ensure_packages;

use crate::programs::run;

const LIMIT: Duration = Duration::from_secs(20);

/// The clock of one process.
#[derive(Debug)]
pub(super) struct Clock {
    file: PathBuf,
    library: PathBuf,
    process: Option<u32>,
}

impl Drop for Clock {
    /// A process that is killed leaves what the library has made for it.
    fn drop(&mut self) {
        if let Some(process) = self.process {
            for name in ["faketime_shm", "sem.faketime_sem"] {
                let _ = fs::remove_file(format!("/dev/shm/{name}_{process}"));
            }
        }
    }
}

impl Clock {
    /// A clock that goes right; its file goes into this folder.
    pub(super) fn new(folder: &Path, name: &str) -> Result<Self> {
        ensure_packages(&["libfaketime"])?;
        let folders = fs::read_dir("/usr/lib")?.flatten().map(|entry| entry.path());
        let library =
            folders.map(|folder| folder.join("faketime/libfaketimeMT.so.1")).find(|file| file.is_file());
        let clock = Self {
            file: folder.join(name),
            library: library.context("no libfaketimeMT.so.1")?,
            process: None,
        };
        clock.step("+0")?;
        Ok(clock)
    }

    /// The words before a program that goes by it.
    pub(super) fn words(&self) -> Vec<String> {
        vec![
            "env".to_owned(),
            format!("LD_PRELOAD={}", self.library.display()),
            format!("FAKETIME_TIMESTAMP_FILE={}", self.file.display()),
            "FAKETIME_NO_CACHE=1".to_owned(),
            "DONT_FAKE_MONOTONIC=1".to_owned(),
        ]
    }

    /// Whose clock it is.
    pub(super) fn belongs_to(&mut self, process: u32) {
        self.process = Some(process);
    }

    /// Sets how far it is from the right time: `+3h`, `-5h`.
    pub(super) fn step(&self, offset: &str) -> Result<()> {
        // In one go: the process may read it at any moment.
        let new = self.file.with_extension("new");
        fs::write(&new, format!("{offset}\n"))?;
        Ok(fs::rename(new, &self.file)?)
    }
}

/// The hour in so many hours as logs write it: `2026-11-26T14`.
fn hour(hours: i32) -> Result<String> {
    let mut date = Command::new("date");
    date.args(["-u", "-d", &format!("{hours} hours"), "+%Y-%m-%dT%H"]);
    Ok(run(&mut date, LIMIT)?.success()?.trim().to_owned())
}

/// Fails unless what `act` makes a process log is dated so many hours from now.
pub(super) fn ensure_log_is_off_by(
    hours: i32,
    log: impl Fn() -> String,
    act: impl FnOnce() -> Result<()>,
) -> Result<()> {
    let (known, before) = (log().len(), hour(hours)?);
    act()?;
    let log = log();
    let lines = log.get(known..).unwrap_or_default();
    let after = hour(hours)?;
    let is_dated = lines.lines().any(|line| line.starts_with(&before) || line.starts_with(&after));
    ensure!(is_dated, "the process does not see a clock that is {hours} hours off; it logs:\n{lines}");
    Ok(())
}
