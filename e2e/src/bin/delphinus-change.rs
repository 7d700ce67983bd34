//! Changes what runs while clients work, and counts their errors; `cargo xtask e2e change` builds and starts it.
//!
//! Arguments: `[--quick] [--only NAME]... [--flavor F] [--docs FILE]`. With `--docs` each result gets into the table of the page. The last
//! line is "N passed, M failed", counted in kinds of changes.

use std::io::Write as _;
use std::process::ExitCode;

use anyhow::Result;
use delphinus_e2e::change::{CHANGES, Ground, Row, run_change, write_row};
use delphinus_e2e::{Asked, exit_after};
use delphinus_sandbox::Flavor;

fn main() -> ExitCode {
    exit_after(work)
}

fn work() -> Result<bool> {
    let names: Vec<&str> = CHANGES.iter().map(|change| change.name).collect();
    let asked = Asked::read(&names)?;
    let (mut passed, mut failed) = (0, 0);
    for flavor in [Flavor::MariaDb, Flavor::MySql] {
        if !asked.wants_on(flavor) {
            continue;
        }
        let mut ground = Ground::start(flavor)?;
        for change in CHANGES.iter().filter(|change| asked.wants(change.name)) {
            let rounds = if asked.is_quick { change.few } else { change.rounds };
            match run_change(&mut ground, change, rounds) {
                Ok(row) => {
                    say(&format!("{flavor} {}: {}", change.name, summary(&row)));
                    row.words.iter().for_each(|words| say(&format!("  {words}")));
                    if let Some(file) = &asked.docs {
                        write_row(file, &row)?;
                    }
                    if row.errors == 0 { passed += 1 } else { failed += 1 }
                }
                Err(error) => {
                    say(&format!("{flavor} {}: FAILED: {error:#}", change.name));
                    failed += 1;
                    // What the next one finds is not known.
                    ground = Ground::start(flavor)?;
                }
            }
        }
    }
    say(&format!("{passed} passed, {failed} failed"));
    Ok(failed == 0)
}

fn summary(row: &Row) -> String {
    let [transactions, statements] = row.work;
    format!(
        "{} errors in {} rounds; {} s, {transactions} transactions, {statements} statements, {} moved, longest {} ms",
        row.errors,
        row.rounds,
        row.took.as_secs(),
        row.moved,
        row.longest.as_millis()
    )
}

fn say(text: &str) {
    let _ = writeln!(std::io::stdout(), "{text}");
}
