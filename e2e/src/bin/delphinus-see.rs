//! Compares and measures what operators see of statements; `cargo xtask e2e see` builds and starts it.
//!
//! Arguments: `[--quick] [--only PART]... [--flavor F] [--docs FILE]`. With `--docs` each figure gets into the table of the page. The last
//! line is "N passed, M failed", counted in figures.

use std::io::Write as _;
use std::process::ExitCode;

use anyhow::Result;
use delphinus_e2e::see::{PARTS, write_rows};
use delphinus_e2e::{Asked, exit_after};
use delphinus_sandbox::Flavor;

fn main() -> ExitCode {
    exit_after(work)
}

fn work() -> Result<bool> {
    let names: Vec<&str> = PARTS.iter().map(|part| part.name).collect();
    let asked = Asked::read(&names)?;
    let (mut passed, mut failed) = (0, 0);
    for flavor in [Flavor::MariaDb, Flavor::MySql] {
        if !asked.wants_on(flavor) {
            continue;
        }
        for part in &PARTS {
            if !asked.wants(part.name) {
                continue;
            }
            let rows = match (part.run)(flavor, asked.is_quick) {
                Ok(rows) => rows,
                Err(error) => {
                    say(&format!("{flavor} {}: FAILED: {error:#}", part.name));
                    failed += 1;
                    continue;
                }
            };
            for row in &rows {
                let mark = if row.is_right { "ok" } else { "FAILED" };
                say(&format!(
                    "{flavor} {}: {}: {} (bound {}) {mark}",
                    part.name, row.what, row.found, row.bound
                ));
                if row.is_right { passed += 1 } else { failed += 1 }
            }
            if let Some(file) = &asked.docs {
                write_rows(file, &rows)?;
            }
        }
    }
    say(&format!("{passed} passed, {failed} failed"));
    Ok(failed == 0)
}

fn say(text: &str) {
    let _ = writeln!(std::io::stdout(), "{text}");
}
