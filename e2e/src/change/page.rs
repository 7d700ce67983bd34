//! The table of docs/admin.md.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use delphinus_sandbox::Flavor;

use super::{CHANGES, Row};

const BEGIN: &str = "<!-- Written by `cargo xtask e2e change --docs`: begin -->\n";
const END: &str = "<!-- end -->\n";

const HEAD: &str = "| change | servers | rounds | transactions of sysbench | statements of the application | longest of these (ms) | \
                    errors of clients |\n|---|---|--:|--:|--:|--:|--:|\n";

/// Puts the row of this change into the table between the markers of the page, in the place of the one that is there; others stay.
pub fn write_row(file: &Path, row: &Row) -> Result<()> {
    let text = fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))?;
    let (before, rest) = text.split_once(BEGIN).context("the page has no mark for the table")?;
    let (old, after) = rest.split_once(END).context("the page has no mark for the table's end")?;
    let new = line(row);
    let mut table = HEAD.to_owned();
    for change in CHANGES {
        for flavor in [Flavor::MariaDb, Flavor::MySql] {
            let start = start(change.what, flavor);
            let kept = || old.lines().find(|line| line.starts_with(&start));
            let line = if new.starts_with(&start) { Some(&*new) } else { kept() };
            table.extend(line.into_iter().flat_map(|line| [line, "\n"]));
        }
    }
    fs::write(file, format!("{before}{BEGIN}\n{table}\n{END}{after}"))?;
    Ok(())
}

/// What a row begins with.
fn start(what: &str, flavor: Flavor) -> String {
    format!("| {what} | {flavor} | ")
}

fn line(row: &Row) -> String {
    let what = CHANGES.iter().find(|change| change.name == row.name).map_or("", |change| change.what);
    let [transactions, statements] = row.work;
    let transactions = if transactions == 0 { "-".to_owned() } else { transactions.to_string() };
    let (rounds, longest, errors) = (row.rounds, row.longest.as_millis(), row.errors);
    format!("{}{rounds} | {transactions} | {statements} | {longest} | {errors} |", start(what, row.flavor))
}
