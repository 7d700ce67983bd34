//! The table of docs/operators-tables.md.

use std::path::Path;
use std::time::Duration;

use anyhow::Result;

use super::{QUESTIONS, Row};
use crate::page_table::PageTable;

const TABLE: PageTable = PageTable {
    begin: "<!-- Written by `cargo xtask e2e tables --docs`: begin -->\n",
    head: "| statement | operators at once | clients connected | half, 99 %, all of the answers within (ms) | refused | memory before, \
                    during, after (MiB) | p99 of ordinary clients before, during, after (ms) |\n|---|--:|--:|--:|--:|--:|--:|\n",
};

/// Puts the row of this question into the table between the markers of the page; others stay.
pub fn write_row(file: &Path, row: &Row) -> Result<()> {
    TABLE.write_row(
        file,
        &line(row),
        QUESTIONS.iter().map(|question| start(question.sql, question.operators)),
    )
}

/// What a row begins with.
fn start(sql: &str, operators: usize) -> String {
    format!("| `{sql}` | {operators} | ")
}

fn line(row: &Row) -> String {
    let ms = |took: Duration| took.as_millis().to_string();
    let took = row.took.map(ms).join(", ");
    let mib = row.mib.map(|mib| mib.to_string()).join(", ");
    let p99 = row.times.map(|times| (times.p99_us / 1000).to_string()).join(", ");
    let (clients, refused) = (row.clients, row.refused);
    format!("{}{clients} | {took} | {refused} | {mib} | {p99} |", start(row.sql, row.operators))
}
