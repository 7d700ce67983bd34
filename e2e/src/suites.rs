//! The test suites of drivers as a gate: each runs straight to the primary and then through Delphinus, and nothing
//! may fail there that passes here.
//!
//! One file for each suite says where its tests come from, how they are started and how their results are read. The
//! gate knows nothing of drivers, and the suites know nothing of the proxy.

mod arena;
mod gate;
mod globals;
mod go_sql_driver;
mod mariadb_java;
mod mysql_async;
mod mysqlclient;
mod orm;
mod own;
mod page;
mod pinned;
mod pymysql;
mod python;
mod record;
mod report;
mod suite;
mod target;
mod verdicts;

use anyhow::{Result, ensure};
use delphinus_sandbox::Flavor;

pub use gate::Outcome;
pub use orm::{OrmOutcome, run_orms};
pub use pinned::PinnedTime;
pub use record::record;
pub use report::summary;
pub use target::Variant;

use crate::suites::arena::Arena;
use crate::suites::suite::Suite;

/// All suites, the quick ones first.
const ALL: [Suite; 9] = [
    mysqlclient::SUITE,
    pymysql::SUITE,
    go_sql_driver::SUITE,
    mysql_async::SUITE,
    own::NODE,
    own::CONNECTOR_PYTHON,
    own::CONNECTOR_PYTHON_PURE,
    own::CONNECTOR_J,
    mariadb_java::SUITE,
];

/// What to run.
#[derive(Debug, Clone, Default)]
pub struct Selection {
    /// Suites by their keys; all if empty.
    pub suites: Vec<String>,
    /// Kinds of servers; MariaDB and MySQL if empty.
    pub flavors: Vec<Flavor>,
    /// Only the plain variant: no TLS, no compression.
    pub is_plain: bool,
    /// Variants by their names, as `TLS, compressed`; all if empty.
    pub variants: Vec<String>,
}

impl Selection {
    fn suites(&self) -> Result<Vec<&'static Suite>> {
        for key in &self.suites {
            let keys = ALL.map(|suite| suite.key);
            ensure!(keys.contains(&key.as_str()), "no suite {key}; there are {}", keys.join(", "));
        }
        let wanted =
            |suite: &&Suite| self.suites.is_empty() || self.suites.iter().any(|key| key == suite.key);
        Ok(ALL.iter().filter(wanted).collect())
    }

    fn has(&self, variant: Variant) -> bool {
        self.variants.is_empty() || self.variants.iter().any(|name| variant.is_named(name))
    }

    fn check_variants(&self) -> Result<()> {
        for name in &self.variants {
            let names = Variant::ALL.map(|one| format!("\"{one}\"")).join(", ");
            ensure!(
                Variant::ALL.iter().any(|one| one.is_named(name)),
                "no variant {name}; there are {names}"
            );
        }
        Ok(())
    }
}

/// Runs the suites one after the other and calls `seen` after each run.
pub fn run(selection: &Selection, mut seen: impl FnMut(&Outcome)) -> Result<Vec<Outcome>> {
    let suites = selection.suites()?;
    selection.check_variants()?;
    let both = [Flavor::MariaDb, Flavor::MySql];
    let flavors = if selection.flavors.is_empty() { &both[..] } else { &selection.flavors };
    let mut outcomes = Vec::new();
    for flavor in flavors {
        let arena = Arena::start(*flavor)?;
        for suite in &suites {
            let variants = suite.variants(*flavor, selection.is_plain);
            for variant in variants.into_iter().filter(|variant| selection.has(*variant)) {
                let outcome = gate::run(suite, variant, &arena);
                seen(&outcome);
                outcomes.push(outcome);
            }
        }
    }
    ensure!(
        !outcomes.is_empty(),
        "no suite was run: not all suites run on both kinds of servers and in all variants"
    );
    Ok(outcomes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_suite_is_a_mistake_and_none_means_all() {
        assert_eq!(Selection::default().suites().unwrap().len(), ALL.len());
        let one = Selection { suites: vec!["pymysql".to_owned()], ..Selection::default() };
        assert_eq!(one.suites().unwrap().len(), 1);
        let wrong = Selection { suites: vec!["pymysq".to_owned()], ..Selection::default() };
        assert!(wrong.suites().is_err());
    }

    #[test]
    fn a_variant_is_named_as_the_page_does() {
        let both = Variant { tls: true, compression: true };
        let only = Selection { variants: vec!["TLS, compressed".to_owned()], ..Selection::default() };
        assert!(only.has(both) && Selection::default().has(both));
        assert!(!only.has(Variant { tls: true, compression: false }));
        let lower = Selection { variants: vec!["tls, compressed".to_owned()], ..Selection::default() };
        assert!(lower.has(both) && lower.check_variants().is_ok());
        let wrong = Selection { variants: vec!["tls,compressed".to_owned()], ..Selection::default() };
        let error = wrong.check_variants().unwrap_err().to_string();
        assert!(error.contains("\"plain\", \"TLS\", \"compressed\", \"TLS, compressed\""), "{error}");
    }

    #[test]
    fn every_suite_runs_on_both_servers_or_says_why_not() {
        for suite in &ALL {
            assert!(!suite.variants(Flavor::MariaDb, false).is_empty(), "{}", suite.key);
        }
    }
}
