//! The options of `cargo xtask e2e vip`.

use anyhow::Result;
use clap::Args;

use crate::{cargo, needs};

/// Options of `e2e vip`.
#[derive(Debug, Args)]
pub(super) struct VipArgs {
    /// The part that CI runs.
    #[arg(long)]
    quick: bool,
    /// Only this case, or with `--peers` a part of what is done; can be repeated.
    #[arg(long)]
    only: Vec<String>,
    /// Compare Delphinus with keepalived and HAProxy, and, on a group, with MySQL Router, instead. Each fault is done so many times,
    /// three without a number; the worst counts.
    #[arg(long, value_name = "ROUNDS", num_args = 0..=1, default_missing_value = "3", conflicts_with = "quick")]
    peers: Option<u32>,
    /// Write the table of docs/ha.md.
    #[arg(long, requires = "peers")]
    docs: bool,
}

impl VipArgs {
    /// Brings what it needs beside what all tests do.
    pub(super) fn ensure(&self) -> Result<()> {
        if self.peers.is_some() {
            needs::ensure_program("keepalived", "keepalived")?;
            needs::ensure_program("haproxy", "haproxy")?;
        } else {
            needs::ensure_program("faketime", "faketime")?;
        }
        Ok(())
    }

    /// The words for the program.
    pub(super) fn words(&self) -> Vec<String> {
        let mut words: Vec<String> = self.quick.then(|| "--quick".to_owned()).into_iter().collect();
        words.extend(self.only.iter().flat_map(|name| ["--only".to_owned(), name.clone()]));
        words.extend(self.peers.iter().flat_map(|rounds| ["--peers".to_owned(), rounds.to_string()]));
        if self.docs {
            words.extend(["--docs".to_owned(), cargo::root().join("docs/ha.md").display().to_string()]);
        }
        words
    }
}
