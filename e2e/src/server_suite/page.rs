//! Summaries for the terminal, and docs/server-suite.md with the results that it is made of.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

use crate::server_suite::Protocol;
use crate::server_suite::gate::{Came, Outcome};
use crate::server_suite::known::{DIFFERENCES, MOST};

const INTRODUCTION: &str = "\
# MariaDB's own test suite

<!-- Made by `cargo xtask e2e server-suite --docs` from e2e/server_suite/results.json. Change the text in
     e2e/src/server_suite/page.rs. -->

The server's authors test it with a suite of their own. Its part `main` runs here twice, straight to a MariaDB 10.11 and
through Delphinus, over Unix sockets, with the tests and programs of Debian's packages `mariadb-test` and
`mariadb-test-data`, chosen by `mariadb-test-run --extern`. Delphinus has a pool of two connections and `auth = \"backend\"`:
tests make users and log in as them. The variants are those of the suite: statements as text, and prepared (`--ps-protocol`).

A test that passes straight has to pass through Delphinus; one that does not is run once more, both ways, and has three times
as long for it, because some do not come to their end in time on a busy machine. It *differs* if the same comes of it, and is
*unsteady* if not. Each test finds the server as it was at first, with the options that the test asks for: where a test has changed
something, or wants other options, or goes the other way, the server begins anew. What differs on purpose is listed below with its
reason, at most 25 differences.

Some tests keep three or more sessions busy at the same time, with locks, transactions or temporary tables. They
need more connections than the gate's pool has, and get Delphinus' error 1203. They count as *crowded* if they pass
with a larger pool, and as different if not.

Left out are tests that stop the server or want more than one, as servers that are there already cannot be used for those, and
tests of servers that no proxy is put before: those that are read-only, listen elsewhere, take one connection at a time, or check
passwords with plugins that exist for the suite only.
Tests for other builds of the server, for its debugging aids, for example, are refused by the suite itself, or skip themselves.
Tests that fail straight expect something of the suite's own server that this one has not.

`cargo xtask e2e server-suite` runs it. `--quick` runs only those straight that fail through Delphinus, for a test that passes
through Delphinus got what the suite expects; and it leaves out those that do not pass straight according to the results that are
kept. `--only TEST` runs one test. With `--docs`, what was run replaces what is kept of the same tests. What failing tests say is
left in `target/server-suite`.
";

/// What one variant came to, in some lines.
pub fn summary(outcome: &Outcome) -> String {
    let count = |came: Came| outcome.count(&[came]);
    let mut text = format!(
        "{}: {} passed straight, {} of them through; {} differ, {} known, {} crowded, {} unsteady; {} failed straight, {} \
         skipped, {} s\n",
        outcome.protocol.word(),
        outcome.passed_straight(),
        count(Came::Passed),
        count(Came::Different),
        count(Came::Known),
        count(Came::Crowded),
        count(Came::Unsteady),
        count(Came::FailedStraight),
        count(Came::Skipped),
        outcome.took.as_secs()
    );
    for (name, said) in &outcome.said {
        let came = outcome.tests.get(name);
        let what = if came == Some(&Came::Unsteady) { "is unsteady; it failed once" } else { "differs" };
        let _ = writeln!(text, "\n{name} {what}:\n{said}");
    }
    for name in outcome.names(Came::NoDifference) {
        let _ = writeln!(text, "{name} is known to differ (e2e/src/server_suite/known.rs), and passes");
    }
    for (what, came) in
        [("differ", Came::Different), ("crowded", Came::Crowded), ("unsteady", Came::Unsteady)]
    {
        let names = outcome.names(came);
        if !names.is_empty() {
            let _ = writeln!(text, "{what}: {}", names.join(" "));
        }
    }
    text
}

/// What is kept of one variant.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
struct Record {
    /// Tests of `main` that cannot be run on a server that is there already.
    left_out: usize,
    tests: BTreeMap<Came, BTreeSet<String>>,
}

impl Record {
    /// What was run replaces what is known of the same tests.
    fn learn(&mut self, outcome: &Outcome) {
        if outcome.is_whole {
            self.tests.clear();
        }
        self.left_out = outcome.left_out;
        for (name, came) in &outcome.tests {
            self.tests.values_mut().for_each(|names| {
                names.remove(name);
            });
            self.tests.entry(*came).or_default().insert(name.clone());
        }
        self.tests.retain(|_, names| !names.is_empty());
    }

    fn count(&self, wanted: &[Came]) -> usize {
        wanted.iter().filter_map(|came| self.tests.get(came)).map(BTreeSet::len).sum()
    }

    fn all(&self) -> usize {
        self.left_out + self.tests.values().map(BTreeSet::len).sum::<usize>()
    }
}

