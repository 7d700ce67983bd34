//! The table of docs/see.md.

use std::path::Path;

use anyhow::Result;
use delphinus_sandbox::Flavor;

use super::{PARTS, Row};
use crate::page_table::PageTable;

const TABLE: PageTable = PageTable {
    begin: "<!-- Written by `cargo xtask e2e see --docs`: begin -->\n",
    head: "| what | servers | found | bound |\n|---|---|---|---|\n",
};

/// Puts rows into the table between the markers of the page, in the places of those that are there; others stay.
pub fn write_rows(file: &Path, rows: &[Row]) -> Result<()> {
    let of = |what: &'static str| [Flavor::MariaDb, Flavor::MySql].map(|flavor| start(what, flavor));
    let starts = || PARTS.iter().flat_map(|part| part.measures).flat_map(|what| of(what));
    for row in rows {
        let line = format!("{}{} | {} |", start(row.what, row.flavor), row.found, row.bound);
        TABLE.write_row(file, &line, starts())?;
    }
    Ok(())
}

/// What a row begins with.
fn start(what: &str, flavor: Flavor) -> String {
    format!("| {what} | {flavor} | ")
}
