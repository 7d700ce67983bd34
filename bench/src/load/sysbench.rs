//! The load of sysbench itself, as a process: 64 threads that each wait for an answer are another load than one thread with 64
//! connections, and most figures that others publish are made with it.
//!
//! What it counts is read from its report. It looks at no rows; an error of a statement ends it, and the run.

use std::path::PathBuf;
use std::process::Command;
use std::str::FromStr;
use std::time::Duration;

use anyhow::{Context, Result, ensure};

use super::{Histogram, Measured, Target, Window};

/// How long it may take to end its statements, in seconds.
const SHUTDOWN_LIMIT: u64 = 30;
/// How much of what it says an error shows, in lines.
const TAIL: usize = 12;

/// One of its tests.
#[derive(Debug, Clone)]
pub(crate) struct Sysbench {
    /// The program.
    pub program: PathBuf,
    /// The name of the test.
    pub test: &'static str,
    /// `--db-ps-mode`: what it prepares.
    pub ps_mode: &'static str,
    /// Rows of its table.
    pub rows: i64,
}

/// Runs it with so many threads. It knows no part that does not count: the samples are taken before it begins and when it has
/// ended, so that its logins are in them, and it runs as long as both parts of the window.
pub(crate) fn run_sysbench<T>(
    target: &Target,
    sysbench: &Sysbench,
    threads: usize,
    window: Window,
    mut sample: impl FnMut() -> Result<T>,
) -> Result<Measured<T>> {
    // A session of its own, as that of a shell from which one would start it: the kernel shares the cores among sessions.
    let mut command = Command::new("setsid");
    command.arg("--wait").arg(&sysbench.program).args(arguments(target, sysbench, threads, window));
    let before = sample()?;
    let done = command.output().with_context(|| format!("cannot start {}", sysbench.program.display()))?;
    let after = sample()?;
    let said = String::from_utf8_lossy(&[done.stdout, done.stderr].concat()).into_owned();
    ensure!(done.status.success(), "sysbench ended with {}; it says:\n{}", done.status, tail(&said));
    let (latencies, took) = report(&said).with_context(|| format!("sysbench says:\n{}", tail(&said)))?;
    Ok(Measured { latencies, received_bytes: 0, took, before, after })
}

fn arguments(target: &Target, sysbench: &Sysbench, threads: usize, window: Window) -> Vec<String> {
    // It takes whole seconds only.
    let seconds = (window.warm_up + window.measure).as_secs_f64().round().max(1.0);
    let Sysbench { test, ps_mode, rows, .. } = sysbench;
    vec![
        (*test).to_owned(),
        format!("--mysql-host={}", target.address.ip()),
        format!("--mysql-port={}", target.address.port()),
        format!("--mysql-user={}", target.user),
        format!("--mysql-password={}", target.password),
        format!("--mysql-db={}", target.schema),
        "--tables=1".to_owned(),
        format!("--table-size={rows}"),
        "--rand-type=uniform".to_owned(),
        format!("--db-ps-mode={ps_mode}"),
        format!("--threads={threads}"),
        format!("--time={seconds:.0}"),
        format!("--forced-shutdown={SHUTDOWN_LIMIT}"),
        "--histogram=on".to_owned(),
        "run".to_owned(),
    ]
}

/// The latencies of its report, and how long its threads ran; an error where statements failed, or where they are not all there.
fn report(said: &str) -> Result<(Histogram, Duration)> {
    let (errors, events): (u64, u64) =
        (number(said, "ignored errors:")?, number(said, "total number of events:")?);
    ensure!(errors == 0, "{errors} statements failed");
    let mut latencies = Histogram::default();
    for (milliseconds, count) in said.lines().filter_map(bucket) {
        latencies.record_many(Duration::from_secs_f64(milliseconds / 1e3), count);
    }
    let found = latencies.total();
    ensure!(found == events, "{events} statements, but {found} latencies");
    let took = Duration::try_from_secs_f64(number(said, "total time:")?)?;
    Ok((latencies, took))
}

/// A line of its histogram: `       0.106 |**                                       19`.
fn bucket(line: &str) -> Option<(f64, u64)> {
    let (value, rest) = line.split_once('|')?;
    let count = rest.trim_start_matches('*').trim();
    Some((value.trim().parse().ok()?, count.parse().ok()?))
}

/// The number behind a name at the beginning of a line.
fn number<N: FromStr>(said: &str, name: &str) -> Result<N> {
    let rest = said.lines().find_map(|line| line.trim().strip_prefix(name));
    let number = rest
        .and_then(|rest| rest.split_whitespace().next())
        .and_then(|number| number.trim_end_matches('s').parse().ok());
    number.with_context(|| format!("no number behind {name:?}"))
}

fn tail(said: &str) -> String {
    let lines: Vec<&str> = said.lines().filter(|line| !line.trim().is_empty()).collect();
    lines[lines.len().saturating_sub(TAIL)..].join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    const REPORT: &str = "\
Latency histogram (values are in milliseconds)
       value  ------------- distribution ------------- count
       0.106 |**                                       19
       0.517 |**************************************** 359
      17.010 |                                         1
 
SQL statistics:
    queries performed:
        total:                           379
    ignored errors:                      0      (0.00 per sec.)

General statistics:
    total time:                          2.0031s
    total number of events:              379
";

    #[test]
    fn the_report_gives_every_latency() {
        let (latencies, took) = report(REPORT).unwrap();
        assert_eq!(took, Duration::from_micros(2_003_100));
        assert_eq!(latencies.total(), 379);
        let near = |share, wanted: f64| (latencies.quantile_ms(share).unwrap() / wanted - 1.0).abs() < 0.02;
        assert!(near(0.01, 0.106) && near(0.5, 0.517) && near(1.0, 17.01));
    }

    #[test]
    fn a_report_with_errors_or_without_all_latencies_is_none() {
        for (from, to, error) in [
            ("ignored errors:                      0", "ignored errors: 3", "3 statements failed"),
            ("events:              379", "events: 380", "380 statements, but 379 latencies"),
            ("total time:", "time:", "no number behind \"total time:\""),
            ("ignored errors", "errors", "no number behind \"ignored errors:\""),
        ] {
            assert_eq!(report(&REPORT.replace(from, to)).unwrap_err().to_string(), error);
        }
        assert!(report("").is_err());
    }
}
