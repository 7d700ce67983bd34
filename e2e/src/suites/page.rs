//! docs/drivers.md, made of the results that were kept.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use delphinus_sandbox::Flavor;

use crate::suites::ALL;
use crate::suites::record::{OrmRecord, Records, SuiteRecord, word};
use crate::suites::suite::Suite;

const INTRODUCTION: &str = "\
# The drivers' own test suites

<!-- Made by `cargo xtask e2e drivers --docs` and `cargo xtask e2e orm --docs` from e2e/suites/results.json. Change the
     text in e2e/src/suites/page.rs. -->

Every suite runs twice on the same server: straight to the primary, and then through Delphinus, which has a pool of two
backend connections. A test that passes straight has to pass through Delphinus; one that differs is run once more
by itself, both ways. It counts as flaky if it passes then, and as a new failure if not. A suite that cannot connect, does
not end, or passes too few tests counts as failed. What is *known* to differ is listed with its reason below.

There is one server and no replica: tests read what they have just written. *Logins* are those that the server has
seen during the run, the monitor's included: how far sessions share the two connections. *Pinned* is the part of the time of
all sessions in which they kept a connection for themselves, transactions apart: tests ask for locks, temporary tables and
cursors far more often than applications do, and wait for them.
";

const TABLE_HEAD: &str = "\
| driver | variant | tests | passed straight | passed through | new failures | known | flaky | logins straight → through | pinned |
|---|---|--:|--:|--:|--:|--:|--:|--:|--:|
";

const ORMS: &str = "
## ORMs

Programs that do what applications do (`e2e/suites/orm/`): models and migrations, sessions, transactions with savepoints, bulk
inserts, relations loaded in all ways, reflection; six threads, a pool of two connections. What they read is checked, and
less than 1 % of the time of their sessions may be spent pinned; a session that holds a lock on purpose proves in each run that
pins are seen.

| ORM | servers | sessions | their time | pinned |
|---|---|--:|--:|--:|
";

/// The page.
pub(crate) fn document(records: &Records) -> String {
    let mut text = INTRODUCTION.to_owned();
    for flavor in [Flavor::MariaDb, Flavor::MySql] {
        let _ = write!(text, "\n## {}\n\n{TABLE_HEAD}", name(word(flavor)));
        for suite in &ALL {
            text.extend(suite.variants(flavor, false).into_iter().map(|variant| {
                let variant = variant.to_string();
                let found = records.suites.iter().find(|one| {
                    one.suite == suite.key && one.flavor == word(flavor) && one.variant == variant
                });
                row(suite, &variant, found)
            }));
        }
    }
    text.push_str(ORMS);
    text.extend(records.orms.iter().map(orm_row));
    text.push_str("\n## Where the tests come from\n\n");
    for suite in &ALL {
        let _ = writeln!(text, "- {} (`--only {}`): {}.", suite.title, suite.key, suite.origin);
    }
    text.push_str(&revisions(records));
    text.push_str(&known(records));
    text.push_str(&lines_of(records, "New failures", |one| &one.new_failures));
    text.push_str(&lines_of(records, "Flaky", |one| &one.flaky));
    text.push_str(&pinned_for(records));
    text
}

fn row(suite: &Suite, variant: &str, record: Option<&SuiteRecord>) -> String {
    let title = suite.title;
    let Some(one) = record else { return format!("| {title} | {variant} | not run | | | | | | | |\n") };
    if let Some(reason) = &one.missing {
        return format!("| {title} | {variant} | {reason} | | | | | | | |\n");
    }
    format!(
        "| {title} | {variant} | {} | {} | {} | {} | {} | {} | {} → {} | {:.1} % |\n",
        one.tests,
        one.passed_straight,
        one.passed_through,
        one.new_failures.len(),
        one.known.len(),
        one.flaky.len(),
        one.logins_straight,
        one.logins_through,
        one.pinned_percent.values().sum::<f64>().abs()
    )
}

