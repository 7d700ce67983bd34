//! One member of etcd, on loopback or on a machine of its own; its data is in memory.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result};
use delphinus_sandbox::PortLease;
use rustix::process::{Pid, Signal, kill_process};

use crate::poll::until;
use crate::programs::run;

const LIMIT: Duration = Duration::from_secs(40);

/// A running member. Dropping it kills it.
#[derive(Debug)]
pub struct Etcd {
    child: Child,
    /// Where it is reached.
    pub endpoint: String,
    /// The words by which etcdctl is let in.
    pub let_in: Vec<String>,
    folder: Folder,
    _ports: Vec<PortLease>,
}

/// What a member asks for of those who come to it.
#[derive(Debug, Clone, Default)]
pub struct Guard {
    /// It is reached by HTTPS.
    pub has_tls: bool,
    /// More words for etcd.
    pub asks: Vec<String>,
    /// Words by which etcdctl is let in.
    pub let_in: Vec<String>,
}

impl Etcd {
    /// On loopback.
    pub fn start() -> Result<Self> {
        Self::start_guarded(Guard::default())
    }

    /// On loopback, where it lets in not everybody.
    pub fn start_guarded(guard: Guard) -> Result<Self> {
        let ports = [PortLease::take()?, PortLease::take()?];
        let scheme = if guard.has_tls { "https" } else { "http" };
        let endpoint = format!("{scheme}://127.0.0.1:{}", ports[0].port());
        let peers = format!("http://127.0.0.1:{}", ports[1].port());
        Self::begin(&|| Command::new("env"), (&endpoint, &peers), ports.into(), guard)
    }

    /// Where `enter` leads to.
    pub(crate) fn start_with(
        enter: &dyn Fn() -> Command,
        urls: (&str, &str),
        ports: Vec<PortLease>,
    ) -> Result<Self> {
        Self::begin(enter, urls, ports, Guard::default())
    }

    fn begin(
        enter: &dyn Fn() -> Command,
        (endpoint, peers): (&str, &str),
        ports: Vec<PortLease>,
        guard: Guard,
    ) -> Result<Self> {
        let folder = Folder::new("etcd")?;
        let mut command = enter();
        command
            .args(["setpriv", "--pdeathsig", "KILL", "etcd", "--data-dir"])
            .arg(folder.path().join("data"));
        command.args(["--listen-client-urls", endpoint, "--advertise-client-urls", endpoint]);
        command.args(["--listen-peer-urls", peers, "--initial-advertise-peer-urls", peers]);
        // At the usual cost each password takes a busy machine longer than etcdctl waits.
        command.args(["--bcrypt-cost", "4"]);
        command.args(["--initial-cluster", &format!("default={peers}"), "--logger", "zap"]).args(guard.asks);
        let child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
        let child = child.context("cannot start etcd")?;
        let (endpoint, let_in) = (endpoint.to_owned(), guard.let_in);
        let started = Self { child, endpoint, let_in, folder, _ports: ports };
        until(LIMIT, "etcd", || Ok(started.ask_from(enter(), &["endpoint", "health"]).is_ok()))?;
        Ok(started)
    }

    /// A folder that goes with it, beside its data.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    fn ask_from(&self, mut enter: Command, words: &[&str]) -> Result<String> {
        enter.args(["etcdctl", "--endpoints", &self.endpoint]).args(&self.let_in).args(words);
        run(enter.env("ETCDCTL_API", "3"), LIMIT)?.success()
    }

    /// What etcdctl says.
    pub fn ask(&self, words: &[&str]) -> Result<String> {
        self.ask_from(Command::new("env"), words)
    }

    /// Sends it a signal.
    pub fn signal(&self, signal: Signal) -> Result<()> {
        let pid = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw);
        Ok(kill_process(pid.context("a process id out of range")?, signal)?)
    }
}

impl Drop for Etcd {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A folder in memory that goes with its owner.
#[derive(Debug)]
pub(crate) struct Folder(PathBuf);

impl Folder {
    pub(crate) fn new(name: &str) -> Result<Self> {
        use std::sync::atomic::{AtomicU32, Ordering};
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        // etcd syncs all the time; what a disk does to that is no question of ours.
        let base =
            if Path::new("/dev/shm").is_dir() { PathBuf::from("/dev/shm") } else { std::env::temp_dir() };
        let path = base.join(format!("delphinus-{name}-{}-{number}", std::process::id()));
        fs::create_dir_all(&path)?;
        Ok(Self(path))
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}
