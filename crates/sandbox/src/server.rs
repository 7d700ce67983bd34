//! One running server: its process, and root's access to it.

use std::fs;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use rustix::process::{Pid, Signal, kill_process};

use crate::accounts::ROOT;
use crate::cluster::Machine;
use crate::cnf::{self, Cnf};
use crate::flavor::{Flavor, Role};
use crate::programs::Programs;
use crate::progress::{Progress, Silent, wait_until};
use crate::{process, replication, template};

/// How long a server may take to start or to stop; generous, because machines that run tests are busy.
const LIMIT: Duration = Duration::from_mins(2);

/// One server of a cluster. Dropping it kills it; its data goes with the cluster.
#[derive(Debug)]
pub struct Server {
    /// `primary`, `replica1`, `replica2`... as at the start of the cluster; also its folder's name.
    pub name: String,
    /// The part it played when the cluster started.
    pub role: Role,
    /// `127.0.0.1`, unless it runs on a [`Machine`] of its own.
    pub host: String,
    /// The port for clients.
    pub port: u16,
    /// The Unix socket for clients.
    pub socket: PathBuf,
    /// The data directory; `error.log` and `my.cnf` are in the folder above.
    pub datadir: PathBuf,
    /// The process id; a new one after [`Server::start_again`].
    pub pid: u32,
    /// The superuser's name, for the socket and for 127.0.0.1.
    pub root_user: String,
    /// The superuser's password.
    pub root_password: String,
    /// `@@server_id`.
    pub server_id: u32,
    flavor: Flavor,
    dir: PathBuf,
    launcher: Vec<String>,
    programs: Arc<Programs>,
    child: Option<Child>,
}

impl Server {
    /// Copies the template and starts a server on it; returns as soon as it answers root.
    pub(crate) fn launch(
        (name, machine): (&str, &Machine),
        cnf: &Cnf,
        from: (&Arc<Programs>, &Path),
        progress: &dyn Progress,
    ) -> Result<Self> {
        let (programs, template) = from;
        fs::create_dir(&cnf.dir).with_context(|| format!("cannot make {}", cnf.dir.display()))?;
        fs::create_dir(cnf.dir.join("files"))?;
        fs::create_dir(cnf.dir.join("tmp"))?;
        template::copy(template, &cnf.dir.join("data"))?;
        fs::write(cnf.dir.join("my.cnf"), cnf.text())?;
        fs::write(cnf.dir.join("client.cnf"), cnf::client_text(&cnf.dir, ROOT.user, ROOT.password))?;
        let mut server = Self {
            name: name.to_owned(),
            role: cnf.role,
            host: machine.host.clone(),
            port: cnf.port,
            socket: cnf.dir.join("sock"),
            datadir: cnf.dir.join("data"),
            pid: 0,
            root_user: ROOT.user.to_owned(),
            root_password: ROOT.password.to_owned(),
            server_id: cnf.server_id,
            flavor: cnf.flavor,
            dir: cnf.dir.clone(),
            launcher: machine.launcher.clone(),
            programs: Arc::clone(programs),
            child: None,
        };
        server.spawn(progress)?;
        Ok(server)
    }

    /// Runs SQL as root over the server's socket, through the client program. Gives back the rows in
    /// batch form: a line for each row, tabs between columns, no column names. Fails after 120 s.
    pub fn query(&self, sql: &str) -> Result<String> {
        self.client(&["--batch", "--skip-column-names"], sql)
    }

    /// [`Server::query`] with a line `name: value` for each column, as after `\G`.
    pub fn query_vertical(&self, sql: &str) -> Result<String> {
        self.client(&["--vertical"], sql)
    }

    /// The server's own error log, as far as it is written.
    pub fn error_log(&self) -> String {
        let read = |name: &str| fs::read(self.dir.join(name)).unwrap_or_default();
        let said = [read("error.log"), read("stdout.log")].concat();
        String::from_utf8_lossy(&said).into_owned()
    }

    /// True while the process exists, also when it is paused.
    pub fn is_running(&mut self) -> bool {
        self.child.as_mut().is_some_and(|child| matches!(child.try_wait(), Ok(None)))
    }

    /// Kills the process with SIGKILL and waits until it is gone. Harmless when it is not running.
    pub fn kill9(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }

    /// Tells the server to stop in the regular way (SIGTERM) and does not wait for it; [`Server::stop_graceful`] does.
    pub fn terminate(&self) -> Result<()> {
        self.child.as_ref().map_or(Ok(()), |child| send(child, Signal::TERM))
    }

