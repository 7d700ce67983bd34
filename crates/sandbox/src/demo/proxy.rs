//! The proxy as a child process.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use rustix::process::{Pid, Signal, kill_process};

use crate::demo::access::Access;
use crate::process;
use crate::progress::{Progress, wait_until};

/// How long the proxy may take until it answers a statement.
const READY_LIMIT: Duration = Duration::from_secs(30);

/// How long it may take to stop before it is killed; its own limit in the demo is 1 s.
const STOP_LIMIT: Duration = Duration::from_secs(5);

/// A running `delphinus run`; dropping it kills it.
pub(super) struct ProxyProcess {
    child: Child,
    program: PathBuf,
    log: PathBuf,
}

impl ProxyProcess {
    /// Starts the binary with a configuration and a file for its log, behind the words that lead to its machine, in a session of its own, so that Ctrl-C reaches the demo alone. The option is
    /// written with `=`, which is how the folder's watchdog knows the process.
    pub(super) fn spawn(binary: &Path, (config, log): (&Path, &Path), launcher: &[String]) -> Result<Self> {
        let log_path = log.to_owned();
        let log = File::create(log)?;
        let binary = fs::canonicalize(binary).with_context(|| format!("no proxy at {}", binary.display()))?;
        let child = Command::new("setsid")
            .args(launcher)
            .arg(&binary)
            .arg("run")
            .arg(format!("--config={}", config.display()))
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log)
            .spawn()
            .context("cannot start the proxy (setsid)")?;
        Ok(Self { child, program: binary, log: log_path })
    }

    /// Waits until a client can log in over TCP and read a table.
    pub(super) fn wait_until_ready(
        &mut self,
        access: &Access,
        client: &Path,
        progress: &dyn Progress,
    ) -> Result<()> {
        let mut last_error = None;
        let ready = wait_until(progress, READY_LIMIT, "delphinus to answer", || {
            if let Some(status) = self.child.try_wait()? {
                bail!("delphinus ended at its start ({status})");
            }
            last_error = read_a_table(access, client).err();
            Ok(last_error.is_none())
        });
        ready.map_err(|error| {
            let answer = last_error.map(|error| format!("\nthe client says: {error:#}")).unwrap_or_default();
            error.context(format!("delphinus did not come up{answer}\nits log:\n{}", self.log_tail()))
        })
    }

    /// Where the program is: it need not be in PATH.
    pub(super) fn program(&self) -> &Path {
        &self.program
    }

    pub(super) fn pid(&self) -> u32 {
        self.child.id()
    }

    pub(super) fn is_running(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }

    /// The end of its log.
    pub(super) fn log_tail(&self) -> String {
        process::tail(&String::from_utf8_lossy(&fs::read(&self.log).unwrap_or_default()))
    }

    /// Stops it in the regular way, and by force if that takes too long.
    pub(super) fn stop(mut self) {
        let pid = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw);
        if !self.is_running() || pid.is_none_or(|pid| kill_process(pid, Signal::TERM).is_err()) {
            return;
        }
        let began = Instant::now();
        while self.is_running() && began.elapsed() < STOP_LIMIT {
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

impl Drop for ProxyProcess {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn read_a_table(access: &Access, client: &Path) -> Result<String> {
    let mut command = access.command(client);
    command
        .args(["--no-defaults", "--connect-timeout=5", "--batch"])
        .args(["-h", &access.host, "-P", &access.port.to_string(), "-u", &access.user])
        .args(["-e", "SELECT COUNT(*) FROM products", &access.database])
        .env("MYSQL_PWD", &access.password);
    process::output(&mut command)
}
