//! What several of the tests need: waiting, logging in, and processes to kill.

use std::io::{BufRead, BufReader, Read};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, ChildStdout, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use delphinus_sandbox::{Account, Cluster, Server};

/// Polls until the condition holds; fails after a minute.
pub(crate) fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    let began = Instant::now();
    while !holds() {
        assert!(began.elapsed() < Duration::from_mins(1), "waited for a minute for {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Runs SQL over TCP as some account, in the schema `app`; gives back the rows, or what the client says.
pub(crate) fn log_in(
    cluster: &Cluster,
    server: &Server,
    account: Account,
    sql: &str,
) -> Result<String, String> {
    let schema: &[&str] = if account == delphinus_sandbox::MONITOR || account == delphinus_sandbox::REPL {
        &[]
    } else {
        &[cluster.database.as_str()]
    };
    let mut client = Command::new(cluster.client_program());
    client.args(["--no-defaults", "--batch", "--skip-column-names", "-h", &server.host, "-u", account.user]);
    client.args(["-P", &server.port.to_string(), "-e", sql]).args(schema).env("MYSQL_PWD", account.password);
    let done = client.stdin(Stdio::null()).output().unwrap();
    if done.status.success() {
        Ok(String::from_utf8(done.stdout).unwrap().trim_end().to_owned())
    } else {
        Err(String::from_utf8_lossy(&done.stderr).into_owned())
    }
}

/// True when the process has ended, also if nobody has asked for its status yet.
pub(crate) fn is_gone(pid: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(") ").is_none_or(|(_, rest)| rest.starts_with('Z'))
}

/// An empty folder with a short name of its own, below the one for temporary files.
pub(crate) fn temp_dir() -> PathBuf {
    let unique = delphinus_sandbox::PortLease::take().unwrap().port();
    let dir = std::env::temp_dir().join(format!("sandbox-test-{}-{unique}", std::process::id()));
    std::fs::create_dir(&dir).unwrap();
    dir
}

/// A process of the program `sandbox-stage`; killed when dropped.
pub(crate) struct Stage {
    child: Child,
    stdout: BufReader<ChildStdout>,
}

impl Stage {
    pub(crate) fn spawn(arguments: &[&str]) -> Self {
        Self::spawn_with(arguments, &[])
    }

    pub(crate) fn spawn_with(arguments: &[&str], environment: &[(&str, &str)]) -> Self {
        let mut command = Command::new("env");
        // Who was started in the background of a script ignores Ctrl-C, and so would what it starts.
        command.args(["--default-signal=INT", env!("CARGO_BIN_EXE_sandbox-stage")]);
        command.args(arguments).envs(environment.iter().copied()).env("RUST_BACKTRACE", "0");
        // A group of its own stands for what a terminal sends Ctrl-C to.
        command.process_group(0);
        let mut child =
            command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let stdout = BufReader::new(child.stdout.take().unwrap());
        Self { child, stdout }
    }

    /// The next line of its standard output; fails with its standard error when there is none.
    pub(crate) fn read_line(&mut self) -> String {
        let mut line = String::new();
        let count = self.stdout.read_line(&mut line).unwrap();
        assert!(count > 0, "it ended early: {}", self.read_errors());
        line.trim_end().to_owned()
    }

    /// The first line of its standard output that contains the text.
    pub(crate) fn read_until(&mut self, text: &str) -> String {
        loop {
            let line = self.read_line();
            if line.contains(text) {
                return line;
            }
        }
    }

    pub(crate) fn signal(&mut self, name: &str) {
        let done = Command::new("kill").args([&format!("-{name}"), &self.child.id().to_string()]).status();
        assert!(done.unwrap().success());
    }

    /// What Ctrl-C in a terminal does: SIGINT for the process and for all that it has started, except
    /// for what has a session of its own.
    pub(crate) fn press_ctrl_c(&mut self) {
        let done = Command::new("kill").args(["-INT", "--", &format!("-{}", self.child.id())]).status();
        assert!(done.unwrap().success());
    }

    /// Presses it, and again until that ends the process: one that comes before the program is there is ignored where whoever has
    /// started it ignores it. That much later, because one press has to be enough for a program that is there. Returns how many it took.
    pub(crate) fn end_by_ctrl_c(&mut self) -> u32 {
        let mut presses = 0;
        let mut pressed: Option<Instant> = None;
        eventually("Ctrl-C to end it", || {
            if pressed.is_none_or(|at| at.elapsed() > Duration::from_secs(5)) {
                self.press_ctrl_c();
                pressed = Some(Instant::now());
                presses += 1;
            }
            is_gone(self.child.id())
        });
        presses
    }

    /// Waits for its end; gives back the status, the rest of its output, and its errors.
    pub(crate) fn finish(mut self) -> (ExitStatus, String, String) {
        let mut rest = String::new();
        self.stdout.read_to_string(&mut rest).unwrap();
        let errors = self.read_errors();
        (self.child.wait().unwrap(), rest, errors)
    }

    fn read_errors(&mut self) -> String {
        let mut errors = String::new();
        self.child.stderr.take().unwrap().read_to_string(&mut errors).unwrap();
        errors
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
