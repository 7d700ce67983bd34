//! sysbench's own tables and one of its scripts, on a machine of its own.

use std::path::PathBuf;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};
use delphinus_sandbox::{Cluster, Machine};

use crate::system::debian_program;
use crate::workload::SCHEMA;

/// How much of what it says an error shows, in lines.
const TAIL: usize = 12;

/// Where it connects.
#[derive(Debug, Clone)]
pub(crate) struct Place {
    pub(crate) host: String,
    pub(crate) port: u16,
}

/// How much, and for how long.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Load {
    pub(crate) threads: usize,
    pub(crate) seconds: u64,
    /// Transactions a second; 0: as many as can be.
    pub(crate) rate: u32,
}

/// The program with its account.
#[derive(Debug)]
pub(crate) struct Sysbench {
    program: PathBuf,
    /// The script: `oltp_read_write`, say.
    script: &'static str,
    machine: Machine,
    options: Vec<String>,
}

impl Sysbench {
    /// Installs it where it is missing.
    pub(crate) fn find(script: &'static str, cluster: &Cluster, machine: Machine) -> Result<Self> {
        let options = [
            format!("--mysql-user={}", cluster.app_user),
            format!("--mysql-password={}", cluster.app_password),
            format!("--mysql-db={SCHEMA}"),
            "--tables=4".to_owned(),
            "--table-size=10000".to_owned(),
        ];
        Ok(Self { program: debian_program("sysbench")?, script, machine, options: options.into() })
    }

    /// Makes and fills the tables.
    pub(crate) fn prepare(&self, place: &Place) -> Result<()> {
        self.run(place, &["--threads=2".to_owned()], "prepare").map(drop)
    }

    /// One measurement.
    pub(crate) fn measure(&self, place: &Place, load: Load) -> Result<Counted> {
        let options = [
            format!("--threads={}", load.threads),
            format!("--time={}", load.seconds),
            format!("--rate={}", load.rate),
            // The tables are small: without it deadlocks are measured.
            "--rand-type=uniform".to_owned(),
        ];
        counted(&self.run(place, &options, "run")?)
    }

    fn run(&self, place: &Place, more: &[String], what: &str) -> Result<String> {
        let mut command: Command = self.machine.command(&self.program);
        command.arg(self.script).args(&self.options).args(more);
        command
            .args([format!("--mysql-host={}", place.host), format!("--mysql-port={}", place.port)])
            .arg(what);
        let done = command.stdin(Stdio::null()).output().context("cannot start sysbench")?;
        let said = String::from_utf8_lossy(&[done.stdout, done.stderr].concat()).into_owned();
        let lines: Vec<&str> = said.lines().filter(|line| !line.trim().is_empty()).collect();
        let tail = lines[lines.len().saturating_sub(TAIL)..].join("\n");
        ensure!(done.status.success(), "sysbench {what} ended with {}; it says:\n{tail}", done.status);
        Ok(said)
    }
}

/// What it has counted.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Counted {
    pub(crate) transactions: f64,
    /// A second.
    pub(crate) rate: f64,
}

/// `    transactions:                        1234   (123.40 per sec.)`.
fn counted(said: &str) -> Result<Counted> {
    let line = said.lines().find_map(|line| line.trim().strip_prefix("transactions:"));
    let both = line.and_then(|line| {
        let (transactions, rate) = line.split_once('(')?;
        Some((transactions.trim().parse().ok()?, rate.split_whitespace().next()?.parse().ok()?))
    });
    let (transactions, rate): (f64, f64) = both.with_context(|| format!("sysbench says:\n{said}"))?;
    ensure!(rate > 0.0, "sysbench has ended no transaction; it says:\n{said}");
    Ok(Counted { transactions, rate })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_count_is_read_from_the_report() {
        let said = "SQL statistics:\n    transactions:                        12     (1.25 per sec.)\n    queries: 3 (9 per sec.)\n";
        assert_eq!(counted(said).unwrap(), Counted { transactions: 12.0, rate: 1.25 });
        assert!(counted("transactions: 0 (0.00 per sec.)").is_err());
        assert!(counted("").is_err());
    }
}
