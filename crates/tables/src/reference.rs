//! The reference page of tables.

use std::fmt::Write;

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
    page
}
