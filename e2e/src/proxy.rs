//! The proxy as a process: finds or builds the binary, starts it, stops it, reads its memory and its log.

use std::fs::{self, File, OpenOptions};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::OnceLock;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use rustix::process::{Pid, Signal, kill_process};

use crate::poll::eventually;
use crate::programs::run;

/// How long `cargo build` may take on a machine that builds other things as well.
const BUILD_LIMIT: Duration = Duration::from_mins(30);

/// A running proxy: Delphinus, or another that is compared with it. Dropping it kills it; so does the end of this process,
/// however that ends.
#[derive(Debug)]
pub struct Proxy {
    child: Child,
    watchdog: Child,
    program: PathBuf,
    arguments: Vec<String>,
    log: PathBuf,
}

impl Proxy {
    /// Starts the binary with a configuration file; its log goes beside that.
    pub fn start(config: &Path) -> Result<Self> {
        Self::start_with(config, None)
    }

    /// The same with a fault that is planted, if one is.
    pub(crate) fn start_with(config: &Path, planted: Option<&str>) -> Result<Self> {
        let arguments = ["run".to_owned(), "--config".to_owned(), config.display().to_string()];
        let log = config.with_extension("log");
        let Some(fault) = planted else {
            return Self::start_program(proxy_binary()?, arguments.into(), log);
        };
        let program = [format!("DELPHINUS_PLANT={fault}"), proxy_binary()?.display().to_string()];
        Self::start_program(PathBuf::from("env"), program.into_iter().chain(arguments).collect(), log)
    }

    /// The same in a mount namespace of its own, where `hosts` is the hosts file.
    pub(crate) fn start_with_hosts(config: &Path, hosts: &Path) -> Result<Self> {
        let script = "mount --bind \"$0\" /etc/hosts && exec \"$1\" run --config \"$2\"";
        let paths = [hosts, &proxy_binary()?, config].map(|path| path.display().to_string());
        let arguments = ["--mount", "sh", "-c", script].into_iter().map(str::to_owned).chain(paths).collect();
        Self::start_program(PathBuf::from("unshare"), arguments, config.with_extension("log"))
    }

    /// The same in a mount namespace of its own, where `dir` is a disk of this size.
    pub(crate) fn start_with_disk(config: &Path, dir: &Path, size: &str) -> Result<Self> {
        let script = "mkdir -p \"$0\" && mount -t tmpfs -o \"size=$1,mode=0700\" tmpfs \"$0\" && exec \"$2\" run --config \"$3\"";
        let texts = [dir.display().to_string(), size.to_owned()];
        let paths = [proxy_binary()?, config.to_owned()].map(|path| path.display().to_string());
        let arguments = ["--mount", "sh", "-c", script].into_iter().map(str::to_owned);
        let arguments = arguments.chain(texts).chain(paths).collect();
        Self::start_program(PathBuf::from("unshare"), arguments, config.with_extension("log"))
    }

    /// Starts any program whose output is its log.
    pub fn start_program(program: PathBuf, arguments: Vec<String>, log: PathBuf) -> Result<Self> {
        File::create(&log)?;
        let (child, watchdog) = spawn(&program, &arguments, &log)?;
        Ok(Self { child, watchdog, program, arguments, log })
    }

    /// SIGKILL, and the same program again at once, which goes on in the same log.
    pub fn kill_and_start_again(&mut self) -> Result<()> {
        self.kill();
        self.start_again()
    }

    /// The same program again after [`Self::kill`], which goes on in the same log.
    pub fn start_again(&mut self) -> Result<()> {
        (self.child, self.watchdog) = spawn(&self.program, &self.arguments, &self.log)?;
        Ok(())
    }

