//! What the last run of each suite came to, kept in `suites/results.json`: runs of single suites add up to one page.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};
use delphinus_sandbox::Flavor;
use serde::{Deserialize, Serialize};

use crate::suites::gate::Outcome;
use crate::suites::orm::OrmOutcome;
use crate::suites::page;

/// All results.
#[derive(Debug, Default, Clone, Serialize, Deserialize)]
pub(crate) struct Records {
    pub(crate) suites: Vec<SuiteRecord>,
    pub(crate) orms: Vec<OrmRecord>,
}

/// One suite in one variant on one kind of servers.
#[derive(Debug, Default, Clone, Serialize, Deserialize)]
pub(crate) struct SuiteRecord {
    pub(crate) suite: String,
    pub(crate) flavor: String,
    pub(crate) variant: String,
    /// The revision of this project that was run.
    pub(crate) revision: String,
    /// Why there is no result.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) missing: Option<String>,
    pub(crate) tests: usize,
    pub(crate) passed_straight: usize,
    pub(crate) passed_through: usize,
    pub(crate) new_failures: Vec<String>,
    /// Tests that are known to differ, with the reasons.
    pub(crate) known: BTreeMap<String, String>,
    pub(crate) flaky: Vec<String>,
    pub(crate) logins_straight: u64,
    pub(crate) logins_through: u64,
    /// Parts of the sessions' time that were spent pinned, by reason, in percent.
    pub(crate) pinned_percent: BTreeMap<String, f64>,
}

/// One ORM on one kind of servers.
#[derive(Debug, Default, Clone, Serialize, Deserialize)]
pub(crate) struct OrmRecord {
    pub(crate) title: String,
    pub(crate) flavor: String,
    pub(crate) revision: String,
    pub(crate) failed: bool,
    pub(crate) sessions: u64,
    pub(crate) connected_s: f64,
    pub(crate) pinned_percent: f64,
}

/// The word for it in the file.
pub(crate) fn word(flavor: Flavor) -> &'static str {
    if flavor.is_mysql() { "mysql" } else { "mariadb" }
}

impl SuiteRecord {
    fn of(outcome: &Outcome, revision: &str) -> Self {
        let mut record = Self {
            suite: outcome.key.to_owned(),
            flavor: word(outcome.flavor).to_owned(),
            variant: outcome.variant.to_string(),
            revision: revision.to_owned(),
            missing: outcome.not_run.map(str::to_owned),
            ..Self::default()
        };
        let compared = match &outcome.result {
            Ok(compared) => compared,
            Err(error) => {
                let first = error.lines().next().unwrap_or_default();
                record.missing = Some(format!("failed: {first}"));
                return record;
            }
        };
        record.tests = compared.direct.tests;
        record.passed_straight = compared.direct.passed;
        record.passed_through = compared.through.passed;
        record.new_failures = compared.new_failures.iter().map(|(name, _)| name.clone()).collect();
        record.known = compared.known.iter().map(|(name, why)| (name.clone(), (*why).to_owned())).collect();
        record.flaky.clone_from(&compared.flaky);
        record.logins_straight = compared.direct.logins;
        record.logins_through = compared.through.logins;
        let connected = compared.pinned.connected.as_secs_f64();
        let percent = |seconds: f64| (100_000.0 * seconds / connected).round() / 1000.0;
        let by_reason = compared.pinned.by_reason.iter().filter(|_| connected > 0.0);
        record.pinned_percent =
            by_reason.map(|(reason, time)| (reason.clone(), percent(time.as_secs_f64()))).collect();
        record
    }

    fn is_about(&self, other: &Self) -> bool {
        (&self.suite, &self.flavor, &self.variant) == (&other.suite, &other.flavor, &other.variant)
    }
}

impl OrmRecord {
    fn of(outcome: &OrmOutcome, revision: &str) -> Self {
        let time = outcome.result.as_ref().ok();
        Self {
            title: outcome.title.to_owned(),
            flavor: word(outcome.flavor).to_owned(),
            revision: revision.to_owned(),
            failed: !outcome.is_good(),
            sessions: time.map_or(0, |time| time.sessions),
            connected_s: time.map_or(0.0, |time| time.connected.as_secs_f64().round()),
            pinned_percent: time.map_or(0.0, |time| (time.percent() * 1000.0).round() / 1000.0),
        }
    }
}

fn file() -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("suites/results.json")
}

impl Records {
    /// Those of the runs so far.
    pub(crate) fn load() -> Result<Self> {
        let text = fs::read_to_string(file()).context("no results")?;
        serde_json::from_str(&text).context("suites/results.json is not what this program writes")
    }

    fn save(&self, page: &Path) -> Result<()> {
        let mut text = serde_json::to_string_pretty(self)?;
        text.push('\n');
        fs::write(file(), text)?;
        fs::write(page, page::document(self)).with_context(|| format!("cannot write {}", page.display()))
    }
}

/// Keeps these results in the place of older ones of the same suites and variants, and writes the page anew.
pub fn record(suites: &[Outcome], orms: &[OrmOutcome], page: &Path) -> Result<()> {
    let mut records = if file().exists() { Records::load()? } else { Records::default() };
    let revision = revision();
    for new in suites.iter().map(|outcome| SuiteRecord::of(outcome, &revision)) {
        records.suites.retain(|old| !old.is_about(&new));
        records.suites.push(new);
    }
    for new in orms.iter().map(|outcome| OrmRecord::of(outcome, &revision)) {
        records.orms.retain(|old| (&old.title, &old.flavor) != (&new.title, &new.flavor));
        records.orms.push(new);
    }
    records.suites.sort_by(|a, b| (&a.suite, &a.flavor, &a.variant).cmp(&(&b.suite, &b.flavor, &b.variant)));
    records.orms.sort_by(|a, b| (&a.flavor, &a.title).cmp(&(&b.flavor, &b.title)));
    records.save(page)
}

/// The commit that was run, as far as git knows.
fn revision() -> String {
    let mut git = Command::new("git");
    git.current_dir(env!("CARGO_MANIFEST_DIR")).args(["rev-parse", "--short=10", "HEAD"]);
    let said = git.output().ok().filter(|done| done.status.success());
    said.map_or_else(|| "unknown".to_owned(), |done| String::from_utf8_lossy(&done.stdout).trim().to_owned())
}
