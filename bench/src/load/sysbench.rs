//! The load of sysbench itself, as a process: 64 threads that each wait for an answer are another load than one thread with 64
//! connections, and most figures that others publish are made with it.
//!
//! What it counts is read from its report. It looks at no rows; an error of a statement ends it, and the run.

use std::io::{self, BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::str::FromStr;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};

use super::{Histogram, Measured, Target, Window};

/// How long it may take to end its statements, in seconds.
const SHUTDOWN_LIMIT: u64 = 30;
/// How much of what it says an error shows, in lines.
const TAIL: usize = 12;
/// One in so many transactions may end by a deadlock: with more, it is no longer the proxies that are measured.
const DEADLOCKS: u64 = 20;

/// What it says first when its threads have ended: between the report of its checkpoint and the last one.
const HISTOGRAM: &str = "Latency histogram";

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
    /// Its transactions may wait for each other's locks in a circle: the server ends one of them, and it begins another.
    pub can_deadlock: bool,
}

/// What its report says since its checkpoint.
#[derive(Debug)]
struct Counted {
    statements: u64,
    /// Of its events: statements, or transactions.
    latencies: Histogram,
}

/// Runs it with so many threads. Its own checkpoint ends the part that does not count, with its logins and what a proxy does once
/// for each connection: it forgets what it has counted, and the first sample is taken.
pub(crate) fn run_sysbench<T>(
    target: &Target,
    sysbench: &Sysbench,
    threads: usize,
    window: Window,
    mut sample: impl FnMut() -> Result<T>,
) -> Result<Measured<T>> {
    let mut said = String::new();
    let mut samples = Vec::new();
    let (mut child, output) = start(target, sysbench, threads, window)?;
    for line in BufReader::new(output).lines() {
        let line = line.context("cannot read what sysbench says")?;
        if is_checkpoint(&line) || line.starts_with(HISTOGRAM) {
            samples.push((Instant::now(), sample()?));
        }
        said.push_str(&line);
        said.push('\n');
    }
    let status = child.wait()?;
    ensure!(status.success(), "sysbench ended with {status}; it says:\n{}", tail(&said));
    let counted = report(&said, sysbench.can_deadlock);
    let Counted { statements, latencies } =
        counted.with_context(|| format!("sysbench says:\n{}", tail(&said)))?;
    let Ok([(began, before), (ended, after)]) = <[_; 2]>::try_from(samples) else {
        bail!(
            "sysbench's checkpoint and its end are not where they were expected; it says:\n{}",
            tail(&said)
        );
    };
    let took = ended.duration_since(began);
    Ok(Measured { latencies, statements, received_bytes: 0, took, before, after })
}

/// Starts it, with one stream for its output and its errors.
fn start(
    target: &Target,
    sysbench: &Sysbench,
    threads: usize,
    window: Window,
) -> Result<(Child, io::PipeReader)> {
    let (output, ours) = io::pipe().context("cannot make a pipe")?;
    // A session of its own, as that of a shell from which one would start it: the kernel shares the cores among sessions.
    let mut command = Command::new("setsid");
    command.arg("--wait").arg(&sysbench.program).args(arguments(target, sysbench, threads, window));
    command.stdin(Stdio::null()).stdout(ours.try_clone()?).stderr(ours);
    let child = command.spawn().with_context(|| format!("cannot start {}", sysbench.program.display()))?;
    Ok((child, output))
}

fn arguments(target: &Target, sysbench: &Sysbench, threads: usize, window: Window) -> Vec<String> {
    // It takes whole seconds only, and the checkpoint has to come before the end.
    let whole = |part: Duration| part.as_secs_f64().round().max(1.0);
    let warm_up = whole(window.warm_up);
    let seconds = warm_up + whole(window.measure);
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
        format!("--report-checkpoints={warm_up:.0}"),
        format!("--forced-shutdown={SHUTDOWN_LIMIT}"),
        "--histogram=on".to_owned(),
        "run".to_owned(),
    ]
}

/// `[ 1s ] Checkpoint report:`
fn is_checkpoint(line: &str) -> bool {
    line.starts_with('[') && line.ends_with("Checkpoint report:")
}

/// What it counted since its checkpoint; an error where statements failed, or where the latencies are not all there.
fn report(said: &str, can_deadlock: bool) -> Result<Counted> {
    let (first, last) = said.split_once(HISTOGRAM).context("no latencies")?;
    for part in [first, last] {
        // Those that it forgives: deadlocks, and locks that it has waited for too long.
        let (errors, events): (u64, u64) =
            (number(part, "ignored errors:")?, number(part, "total number of events:")?);
        let most = if can_deadlock { events.div_ceil(DEADLOCKS) } else { 0 };
        ensure!(errors <= most, "{errors} statements failed");
    }
    let events: u64 = number(last, "total number of events:")?;
    let mut latencies = Histogram::default();
    for (milliseconds, count) in last.lines().filter_map(bucket) {
        latencies.record_many(Duration::from_secs_f64(milliseconds / 1e3), count);
    }
    let found = latencies.total();
    // At its checkpoint it forgets the events first, and the latencies just before it says so; statements go on meanwhile.
    ensure!(found.abs_diff(events) <= events / 10, "{events} events, but {found} latencies");
    Ok(Counted { statements: number(last, "total:")?, latencies })
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
[ 1s ] Checkpoint report:
SQL statistics:
    queries performed:
        total:                           120
    ignored errors:                      0      (0.00 per sec.)

General statistics:
    total time:                          1.0001s
    total number of events:              120

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
        let Counted { statements, latencies } = report(REPORT, false).unwrap();
        assert_eq!((statements, latencies.total()), (379, 379));
        let near = |share, wanted: f64| (latencies.quantile_ms(share).unwrap() / wanted - 1.0).abs() < 0.02;
        assert!(near(0.01, 0.106) && near(0.5, 0.517) && near(1.0, 17.01));
    }

    #[test]
    fn a_transaction_has_one_latency_and_many_statements() {
        let said =
            REPORT.replace("total:                           379", "total:                           7580");
        let Counted { statements, latencies } = report(&said, true).unwrap();
        assert_eq!((statements, latencies.total()), (7580, 379));
    }

    #[test]
    fn few_transactions_may_end_by_a_deadlock() {
        let with = |errors| REPORT.replace("errors:                      0", &format!("errors: {errors}"));
        assert!(report(&with(6), true).is_ok());
        assert_eq!(report(&with(7), true).unwrap_err().to_string(), "7 statements failed");
        assert_eq!(report(&with(1), false).unwrap_err().to_string(), "1 statements failed");
    }

    #[test]
    fn a_report_with_errors_or_without_all_latencies_is_none() {
        for (from, to, error) in [
            ("events:              379", "events: 430", "430 events, but 379 latencies"),
            ("of events:", "of:", "no number behind \"total number of events:\""),
            ("0      (0.00", "2      (0.00", "2 statements failed"),
            ("ignored errors", "errors", "no number behind \"ignored errors:\""),
        ] {
            assert_eq!(report(&REPORT.replace(from, to), false).unwrap_err().to_string(), error);
        }
        let (first, last) = REPORT.split_once(HISTOGRAM).unwrap();
        let failed = last.replace("ignored errors:                      0", "ignored errors: 3");
        let error = report(&[first, HISTOGRAM, &failed].concat(), false).unwrap_err();
        assert_eq!(error.to_string(), "3 statements failed");
        assert!(report("", false).is_err() && report(last, false).is_err());
    }
}
