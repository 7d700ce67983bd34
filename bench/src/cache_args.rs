//! `delphinus-bench cache`: the command line of the experiment about kept answers.

use std::fs;
use std::io::Write;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result};
use clap::Args;
use delphinus_bench::{
    CacheOptions, Machine, Setup, Window, cache_json, cache_page, cache_plot, cache_table, run_cache,
};
use delphinus_sandbox::Flavor;

/// Options of the experiment.
#[derive(Debug, Args)]
pub(crate) struct CacheArgs {
    /// The `delphinus` binary to measure.
    #[arg(long, value_name = "FILE")]
    delphinus: PathBuf,
    /// Few rows and short windows, for a look.
    #[arg(long)]
    quick: bool,
    /// Only these set-ups: direct, no-cache, beside-database, beside-clients, two-layers, two-shards, proxysql, echo, redis.
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    systems: Vec<String>,
    /// Windows of each set-up and distribution.
    #[arg(long, value_name = "N")]
    rounds: Option<usize>,
    /// The server: mysql or mariadb.
    #[arg(long, value_name = "FLAVOR", default_value = "mysql")]
    flavor: Flavor,
    /// Rows of the table.
    #[arg(long, value_name = "N")]
    rows: Option<u64>,
    /// Clients at the same time.
    #[arg(long, value_name = "N", default_value_t = 512)]
    connections: usize,
    /// How long a packet is on its way from host to host, in microseconds.
    #[arg(long, value_name = "US", default_value_t = 200)]
    delay_us: u64,
    /// How long the run takes that looks whether the throughput stays, in seconds.
    #[arg(long, value_name = "S")]
    soak: Option<u64>,
    /// Where to write the results as JSON.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Where to draw the throughput, as SVG.
    #[arg(long, value_name = "FILE")]
    plot: Option<PathBuf>,
    /// The folder of the project's documents.
    #[arg(long, value_name = "FOLDER")]
    docs: Option<PathBuf>,
    /// Write the figures into docs/cache.md, and docs/cache.svg.
    #[arg(long, requires = "docs")]
    write_docs: bool,
}

/// True when everything that was measured went well.
pub(crate) fn run(args: &CacheArgs) -> Result<bool> {
    let report = run_cache(&options(args)?)?;
    let text = cache_table(&report);
    std::io::stdout().lock().write_all(text.as_bytes()).context("cannot show the table")?;
    let write = |file: &PathBuf, text: &str| {
        eprintln!("  written: {}", file.display());
        fs::write(file, text).with_context(|| format!("cannot write {}", file.display()))
    };
    if let Some(file) = &args.json {
        write(file, &(serde_json::to_string_pretty(&cache_json(&report))? + "\n"))?;
    }
    if let Some(file) = &args.plot {
        write(file, &cache_plot(&report))?;
    }
    if let Some(folder) = args.docs.as_ref().filter(|_| args.write_docs) {
        let file = folder.join("cache.md");
        let page = fs::read_to_string(&file).with_context(|| format!("cannot read {}", file.display()))?;
        write(&file, &cache_page(&page, &report, &Machine::look(folder))?)?;
        write(&folder.join("cache.svg"), &cache_plot(&report))?;
    }
    Ok(report.failures.is_empty() && !report.rows.is_empty())
}

fn options(args: &CacheArgs) -> Result<CacheOptions> {
    let named = |name: &String| {
        let names = Setup::ALL.map(Setup::name).join(", ");
        let found = Setup::ALL.into_iter().find(|setup| setup.name() == name);
        found.with_context(|| format!("no set-up is called {name:?}; there are: {names}"))
    };
    let chosen = args.systems.iter().map(named).collect::<Result<Vec<_>>>()?;
    let (warm_up, measure, rounds, rows, soak) =
        if args.quick { (500, 2_000, 1, 20_000, 0) } else { (2_000, 10_000, 3, 1_000_000, 300) };
    let setups = Setup::ALL.into_iter().filter(|setup| chosen.is_empty() || chosen.contains(setup));
    Ok(CacheOptions {
        setups: setups.collect(),
        flavor: args.flavor,
        delphinus: args.delphinus.clone(),
        rows: args.rows.unwrap_or(rows).max(1),
        connections: args.connections.max(2),
        delay: Duration::from_micros(args.delay_us),
        window: Window { warm_up: Duration::from_millis(warm_up), measure: Duration::from_millis(measure) },
        rounds: args.rounds.unwrap_or(rounds),
        soak: Duration::from_secs(args.soak.unwrap_or(soak)),
    })
}
