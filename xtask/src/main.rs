//! `cargo xtask`: the project's own commands, one file each.
//!
//! Nothing has to be installed for them but Rust; each verb brings what it needs.

mod bench;
mod cargo;
mod check;
mod demo;
mod docs;
mod e2e;
mod fuzz;
mod lanes;
mod libtest;
mod needs;
mod release;
mod steps;
mod test;
mod tidy;

use std::process::ExitCode;

use anyhow::Result;
use clap::{Parser, Subcommand};

/// The project's own commands.
#[derive(Debug, Parser)]
#[command(bin_name = "cargo xtask", arg_required_else_help = true, after_help = FIRST_STEPS)]
struct Args {
    #[command(subcommand)]
    verb: Verb,
}

const FIRST_STEPS: &str = "First steps:
  cargo xtask demo     a real cluster on this machine with the proxy in front of it
  cargo xtask check    before every commit
  cargo xtask test     everything, as CI runs it; installs what it needs";

#[derive(Debug, Subcommand)]
enum Verb {
    /// Build delphinus and start it in front of a real cluster on this machine.
    ///
    /// Installs what is missing (Debian packages, as root or with sudo), builds `delphinus` in release mode, starts
    /// a primary and two replicas on 127.0.0.1 in private folders, and prints how to connect and what to try.
    /// Ctrl-C stops everything and leaves nothing behind. Several demos can run at the same time.
    Demo(demo::DemoArgs),
    /// Quick checks without servers: format, clippy, tidy, documentation, unit tests.
    Check,
    /// Everything: what `check` does, tests against real servers and drivers, a short run of every fuzz target.
    ///
    /// Installs what the tests need: Debian packages (as root or with sudo) and MySQL 9.7 in a private folder.
    /// The last line is "N passed, M failed"; the exit code says the same.
    Test(test::TestArgs),
    /// The tests against real servers and drivers.
    E2e(e2e::E2eArgs),
    /// Fuzz everything that reads bytes from the network.
    Fuzz(fuzz::FuzzArgs),
    /// Measure Delphinus beside direct access, HAProxy, MySQL Router and ProxySQL, in one run.
    ///
    /// Installs what is missing (HAProxy from Debian, MySQL 9.7 with its Router in a private folder; ProxySQL where
    /// PROXYSQL_BIN names its program), starts everything on 127.0.0.1, and leaves nothing running. A whole run takes
    /// half an hour on two cores, --quick takes less than three minutes.
    Bench(bench::BenchArgs),
    /// Build the binary to hand out: profile-guided, trained by the benchmark.
    ///
    /// Installs what is missing (LLVM's tools from Debian, MySQL 9.7 in a private folder), builds a binary that counts,
    /// trains it with short runs of the benchmark, and builds the one that is laid out by the counts. The last line names
    /// it. It takes ten minutes on two cores. `cargo build --release` makes one that does the same, with more work for each statement.
    Release,
    /// The project's own rules: directions of dependencies, sizes, names, licences.
    Tidy,
    /// Write the reference pages anew from the source.
    Docs(docs::DocsArgs),
    /// What CI runs: the same as `test`.
    Ci,
}

fn main() -> ExitCode {
    match run(Args::parse().verb) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(verb: Verb) -> Result<ExitCode> {
    match verb {
        Verb::Demo(args) => return demo::run(args),
        Verb::Check => return check::run(),
        Verb::Test(args) => return test::run(&args),
        Verb::Ci => return test::run(&test::TestArgs::default()),
        Verb::E2e(args) => return e2e::run(&args),
        Verb::Bench(args) => return bench::run(&args),
        Verb::Release => return release::run(),
        Verb::Fuzz(args) => fuzz::run(&args)?,
        Verb::Tidy => tidy::run()?,
        Verb::Docs(args) => docs::run(&args)?,
    }
    Ok(ExitCode::SUCCESS)
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Args::command().debug_assert();
    }

    #[test]
    fn every_verb_says_what_it_does() {
        for verb in Args::command().get_subcommands() {
            assert!(verb.get_about().is_some(), "{} has no help", verb.get_name());
        }
    }
}
