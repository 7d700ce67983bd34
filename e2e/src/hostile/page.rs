//! The table of docs/limits.md.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

use super::{ATTACKS, Row};

const BEGIN: &str = "<!-- Written by `cargo xtask e2e hostile --docs`: begin -->\n";
const END: &str = "<!-- end -->\n";

/// Puts the table of these attacks between the markers of the page.
pub fn write_table(file: &Path, rows: &[Row]) -> Result<()> {
    let text = fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))?;
    let (before, rest) = text.split_once(BEGIN).context("the page has no mark for the table")?;
    let (_, after) = rest.split_once(END).context("the page has no mark for the table's end")?;
    fs::write(file, format!("{before}{BEGIN}\n{}\n{END}{after}", table(rows)))?;
    Ok(())
}

fn table(rows: &[Row]) -> String {
    let mut text = "| attack | servers | clients | memory before, during, after (MiB) | allowed | p99 of the others before, \
                    during, after (ms) | their longest wait before, during, after (ms) |\n\
                    |---|---|--:|--:|--:|--:|--:|\n"
        .to_owned();
    for row in rows {
        let what = ATTACKS.iter().find(|attack| attack.name == row.name).map_or("", |attack| attack.what);
        let mib = row.mib.map(|mib| mib.to_string()).join(", ");
        let ms = |us: u64| format!("{}.{}", us / 1000, us % 1000 / 100);
        let p99 = row.times.map(|times| ms(times.p99_us)).join(", ");
        let longest = row.times.map(|times| ms(times.longest_us)).join(", ");
        let (flavor, clients, allowed) = (row.flavor, row.clients, row.allowed_mib());
        let _ = writeln!(text, "| {what} | {flavor} | {clients} | {mib} | {allowed} | {p99} | {longest} |");
    }
    text
}
