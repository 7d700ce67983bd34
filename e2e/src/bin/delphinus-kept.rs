//! Holds answers from the cache against what was promised; `cargo xtask e2e cache` builds and starts it.
//!
//! Arguments: `[--seconds N] [--flavor F] [--part P] [--build debug|release]`. The last line is "N passed, M failed", counted in parts. No fault can
//! be planted in a release build: that part is left out.

use std::io::Write as _;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use delphinus_e2e::cache_writes::{self, Layers};
use delphinus_e2e::exit_after;
use delphinus_sandbox::Flavor;

fn main() -> ExitCode {
    exit_after(work)
}

fn work() -> Result<bool> {
    let (mut seconds, mut only, mut part, mut is_release) = (300, None, None, false);
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        let value = words.next().with_context(|| format!("{word} needs a value"))?;
        match word.as_str() {
            "--seconds" => seconds = value.parse().context("--seconds needs a number")?,
            "--flavor" => only = Some(value),
            "--part" => part = Some(value),
            "--build" => is_release = value == "release",
            _ => bail!("{word} is not known"),
        }
    }
    let (mut passed, mut failed) = (0, 0);
    for flavor in [Flavor::MariaDb, Flavor::MySql] {
        if only.as_ref().is_some_and(|only| *only != flavor.to_string()) {
            continue;
        }
        for (name, layers) in parts() {
            if part.as_ref().is_some_and(|only| *only != name) {
                continue;
            }
            let is_faulty = matches!(layers, Layers::Faulty(_));
            if is_faulty && is_release {
                continue;
            }
            let lasts = Duration::from_secs(if is_faulty { seconds.min(30) } else { seconds });
            match cache_writes::run(flavor, lasts, layers) {
                Ok(report) => {
                    let is_right = (report.stale > 0) == is_faulty && report.hits > 0;
                    say(&format!("{flavor}, {layers:?}: {report}{}", if is_right { "" } else { " FAILED" }));
                    say(&format!("  counted: {}", report.counted));
                    report.told.iter().filter(|_| !is_faulty).for_each(|told| say(told));
                    if is_right { passed += 1 } else { failed += 1 }
                }
                Err(error) => {
                    say(&format!("{flavor}, {layers:?}: FAILED: {error:#}"));
                    failed += 1;
                }
            }
        }
    }
    say(&format!("{passed} passed, {failed} failed"));
    Ok(failed == 0)
}

/// All parts, with their names on the command line.
fn parts() -> Vec<(&'static str, Layers)> {
    let faults = cache_writes::FAULTS.map(|fault| ("faults", Layers::Faulty(fault)));
    let parts = [
        ("one", Layers::One),
        ("two", Layers::Two),
        ("stream", Layers::Stream),
        ("mixed", Layers::Mixed),
        ("moved", Layers::Moved),
    ];
    parts.into_iter().chain(faults).collect()
}

fn say(text: &str) {
    let _ = writeln!(std::io::stdout(), "{text}");
}
