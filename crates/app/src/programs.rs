//! Runs programs of operators, without a shell: each in a group of its own that is ended with it, for a limited time, with PATH and what
//! it is told in its environment and nothing else. What it says is heard in part.

use std::ffi::OsString;
use std::io::{self, Read};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process_group};

/// Of what a program says, so many bytes are kept.
pub(crate) const SAID: u64 = 1024;

/// Between two looks whether it has ended.
const PACE: Duration = Duration::from_millis(10);

/// A run of a program.
pub(crate) struct Call<'a> {
    pub(crate) program: &'a Path,
    pub(crate) arguments: &'a [OsString],
    /// Its environment, beside PATH.
    pub(crate) about: &'a [(&'static str, String)],
    /// It is killed after so long.
    pub(crate) limit: Duration,
    /// It is killed when this is true.
    pub(crate) is_over: &'a AtomicBool,
}

impl Call<'_> {
    /// Runs it to its end, and blocks meanwhile. Gives what it has said; an error for every end but exit code 0.
    pub(crate) fn run(&self) -> Result<String, String> {
        let path = std::env::var_os("PATH").unwrap_or_default();
        let mut child = Command::new(self.program)
            .args(self.arguments)
            .env_clear()
            .env("PATH", path)
            .envs(self.about.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            // Whatever it starts is ended with it.
            .process_group(0)
            .spawn()
            .map_err(|error| format!("{} cannot be run: {error}", self.program.display()))?;
        let (errors, output) = (listen(child.stderr.take()), listen(child.stdout.take()));
        let ended = self.wait(&mut child);
        end_group(&child);
        // What it has left behind is ended, so that both are at their end.
        let said = [errors, output].into_iter().filter_map(|said| said.recv_timeout(PACE * 10).ok());
        let said = said.collect::<Vec<_>>().join(" ").trim().to_owned();
        match ended {
            Ok(None) if self.is_over.load(Ordering::Relaxed) => Err("the process stops".to_owned()),
            Ok(None) => Err(format!("it was killed after {} s. It said: {said}", self.limit.as_secs_f32())),
            Ok(Some(status)) if status.success() => Ok(said),
            Ok(Some(status)) => {
                let how = status.signal().map_or_else(
                    || format!("exit code {}", status.code().unwrap_or_default()),
                    |signal| format!("signal {signal}"),
                );
                Err(format!("{how}. It said: {said}"))
            }
            Err(error) => Err(format!("it cannot be waited for: {error}")),
        }
    }

    /// None: it has not ended in time.
    fn wait(&self, child: &mut Child) -> io::Result<Option<std::process::ExitStatus>> {
        let until = Instant::now() + self.limit;
        loop {
            if let Some(status) = child.try_wait()? {
                return Ok(Some(status));
            }
            if Instant::now() >= until || self.is_over.load(Ordering::Relaxed) {
                end_group(child);
                child.wait()?;
                return Ok(None);
            }
            std::thread::sleep(PACE);
        }
    }
}

fn end_group(child: &Child) {
    if let Some(group) = i32::try_from(child.id()).ok().and_then(Pid::from_raw) {
        // It may have ended already.
        let _ = kill_process_group(group, Signal::KILL);
    }
}

/// The first bytes of what it says; the rest is read and dropped, so that it does not wait.
fn listen(pipe: Option<impl Read + Send + 'static>) -> mpsc::Receiver<String> {
    let (sender, said) = mpsc::channel();
    if let Some(mut pipe) = pipe {
        std::thread::spawn(move || {
            let mut start = Vec::new();
            let _ = pipe.by_ref().take(SAID).read_to_end(&mut start);
            let _ = io::copy(&mut pipe, &mut io::sink());
            let _ = sender.send(String::from_utf8_lossy(&start).trim().replace('\n', " "));
        });
    }
    said
}
