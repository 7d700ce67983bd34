//! What the gate has found, for a terminal and for `docs/drivers.md`.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use delphinus_sandbox::Flavor;

use crate::suites::gate::{Compared, Outcome};

const INTRODUCTION: &str = "\
# The drivers' own test suites

<!-- Made by `cargo xtask e2e drivers --docs`. Change the text in e2e/src/suites/report.rs. -->

Every suite runs twice on the same server: straight to the primary, and then through Delphinus, which has a pool of two
backend connections. A test that passes straight has to pass through Delphinus; one that differs is run once more
by itself, both ways. It counts as flaky if it passes then, and as a new failure if not. A suite that cannot connect, does
not end, or passes too few tests counts as failed. What is *known* to differ is listed with its reason below.

There is one server and no replica: tests read what they have just written. *Logins* are those that the server has
seen during the run, the monitor's included: how far sessions share the two connections.
The time that sessions were pinned is not in the table yet: nothing outside of the proxy can see it before there is an
admin side.
";

/// The page.
pub fn document(outcomes: &[Outcome]) -> String {
    let mut text = INTRODUCTION.to_owned();
    if outcomes.iter().all(|outcome| !outcome.variant.tls && !outcome.variant.compression) {
        text.push_str("\nThis was a run with `--plain`: without TLS and compression.\n");
    }
    for flavor in [Flavor::MariaDb, Flavor::MySql] {
        let rows: Vec<&Outcome> = outcomes.iter().filter(|outcome| outcome.flavor == flavor).collect();
        if !rows.is_empty() {
            let _ = write!(text, "\n## {}\n\n{TABLE_HEAD}", name(flavor));
            text.extend(rows.into_iter().map(row));
        }
    }
    text.push_str("\n## Where the tests come from\n\n");
    let mut seen: Vec<&str> = Vec::new();
    for outcome in outcomes {
        if !seen.contains(&outcome.key) {
            seen.push(outcome.key);
            let _ = writeln!(text, "- {} (`--only {}`): {}.", outcome.title, outcome.key, outcome.origin);
        }
    }
    text.push_str(&known(outcomes));
    text.push_str(&flaky(outcomes));
    text
}

fn known(outcomes: &[Outcome]) -> String {
    let all =
        outcomes.iter().flat_map(|outcome| outcome.result.iter().map(move |compared| (outcome, compared)));
    let all =
        all.flat_map(|(outcome, compared)| compared.known.iter().map(move |known| (outcome.title, known)));
    let lines: BTreeSet<String> =
        all.map(|(title, (test, why))| format!("- {title}: `{test}` {why}.\n")).collect();
    if lines.is_empty() {
        return String::new();
    }
    lines.into_iter().fold("\n## Known differences\n\n".to_owned(), |text, line| text + &line)
}

const TABLE_HEAD: &str = "\
| driver | variant | tests | passed straight | passed through | new failures | known | flaky | logins straight → through |
|---|---|--:|--:|--:|--:|--:|--:|--:|
";

fn row(outcome: &Outcome) -> String {
    let (title, variant) = (outcome.title, outcome.variant);
    if let Some(reason) = outcome.not_run {
        return format!("| {title} | {variant} | not run: {reason} | | | | | | |\n");
    }
    match &outcome.result {
        Err(_) => format!("| {title} | {variant} | failed | | | | | | |\n"),
        Ok(Compared { direct, through, new_failures, known, flaky }) => format!(
            "| {title} | {variant} | {} | {} | {} | {} | {} | {} | {} → {} |\n",
            direct.tests,
            direct.passed,
            through.passed,
            new_failures.len(),
            known.len(),
            flaky.len(),
            direct.logins,
            through.logins
        ),
    }
}

fn flaky(outcomes: &[Outcome]) -> String {
    let mut text = String::new();
    for outcome in outcomes {
        for name in outcome.result.iter().flat_map(|compared| &compared.flaky) {
            let _ = writeln!(text, "- {}, {} {}: `{name}`", outcome.title, name_of(outcome), outcome.variant);
        }
    }
    if text.is_empty() { text } else { format!("\n## Flaky in this run\n\n{text}") }
}

/// One suite's result, for a terminal. The first word is `ok`, `FAILED` or `NOT RUN`.
pub fn summary(outcome: &Outcome) -> String {
    let what = format!("{} on {}, {}", outcome.title, name_of(outcome), outcome.variant);
    if let Some(reason) = outcome.not_run {
        return format!("NOT RUN {what}: {reason}");
    }
    let compared = match &outcome.result {
        Err(error) => return format!("FAILED {what}: {error}"),
        Ok(compared) => compared,
    };
    let Compared { direct, through, new_failures, known, flaky } = compared;
    let verdict = if outcome.is_good() { "ok" } else { "FAILED" };
    let mut text = format!(
        "{verdict} {what}: {} tests, {} passed straight ({:.0} s), {} through ({:.0} s), {} new failures, {} known, {} flaky, logins {} → {}",
        direct.tests,
        direct.passed,
        direct.took.as_secs_f64(),
        through.passed,
        through.took.as_secs_f64(),
        new_failures.len(),
        known.len(),
        flaky.len(),
        direct.logins,
        through.logins
    );
    for (test, said) in new_failures {
        let _ = write!(text, "\n  new failure: {test}\n    {}", said.replace('\n', "\n    "));
    }
    for (test, why) in known {
        let _ = write!(text, "\n  known: {test}: it {why}");
    }
    for test in flaky {
        let _ = write!(text, "\n  flaky: {test}");
    }
    text
}

fn name_of(outcome: &Outcome) -> &'static str {
    name(outcome.flavor)
}

fn name(flavor: Flavor) -> &'static str {
    if flavor.is_mysql() { "MySQL 9.7" } else { "MariaDB 10.11" }
}

#[cfg(test)]
mod tests {
    use crate::suites::gate::Side;
    use crate::suites::target::Variant;

    use super::*;

    fn outcome(result: Result<Compared, String>) -> Outcome {
        let variant = Variant { tls: false, compression: false };
        Outcome {
            key: "k",
            title: "driver 1",
            origin: "o",
            flavor: Flavor::MariaDb,
            variant,
            result,
            not_run: None,
        }
    }

    #[test]
    fn what_failed_is_never_good_and_always_in_the_report() {
        let failures =
            Compared { new_failures: vec![("t".to_owned(), "why".to_owned())], ..Compared::default() };
        for result in [Err("no server".to_owned()), Ok(failures)] {
            let outcome = outcome(result);
            assert!(!outcome.is_good());
            assert!(summary(&outcome).starts_with("FAILED"), "{}", summary(&outcome));
        }
    }

    #[test]
    fn what_was_not_run_is_said() {
        let mut outcome = outcome(Ok(Compared::default()));
        outcome.not_run = Some("there is none");
        assert!(outcome.is_good());
        assert!(summary(&outcome).starts_with("NOT RUN"));
        assert!(document(&[outcome]).contains("not run: there is none"));
    }

    #[test]
    fn the_page_has_the_numbers() {
        let side = Side { tests: 12, passed: 11, failed: 1, logins: 7, ..Side::default() };
        let through = Side { logins: 3, ..side };
        let page = document(&[outcome(Ok(Compared { direct: side, through, ..Compared::default() }))]);
        assert!(page.contains("| driver 1 | plain | 12 | 11 | 11 | 0 | 0 | 0 | 7 → 3 |"), "{page}");
    }
}
