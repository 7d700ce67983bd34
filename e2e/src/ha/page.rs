//! The table of docs/switchover.md.

use std::path::Path;
use std::time::Duration;

use anyhow::Result;

use super::{Part, Row};
use crate::failover::Servers;
use crate::page_table::PageTable;

const TABLE: PageTable = PageTable {
    begin: "<!-- Written by `cargo xtask e2e ha --docs`: begin -->\n",
    head: "| what is done | servers | times | acknowledged writes | transactions of sysbench | lost | errors of clients | writes again \
           after, median | at most | longest wait for a write |\n|---|---|--:|--:|--:|--:|---|--:|--:|--:|\n",
};

/// Puts the row into the table between the markers of the page; others stay.
pub fn write_row(file: &Path, row: &Row) -> Result<()> {
    let all = Part::ALL.iter().flat_map(|part| Servers::ALL.map(|servers| start(*part, servers)));
    TABLE.write_row(file, &line(row), all)
}

fn start(part: Part, servers: Servers) -> String {
    format!("| {} | {servers} | ", part.title())
}

fn line(row: &Row) -> String {
    let seconds = |time: Duration| format!("{:.2} s", time.as_secs_f64());
    let [median, most] = row.pauses().map(seconds);
    let errors: Vec<_> = row.errors.iter().map(|(kind, count)| format!("{count} × {kind}")).collect();
    let errors = if errors.is_empty() { "0".to_owned() } else { errors.join(", ") };
    let [writes, transactions] = row.work;
    let transactions = if row.part.is_planned() { transactions.to_string() } else { "-".to_owned() };
    let (rounds, lost, longest) = (row.until_writes.len(), row.lost, seconds(row.longest));
    format!(
        "{}{rounds} | {writes} | {transactions} | {lost} | {errors} | {median} | {most} | {longest} |",
        start(row.part, row.servers)
    )
}