    /// SIGKILL.
    pub fn kill(&mut self) {
        // The watchdog first: the proxy's number may belong to another process once it is gone.
        let _ = self.watchdog.kill();
        let _ = self.watchdog.wait();
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// The file that it logs to.
    pub(crate) fn log_file(&self) -> &Path {
        &self.log
    }

    /// The process id.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// How it ended, if it has.
    pub fn ended(&mut self) -> Result<Option<ExitStatus>> {
        Ok(self.child.try_wait()?)
    }

    /// Everything it has logged.
    pub fn log(&self) -> String {
        fs::read_to_string(&self.log).unwrap_or_default()
    }

    /// Sends SIGTERM and returns at once.
    pub fn terminate(&self) -> Result<()> {
        self.signal(Signal::TERM)
    }

    /// Sends SIGHUP and returns at once.
    pub fn hang_up(&self) -> Result<()> {
        self.signal(Signal::HUP)
    }

    fn signal(&self, signal: Signal) -> Result<()> {
        let pid = i32::try_from(self.child.id())
            .ok()
            .and_then(Pid::from_raw)
            .context("a process id out of range")?;
        Ok(kill_process(pid, signal)?)
    }

    /// Waits until it has ended.
    pub fn wait(&mut self, limit: Duration) -> Result<ExitStatus> {
        eventually(limit, "the proxy to end", || self.ended())
    }

    /// SIGTERM, and then the exit status must be 0 within `limit`.
    pub fn stop(&mut self, limit: Duration) -> Result<()> {
        self.terminate()?;
        let status = self.wait(limit)?;
        if !status.success() {
            bail!("the proxy ended with {status}:\n{}", self.log());
        }
        Ok(())
    }

    /// Its resident memory in KiB.
    pub fn resident_kib(&self) -> Result<u64> {
        let status = fs::read_to_string(format!("/proc/{}/status", self.pid()))?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).context("no VmRSS")?;
        Ok(line.trim().trim_end_matches(" kB").parse()?)
    }

    /// Its open file descriptors.
    pub fn open_files(&self) -> Result<usize> {
        Ok(fs::read_dir(format!("/proc/{}/fd", self.pid()))?.count())
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("log of the proxy:\n{}", self.log());
        }
        self.kill();
    }
}

fn spawn(program: &Path, arguments: &[String], log: &Path) -> Result<(Child, Child)> {
    let file = OpenOptions::new().append(true).open(log)?;
    let mut command = Command::new(program);
    command.args(arguments);
    command.stdin(Stdio::null()).stdout(file.try_clone()?).stderr(file);
    let child = command.spawn().with_context(|| format!("cannot start {}", program.display()))?;
    let watchdog = watchdog(child.id())?;
    Ok((child, watchdog))
}

/// Kills process `pid` when this process ends: its standard input is closed by the kernel then.
fn watchdog(pid: u32) -> Result<Child> {
    let mut command = Command::new("sh");
    command.args(["-c", "read -r _; kill -KILL \"$1\"", "delphinus-e2e-watchdog", &pid.to_string()]);
    command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
    command.spawn().context("cannot start the watchdog")
}

/// `$DELPHINUS_BIN`, or the binary of this workspace, built now.
pub fn proxy_binary() -> Result<PathBuf> {
    static BINARY: OnceLock<Result<PathBuf, String>> = OnceLock::new();
    let found = BINARY.get_or_init(|| match std::env::var_os("DELPHINUS_BIN") {
        Some(path) => Ok(path.into()),
        None => build().map_err(|error| format!("{error:#}")),
    });
    found.clone().map_err(anyhow::Error::msg)
}

fn build() -> Result<PathBuf> {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(env!("CARGO_MANIFEST_DIR")).args(["build", "--package", "delphinus-cli"]);
    command.args(["--message-format=json-render-diagnostics"]);
    let said = run(&mut command, BUILD_LIMIT)?.success()?;
    let messages = said.lines().filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok());
    let executables = messages.filter(|message| message["target"]["name"] == "delphinus");
    let path =
        executables.filter_map(|message| message["executable"].as_str().map(PathBuf::from)).next_back();
    path.context("cargo named no executable `delphinus`")
}
