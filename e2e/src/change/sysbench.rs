//! sysbench as a client that works until it is stopped, and the errors that it has counted.

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result};

use crate::programs::run;
use crate::stage::Address;

/// The schema of its tables.
pub(crate) const SCHEMA: &str = "sbtest";
/// Large enough that its transactions rarely meet.
const TABLES: [&str; 2] = ["--tables=4", "--table-size=20000"];
const THREADS: u32 = 8;

/// What it has said so far; numbers in hundredths, as it writes them.
#[derive(Debug, Clone, Default)]
pub(crate) struct Said {
    /// Transactions that have ended well.
    pub transactions: u64,
    /// Errors after which it has begun a transaction again, such as deadlocks.
    pub retried: u64,
    /// Connections that it has made anew.
    pub reconnects: u64,
    /// Errors that have ended it, in its words.
    pub fatal: Vec<String>,
}

/// One run.
pub(crate) struct Sysbench {
    child: Child,
    said: Arc<Mutex<Said>>,
    readers: Vec<thread::JoinHandle<()>>,
}

impl Sysbench {
    /// Makes its tables.
    pub(crate) fn prepare(address: &Address) -> Result<()> {
        let mut command = command(address, "oltp_read_write", &[]);
        command.arg("prepare");
        run(&mut command, Duration::from_mins(3))?.success()?;
        Ok(())
    }

    /// Runs one of its tests until it is ended.
    pub(crate) fn start(address: &Address, test: &str, options: &[&str]) -> Result<Self> {
        let mut command = command(address, test, options);
        command.args([&format!("--threads={THREADS}"), "--time=0", "--report-interval=1", "run"]);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().context("sysbench cannot be started")?;
        let said = Arc::<Mutex<Said>>::default();
        let (out, err) = (child.stdout.take(), child.stderr.take());
        let (out, err) = (out.context("no output")?, err.context("no output")?);
        let readers = vec![listen(out, &said), listen(err, &said)];
        Ok(Self { child, said, readers })
    }

    /// What it has said by now.
    pub(crate) fn said(&self) -> Said {
        locked(&self.said).clone()
    }

    /// Ends it; what it has said.
    pub(crate) fn end(mut self) -> Result<Said> {
        if let Some(status) = self.child.try_wait()? {
            locked(&self.said).fatal.push(format!("it has ended by itself: {status}"));
        }
        self.kill();
        for reader in self.readers.drain(..) {
            let _ = reader.join();
        }
        Ok(self.said())
    }

    fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for Sysbench {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Line by line: it would keep its reports to itself.
fn command(address: &Address, test: &str, options: &[&str]) -> Command {
    let mut command = Command::new("stdbuf");
    command.args(["-oL", "sysbench", &format!("--mysql-socket={}", address.socket.display())]);
    command
        .args([format!("--mysql-user={}", address.user), format!("--mysql-password={}", address.password)]);
    command.arg(format!("--mysql-db={SCHEMA}")).args(TABLES).args(options).arg(test);
    command
}

fn locked(said: &Mutex<Said>) -> MutexGuard<'_, Said> {
    said.lock().unwrap_or_else(PoisonError::into_inner)
}

fn listen(output: impl Read + Send + 'static, said: &Arc<Mutex<Said>>) -> thread::JoinHandle<()> {
    let said = said.clone();
    thread::spawn(move || {
        for line in BufReader::new(output).lines().map_while(Result::ok) {
            take(&mut locked(&said), &line);
        }
    })
}

/// A report of one second, or an error.
fn take(said: &mut Said, line: &str) {
    let number = |name: &str| -> u64 {
        let found = line.split_once(name).and_then(|(_, rest)| rest.split_whitespace().next());
        found.and_then(|number| number.replace('.', "").parse().ok()).unwrap_or(0)
    };
    if line.starts_with('[') && line.contains(" tps: ") {
        said.transactions += number(" tps: ");
        said.retried += number(" err/s: ");
        said.reconnects += number(" reconn/s: ");
    } else if line.contains("FATAL") || line.contains("ALERT") {
        said.fatal.push(line.to_owned());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reports_are_added_up_and_errors_kept() {
        let mut said = Said::default();
        let report = "[ 2s ] thds: 8 tps: 97.50 qps: 1950.02 (r/w/o: 1365.51/390.00/194.50) lat (ms,95%): 90.78 err/s: 1.00 reconn/s: 2.00";
        for line in ["Threads started!", report, report, "FATAL: mysql_stmt_execute() returned error 9102"] {
            take(&mut said, line);
        }
        assert_eq!((said.transactions, said.retried, said.reconnects), (19_500, 200, 400));
        assert_eq!(said.fatal.len(), 1);
    }
}
