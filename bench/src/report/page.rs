//! The page in docs: method, machine, versions and the figures of a run. Everything on it is made here.

use std::fmt::Write;

use crate::figures::{Figure, Results, Row};
use crate::machine::Machine;
use crate::run::Report;
use crate::stats::Spread;
use crate::system::System;
use crate::workload::Workload;

const INTRODUCTION: &str = "# Benchmarks

<!-- Made by `cargo xtask bench`. Change the text in bench/src/report/page.rs, the figures by measuring. -->

```sh
cargo xtask bench --quick    # a look, less than three minutes
cargo xtask bench --guided   # the figures below: all systems, all workloads, five rounds
cargo xtask bench --micro    # instructions of single steps, which repeat exactly
```

";

const METHOD: &str = "## Method

- One cluster (a primary and two replicas on loopback) stands behind all systems. Each workload runs round by round: in
  every round each system is measured once, in a changing order, so that what the machine does hits all alike. Figures
  are medians over the rounds; ratios are medians of the ratios within each round.
- The figure to compare is the processor time of the proxy's process for each statement, user and system, as the
  scheduler counts it for each thread. Rates and latencies depend on what else shares the cores: load generator,
  proxy and three servers do.
- The load is a closed loop: each connection sends a statement, waits for the whole answer, checks its number of rows,
  and sends the next. Statements are encoded before; on two cores one thread drives all connections. A wrong answer
  or an error fails the run. The first part of every window is not counted.
- No system uses TLS, to either side: HAProxy in TCP mode could not look inside, and it would be the cipher that is
  measured. Durability of the servers is switched down, since it is not they that are measured.
- `relay` is no proxy, but a floor: one thread that passes on bytes and reads none, with the system calls of Delphinus
  (bench/src/relay.rs). What a proxy costs above it is its own work.
- `sysbench-point-select-*` are the same point selects by sysbench's own `oltp_point_select`, with a thread for each
  connection, in a session of its own, as from a shell: the kernel shares the cores among sessions, and within that of the
  proxies they would wait longer, find more at once, and cost less (MySQL Router by a quarter, Delphinus hardly). It
  looks at no rows. Many
  threads that wait for an answer each are another load than one that finds many answers at once: it matters to some
  proxies, so both are shown.
- `read-only` and `read-write` are the statements of sysbench's oltp tests, with its `--skip_trx=on`: inside BEGIN nobody
  may send reads to replicas, and it would be one connection to the primary that is measured. MySQL Router splits
  only texts; prepared statements all go to the primary there, which is cheaper for it.
