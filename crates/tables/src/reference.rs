//! The reference page of tables.

use std::fmt::Write;

use crate::function::Function;
use crate::table::{Catalog, Column};

/// The sections of the page, one a table.
pub fn reference(catalog: &Catalog) -> String {
    let mut page = String::new();
    for (is_view, title) in [(false, "Tables"), (true, "Views for those who know ProxySQL")] {
        let _ = writeln!(page, "\n## {title}");
        for table in catalog.iter().filter(|table| table.is_view() == is_view) {
            let _ = writeln!(page, "\n### `{}`\n\n{}\n", table.name, table.help);
            page += "| column | type | unit | what |\n|---|---|---|---|\n";
            for Column { name, kind, unit, help, .. } in table.columns {
                let _ = writeln!(
                    page,
                    "| `{name}` | {} | {unit} | {} |",
                    kind.as_str(),
                    help.replace('|', "\\|")
                );
            }
        }
    }
    if !catalog.functions().is_empty() {
        page += "\n## Functions\n\nBeside those of SQLite.\n\n| function | what |\n|---|---|\n";
        for Function { usage, help, .. } in catalog.functions() {
            let _ = writeln!(page, "| `{usage}` | {} |", help.replace('|', "\\|"));
        }
    }
    page
}