/// By variant.
type Records = BTreeMap<String, Record>;

/// The tests that do not pass straight, as far as it is kept.
pub(super) fn in_vain(protocol: Protocol) -> Result<BTreeSet<String>> {
    let record = read()?.remove(protocol.word()).unwrap_or_default();
    let is_in_vain = |came: &Came| !Came::STRAIGHT.contains(came);
    Ok(record.tests.into_iter().filter(|(came, _)| is_in_vain(came)).flat_map(|(_, names)| names).collect())
}

/// Keeps these results in the place of older ones of the same variants and tests, and writes the page anew.
pub fn record(outcomes: &[Outcome], page: &Path) -> Result<()> {
    let file = results();
    let mut records = read()?;
    for outcome in outcomes {
        records.entry(outcome.protocol.word().to_owned()).or_default().learn(outcome);
    }
    fs::create_dir_all(file.parent().context("invariant: the file is in a folder")?)?;
    fs::write(&file, serde_json::to_string_pretty(&records)? + "\n")?;
    fs::write(page, document(&records)).with_context(|| format!("cannot write {}", page.display()))
}

fn read() -> Result<Records> {
    let file = results();
    let Ok(text) = fs::read_to_string(&file) else { return Ok(Records::new()) };
    serde_json::from_str(&text).with_context(|| format!("cannot read {}", file.display()))
}

fn results() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("server_suite/results.json")
}

fn document(records: &Records) -> String {
    let mut text = INTRODUCTION.to_owned();
    text.push_str(
        "\n| variant | tests | left out | refused | skip themselves | fail straight | passed straight | passed through | \
         differ | on purpose | crowded | unsteady |\n|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|\n",
    );
    if records.is_empty() {
        text.push_str("\nNo run is kept yet.\n");
    }
    for (variant, one) in records {
        let counts = [
            one.all(),
            one.left_out,
            one.count(&[Came::Refused]),
            one.count(&[Came::Skipped]),
            one.count(&[Came::FailedStraight]),
            one.count(&Came::STRAIGHT),
            one.count(&[Came::Passed, Came::NoDifference]),
            one.count(&[Came::Different]),
            one.count(&[Came::Known]),
            one.count(&[Came::Crowded]),
            one.count(&[Came::Unsteady]),
        ];
        let counts = counts.map(|count| count.to_string());
        let _ = writeln!(text, "| {variant} | {} |", counts.join(" | "));
    }
    text.push_str(&on_purpose());
    for (head, came) in LISTS {
        let lists = records.iter().filter_map(|(variant, one)| Some((variant, one.tests.get(&came)?)));
        let lists: Vec<String> = lists
            .map(|(variant, names)| {
                format!("- {variant}: {}\n", names.iter().cloned().collect::<Vec<_>>().join(", "))
            })
            .collect();
        if !lists.is_empty() {
            let _ = write!(text, "\n## {head}\n\n{}", lists.concat());
        }
    }
    text
}

fn on_purpose() -> String {
    let mut text = format!(
        "\n## What differs on purpose\n\n{} differences of at most {MOST}.\n\n\
         | what, and why | page | tests that show it |\n|---|---|---|\n",
        DIFFERENCES.len()
    );
    for one in DIFFERENCES {
        let _ = writeln!(text, "| {} | [{}]({}) | {} |", one.what, one.page, one.page, one.tests.join(", "));
    }
    text
}

/// The lists of names on the page.
const LISTS: [(&str, Came); 4] = [
    ("What differs", Came::Different),
    ("Crowded tests", Came::Crowded),
    ("Unsteady tests", Came::Unsteady),
    ("Tests that fail straight", Came::FailedStraight),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_is_made_of_the_results() {
        let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/server-suite.md");
        let records = read().unwrap();
        assert_eq!(
            fs::read_to_string(page).unwrap(),
            document(&records),
            "cargo xtask e2e server-suite --docs"
        );
    }

    #[test]
    fn a_part_that_runs_again_replaces_what_was_kept_of_it() {
        let outcome = |tests: &[(&str, Came)], is_whole| Outcome {
            tests: tests.iter().map(|(name, came)| ((*name).to_owned(), *came)).collect(),
            left_out: 1,
            is_whole,
            ..Outcome::new(Protocol::Plain)
        };
        let mut record = Record::default();
        record.learn(&outcome(&[("a", Came::Different), ("b", Came::Passed)], true));
        record.learn(&outcome(&[("a", Came::Passed)], false));
        assert_eq!((record.all(), record.count(&[Came::Passed]), record.tests.len()), (3, 2, 1));
        record.learn(&outcome(&[("c", Came::Skipped)], true));
        assert_eq!((record.all(), record.count(&Came::STRAIGHT)), (2, 0));
    }
}
