//! Summaries for the terminal, and docs/server-suite.md with the results that it is made of.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

use crate::server_suite::gate::Outcome;
use crate::server_suite::known::{KNOWN, MOST};

const INTRODUCTION: &str = "\
# MariaDB's own test suite

<!-- Made by `cargo xtask e2e server-suite --docs` from e2e/server_suite/results.json. Change the text in
     e2e/src/server_suite/page.rs. -->

The server's authors test it with a suite of their own. Its part `main` runs here twice, straight to a MariaDB 10.11 and
through Delphinus, over Unix sockets, with the tests and programs of Debian's packages `mariadb-test` and
`mariadb-test-data`, chosen by `mariadb-test-run --extern`. Delphinus has a pool of two connections and `auth = \"backend\"`:
tests make users and log in as them. The variants are those of the suite: statements as text, and prepared (`--ps-protocol`).

A test that passes straight has to pass through Delphinus; one that does not is run once more, both ways. It *differs* if the
same comes of it, and is *unsteady* if not. Each test finds the server as it was at first: where a test has changed
something, the server begins anew. What differs on purpose is listed below with its reason, at most 25 tests.

Some tests keep three or more sessions busy at the same time, with locks, transactions or temporary tables. They
need more connections than the gate's pool has, and get Delphinus' error 1203. They count as *crowded* if they pass
with a larger pool, and as different if not.

Left out are tests that want a server with other options or stop it, as servers that are there already cannot be used for those.
Tests for other builds of the server, for its debugging aids, for example, are refused by the suite itself. Tests that fail straight
expect something of the suite's own server that this one has not.

`cargo xtask e2e server-suite` runs it; `--only TEST` runs one test, `--quick` only those straight that fail through Delphinus. What failing tests say is left in `target/server-suite`.
";

/// What one variant came to, in some lines.
pub fn summary(outcome: &Outcome) -> String {
    let mut text = format!(
        "{}: {} passed straight, {} of them through; {} differ, {} known, {} crowded, {} unsteady; {} failed straight, {} \
         skipped, {} s\n",
        outcome.protocol.word(),
        outcome.straight.len(),
        outcome.through,
        outcome.differences.len(),
        outcome.known.len(),
        outcome.crowded.len(),
        outcome.unsteady.len(),
        outcome.failed_straight,
        outcome.skipped,
        outcome.took.as_secs()
    );
    for (name, said) in &outcome.differences {
        let _ = writeln!(text, "\n{name} differs:\n{said}");
    }
    for name in &outcome.no_difference {
        let _ = writeln!(text, "{name} is known to differ (e2e/src/server_suite/known.rs), and passes");
    }
    for (what, names) in [("crowded", &outcome.crowded), ("unsteady", &outcome.unsteady)] {
        if !names.is_empty() {
            let _ = writeln!(text, "{what}: {}", names.join(" "));
        }
    }
    text
}

/// What one variant came to.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Record {
    variant: String,
    /// Tests of `main`.
    all: usize,
    left_out: usize,
    refused: usize,
    skipped: usize,
    failed_straight: usize,
    passed_straight: usize,
    passed_through: usize,
    different: Vec<String>,
    known: Vec<String>,
    crowded: Vec<String>,
    unsteady: Vec<String>,
}

impl Record {
    fn of(outcome: &Outcome) -> Self {
        Self {
            variant: outcome.protocol.word().to_owned(),
            all: outcome.of.all,
            left_out: outcome.of.left_out,
            refused: outcome.of.refused,
            skipped: outcome.skipped,
            failed_straight: outcome.failed_straight,
            passed_straight: outcome.straight.len(),
            passed_through: outcome.through,
            different: outcome.differences.iter().map(|(name, _)| name.clone()).collect(),
            known: outcome.known.iter().map(|known| known.test.to_owned()).collect(),
            crowded: outcome.crowded.clone(),
            unsteady: outcome.unsteady.clone(),
        }
    }
}

/// Keeps these results in the place of older ones of the same variants, and writes the page anew.
pub fn record(outcomes: &[Outcome], page: &Path) -> Result<()> {
    let file = results();
    let mut records: BTreeMap<String, Record> = match fs::read_to_string(&file) {
        Ok(text) => serde_json::from_str(&text).with_context(|| format!("cannot read {}", file.display()))?,
        Err(_) => BTreeMap::new(),
    };
    records.extend(outcomes.iter().map(Record::of).map(|record| (record.variant.clone(), record)));
    fs::create_dir_all(file.parent().context("invariant: the file is in a folder")?)?;
    fs::write(&file, serde_json::to_string_pretty(&records)? + "\n")?;
    fs::write(page, document(&records)).with_context(|| format!("cannot write {}", page.display()))
}

fn results() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("server_suite/results.json")
}

fn document(records: &BTreeMap<String, Record>) -> String {
    let mut text = INTRODUCTION.to_owned();
    text.push_str(
        "\n| variant | tests | left out | refused | skip themselves | fail straight | passed straight | passed through | \
         differ | on purpose | crowded | unsteady |\n|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|\n",
    );
    if records.is_empty() {
        text.push_str("\nNo run is kept yet.\n");
    }
    for one in records.values() {
        let lists = [&one.different, &one.known, &one.crowded, &one.unsteady].map(Vec::len);
        let [different, known, crowded, unsteady] = lists;
        let _ = writeln!(
            text,
            "| {} | {} | {} | {} | {} | {} | {} | {} | {different} | {known} | {crowded} | {unsteady} |",
            one.variant,
            one.all,
            one.left_out,
            one.refused,
            one.skipped,
            one.failed_straight,
            one.passed_straight,
            one.passed_through,
        );
    }
    let _ = write!(text, "\n## What differs on purpose\n\n{} of at most {MOST} tests.\n", KNOWN.len());
    if !KNOWN.is_empty() {
        text.push_str("\n| test | variant | what, and why | page |\n|---|---|---|---|\n");
    }
    for one in KNOWN {
        let variant = one.only.map_or("both", |only| only.word());
        let _ =
            writeln!(text, "| {} | {variant} | {} | [{}]({}) |", one.test, one.reason, one.page, one.page);
    }
    for (head, pick) in LISTS {
        let lists = records.values().filter(|one| !pick(one).is_empty());
        let lists: Vec<_> =
            lists.map(|one| format!("- {}: {}\n", one.variant, pick(one).join(", "))).collect();
        if !lists.is_empty() {
            let _ = write!(text, "\n## {head}\n\n{}", lists.concat());
        }
    }
    text
}

type List = fn(&Record) -> &Vec<String>;

/// The lists of names on the page.
const LISTS: [(&str, List); 3] = [
    ("What differs", |one| &one.different),
    ("Crowded tests", |one| &one.crowded),
    ("Unsteady tests", |one| &one.unsteady),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_is_made_of_the_results() {
        let file = results();
        let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/server-suite.md");
        let records: BTreeMap<String, Record> =
            serde_json::from_str(&fs::read_to_string(file).unwrap()).unwrap();
        assert_eq!(
            fs::read_to_string(page).unwrap(),
            document(&records),
            "cargo xtask e2e server-suite --docs"
        );
    }
}
