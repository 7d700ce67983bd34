//! `cargo xtask bench`: the release build beside its peers, measured by the program of `bench/`; with `--micro`, the
//! instructions of single steps.

mod micro;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::Args;
use delphinus_sandbox::Flavor;

use crate::{cargo, release};

/// The experiment that is no workload.
const CACHE: &str = "cache";

/// Options of the benchmark; `bench/src/main.rs` reads them.
#[derive(Debug, Args)]
pub(crate) struct BenchArgs {
    /// Count the instructions of single steps instead, and compare them with the baseline in the repository.
    #[arg(long)]
    micro: bool,
    #[command(flatten)]
    micro_args: micro::MicroArgs,
    /// Measure only this workload; the beginning of a name is enough. May be repeated.
    ///
    /// point-select-text, point-select-prepared, sysbench-point-select-text, sysbench-point-select-prepared, read-only-text, read-only-prepared, read-write-text,
    /// read-write-prepared, transactions-text, transactions-prepared, states, states-hold-0, rows-1000, result-10mb, connect, idle-10000. `vip` alone: sysbench
    /// by a server's virtual IP, beside its own address and proxies, in network namespaces (as root); --docs writes docs/ha.md. `relay` alone: commits
    /// that wait for a copy, and replicas behind a relay (as root); --docs writes docs/relay.md.
    ///
    /// cache: the experiment about kept answers, by itself (as root)
    #[arg(long, value_name = "NAME")]
    only: Vec<String>,
    /// Measure only these systems: direct, relay, haproxy, router-ro, router-split, proxysql, delphinus. With --only cache: direct,
    /// no-cache, beside-database, beside-clients, two-layers, two-shards, proxysql, echo, redis.
    #[arg(long, value_name = "NAMES")]
    systems: Option<String>,
    /// The servers behind all systems: mysql, group, or mariadb (without MySQL Router).
    #[arg(long, value_name = "FLAVOR", default_value = "mysql")]
    flavor: Flavor,
    #[command(flatten)]
    cache: CacheArgs,
    #[command(flatten)]
    how: HowArgs,
    #[command(flatten)]
    files: FileArgs,
}

/// The experiment about kept answers.
#[derive(Debug, Args)]
#[expect(clippy::struct_field_names, reason = "they are options beside those of other parts")]
struct CacheArgs {
    /// With --only cache: rows of the table, instead of 1,000,000, or of 20,000 with --quick.
    #[arg(long, value_name = "N")]
    cache_rows: Option<u64>,
    /// With --only cache: clients at the same time, instead of 512.
    #[arg(long, value_name = "N")]
    cache_connections: Option<usize>,
    /// With --only cache: how long the run takes that looks whether the throughput stays, in seconds, instead of 300, or none with --quick.
    #[arg(long, value_name = "S")]
    cache_soak: Option<u64>,
}

/// What is built, and for how long it is measured.
#[derive(Debug, Args)]
struct HowArgs {
    /// A look in less than three minutes (building not included): 3 short rounds.
    #[arg(long)]
    quick: bool,
    /// Rounds, instead of 5, or of 3 with --quick.
    #[arg(long, value_name = "N")]
    rounds: Option<u16>,
    /// Measure the binary that `cargo xtask release` makes, and not that of `cargo build --release`.
    #[arg(long)]
    guided: bool,
}

/// Where the figures go, beside the terminal.
#[derive(Debug, Args)]
struct FileArgs {
    /// Write the results to FILE, as a JSON list.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Draw the processor time per statement into FILE, as SVG.
    #[arg(long, value_name = "FILE.svg")]
    plot: Option<PathBuf>,
    /// Write docs/bench.md and docs/bench.svg whatever was run; a full run of everything does so anyway. With --only cache: docs/cache.md and
    /// docs/cache.svg.
    #[arg(long)]
    docs: bool,
}

/// Builds what is measured and what measures, and runs it.
pub(crate) fn run(args: &BenchArgs) -> Result<ExitCode> {
    if args.micro {
        return micro::run(&args.micro_args);
    }
    let delphinus = if args.how.guided { release::build()? } else { build("delphinus-cli", "delphinus")? };
    let mut command = std::process::Command::new(build_program()?);
    command.args(arguments(args, &delphinus));
    cargo::announce(&command);
    let status = command.status().context("cannot start delphinus-bench")?;
    Ok(if status.success() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Builds the program that measures.
pub(crate) fn build_program() -> Result<PathBuf> {
    build("delphinus-bench", "delphinus-bench")
}

fn build(package: &str, program: &str) -> Result<PathBuf> {
    let command = cargo::cargo(&["build", "--release", "--package", package]);
    cargo::build_program(command, program).with_context(|| format!("{program} cannot be built"))
}

fn arguments(args: &BenchArgs, delphinus: &Path) -> Vec<String> {
    let file = |path: &PathBuf| path.display().to_string();
    let is_cache = args.only.iter().any(|name| name == CACHE);
    let mut words = Vec::new();
    words.extend(is_cache.then(|| CACHE.to_owned()));
    words.extend([format!("--delphinus={}", delphinus.display()), format!("--flavor={}", args.flavor)]);
    words.extend(args.how.quick.then(|| "--quick".to_owned()));
    words.extend(args.only.iter().filter(|_| !is_cache).map(|name| format!("--only={name}")));
    if is_cache {
        let CacheArgs { cache_rows, cache_connections, cache_soak } = &args.cache;
        words.extend(cache_rows.map(|rows| format!("--rows={rows}")));
        words.extend(cache_connections.map(|connections| format!("--connections={connections}")));
        words.extend(cache_soak.map(|seconds| format!("--soak={seconds}")));
    }
    words.extend(args.systems.iter().map(|names| format!("--systems={names}")));
    words.extend(args.how.rounds.map(|rounds| format!("--rounds={rounds}")));
    words.extend(args.files.json.iter().map(|path| format!("--json={}", file(path))));
    words.extend(args.files.plot.iter().map(|path| format!("--plot={}", file(path))));
    words.push(format!("--docs={}", cargo::root().join("docs").display()));
    words.extend(args.files.docs.then(|| "--write-docs".to_owned()));
    words
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Line {
        #[command(flatten)]
        bench: BenchArgs,
    }

    #[test]
    fn the_experiment_about_kept_answers_has_options_of_its_own() {
        let line = [
            "bench",
            "--only",
            "cache",
            "--cache-rows",
            "5",
            "--cache-connections",
            "6",
            "--cache-soak",
            "7",
        ];
        let args = Line::try_parse_from(line).unwrap().bench;
        let words = arguments(&args, Path::new("/d"));
        let wanted = ["cache", "--delphinus=/d", "--flavor=mysql", "--rows=5", "--connections=6", "--soak=7"];
        assert_eq!(words[..6], wanted);
    }

    #[test]
    fn every_option_is_passed_on() {
        let line = [
            "bench",
            "--quick",
            "--only",
            "a",
            "--only",
            "b",
            "--systems",
            "c,d",
            "--rounds",
            "2",
            "--flavor",
            "group",
            "--json",
            "j",
            "--plot",
            "p",
            "--docs",
        ];
        let args = Line::try_parse_from(line).unwrap().bench;
        let words = arguments(&args, Path::new("/d"));
        let wanted = [
            "--delphinus=/d",
            "--flavor=group",
            "--quick",
            "--only=a",
            "--only=b",
            "--systems=c,d",
            "--rounds=2",
            "--json=j",
            "--plot=p",
            &format!("--docs={}", cargo::root().join("docs").display()),
            "--write-docs",
        ];
        assert_eq!(words, wanted);
    }
}
