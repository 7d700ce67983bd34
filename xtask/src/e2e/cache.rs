//! The options of `cargo xtask e2e cache`.

use std::path::Path;

use anyhow::Result;
use clap::Args;

use crate::cargo::cargo;
use crate::libtest;
use crate::steps::Tally;

/// The part that is tests at length.
const LIMITS: &str = "limits";

/// Options of `e2e cache`.
#[derive(Debug, Args)]
pub(super) struct CacheArgs {
    /// How long each part lasts, in seconds.
    #[arg(long, default_value_t = 300)]
    seconds: u64,
    /// Only these servers.
    #[arg(long, value_parser = ["mariadb", "mysql"])]
    flavor: Option<String>,
    /// Only this part.
    #[arg(long, value_parser = ["one", "two", "stream", "mixed", "moved", "faults", LIMITS])]
    part: Option<String>,
}

impl CacheArgs {
    /// True if answers are held against what was promised.
    pub(super) fn has_differential(&self) -> bool {
        self.part.as_deref() != Some(LIMITS)
    }

    /// True if it is tried how much the cache takes, and what it bears.
    pub(super) fn has_limits(&self) -> bool {
        self.part.as_deref().is_none_or(|part| part == LIMITS)
    }

    /// Ten times more answers than fit for 60 s, a thousand sessions that ask the same, layers and members that are killed.
    pub(super) fn run_limits(&self, proxy: &Path) -> Result<Tally> {
        let tests = ["--test", "cache", "--test", "cache_layers"];
        let mut command = cargo(&["test", "--workspace", "--no-fail-fast"]);
        // One kind of servers after the other: memory and time are measured.
        command.args(tests).args(["--", "--nocapture", "--test-threads=1"]).args(&self.flavor);
        command.env("DELPHINUS_BIN", proxy).env("DELPHINUS_CACHE_SECONDS", "60");
        command.env("DELPHINUS_CACHE_SESSIONS", "1000");
        libtest::run(command)
    }

    /// The words for the program.
    pub(super) fn words(&self, is_release: bool) -> Vec<String> {
        let mut words = vec!["--seconds".to_owned(), self.seconds.to_string()];
        words.extend(self.flavor.iter().flat_map(|flavor| ["--flavor".to_owned(), flavor.clone()]));
        words.extend(self.part.iter().flat_map(|part| ["--part".to_owned(), part.clone()]));
        let build = if is_release { "release" } else { "debug" };
        words.extend(["--build".to_owned(), build.to_owned()]);
        words
    }
}
