//! The program behind `cargo xtask bench`: reads the command line, runs, and writes what was found.

mod cache_args;

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, Result};
use clap::{Parser, Subcommand};
use delphinus_bench::{
    EchoArgs, Machine, Options, RelayArgs, Report, Schedule, StreamOptions, System, VipOptions, Workload,
    echo, json, page, plot, relay, run_all, run_stream, run_vip, stream_table, table, vip_table,
    write_marked,
};
use delphinus_sandbox::Flavor;

/// What is measured on machines of its own: what a virtual IP costs.
const VIP: &str = "vip";
/// And what a replication relay costs and brings.
const STREAM: &str = "relay";

/// Measures Delphinus beside its peers. `cargo xtask bench` builds and starts this.
#[derive(Debug, Parser)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
struct Args {
    #[command(subcommand)]
    own: Option<Own>,
    /// The `delphinus` binary to measure.
    #[arg(long, value_name = "FILE", required = true)]
    delphinus: Option<PathBuf>,
    /// Short rounds, for a look.
    #[arg(long)]
    quick: bool,
    /// A workload, or the beginning of names; may be repeated. `vip` alone: what a virtual IP costs; `relay` alone: what
    /// a replication relay costs and brings.
    #[arg(long, value_name = "NAME")]
    only: Vec<String>,
    /// A system; may be repeated, or a list with commas.
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    systems: Vec<System>,
    /// Rounds instead of 5, or 3 of a quick run.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=100))]
    rounds: Option<u16>,
    /// The servers: mysql, group, or mariadb (without MySQL Router).
    #[arg(long, value_name = "FLAVOR", default_value = "mysql")]
    flavor: Flavor,
    /// Where to write the results as JSON.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Where to draw the processor time per statement, as SVG.
    #[arg(long, value_name = "FILE")]
    plot: Option<PathBuf>,
    /// The folder of the project's documents: a whole full run, or any with --write-docs, writes its page there.
    #[arg(long, value_name = "FOLDER")]
    docs: Option<PathBuf>,
    /// Write the page whatever was run.
    #[arg(long, requires = "docs")]
    write_docs: bool,
}

/// What this program is to itself.
#[derive(Debug, Subcommand)]
enum Own {
    /// The system `relay`: passes on bytes.
    Relay(RelayArgs),
    /// The limit of the experiment about kept answers: gives the same bytes to each command.
    Echo(EchoArgs),
    /// The experiment about kept answers. Needs root: its hosts are network namespaces.
    Cache(Box<cache_args::CacheArgs>),
}

fn main() -> ExitCode {
    match run(&Args::parse()) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// True when everything that was measured went well.
fn run(args: &Args) -> Result<bool> {
    match &args.own {
        Some(Own::Relay(args)) => return relay(args).map(|()| true),
        Some(Own::Echo(args)) => return echo(args).map(|()| true),
        Some(Own::Cache(args)) => return cache_args::run(args),
        None => {}
    }
    let delphinus = args.delphinus.clone().context("no --delphinus")?;
    let rounds = args.rounds.map(usize::from);
    if args.only == [VIP] {
        return measure_vip(args, delphinus);
    }
    if args.only == [STREAM] {
        return measure_stream(args, delphinus);
    }
    let is_chosen = |system: &System| args.systems.is_empty() || args.systems.contains(system);
    let options = Options {
        workloads: Workload::chosen(&args.only)?,
        systems: System::ALL.into_iter().filter(is_chosen).collect(),
        schedule: if args.quick { Schedule::quick(rounds) } else { Schedule::full(rounds) },
        flavor: args.flavor,
        delphinus,
    };
    let report = run_all(&options)?;
    show(&report)?;
    if let Some(file) = &args.json {
        write(file, &(serde_json::to_string_pretty(&json(&report.results))? + "\n"))?;
    }
    if let Some(file) = &args.plot {
        write(file, &plot(&report.results))?;
    }
    let is_whole = !args.quick && args.only.is_empty() && args.systems.is_empty();
    if let Some(folder) = args.docs.as_ref().filter(|_| is_whole || args.write_docs) {
        write(&folder.join("bench.md"), &page(&report, &Machine::look(folder)))?;
        write(&folder.join("bench.svg"), &plot(&report.results))?;
    }
    Ok(report.results.failures.is_empty() && !report.results.rows.is_empty())
}

/// What a virtual IP costs has machines of its own.
fn measure_vip(args: &Args, delphinus: PathBuf) -> Result<bool> {
    let (rounds, seconds) = if args.quick { (2, 2) } else { (12, 3) };
    let options = VipOptions {
        delphinus,
        flavor: args.flavor,
        rounds: args.rounds.map_or(rounds, usize::from),
        measure: Duration::from_secs(seconds),
    };
    let report = run_vip(&options)?;
    let folder = args.docs.as_deref().unwrap_or(Path::new("."));
    let table = vip_table(&report, &Machine::look(folder));
    std::io::stdout().lock().write_all(table.as_bytes()).context("cannot show the table")?;
    if args.write_docs {
        write_marked(&folder.join("ha.md"), VIP, &table)?;
    }
    if !report.is_free() {
        eprintln!("the virtual IP costs more than 1 %, and more than the noise");
    }
    // A short look has too few rounds to judge.
    Ok(args.quick || report.is_free())
}

/// A replication relay has machines of its own, too.
fn measure_stream(args: &Args, delphinus: PathBuf) -> Result<bool> {
    let (rounds, seconds) = if args.quick { (1, 2) } else { (5, 5) };
    let options = StreamOptions {
        delphinus,
        rounds: args.rounds.map_or(rounds, usize::from),
        measure: Duration::from_secs(seconds),
    };
    let report = run_stream(&options)?;
    let folder = args.docs.as_deref().unwrap_or(Path::new("."));
    let table = stream_table(&report, &Machine::look(folder));
    std::io::stdout().lock().write_all(table.as_bytes()).context("cannot show the table")?;
    if args.write_docs {
        write_marked(&folder.join("relay.md"), STREAM, &table)?;
    }
    let missed = report.missed();
    for line in &missed {
        eprintln!("not reached: {line}");
    }
    // A short look has too few rounds to judge.
    Ok(args.quick || missed.is_empty())
}

fn show(report: &Report) -> Result<()> {
    let mut stdout = std::io::stdout().lock();
    let text = table(&report.results);
    stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()).context("cannot show the table")
}

fn write(file: &Path, text: &str) -> Result<()> {
    fs::write(file, text).with_context(|| format!("cannot write {}", file.display()))?;
    eprintln!("  written: {}", file.display());
    Ok(())
}