- `transactions` is sysbench's `oltp_read_write` as it comes: 18 statements between BEGIN and COMMIT, by sysbench itself
  (`--rand-type=uniform` apart: few transactions wait for each other's locks then). All of it goes to the primary, and the
  replicas follow. Processor time and rate are for each statement, BEGIN and COMMIT among them, as sysbench counts them;
  latencies are those of whole transactions. The server ends one of two transactions that wait for each other, and sysbench
  begins another: with more than one in twenty, the run fails.
- Memory per idle connection is the growth of resident memory from 50 busy connections to the same and the idle ones
  beside them. The busy ones are measured three times in each round, before the idle ones come, beside them, and once
  they are gone: the columns `without` are the mean of the first and the last.

## Peers

Every proxy is started anew for each workload, and may have 11,000 clients (HAProxy fewer where the limit of open files is lower).

- `haproxy`: TCP mode, as many threads (`nbthread`) as the machine has cores, `balance leastconn`. It knows no statements:
  reads go to a port that leads to the replicas, and workloads with writes to one that leads to the primary.
- `router-ro`, `router-split`: what MySQL Router's own bootstrap writes, for its port for reads and for the one that
  splits. Only these are changed: one port for each process, REST and TLS to the servers (off), and the limit.
- `proxysql`: `--idle-threads`, as in its makers' systemd unit, and `--no-version-check`, so that it asks no server of its makers for
  news; as many `threads` as cores. The servers stand in two groups that follow `read_only`, and the two rules of its documentation
  split: `^SELECT.*FOR UPDATE` goes to the primary, every other `^SELECT` to the replicas. All else is its default: a transaction
  stays where it began, multiplexing and digests are on.
- `delphinus` splits, pools, and counts, as it does without any setting: it has one worker less than there are cores
  (`proxy.workers`), which wait for their turn (`proxy.scheduling`). Where its version says `profile-guided`, it is the binary
  that `cargo xtask release` makes: compiled a second time by the counts of short runs of some of these workloads. The others are as
  their makers compile them.

";

/// The whole page.
pub fn page(report: &Report, machine: &Machine) -> String {
    let mut text = INTRODUCTION.to_owned();
    text.push_str(METHOD);
    text.push_str(&surroundings(report, machine));
    text.push_str("## Figures\n\n");
    text.push_str(
        "![Processor time per statement, as bars; the same figures are in the tables](bench.svg)\n",
    );
    text.push_str(&tables(&report.results));
    text.push_str(&missing(&report.results));
    text.push_str(&failed(&report.results));
    text
}

fn surroundings(report: &Report, machine: &Machine) -> String {
    let Machine { processor, cores, memory_mib, kernel, system, day, revision } = machine;
    let schedule = report.schedule;
    let kind =
        if schedule.is_quick { "a quick run, not the figures to quote, at most" } else { "a full run," };
    let load = |value: Option<f64>| value.map_or_else(|| "unknown".to_owned(), |value| format!("{value:.1}"));
    let (before, after) = report.load_averages;
    let mut text = format!(
        "## Machine\n\n- {processor}, {cores} cores, {memory_mib} MiB of memory; {system}, kernel {kernel}\n\
         - {day}, at revision {revision}: {kind} {} rounds of {:.2} s each, after {:.2} s that do not count\n\
         - Load average before the run {}, at its end {}\n\
         - {} servers of {}\n",
        schedule.rounds,
        schedule.window.measure.as_secs_f64(),
        schedule.window.warm_up.as_secs_f64(),
        load(before),
        load(after),
        report.replicas + 1,
        report.flavor,
    );
    for (system, version) in &report.versions {
        let _ = writeln!(text, "- `{system}`: {version}");
    }
    text.push('\n');
    text
}

fn tables(results: &Results) -> String {
    let mut text = String::new();
    let mut last = None;
    for row in &results.rows {
        if last != Some((row.workload, row.threads)) {
            last = Some((row.workload, row.threads));
            text.push_str(&head(row));
        }
        let _ = writeln!(text, "| {} |", cells(results, row).join(" | "));
    }
    text
}

fn head(row: &Row) -> String {
    let mut heads = vec![
        "system",
        "CPU µs/query",
        "of haproxy",
        "queries/s",
        "of direct",
        "p50 ms",
        "p95 ms",
        "p99 ms",
        "peak MiB",
    ];
    heads.extend(extra_heads(row.workload));
    let rule = heads.iter().map(|_| "---").collect::<Vec<_>>().join("|");
    format!(
        "\n### `{}`, {} connections\n\n| {} |\n|{rule}|\n",
        row.workload.name(),
        row.threads,
        heads.join(" | ")
    )
}

fn extra_heads(workload: Workload) -> &'static [&'static str] {
    match workload {
        Workload::Rows1000 | Workload::Result10Mb => &["CPU µs/MB", "of haproxy"],
        Workload::Transactions(_) => &["transactions/s", "of haproxy", "of direct"],
        Workload::Idle10000 => &[
            "idle connections",
            "bytes for each",
            "CPU µs/query without",
            "p50 ms without",
            "p99 ms without",
        ],
        _ => &[],
    }
}

