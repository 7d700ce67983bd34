//! The table of docs/admin.md.

use std::path::Path;

use anyhow::Result;
use delphinus_sandbox::Flavor;

use super::{CHANGES, Row};
use crate::page_table::PageTable;

const TABLE: PageTable = PageTable {
    begin: "<!-- Written by `cargo xtask e2e change --docs`: begin -->\n",
    head: "| change | servers | rounds | transactions of sysbench | statements of the application | longest of these (ms) | \
                    errors of clients |\n|---|---|--:|--:|--:|--:|--:|\n",
};

/// Puts the row of this change into the table between the markers of the page, in the place of the one that is there; others stay.
pub fn write_row(file: &Path, row: &Row) -> Result<()> {
    let of = |what: &str| [Flavor::MariaDb, Flavor::MySql].map(|flavor| start(what, flavor));
    TABLE.write_row(file, &line(row), CHANGES.iter().flat_map(|change| of(change.what)))
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