fn orm_row(one: &OrmRecord) -> String {
    let servers = name(&one.flavor);
    if one.failed {
        return format!("| {} | {servers} | failed | | |\n", one.title);
    }
    format!(
        "| {} | {servers} | {} | {:.0} s | {:.3} % |\n",
        one.title, one.sessions, one.connected_s, one.pinned_percent
    )
}

fn revisions(records: &Records) -> String {
    let of_suites = records.suites.iter().map(|one| one.revision.as_str());
    let all: BTreeSet<&str> = of_suites.chain(records.orms.iter().map(|one| one.revision.as_str())).collect();
    let list: Vec<&str> = all.into_iter().collect();
    format!("\nRun at these revisions (each result has its own in the file): {}.\n", list.join(", "))
}

fn known(records: &Records) -> String {
    let mut lines = BTreeSet::new();
    for one in &records.suites {
        for (test, why) in &one.known {
            lines.insert(format!("- {}: `{test}` {why}.\n", title(&one.suite)));
        }
    }
    section("Known differences", lines)
}

fn lines_of(records: &Records, head: &str, tests: fn(&SuiteRecord) -> &Vec<String>) -> String {
    let mut lines = BTreeSet::new();
    for one in &records.suites {
        for test in tests(one) {
            let (title, servers) = (title(&one.suite), name(&one.flavor));
            lines.insert(format!("- {title}, {servers}, {}: `{test}`\n", one.variant));
        }
    }
    section(head, lines)
}

fn pinned_for(records: &Records) -> String {
    let mut lines = BTreeSet::new();
    for one in &records.suites {
        let reasons: Vec<String> = one
            .pinned_percent
            .iter()
            .filter(|(_, percent)| **percent >= 0.1)
            .map(|(reason, percent)| format!("`{reason}` {percent:.1} %"))
            .collect();
        if !reasons.is_empty() && one.variant == "plain" {
            let (title, servers) = (title(&one.suite), name(&one.flavor));
            lines.insert(format!("- {title}, {servers}: {}\n", reasons.join(", ")));
        }
    }
    section("What the suites were pinned for (plain)", lines)
}

fn section(head: &str, lines: BTreeSet<String>) -> String {
    if lines.is_empty() {
        return String::new();
    }
    lines.into_iter().fold(format!("\n## {head}\n\n"), |text, line| text + &line)
}

fn title(key: &str) -> &str {
    ALL.iter().find(|suite| suite.key == key).map_or(key, |suite| suite.title)
}

fn name(word: &str) -> &'static str {
    if word == "mysql" { "MySQL 9.7" } else { "MariaDB 10.11" }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one() -> SuiteRecord {
        SuiteRecord {
            suite: "pymysql".to_owned(),
            flavor: "mariadb".to_owned(),
            variant: "plain".to_owned(),
            tests: 12,
            passed_straight: 11,
            passed_through: 10,
            new_failures: vec!["t::x".to_owned()],
            logins_straight: 7,
            logins_through: 3,
            pinned_percent: [("get_lock".to_owned(), 2.25)].into(),
            ..SuiteRecord::default()
        }
    }

    #[test]
    fn the_page_has_the_numbers_and_says_what_was_not_run() {
        let page = document(&Records { suites: vec![one()], orms: vec![] });
        assert!(page.contains("| plain | 12 | 11 | 10 | 1 | 0 | 0 | 7 → 3 | 2.2 % |"), "{page}");
        assert!(page.contains("`t::x`") && page.contains("`get_lock` 2.2 %"), "{page}");
        assert!(page.contains("| TLS | not run |"), "{page}");
    }

    #[test]
    fn the_page_is_made_of_the_results() {
        let file = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/drivers.md");
        let page = std::fs::read_to_string(file).unwrap();
        assert!(
            page == document(&Records::load().unwrap()),
            "run `cargo xtask e2e drivers --docs`, or see page.rs"
        );
    }
}
