//! The table of docs/operators-tables.md.

use std::fs;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result};

use super::{QUESTIONS, Row};

const BEGIN: &str = "<!-- Written by `cargo xtask e2e tables --docs`: begin -->\n";
const END: &str = "<!-- end -->\n";

const HEAD: &str = "| statement | operators at once | clients connected | half, 99 %, all of the answers within (ms) | refused | memory before, \
                    during, after (MiB) | p99 of ordinary clients before, during, after (ms) |\n|---|--:|--:|--:|--:|--:|--:|\n";

/// Puts the row of this question into the table between the markers of the page; others stay.
pub fn write_row(file: &Path, row: &Row) -> Result<()> {
    let text = fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))?;
    let (before, rest) = text.split_once(BEGIN).context("the page has no mark for the table")?;
    let (old, after) = rest.split_once(END).context("the page has no mark for the table's end")?;
    let new = line(row);
    let mut table = HEAD.to_owned();
    for question in QUESTIONS {
        let start = start(question.sql, question.operators);
        let kept = || old.lines().find(|line| line.starts_with(&start));
        let line = if new.starts_with(&start) { Some(&*new) } else { kept() };
        table.extend(line.into_iter().flat_map(|line| [line, "\n"]));
    }
    fs::write(file, format!("{before}{BEGIN}\n{table}\n{END}{after}"))?;
    Ok(())
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
