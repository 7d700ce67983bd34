//! The table of docs/limits.md.

use std::path::Path;

use anyhow::Result;
use delphinus_sandbox::Flavor;

use super::{ATTACKS, Row};
use crate::page_table::PageTable;

const TABLE: PageTable = PageTable {
    begin: "<!-- Written by `cargo xtask e2e hostile --docs`: begin -->\n",
    head: "| attack | servers | clients | memory before, during, after (MiB) | allowed | p99 of the others before, \
                    during, after (ms) | their longest wait before, during, after (ms) |\n\
                    |---|---|--:|--:|--:|--:|--:|\n",
};

/// Puts the row of this attack into the table between the markers of the page, in the place of the one that is there; those of
/// other attacks and other servers stay.
pub fn write_row(file: &Path, row: &Row) -> Result<()> {
    let of = |what: &str| [Flavor::MariaDb, Flavor::MySql].map(|flavor| start(what, flavor));
    TABLE.write_row(file, &line(row), ATTACKS.iter().flat_map(|attack| of(attack.what)))
}

/// What a row begins with.
fn start(what: &str, flavor: Flavor) -> String {
    format!("| {what} | {flavor} | ")
}

fn line(row: &Row) -> String {
    let what = ATTACKS.iter().find(|attack| attack.name == row.name).map_or("", |attack| attack.what);
    let mib = row.mib.map(|mib| mib.to_string()).join(", ");
    let p99 = row.times.map(|times| (times.p99_us / 1000).to_string()).join(", ");
    let longest = row.times.map(|times| (times.longest_us / 1000).to_string()).join(", ");
    let (clients, allowed) = (row.clients, row.allowed_mib());
    format!("{}{clients} | {mib} | {allowed} | {p99} | {longest} |", start(what, row.flavor))
}