fn cells(results: &Results, row: &Row) -> Vec<String> {
    let ratio = |figure, to| number(results.ratio(row, figure, to), 2);
    let name = if row.system == System::Delphinus { "**delphinus**" } else { row.system.name() };
    let mut cells = vec![
        name.to_owned(),
        row.spread(Figure::CpuUsPerQuery).map(with_range).unwrap_or_default(),
        ratio(Figure::CpuUsPerQuery, System::Haproxy),
        row.spread(Figure::Qps).map(with_range).unwrap_or_default(),
        ratio(Figure::Qps, System::Direct),
        number(row.median(Figure::P50Ms), 2),
        number(row.median(Figure::P95Ms), 2),
        number(row.median(Figure::P99Ms), 2),
        number(row.median(Figure::RssKib).map(|kib| kib / 1024.0), 1),
    ];
    match row.workload {
        Workload::Rows1000 | Workload::Result10Mb => {
            cells.push(number(row.median(Figure::CpuUsPerMb), 0));
            cells.push(ratio(Figure::CpuUsPerMb, System::Haproxy));
        }
        Workload::Transactions(_) => {
            cells.push(row.spread(Figure::TransactionsPerSecond).map(with_range).unwrap_or_default());
            cells.push(ratio(Figure::TransactionsPerSecond, System::Haproxy));
            cells.push(ratio(Figure::TransactionsPerSecond, System::Direct));
        }
        Workload::Idle10000 => {
            cells.push(number(row.median(Figure::IdleConnections), 0));
            cells.push(number(row.median(Figure::BytesPerIdleConnection), 0));
            cells.push(row.spread(Figure::WithoutCpuUsPerQuery).map(with_range).unwrap_or_default());
            cells.push(number(row.median(Figure::WithoutP50Ms), 2));
            cells.push(number(row.median(Figure::WithoutP99Ms), 2));
        }
        _ => {}
    }
    cells
}

fn with_range(spread: Spread) -> String {
    let digits = usize::from(spread.max < 1_000.0);
    let Spread { median, min, max } = spread;
    format!("{median:.digits$} ({min:.digits$} to {max:.digits$})")
}

fn number(value: Option<f64>, digits: usize) -> String {
    value.map(|value| format!("{value:.digits$}")).unwrap_or_default()
}

fn missing(results: &Results) -> String {
    let mut text = String::new();
    if !results.left_out.is_empty() {
        text.push_str("\n## Left out\n\n");
    }
    for left_out in &results.left_out {
        let workload = left_out.workload.map_or("every workload", Workload::name);
        let reason = left_out.reason.replace('\n', " ");
        let _ = writeln!(text, "- `{}`, {workload}: {reason}", left_out.system);
    }
    text
}

fn failed(results: &Results) -> String {
    let mut text = String::new();
    if !results.failures.is_empty() {
        text.push_str("\n## Failed\n\nMeasured up to there, and not in the tables:\n\n");
    }
    for failure in &results.failures {
        let _ = writeln!(text, "- {}", failure.replace('\n', " "));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::figures::testing::results;
    use crate::run::Schedule;

    #[test]
    fn what_failed_is_on_the_page() {
        let mut results = results();
        assert_eq!(failed(&results), "");
        results.failures.push("connect 16 haproxy: no\nanswer".to_owned());
        assert!(failed(&results).ends_with("\n- connect 16 haproxy: no answer\n"));
    }

    fn made() -> String {
        let machine = Machine {
            processor: "X".to_owned(),
            cores: 2,
            memory_mib: 1024,
            kernel: "6.1".to_owned(),
            system: "Debian".to_owned(),
            day: "2026-01-02".to_owned(),
            revision: "abc".to_owned(),
        };
        let report = Report {
            results: results(),
            versions: vec![(System::Haproxy, "HAProxy version 1".to_owned())],
            flavor: delphinus_sandbox::Flavor::MySql,
            replicas: 2,
            schedule: Schedule::full(None),
            load_averages: (Some(0.25), None),
        };
        page(&report, &machine)
    }

    #[test]
    fn the_page_has_the_figures_and_where_they_come_from() {
        let page = made();
        let wanted = [
            "- X, 2 cores, 1024 MiB of memory; Debian, kernel 6.1\n",
            "- 2026-01-02, at revision abc: a full run, 5 rounds of 3.00 s each",
            "- `haproxy`: HAProxy version 1\n",
            "### `point-select-text`, 64 connections\n",
            "| **delphinus** | 24.0 (21.6 to 28.8) | 0.80 | 22000 (18333 to 24444) | 0.73 | 1.50 |  |  | 20.0 |\n",
            "- `proxysql`, every workload: set <PROXYSQL_BIN>\n",
        ];
        for text in wanted {
            assert!(page.contains(text), "no {text:?} in\n{page}");
        }
    }

    #[test]
    fn every_line_of_a_table_has_as_many_cells_as_its_head() {
        let page = made();
        let mut cells = None;
        for line in page.lines() {
            let found = line.starts_with('|').then(|| line.matches('|').count());
            assert!(found.is_none() || cells.is_none() || found == cells, "{line}");
            cells = found;
        }
    }
}
