//! etcd: one member on a machine of its own.

use std::fs::File;
use std::path::Path;
use std::process::{Child, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail};

use crate::cluster::Machine;
use crate::progress::{Progress, wait_until};
use crate::{packages, process};

/// How long it may take until it answers.
const LIMIT: Duration = Duration::from_secs(40);

/// A running member. Dropping it kills it; so does the end of the thread that started it.
#[derive(Debug)]
pub struct Etcd {
    child: Child,
    /// Where it is reached.
    pub endpoint: String,
}

impl Etcd {
    /// Starts it, and returns when it answers. Its data and its log go into this folder. Installs the Debian package if it is missing.
    pub fn start(folder: &Path, machine: &Machine, progress: &dyn Progress) -> Result<Self> {
        if process::find_program("etcd").is_none() {
            packages::ensure(&["etcd-server"], progress)?;
        }
        let program =
            process::find_program("etcd").context("etcd is not there (Debian package etcd-server)")?;
        let endpoint = format!("http://{}:2379", machine.host);
        let peers = "http://127.0.0.1:2380";
        let log = File::create(folder.join("etcd.log"))?;
        let mut command = machine.command("setsid");
        command.args(["setpriv", "--pdeathsig", "KILL"]).arg(program);
        command.arg("--data-dir").arg(folder.join("etcd"));
        command.args(["--listen-client-urls", &endpoint, "--advertise-client-urls", &endpoint]);
        command.args(["--listen-peer-urls", peers, "--initial-advertise-peer-urls", peers]);
        command.args(["--initial-cluster", &format!("default={peers}"), "--logger", "zap"]);
        let child = command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log).spawn();
        let mut started = Self { child: child.context("cannot start etcd")?, endpoint };
        let port = machine.host.clone();
        wait_until(progress, LIMIT, "etcd to answer", || {
            if let Some(status) = started.child.try_wait()? {
                bail!("etcd ended at its start ({status})");
            }
            let mut knock = machine.command("bash");
            knock.args(["-c", &format!("exec 3<>/dev/tcp/{port}/2379")]);
            Ok(process::output(&mut knock).is_ok())
        })?;
        Ok(started)
    }

    /// The process id.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }
}

impl Drop for Etcd {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
