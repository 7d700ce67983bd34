//! Checks replication relays on real servers; `cargo xtask e2e relay` builds and starts it.
//!
//! Arguments: `[--quick] [--only PART]... [--flavor F] [--rounds N]`. The last line is "N passed, M failed", counted in parts.

use std::io::Write as _;
use std::process::ExitCode;

use anyhow::Result;
use delphinus_e2e::relays::{Length, PARTS};
use delphinus_e2e::{Asked, exit_after};
use delphinus_sandbox::Flavor;

fn main() -> ExitCode {
    exit_after(work)
}

fn work() -> Result<bool> {
    let names: Vec<&str> = PARTS.iter().map(|part| part.name).collect();
    let asked = Asked::read(&names)?;
    let length = Length { is_quick: asked.is_quick, rounds: asked.rounds };
    let (mut passed, mut failed) = (0, 0);
    for part in &PARTS {
        if !asked.wants(part.name) || (part.is_extra && !asked.names(part.name)) {
            continue;
        }
        for flavor in [Flavor::MySql, Flavor::MariaDb] {
            if !asked.wants_on(flavor) {
                continue;
            }
            match (part.run)(flavor, length) {
                Ok(lines) => {
                    for line in &lines {
                        say(&format!("{flavor} {}: {line}", part.name));
                    }
                    passed += 1;
                }
                Err(error) => {
                    say(&format!("{flavor} {}: FAILED: {error:#}", part.name));
                    failed += 1;
                }
            }
        }
    }
    say(&format!("{passed} passed, {failed} failed"));
    Ok(failed == 0)
}

fn say(text: &str) {
    let _ = writeln!(std::io::stdout(), "{text}");
}
