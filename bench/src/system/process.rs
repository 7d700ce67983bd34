//! A system's process: started in private, and gone with this one.

use std::fs::{self, File};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use rustix::process::{Pid, Signal, kill_process};

use crate::load::{Session, Target};

use super::{Peer, Program, Site, System};

/// How long a system may take until it answers.
const READY_LIMIT: Duration = Duration::from_secs(30);
/// How long one that is asked to stop may take.
const STOP_LIMIT: Duration = Duration::from_secs(5);
/// How much of its log an error shows, in lines.
const TAIL: usize = 12;

/// A system that answers. Dropping it stops it.
#[derive(Debug)]
pub(crate) struct Running {
    child: Option<Child>,
    /// It is asked to stop, and killed if it does not.
    is_asked: bool,
}

impl Running {
    pub(super) fn start(peer: &Peer, program: Option<&Program>, site: &Site<'_>) -> Result<Self> {
        let Some(program) = program else {
            return Ok(Self { child: None, is_asked: false });
        };
        let log_path = peer.folder.join("output.log");
        let log = File::create(&log_path)?;
        // The kernel kills it when this thread ends, however that comes about.
        let child = Command::new("setpriv")
            .args(["--pdeathsig", "KILL"])
            .arg(&program.path)
            .args(&program.arguments)
            .current_dir(&peer.folder)
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log)
            .spawn()
            .context("cannot start setpriv (Debian package util-linux)")?;
        let mut running = Self { child: Some(child), is_asked: peer.system == System::Delphinus };
        let ports = [Some(peer.read_port), peer.write_port];
        for port in ports.into_iter().flatten() {
            running.wait_for(&site.target(port)).with_context(|| {
                let said = fs::read_to_string(&log_path).unwrap_or_default();
                let lines: Vec<&str> = said.lines().collect();
                let tail = lines[lines.len().saturating_sub(TAIL)..].join("\n");
                format!("{} does not answer; it says:\n{tail}\n", peer.system)
            })?;
        }
        Ok(running)
    }

    /// The process id; `None` where there is no proxy.
    pub(crate) fn pid(&self) -> Option<u32> {
        self.child.as_ref().map(Child::id)
    }

    fn wait_for(&mut self, target: &Target) -> Result<()> {
        let began = Instant::now();
        loop {
            let child = self.child.as_mut().context("invariant: only a process is waited for")?;
            if let Some(status) = child.try_wait()? {
                bail!("it ended with {status}");
            }
            match ask(target) {
                Ok(()) => return Ok(()),
                Err(error) if began.elapsed() > READY_LIMIT => return Err(error),
                Err(_) => thread::sleep(Duration::from_millis(20)),
            }
        }
    }
}

fn ask(target: &Target) -> Result<()> {
    let mut session = Session::open(target)?;
    session.query("SELECT c FROM sbtest1 WHERE id=1")?;
    session.quit();
    Ok(())
}

impl Drop for Running {
    fn drop(&mut self) {
        let Some(mut child) = self.child.take() else { return };
        // One that is built to be trained (`cargo xtask release`) writes its counts at its end.
        if self.is_asked && kill_process(Pid::from_child(&child), Signal::TERM).is_ok() {
            wait(&mut child);
        }
        // The others have nothing to save, and some take seconds to stop in the regular way.
        let _ = child.kill();
        let _ = child.wait();
    }
}

fn wait(child: &mut Child) {
    let began = Instant::now();
    while matches!(child.try_wait(), Ok(None)) && began.elapsed() < STOP_LIMIT {
        thread::sleep(Duration::from_millis(20));
    }
}
