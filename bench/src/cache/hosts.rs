//! Hosts that have nothing in common but relays: network namespaces in which only the loopback is up.
//!
//! Owns: making, entering and removing them. Must not know what runs there.

use std::fs::File;
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use delphinus_sandbox::Machine;
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

/// How long a namespace may take to be there.
const LIMIT: Duration = Duration::from_secs(10);

/// A host. Dropping it ends the process that holds its namespace; the namespace goes with the last process in it.
#[derive(Debug)]
pub(crate) struct Host {
    /// As errors name it.
    pub(crate) name: &'static str,
    holder: Child,
}

impl Host {
    /// Makes one. Only root can.
    pub(crate) fn make(name: &'static str) -> Result<Self> {
        let mut holder = Command::new("setpriv");
        holder.args(["--pdeathsig", "KILL", "unshare", "--net", "sleep", "infinity"]);
        let holder = holder.stdin(Stdio::null()).spawn().context("cannot start setpriv and unshare")?;
        let mut host = Self { name, holder };
        host.wait()?;
        let up = host.command("ip").args(["link", "set", "lo", "up"]).status()?;
        ensure!(up.success(), "ip cannot bring up the loopback of the host {name}: {up}");
        Ok(host)
    }

    fn wait(&mut self) -> Result<()> {
        let (own, began) = (std::fs::read_link("/proc/self/ns/net")?, Instant::now());
        while std::fs::read_link(self.path()).is_ok_and(|its| its == own) {
            if let Some(status) = self.holder.try_wait()? {
                bail!(
                    "this process may not make network namespaces (unshare ended with {status}): run it as root"
                );
            }
            ensure!(began.elapsed() < LIMIT, "no network namespace after {} s", LIMIT.as_secs());
            thread::sleep(Duration::from_millis(5));
        }
        Ok(())
    }

    /// The file of the namespace.
    pub(crate) fn path(&self) -> PathBuf {
        format!("/proc/{}/ns/net", self.holder.id()).into()
    }

    /// A program on this host, which becomes the process that is started.
    pub(crate) fn command(&self, program: &str) -> Command {
        let mut command = Command::new("nsenter");
        command.arg(format!("--net={}", self.path().display())).arg(program);
        command
    }

    /// The same for a database server.
    pub(crate) fn machine(&self) -> Machine {
        let launcher = vec!["nsenter".to_owned(), format!("--net={}", self.path().display())];
        Machine { host: "127.0.0.1".to_owned(), launcher }
    }

    /// Sockets that this thread makes from now on are this host's.
    pub(crate) fn enter(&self) -> Result<()> {
        enter(&self.path())
    }

    /// Does something on this host, on a thread of its own.
    pub(crate) fn run<T: Send>(&self, work: impl FnOnce() -> Result<T> + Send) -> Result<T> {
        thread::scope(|scope| {
            let working = scope.spawn(|| {
                self.enter()?;
                work()
            });
            working.join().expect("invariant: no panic in what a host does")
        })
    }
}

/// Moves this thread into the namespace of this file.
pub(crate) fn enter(namespace: &std::path::Path) -> Result<()> {
    let file = File::open(namespace).with_context(|| format!("no namespace {}", namespace.display()))?;
    Ok(move_into_link_name_space(file.as_fd(), Some(LinkNameSpaceType::Network))?)
}

impl Drop for Host {
    fn drop(&mut self) {
        let _ = self.holder.kill();
        let _ = self.holder.wait();
    }
}
