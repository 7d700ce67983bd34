//! What it costs to see: processor time of the proxy for each point select of sysbench, with parts on and off in turn.
//!
//! One proxy and one sysbench at a time; parts are switched by operators every second, so that what else the machine does meets all of
//! them alike. Ratios are medians of the ratios within a round.

use std::collections::BTreeMap;
use std::fs;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use delphinus_sandbox::{Flavor, ensure_packages};

use super::{Ground, Row, float};
use crate::programs::run as run_program;

pub(super) const MEASURES: &[&str] = &[
    "processor time of a point select, all off, µs",
    "digests",
    "digests, the slow log by its threshold, activity",
    "the same, and /metrics each second",
    "the slow log with all statements",
    "the log of all statements, of clients",
    "the log of all statements, of both sides",
    "the log of all statements, as JSON",
    LOST,
];

/// Had many been, what was measured would not be what it says.
const LOST: &str = "entries of these logs that were dropped";

const LIMIT: Duration = Duration::from_mins(5);

/// What is set for each, in the order of `MEASURES`, and by how many percent it may be dearer.
const SET: [(&[&str], Option<f64>); 8] = [
    (&["SET digests.enabled = false"], None),
    (&["SET digests.enabled = true"], Some(5.0)),
    (&ON, Some(5.0)),
    (&ON, Some(5.0)),
    (&["SET digests.enabled = true", "SET slow_log.long_query_time_ms = 0", "LOG START slow_log"], None),
    (&["SET digests.enabled = true", "SET sql_log.mode = 'client'", "LOG START sql_log"], Some(15.0)),
    (&["SET digests.enabled = true", "SET sql_log.mode = 'all'", "LOG START sql_log"], Some(15.0)),
    (
        &[
            "SET digests.enabled = true",
            "SET sql_log.mode = 'client'",
            "SET sql_log.format = 'json'",
            "LOG START sql_log",
        ],
        None,
    ),
];

/// What an operator who wants to see has on.
const ON: [&str; 3] = ["SET digests.enabled = true", "SET activity.enabled = true", "LOG START slow_log"];

/// While this one is measured Prometheus asks, too.
const SCRAPED: usize = 3;

/// What is set before each.
const RESET: [&str; 5] = [
    "LOG STOP",
    "SET sql_log.format = 'text'",
    "SET sql_log.mode = 'client'",
    "SET slow_log.long_query_time_ms = 1000",
    "SET activity.enabled = false",
];

pub(super) fn run(flavor: Flavor, is_quick: bool) -> Result<Vec<Row>> {
    let (rounds, seconds) = if is_quick { (7, 1) } else { (31, 1) };
    let mut ground = Ground::start(flavor, &["workers = 1"], |folder| {
        let file = |name: &str| folder.join(name).display().to_string();
        format!(
            "[slow_log]\nfile = \"{}\"\nkeep_files = 1\nmax_file_bytes = 268435456\n\
             [sql_log]\nfile = \"{}\"\nkeep_files = 1\nmax_file_bytes = 268435456\n",
            file("slow.log"),
            file("sql.log")
        )
    })?;
    ensure_packages(&["sysbench"])?;
    sysbench(&ground, &["prepare"])?;
    let mut micros: BTreeMap<usize, Vec<f64>> = BTreeMap::new();
    for round in 0..=rounds {
        for at in order(round) {
            for command in RESET.iter().chain(SET[at].0) {
                ground.operator.query(command).with_context(|| (*command).to_owned())?;
            }
            let taken = point_selects(&mut ground, seconds, at == SCRAPED)?;
            // The first round warms up.
            if round > 0 {
                micros.entry(at).or_default().push(taken);
            }
        }
    }
    let lost = ground.number("SELECT sum(dropped) + sum(failed) FROM logs")?;
    let written = ground.number("SELECT sum(written) FROM logs")?;
    let mut rows = rows(flavor, &micros);
    rows.push(Row {
        what: LOST,
        flavor,
        found: format!("{lost} of {}", written + lost),
        bound: "1 %".to_owned(),
        // Where the machine does much else, the disk may not keep up for a moment.
        is_right: lost * 100 <= written,
    });
    Ok(rows)
}

