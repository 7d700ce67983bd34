//! HAProxy as a process, from the Debian package.

use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result};
use delphinus_sandbox::ensure_packages;

/// A running HAProxy. Dropping it kills it.
#[derive(Debug)]
pub struct Haproxy {
    child: Child,
}

impl Haproxy {
    /// Starts it with these sections after `global` and `defaults`; the file goes into `dir`.
    pub fn start(dir: &Path, sections: &str) -> Result<Self> {
        let program = Path::new("/usr/sbin/haproxy");
        if !program.exists() {
            ensure_packages(&["haproxy"])?;
        }
        let file = dir.join("haproxy.cfg");
        let text = format!(
            "defaults\n    mode tcp\n    timeout connect 5s\n    timeout client 1m\n    timeout server 1m\n    \
             timeout check 5s\n\n{sections}"
        );
        fs::write(&file, text)?;
        let log = fs::File::create(dir.join("haproxy.log"))?;
        let mut command = Command::new(program);
        command.args(["-db", "-f"]).arg(&file).stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
        Ok(Self { child: command.spawn().context("cannot start HAProxy")? })
    }
}

impl Drop for Haproxy {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
