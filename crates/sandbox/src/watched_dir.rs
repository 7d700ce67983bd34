//! A private folder that disappears, with the servers that run on it, when its owner ends.

use std::fs::DirBuilder;
use std::io::Read;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};

use anyhow::{Context, Result, ensure};

use crate::ports::random;

/// What the watchdog runs. `read` returns when every copy of the pipe's write end is closed: that is,
/// when the owner lets go of it or is dead, and every child it was just about to start has been
/// started. Servers are known by the option that names a file in the folder, so a process that
/// merely mentions the folder (an editor, say) is left alone.
/// A copy of a template that the owner had begun goes on for a moment after its death, and removing
/// is repeated until that, too, has ended.
///
/// The line that it writes says that it is out of the reach of Ctrl-C.
const SCRIPT: &str = r#"
trap '' HUP INT TERM
dir=$1
echo watching && exec >/dev/null
while read -r _; do :; done
on_dir() {
    printf '%s\n%s\n' "--defaults-file=$dir/" "--config=$dir/" |
        grep -laF -f - /proc/[0-9]*/cmdline 2>/dev/null | cut -d/ -f3
}
tries=0
while pids=$(on_dir); [ -n "$pids" ] || [ -e "$dir" ]; do
    [ -z "$pids" ] || kill -9 $pids
    rm -rf -- "$dir"
    tries=$((tries + 1))
    [ $tries -lt 1000 ] || break
    sleep 0.02
done 2>/dev/null
"#;

/// A folder with a watchdog process beside it. Dropping the value, or the death of the owning process
/// by any cause, makes the watchdog kill every process started with `--defaults-file=` or `--config=`
/// and a file in the folder, and then remove the folder.
#[derive(Debug)]
pub(crate) struct WatchedDir {
    path: PathBuf,
    /// Never written to; its end is the signal.
    pipe: Option<ChildStdin>,
    watchdog: Child,
}

impl WatchedDir {
    /// Makes `parent/delphinus-<random>`, for this user only.
    pub(crate) fn create(parent: &Path) -> Result<Self> {
        let path = parent.join(format!("delphinus-{:010x}", random() >> 24));
        // The watchdog comes first: a folder without one could be left behind.
        let mut watchdog = Command::new("setsid")
            .args(["sh", "-c", SCRIPT, "delphinus-watchdog"])
            .arg(&path)
            .current_dir("/")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .context("cannot start the watchdog (setsid sh)")?;
        let pipe = watchdog.stdin.take();
        let said = watchdog.stdout.take();
        let watched = Self { path, pipe, watchdog };
        // Until setsid has run, a Ctrl-C kills the watchdog together with the owner.
        let is_watching = said.is_some_and(|mut said| said.read_exact(&mut [0]).is_ok());
        ensure!(is_watching, "the watchdog (setsid sh) was killed at its start");
        DirBuilder::new()
            .mode(0o700)
            .create(watched.path())
            .with_context(|| format!("cannot make {}", watched.path().display()))?;
        Ok(watched)
    }

    /// The folder. Absolute, without symbolic links, if the parent was.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for WatchedDir {
    fn drop(&mut self) {
        drop(self.pipe.take());
        let _ = self.watchdog.wait();
    }
}

/// The folder for temporary files; short, because the path of a Unix socket ends at 107 bytes.
pub(crate) fn temp_parent() -> PathBuf {
    let chosen = std::fs::canonicalize(std::env::temp_dir()).ok();
    chosen.filter(|dir| dir.as_os_str().len() <= 50).unwrap_or_else(|| PathBuf::from("/tmp"))
}