/// Each round begins with another one.
fn order(round: usize) -> impl Iterator<Item = usize> {
    (0..SET.len()).map(move |at| (at + round) % SET.len())
}

fn rows(flavor: Flavor, micros: &BTreeMap<usize, Vec<f64>>) -> Vec<Row> {
    let all_off = &micros[&0];
    let one = |at: usize| {
        let (what, most) = (MEASURES[at], SET[at].1);
        let own = &micros[&at];
        if at == 0 {
            let found = format!("{:.1}", median(own.clone()));
            return Row { what, flavor, found, bound: "-".to_owned(), is_right: true };
        }
        let ratios: Vec<f64> = own.iter().zip(all_off).map(|(own, off)| (own / off - 1.0) * 100.0).collect();
        let (low, high) =
            ratios.iter().fold((f64::MAX, f64::MIN), |(low, high), one| (low.min(*one), high.max(*one)));
        let more = median(ratios);
        Row {
            what,
            flavor,
            found: format!("{more:+.1} % ({low:+.1} to {high:+.1})"),
            bound: most.map_or_else(|| "-".to_owned(), |most| format!("+{most} %")),
            is_right: most.is_none_or(|most| more <= most),
        }
    };
    (0..SET.len()).map(one).collect()
}

fn median(mut all: Vec<f64>) -> f64 {
    all.sort_by(f64::total_cmp);
    let middle = all.len() / 2;
    if all.len() % 2 == 1 { all[middle] } else { f64::midpoint(all[middle - 1], all[middle]) }
}

/// Microseconds of the proxy's processor time for each statement.
fn point_selects(ground: &mut Ground, seconds: u32, is_scraped: bool) -> Result<f64> {
    let pid = ground.stage.proxy()?.pid();
    let before = cpu_ns(pid)?;
    let time = format!("--time={seconds}");
    let said = std::thread::scope(|scope| {
        let door = &ground.door;
        // Far more often is no one's setting: Prometheus asks each 15 seconds unless told otherwise.
        let scrapes = (0..if is_scraped { seconds } else { 0 }).map(|second| {
            scope.spawn(move || {
                std::thread::sleep(Duration::from_millis(1000 * u64::from(second) + 500));
                door.metrics()
            })
        });
        let scrapes: Vec<_> = scrapes.collect();
        let said = sysbench(ground, &["--threads=16", &time, "--db-ps-mode=disable", "run"])?;
        for scrape in scrapes {
            ensure!(!scrape.join().expect("invariant: a scrape does not panic")?.is_empty(), "no metrics");
        }
        anyhow::Ok(said)
    })?;
    // What waits in queues belongs to these statements.
    std::thread::sleep(Duration::from_millis(200));
    let used = cpu_ns(pid)? - before;
    let line = said.lines().find_map(|line| line.trim().strip_prefix("total:")).context("no total")?;
    let statements: u64 = line.trim().parse().context("no number")?;
    ensure!(statements > 0 && !said.contains("FATAL"), "{said}");
    Ok(float(used) / 1000.0 / float(statements))
}

fn sysbench(ground: &Ground, options: &[&str]) -> Result<String> {
    let address = &ground.stage.address;
    let mut command = std::process::Command::new("sysbench");
    command.arg(format!("--mysql-socket={}", address.socket.display()));
    command
        .args([format!("--mysql-user={}", address.user), format!("--mysql-password={}", address.password)]);
    command
        .args(["--mysql-db=sbtest", "--tables=1", "--table-size=10000", "oltp_point_select"])
        .args(options);
    run_program(&mut command, LIMIT)?.success()
}

/// Of all its threads, so far.
fn cpu_ns(pid: u32) -> Result<u64> {
    let mut sum = 0;
    for thread in fs::read_dir(format!("/proc/{pid}/task"))? {
        let text = fs::read_to_string(thread?.path().join("schedstat"))?;
        let number = text.split_whitespace().next().context("an empty schedstat")?;
        sum += number.parse::<u64>().context("no number")?;
    }
    Ok(sum)
}
