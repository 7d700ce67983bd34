//! A table of a page of the docs that long runs write row by row: between two marks, in an order of its own.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

/// Where a table stands, and its head.
pub(crate) struct PageTable {
    /// What stands before it.
    pub begin: &'static str,
    /// The names of its columns, and the line below.
    pub head: &'static str,
}

const END: &str = "<!-- end -->\n";

impl PageTable {
    /// Puts a row in the place of the one that begins like it; rows that are there stay. `starts` is what each row that there can be
    /// begins with, in the order of the table.
    pub(crate) fn write_row(
        &self,
        file: &Path,
        row: &str,
        starts: impl IntoIterator<Item = String>,
    ) -> Result<()> {
        let text = fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))?;
        let (before, rest) = text.split_once(self.begin).context("the page has no mark for the table")?;
        let (old, after) = rest.split_once(END).context("the page has no mark for the table's end")?;
        let mut table = self.head.to_owned();
        for start in starts {
            let kept = || old.lines().find(|line| line.starts_with(&start));
            let line = if row.starts_with(&start) { Some(row) } else { kept() };
            table.extend(line.into_iter().flat_map(|line| [line, "\n"]));
        }
        fs::write(file, format!("{before}{}\n{table}\n{END}{after}", self.begin))?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_takes_the_place_of_the_one_before_and_others_stay() {
        let file = std::env::temp_dir().join(format!("delphinus-page-{}.md", std::process::id()));
        fs::write(&file, "before\n<b>\nold head\n| b | 1 |\n| gone | 1 |\n<!-- end -->\nafter\n").unwrap();
        let table = PageTable { begin: "<b>\n", head: "head\n" };
        let starts = || ["| a | ", "| b | ", "| c | "].map(str::to_owned);
        table.write_row(&file, "| c | 2 |", starts()).unwrap();
        table.write_row(&file, "| a | 3 |", starts()).unwrap();
        table.write_row(&file, "| c | 4 |", starts()).unwrap();
        let text = fs::read_to_string(&file).unwrap();
        fs::remove_file(&file).unwrap();
        let rows = "| a | 3 |\n| b | 1 |\n| c | 4 |\n";
        assert_eq!(text, format!("before\n<b>\n\nhead\n{rows}\n<!-- end -->\nafter\n"));
    }
}
