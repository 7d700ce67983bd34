//! What both worlds stand on: machines, etcd, and processes of Delphinus on machines.

use std::fs;
use std::net::{IpAddr, Ipv4Addr};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use rustix::process::{Pid, Signal, kill_process};

use crate::machines::Machines;
use crate::poll::until;
use crate::programs::run;
use crate::proxy::Proxy;

pub(super) const LIMIT: Duration = Duration::from_secs(40);

/// A folder that goes with its owner.
#[derive(Debug)]
pub(super) struct Folder(PathBuf);

impl Folder {
    pub(super) fn new(name: &str) -> Result<Self> {
        // etcd syncs all the time; what a disk does to that is no question of ours.
        let base =
            if Path::new("/dev/shm").is_dir() { PathBuf::from("/dev/shm") } else { std::env::temp_dir() };
        let path = base.join(format!("delphinus-{name}-{}", std::process::id()));
        fs::create_dir_all(&path)?;
        Ok(Self(path))
    }

    pub(super) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// One member of etcd on a machine.
#[derive(Debug)]
pub(super) struct EtcdServer {
    child: Child,
    pub(super) endpoint: String,
    _folder: Folder,
}

impl EtcdServer {
    pub(super) fn start(machines: &Machines, at: usize) -> Result<Self> {
        let folder = Folder::new("etcd")?;
        let endpoint = format!("http://{}:2379", machines.address(at));
        let mut command = machines.enter(at);
        command.args(["setpriv", "--pdeathsig", "KILL", "etcd", "--data-dir"]).arg(folder.path());
        command.args(["--listen-client-urls", &endpoint, "--advertise-client-urls", &endpoint]);
        command.args(["--listen-peer-urls", "http://127.0.0.1:2380", "--logger", "zap"]);
        let child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
        let started = Self { child: child.context("cannot start etcd")?, endpoint, _folder: folder };
        until(LIMIT, "etcd", || {
            let mut asked = machines.enter(at);
            asked
                .args(["etcdctl", "--endpoints", &started.endpoint, "endpoint", "health"])
                .env("ETCDCTL_API", "3");
            Ok(run(&mut asked, LIMIT)?.success().is_ok())
        })?;
        Ok(started)
    }

    pub(super) fn signal(&self, signal: Signal) -> Result<()> {
        let pid = i32::try_from(self.child.id())
            .ok()
            .and_then(Pid::from_raw)
            .context("a process id out of range")?;
        Ok(kill_process(pid, signal)?)
    }
}

impl Drop for EtcdServer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Starts Delphinus with a configuration on a machine.
pub(super) fn start_on(machines: &Machines, at: usize, folder: &Path, config: &str) -> Result<Proxy> {
    let own = folder.join(format!("m{at}"));
    fs::create_dir_all(&own)?;
    let file = own.join("delphinus.toml");
    fs::write(&file, config)?;
    let enter = machines.enter(at);
    let words = enter.get_args().map(|word| word.to_string_lossy().into_owned());
    let binary = crate::proxy::proxy_binary()?.display().to_string();
    let arguments =
        words.chain([binary, "run".to_owned(), "--config".to_owned(), file.display().to_string()]);
    Proxy::start_program(PathBuf::from("nsenter"), arguments.collect(), file.with_extension("log"))
}

/// Sends a signal to a process of Delphinus.
pub(super) fn signal(proxy: &Proxy, signal: Signal) -> Result<()> {
    let pid = i32::try_from(proxy.pid()).ok().and_then(Pid::from_raw).context("a process id out of range")?;
    Ok(kill_process(pid, signal)?)
}

/// A third machine reaches an address: its neighbour cache has followed.
pub(super) fn is_reached(machines: &Machines, from: usize, address: IpAddr, port: u16) -> Result<()> {
    let mut command: Command = machines.enter(from);
    command.args(["timeout", "3", "bash", "-c", &format!("exec 3<>/dev/tcp/{address}/{port}")]);
    let outcome = run(&mut command, LIMIT)?;
    ensure!(outcome.success().is_ok(), "machine {from} does not reach {address}");
    Ok(())
}

/// The last number of an address.
pub(super) fn virtual_ip(machines: &Machines, last: u8) -> Ipv4Addr {
    let [a, b, c, _] = machines.address(0).octets();
    Ipv4Addr::new(a, b, c, last)
}