    /// Stops the server in the regular way (SIGTERM) and waits until it is gone, up to 120 s.
    pub fn stop_graceful(&mut self) -> Result<()> {
        let Some(mut child) = self.child.take() else { return Ok(()) };
        send(&child, Signal::CONT)?;
        send(&child, Signal::TERM)?;
        let what = format!("{} to stop", self.name);
        let stopped = wait_until(&Silent, LIMIT, &what, || Ok(child.try_wait()?.is_some()));
        if stopped.is_err() {
            self.child = Some(child);
        }
        stopped
    }

    /// Starts the server again on its data and its port, after [`Server::kill9`] or
    /// [`Server::stop_graceful`], and returns when it answers. A replica resumes replication by itself;
    /// a member of a group joins it again and is ONLINE, so at least one other member must be.
    pub fn start_again(&mut self) -> Result<()> {
        if self.is_running() {
            bail!("{} is running", self.name);
        }
        self.spawn(&Silent)?;
        if self.flavor == Flavor::Group {
            replication::rejoin(self, LIMIT)?;
        }
        Ok(())
    }

    /// Freezes the process (SIGSTOP): its connections stay open and nothing answers. It stands still when this returns.
    pub fn pause(&self) -> Result<()> {
        let Some(child) = &self.child else { return Ok(()) };
        send(child, Signal::STOP)?;
        // The signal is only on its way: a thread could still take a statement.
        wait_until(&Silent, STANDSTILL, "a paused server", || Ok(process::stands_still(child.id())))
    }

    /// Lets a paused process go on (SIGCONT).
    pub fn resume(&self) -> Result<()> {
        self.child.as_ref().map_or(Ok(()), |child| send(child, Signal::CONT))
    }

    fn client(&self, options: &[&str], sql: &str) -> Result<String> {
        let mut command = Command::new(&self.programs.client);
        command
            .arg(format!("--defaults-file={}/client.cnf", self.dir.display()))
            .args(options)
            .args(["-e", sql]);
        process::output(&mut command).with_context(|| format!("{}: {sql}", self.name))
    }

    /// Starts the process in a session of its own, so that Ctrl-C in the terminal does not reach it.
    fn spawn(&mut self, progress: &dyn Progress) -> Result<()> {
        let log = fs::OpenOptions::new().create(true).append(true).open(self.dir.join("stdout.log"))?;
        // A socket that a killed server left would look like a server that does not answer.
        let _ = fs::remove_file(&self.socket);
        let mut words = self.launcher.iter().map(String::as_str).chain(["setsid"]);
        let mut command = Command::new(words.next().expect("invariant: setsid is there"));
        command
            .args(words)
            .arg(&self.programs.server)
            .arg(format!("--defaults-file={}/my.cnf", self.dir.display()));
        if process::is_root() {
            command.arg("--user=root");
        }
        command.current_dir(&self.dir).stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
        let child = command.spawn().context("cannot start a server (setsid)")?;
        self.pid = child.id();
        self.child = Some(child);
        self.wait_until_ready(progress)
    }

    fn wait_until_ready(&mut self, progress: &dyn Progress) -> Result<()> {
        let what = format!("{} to answer", self.name);
        let socket = self.socket.clone();
        let child = self.child.as_mut().expect("invariant: spawn() has just set it");
        let mut died: Option<ExitStatus> = None;
        wait_until(progress, LIMIT, &what, || {
            died = child.try_wait()?;
            Ok(died.is_some() || greets(&socket))
        })?;
        if let Some(status) = died {
            let how = status.signal().map_or_else(|| status.to_string(), |signal| format!("signal {signal}"));
            bail!("{} ended at its start ({how})\n{}", self.name, process::tail(&self.error_log()));
        }
        // One that greets may still end while it starts.
        let id = self.query("SELECT @@server_id").with_context(|| process::tail(&self.error_log()))?;
        anyhow::ensure!(id == self.server_id.to_string(), "{} answers as server {id}", self.name);
        Ok(())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.kill9();
    }
}

/// How long a paused process may take until all of its threads stand still.
const STANDSTILL: Duration = Duration::from_secs(10);

fn send(child: &Child, signal: Signal) -> Result<()> {
    let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw).context("a process id out of range")?;
    kill_process(pid, signal).with_context(|| format!("signal {} to process {}", signal.as_raw(), child.id()))
}

/// True when a server sends its greeting over the socket: it does so only when it takes clients.
fn greets(socket: &Path) -> bool {
    let Ok(mut stream) = UnixStream::connect(socket) else { return false };
    let mut header = [0; 5];
    let answered = stream
        .set_read_timeout(Some(Duration::from_secs(2)))
        .and_then(|()| stream.read_exact(&mut header))
        .and_then(|()| stream.flush());
    // The fifth byte is the protocol's version; 255 there would be an error packet.
    answered.is_ok() && header[4] == 10
}
