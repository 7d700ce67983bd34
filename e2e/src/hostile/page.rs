//! The table of docs/limits.md.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use delphinus_sandbox::Flavor;

use super::{ATTACKS, Row};

const BEGIN: &str = "<!-- Written by `cargo xtask e2e hostile --docs`: begin -->\n";
const END: &str = "<!-- end -->\n";

const HEAD: &str = "| attack | servers | clients | memory before, during, after (MiB) | allowed | p99 of the others before, \
                    during, after (ms) | their longest wait before, during, after (ms) |\n\
                    |---|---|--:|--:|--:|--:|--:|\n";

/// Puts the row of this attack into the table between the markers of the page, in the place of the one that is there; those of
/// other attacks and other servers stay.
pub fn write_row(file: &Path, row: &Row) -> Result<()> {
    let text = fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))?;
    let (before, rest) = text.split_once(BEGIN).context("the page has no mark for the table")?;
    let (old, after) = rest.split_once(END).context("the page has no mark for the table's end")?;
    let new = line(row);
    let mut table = HEAD.to_owned();
    for attack in ATTACKS {
        for flavor in [Flavor::MariaDb, Flavor::MySql] {
            let start = start(attack.what, flavor);
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
    let what = ATTACKS.iter().find(|attack| attack.name == row.name).map_or("", |attack| attack.what);
    let mib = row.mib.map(|mib| mib.to_string()).join(", ");
    let p99 = row.times.map(|times| (times.p99_us / 1000).to_string()).join(", ");
    let longest = row.times.map(|times| (times.longest_us / 1000).to_string()).join(", ");
    let (clients, allowed) = (row.clients, row.allowed_mib());
    format!("{}{clients} | {mib} | {allowed} | {p99} | {longest} |", start(what, row.flavor))
}
