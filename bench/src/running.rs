//! A program on a machine of its own, which is killed when nothing measures it any more.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};

use anyhow::{Context, Result};
use delphinus_sandbox::Machine;

use crate::meter::process_ns;

/// Killed when it is dropped, and when this thread ends.
#[derive(Debug)]
pub(crate) struct Running(Child);

impl Running {
    /// Processor time so far, in nanoseconds.
    pub(crate) fn used_ns(&self) -> Result<u64> {
        process_ns(self.0.id())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Starts it; what it says goes to a file.
pub(crate) fn spawn(
    machine: &Machine,
    program: &Path,
    arguments: &[String],
    log: PathBuf,
) -> Result<Running> {
    let log = File::create(log)?;
    let mut command = machine.command("setpriv");
    command.args(["--pdeathsig", "KILL"]).arg(program).args(arguments);
    let child = command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log).spawn();
    Ok(Running(child.context("cannot start nsenter and setpriv (Debian package util-linux)")?))
}
