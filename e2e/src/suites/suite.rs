//! One driver's suite: what it is, which variants it has, and how it is run.

use std::process::Command;
use std::time::Duration;

use anyhow::Result;
use delphinus_sandbox::Flavor;

use crate::programs::run_or_kill;
use crate::suites::target::{Target, Variant};
use crate::suites::verdicts::Verdicts;

/// How a suite can be told to compress.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Compression {
    /// The driver cannot, or its tests cannot be told to.
    Never,
    /// The same tests with compressed connections.
    Option,
    /// The suite runs its tests both ways by itself.
    Within,
}

/// A driver's test suite.
#[derive(Debug)]
pub(crate) struct Suite {
    /// What `--only` takes.
    pub(crate) key: &'static str,
    /// The driver and its version.
    pub(crate) title: &'static str,
    /// Whose tests these are, and where they come from.
    pub(crate) origin: &'static str,
    /// Schemas that must exist and be empty before a run, by the account's own rights.
    pub(crate) schemas: &'static [&'static str],
    pub(crate) compression: Compression,
    /// So many tests pass straight at least; with fewer it did not really run.
    pub(crate) fewest: usize,
    /// The servers that it is for.
    pub(crate) flavors: &'static [Flavor],
    /// Time for one run.
    pub(crate) limit: Duration,
    /// Tests that pass straight and cannot pass through a proxy, or not yet, each with the reason. They are in the
    /// report.
    pub(crate) known: &'static [(&'static str, &'static str)],
    /// Brings what is missing and makes the command that runs all tests, or one by its name.
    pub(crate) command: fn(&Target, Option<&str>) -> Result<Command>,
    /// Reads the results from what the command says.
    pub(crate) read: fn(&str) -> Verdicts,
}

/// One run of a suite.
#[derive(Debug)]
pub(crate) struct Run {
    pub(crate) verdicts: Verdicts,
    /// What it said.
    pub(crate) output: String,
    /// It ended by itself.
    pub(crate) has_ended: bool,
}

impl Suite {
    /// The variants to run on these servers.
    pub(crate) fn variants(&self, flavor: Flavor, is_plain: bool) -> Vec<Variant> {
        let is_possible = |variant: &Variant| {
            let only_plain = is_plain && (variant.tls || variant.compression);
            let can_compress = self.compression == Compression::Option || !variant.compression;
            self.flavors.contains(&flavor) && can_compress && !only_plain
        };
        Variant::ALL.into_iter().filter(is_possible).collect()
    }

    /// Runs it.
    pub(crate) fn run(&self, target: &Target, only: Option<&str>) -> Result<Run> {
        let mut command = (self.command)(target, only)?;
        let (status, output) = run_or_kill(&mut command, self.limit)?;
        Ok(Run { verdicts: (self.read)(&output), output, has_ended: status.is_some() })
    }
}

#[cfg(test)]
mod tests {
    use crate::suites::{go_sql_driver, mariadb_java, mysql_async};

    use super::*;

    #[test]
    fn variants_follow_from_what_a_suite_can() {
        assert_eq!(mysql_async::SUITE.variants(Flavor::MySql, false).len(), 4);
        assert_eq!(go_sql_driver::SUITE.variants(Flavor::MySql, false).len(), 2);
        assert_eq!(go_sql_driver::SUITE.variants(Flavor::MySql, true).len(), 1);
        assert_eq!(mariadb_java::SUITE.variants(Flavor::MySql, false), []);
    }
}
