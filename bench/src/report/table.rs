//! The results as a table of text, the same for the terminal and for the page.

use std::fmt::Write;

use crate::figures::{Figure, Results, Row};
use crate::stats::Spread;
use crate::system::System;

/// The columns behind the system's name.
const HEADS: [&str; 10] = [
    "cpu us/query",
    "min..max",
    "/haproxy",
    "queries/s",
    "/haproxy",
    "/direct",
    "p50 ms",
    "p95 ms",
    "p99 ms",
    "RSS MiB",
];

/// A block for each workload; then what was left out, and what failed.
pub fn table(results: &Results) -> String {
    let mut text = String::new();
    let mut last = None;
    for row in &results.rows {
        if last != Some((row.workload, row.threads)) {
            last = Some((row.workload, row.threads));
            text.push_str(&head(row));
        }
        let _ = writeln!(text, "{}", line(results, row).trim_end());
        text.push_str(&extra(results, row));
    }
    if !results.left_out.is_empty() {
        text.push_str("\nLeft out:\n");
    }
    for left_out in &results.left_out {
        let workload = left_out.workload.map_or("every workload", crate::workload::Workload::name);
        let _ = writeln!(text, "  {} ({workload}): {}", left_out.system, left_out.reason);
    }
    if !results.failures.is_empty() {
        text.push_str("\nFailed:\n");
    }
    for failure in &results.failures {
        let _ = writeln!(text, "  {failure}");
    }
    text
}

fn head(row: &Row) -> String {
    let mut text = format!("\n{}, {} connections\n  {:<13}", row.workload.name(), row.threads, "system");
    for head in HEADS {
        let _ = write!(text, "{head:>width$}", width = width(head));
    }
    text + "\n"
}

fn line(results: &Results, row: &Row) -> String {
    let ratio = |figure, to| ratio(results.ratio(row, figure, to));
    let cpu = row.spread(Figure::CpuUsPerQuery);
    let cells = [
        number(cpu.map(|spread| spread.median), 1),
        cpu.map(range).unwrap_or_default(),
        ratio(Figure::CpuUsPerQuery, System::Haproxy),
        number(row.median(Figure::Qps), 0),
        ratio(Figure::Qps, System::Haproxy),
        ratio(Figure::Qps, System::Direct),
        number(row.median(Figure::P50Ms), 2),
        number(row.median(Figure::P95Ms), 2),
        number(row.median(Figure::P99Ms), 2),
        number(row.median(Figure::RssKib).map(|kib| kib / 1024.0), 1),
    ];
    let mut text = format!("  {:<13}", row.system);
    for (cell, head) in cells.iter().zip(HEADS) {
        let _ = write!(text, "{cell:>width$}", width = width(head));
    }
    text
}

/// Figures that only some workloads have, on a line of their own.
fn extra(results: &Results, row: &Row) -> String {
    let mut parts = Vec::new();
    if let Some(cpu) = row.median(Figure::CpuUsPerMb) {
        let to_haproxy = results.ratio(row, Figure::CpuUsPerMb, System::Haproxy);
        parts.push(format!("{cpu:.0} us of CPU per MB ({} of haproxy)", ratio(to_haproxy)));
    }
    if let Some(transactions) = row.median(Figure::TransactionsPerSecond) {
        let to = |system| ratio(results.ratio(row, Figure::TransactionsPerSecond, system));
        let (haproxy, direct) = (to(System::Haproxy), to(System::Direct));
        parts.push(format!("{transactions:.0} transactions/s ({haproxy} of haproxy, {direct} of direct)"));
    }
    if let Some(bytes) = row.median(Figure::BytesPerIdleConnection) {
        let count = row.median(Figure::IdleConnections).unwrap_or_default();
        parts.push(format!("{bytes:.0} bytes per idle connection ({count:.0} of them)"));
    }
    if let (Some(p50), Some(p99)) = (row.median(Figure::WithoutP50Ms), row.median(Figure::WithoutP99Ms)) {
        let cpu = number(row.median(Figure::WithoutCpuUsPerQuery), 1);
        parts.push(format!("without the idle ones {cpu} us/query, p50 {p50:.2} ms, p99 {p99:.2} ms"));
    }
    if parts.is_empty() { String::new() } else { format!("  {:<13}  {}\n", "", parts.join("; ")) }
}

fn width(head: &str) -> usize {
    if head == "min..max" { 18 } else { head.len().max(7) + 2 }
}

fn number(value: Option<f64>, digits: usize) -> String {
    value.map_or_else(|| "-".to_owned(), |value| format!("{value:.digits$}"))
}

fn ratio(value: Option<f64>) -> String {
    number(value, 2)
}

fn range(spread: Spread) -> String {
    let digits = usize::from(spread.max < 1_000.0);
    format!("{:.digits$}..{:.digits$}", spread.min, spread.max)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::figures::testing::results;

    #[test]
    fn the_table_has_a_line_for_each_row() {
        let mut results = results();
        results.failures.push("connect 16 haproxy: no".to_owned());
        let text = table(&results);
        let line = text.lines().find(|line| line.trim_start().starts_with("delphinus")).unwrap();
        let cells: Vec<&str> = line.split_whitespace().collect();
        assert_eq!(
            cells,
            ["delphinus", "24.0", "21.6..28.8", "0.80", "22000", "1.10", "0.73", "1.50", "-", "-", "20.0"]
        );
        assert!(text.contains("\nconnect, 16 connections\n"), "{text}");
        assert!(text.contains("  proxysql (every workload): set <PROXYSQL_BIN>\n"), "{text}");
        assert!(text.ends_with("Failed:\n  connect 16 haproxy: no\n"), "{text}");
    }

    #[test]
    fn figures_of_one_workload_have_their_own_line() {
        let mut results = results();
        for (row, transactions) in [(1, 500.0), (2, 600.0)] {
            results.rows[row].samples[0].set(Figure::TransactionsPerSecond, Some(transactions));
        }
        let text = table(&results);
        assert!(text.contains("600 transactions/s (1.20 of haproxy, - of direct)"), "{text}");
        results.rows[1].samples[0].set(Figure::BytesPerIdleConnection, Some(7012.3));
        assert!(table(&results).contains("7012 bytes per idle connection"));
        assert!(table(&results).lines().all(|line| line == line.trim_end()));
    }
}
