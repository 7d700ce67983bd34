//! `cargo xtask e2e`: the tests of `e2e/` against real servers and drivers.

mod cache;
mod relay;
mod see;
mod vip;

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use anyhow::{Context, Result};
use clap::{Args, Subcommand};

use crate::cargo::{self, cargo};
use crate::libtest;
use crate::needs;
use crate::steps::{Steps, Tally};
use crate::test::run_tests;
use vip::VipArgs;

/// The program that runs the drivers' suites.
const SUITES: &str = "delphinus-driver-suites";
/// The program that runs MariaDB's own suite.
const SERVER_SUITE: &str = "delphinus-server-suite";
/// The program that measures failovers.
const FAILOVER: &str = "delphinus-failover";
/// The program that attacks.
const HOSTILE: &str = "delphinus-hostile";
/// The program that changes what runs.
const CHANGE: &str = "delphinus-change";
/// The program that compares what operators see.
const SEE: &str = "delphinus-see";
/// The program that has replicas follow relays.
const RELAY: &str = "delphinus-streams";
/// The program that asks the operators' tables.
const TABLES: &str = "delphinus-crowd";
/// The program that reads and writes what is cached.
const CACHE: &str = "delphinus-kept";
/// The program that moves virtual IPs.
const VIP: &str = "delphinus-addresses";

/// The program that moves the primary's role.
const HA: &str = "delphinus-ha";

/// Options of `e2e`.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct E2eArgs {
    /// A file of e2e/tests without its ending, or a part of a test's name; all tests without it.
    name: Option<String>,
    /// Test the release build.
    #[arg(long, global = true)]
    release: bool,
    #[command(subcommand)]
    part: Option<Part>,
}

#[derive(Debug, Subcommand)]
enum Part {
    /// The drivers' own test suites, straight to a server and then through Delphinus.
    ///
    /// What passes straight has to pass through Delphinus, which has a pool of two connections. Brings the suites from
    /// package registries and Debian's sources into the cache; a whole run takes more than half an hour.
    Drivers(DriversArgs),
    /// MariaDB's own test suite, straight to a server and through Delphinus, which has a pool of two connections.
    ///
    /// The tests of `main` that can run on a server that is there already, from Debian's packages; what passes straight has to
    /// pass through. A whole run takes about an hour.
    ServerSuite(ServerSuiteArgs),
    /// ORMs in ordinary use through Delphinus: what they read is right, and they are pinned less than 1 % of the time.
    Orm(OrmArgs),
    /// The differential test of session state at length: twenty sessions do the same directly and through Delphinus, which
    /// has a pool of two connections.
    ///
    /// 100,000 steps take about a quarter of an hour for each kind of servers. What differs is made a short script.
    SessionState(SessionStateArgs),
    /// What a failover costs: clients append to lists through Delphinus while servers die, hang, flap, fall behind or are
    /// cut off, and their history is judged. Lost, doubled, stale: none of that may be found.
    ///
    /// On MariaDB and MySQL (asynchronous and semi-synchronous) with an outside tool that promotes a replica, and on MySQL Group
    /// Replication, there through MySQL Router, too. A run of each takes about half an hour.
    Failover(FailoverArgs),
    /// Hostile clients beside ordinary ones: how much memory the proxy takes, which has a limit, and how long the others
    /// wait, before, during and after each attack. About ten minutes.
    Hostile(HostileArgs),
    /// What operators change while sysbench and other clients work: backends, the file, rules, passwords, pauses, one of two
    /// proxies. Errors are counted by the clients, and there may be none. About twenty minutes.
    Change(ChangeArgs),
    /// The proxy moves the primary's role itself, and replaces primaries that are killed, while clients and sysbench work: errors, what
    /// is lost, and how long writes wait. An hour and a half; ten minutes with `--quick`.
    Ha(HaArgs),
    /// The operators' tables while ten thousand clients are connected, and asked by a thousand operators at once: time and memory
    /// are bounded, and ordinary clients see no error. Two minutes.
    Tables(TablesArgs),
    /// Virtual IPs in network namespaces: proxies, and agents on the hosts of MariaDB servers, are killed, hang, are cut off and stop;
    /// no address is ever in two places. It needs root. Two minutes; ten with `--peers`, which does the same to keepalived with HAProxy.
    Vip(VipArgs),
    /// What operators see of statements: all figures of one run agree, percentiles are those of the client, memory has its bound, no
    /// secret is shown, and what it costs. Of a release build. Twenty minutes.
    See(see::SeeArgs),
    /// Replication relays: MySQL and MariaDB replicas follow them while they are killed, while the log rotates, by GTID and by position, and
    /// relays behind relays. Half an hour; a quarter with `--quick`.
    Relay(relay::RelayArgs),
    /// Answers that are kept, held against what was promised: twenty sessions read and write what tables, views, triggers and foreign
    /// keys there are, one replica is behind. No answer may lack a write that was acknowledged. Five minutes for each kind of servers,
    /// with one and with two layers, with half of the writes past the proxy, and while the primary's role moves; faults that are planted
    /// have to be found. Then: ten times more answers than fit, a thousand sessions with one question, layers that are killed.
    Cache(cache::CacheArgs),
}

/// Options of `e2e ha`.
#[derive(Debug, Args)]
struct HaArgs {
    /// Three times instead of fifty.
    #[arg(long)]
    quick: bool,
    /// So often.
    #[arg(long, default_value_t = 50)]
    rounds: u32,
    /// Only this; can be repeated. The parts of "relay": a relay in the proxy alone acknowledges.
    #[arg(long, value_parser = ["switchover", "kill", "actor-killed", "relay", "relay-killed", "relay-switchover"])]
    part: Vec<String>,
    /// Only these servers; can be repeated. A wrong name lists them.
    #[arg(long)]
    servers: Vec<String>,
    /// Write the table of docs/switchover.md.
    #[arg(long)]
    docs: bool,
}

/// Options of `e2e tables`.
#[derive(Debug, Args)]
struct TablesArgs {
    /// How many clients are connected.
    #[arg(long, default_value_t = 10_000)]
    clients: u32,
    /// Write the table of docs/operators-tables.md.
    #[arg(long)]
    docs: bool,
}

/// Options of `e2e change`.
#[derive(Debug, Args)]
struct ChangeArgs {
    /// A few rounds of each change: five minutes.
    #[arg(long)]
    quick: bool,
    /// Only this change; can be repeated. A wrong name lists them.
    #[arg(long)]
    only: Vec<String>,
    /// Only these servers.
    #[arg(long, value_parser = ["mariadb", "mysql"])]
    flavor: Option<String>,
    /// Write the table of docs/admin.md.
    #[arg(long)]
    docs: bool,
}

/// Options of `e2e hostile`.
#[derive(Debug, Args)]
struct HostileArgs {
    /// Only this attack; can be repeated. A wrong name lists them.
    #[arg(long)]
    only: Vec<String>,
    /// Only these servers.
    #[arg(long, value_parser = ["mariadb", "mysql"])]
    flavor: Option<String>,
    /// Write the table of docs/limits.md.
    #[arg(long)]
    docs: bool,
}

/// Options of `e2e failover`.
#[derive(Debug, Args)]
struct FailoverArgs {
    /// How often each fault is done.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    runs: u32,
    /// Only these servers; can be repeated. A wrong name lists them.
    #[arg(long)]
    servers: Vec<String>,
    /// Only through this proxy; can be repeated. A wrong name lists them.
    #[arg(long)]
    proxy: Vec<String>,
    /// Only this fault; can be repeated. A wrong name lists them.
    #[arg(long)]
    fault: Vec<String>,
    /// Keep the runs (e2e/failover/results.json), in the place of earlier ones of the same kind, and write the table of
    /// docs/failover.md of all that is kept.
    #[arg(long)]
    docs: bool,
    /// Count the runs that are kept already, and do only what is left.
    #[arg(long, requires = "docs")]
    resume: bool,
}

/// Options of `e2e server-suite`.
#[derive(Debug, Args)]
struct ServerSuiteArgs {
    /// Only this test, without the suite's name; can be repeated.
    #[arg(long)]
    only: Vec<String>,
    /// Only this variant: plain or ps-protocol; can be repeated.
    #[arg(long)]
    variant: Vec<String>,
    /// Run only those tests straight, too, that fail through Delphinus, and leave out those that are known not to pass
    /// straight: half the time.
    #[arg(long)]
    quick: bool,
    /// How many servers run tests at the same time.
    #[arg(long, default_value_t = 2)]
    servers: u32,
    /// Keep the results of what is run (e2e/server_suite/results.json) and write docs/server-suite.md.
    #[arg(long)]
    docs: bool,
}

/// Options of `e2e orm`.
#[derive(Debug, Args)]
struct OrmArgs {
    /// Only these servers: mariadb or mysql.
    #[arg(long)]
    flavor: Option<String>,
    /// Keep the results and write them to docs/drivers.md.
    #[arg(long)]
    docs: bool,
}

/// Options of `e2e session-state`.
#[derive(Debug, Args)]
struct SessionStateArgs {
    /// Steps of all sessions together.
    #[arg(long, default_value_t = 100_000)]
    steps: u32,
    /// What the steps are made from; another one in each run without it.
    #[arg(long)]
    seed: Option<u64>,
    /// Only these servers.
    #[arg(long, value_parser = ["mariadb", "mysql"])]
    flavor: Option<String>,
}

/// Options of `e2e drivers`.
#[derive(Debug, Args)]
struct DriversArgs {
    /// Only this suite; can be repeated. A wrong name lists them.
    #[arg(long)]
    only: Vec<String>,
    /// Only these servers: mariadb or mysql.
    #[arg(long)]
    flavor: Option<String>,
    /// Only without TLS and compression.
    #[arg(long)]
    plain: bool,
    /// Only this variant, as docs/drivers.md names it; can be repeated.
    #[arg(long)]
    variant: Vec<String>,
    /// Keep the results (e2e/suites/results.json) and write them, with those of earlier runs, to docs/drivers.md.
    #[arg(long)]
    docs: bool,
}

/// Runs the tests.
pub(crate) fn run(args: &E2eArgs) -> Result<ExitCode> {
    let mut steps = Steps::begin();
    steps.check("what the tests need", needs::ensure);
    match &args.part {
        None => steps.tests("e2e", || {
            let (packages, arguments) = selection(args.name.as_deref(), &cargo::root().join("e2e/tests"));
            run_tests(&packages, &arguments, &proxy(args.release)?)
        }),
        Some(Part::Drivers(drivers)) => {
            steps.tests("drivers' own suites", || {
                run_program(SUITES, &suite_words(drivers), &proxy(args.release)?)
            });
        }
        Some(Part::ServerSuite(suite)) => {
            steps.tests("MariaDB's own suite", || {
                run_program(SERVER_SUITE, &server_suite_words(suite), &proxy(args.release)?)
            });
        }
        Some(Part::Orm(orm)) => {
            steps.tests("ORMs", || run_program(SUITES, &orm_words(orm), &proxy(args.release)?));
        }
        Some(Part::SessionState(state)) => {
            steps.tests("session state", || run_session_state(state, &proxy(args.release)?));
        }
        Some(Part::Hostile(hostile)) => {
            steps.tests("hostile clients", || {
                run_program(HOSTILE, &hostile_words(hostile), &proxy(args.release)?)
            });
        }
        Some(Part::Change(change)) => {
            steps.tests("changes", || run_program(CHANGE, &change_words(change), &proxy(args.release)?));
        }
        Some(Part::See(see)) => {
            // What a debug build costs says nothing.
            steps.tests("what is seen", || run_program(SEE, &see::words(see), &proxy(true)?));
        }
        Some(Part::Relay(relay)) => {
            steps.tests("relays", || run_program(RELAY, &relay::words(relay), &proxy(false)?));
        }
        Some(Part::Ha(ha)) => {
            steps.tests("moves of the role", || run_program(HA, &ha_words(ha), &proxy(args.release)?));
        }
        Some(Part::Tables(tables)) => {
            steps.tests("tables", || run_program(TABLES, &tables_words(tables), &proxy(args.release)?));
        }
        Some(Part::Cache(cache)) => {
            if cache.has_differential() {
                steps.tests("cached answers", || {
                    run_program(CACHE, &cache.words(args.release), &proxy(args.release)?)
                });
            }
            if cache.has_limits() {
                steps.tests("room, herds and layers", || cache.run_limits(&proxy(args.release)?));
            }
        }
        Some(Part::Vip(vip)) => {
            steps.check("what is moved, and with what", || vip.ensure());
            steps.tests("virtual IPs", || run_program(VIP, &vip.words(), &proxy(args.release)?));
        }
        Some(Part::Failover(failover)) => {
            // Cuts a member of a group off.
            steps.check("nft", || needs::ensure_program("nft", "nftables"));
            steps.tests("failovers", || {
                run_program(FAILOVER, &failover_words(failover), &proxy(args.release)?)
            });
        }
    }
    steps.finish()
}

/// Of the whole workspace, here and below: a package by itself has its dependencies with other features than `cargo xtask
/// test` compiled them with, and would compile most of them again.
fn proxy(is_release: bool) -> Result<PathBuf> {
    let mut build = cargo(&["build", "--workspace", "--bin", "delphinus"]);
    build.args(is_release.then_some("--release"));
    cargo::build_program(build, "delphinus").context("delphinus cannot be built")
}

/// A program of the package with the tests.
fn run_program(name: &str, words: &[String], proxy: &Path) -> Result<Tally> {
    let build = cargo(&["build", "--workspace", "--bin", name]);
    let program = cargo::build_program(build, name).with_context(|| format!("{name} cannot be built"))?;
    let mut command = Command::new(program);
    command.env("DELPHINUS_BIN", proxy).args(words);
    libtest::run_counted(command)
}

fn suite_words(args: &DriversArgs) -> Vec<String> {
    let mut words: Vec<String> =
        args.only.iter().flat_map(|suite| ["--only".to_owned(), suite.clone()]).collect();
    words.extend(args.variant.iter().flat_map(|variant| ["--variant".to_owned(), variant.clone()]));
    words.extend(args.plain.then(|| "--plain".to_owned()));
    words.extend(common_words(args.flavor.as_deref(), args.docs));
    words
}

fn server_suite_words(args: &ServerSuiteArgs) -> Vec<String> {
    let file = |name: &str| cargo::root().join(name).display().to_string();
    let mut words = vec!["--keep".to_owned(), file("target/server-suite")];
    words.extend(["--servers".to_owned(), args.servers.to_string()]);
    for (option, values) in [("--only", &args.only), ("--variant", &args.variant)] {
        words.extend(values.iter().flat_map(|value| [option.to_owned(), value.clone()]));
    }
    words.extend(args.quick.then(|| "--quick".to_owned()));
    if args.docs {
        words.extend(["--docs".to_owned(), file("docs/server-suite.md")]);
    }
    words
}

fn orm_words(args: &OrmArgs) -> Vec<String> {
    let mut words = vec!["--orm".to_owned()];
    words.extend(common_words(args.flavor.as_deref(), args.docs));
    words
}

fn failover_words(args: &FailoverArgs) -> Vec<String> {
    let mut words = vec!["--runs".to_owned(), args.runs.to_string()];
    for (option, values) in [("--servers", &args.servers), ("--proxy", &args.proxy), ("--fault", &args.fault)]
    {
        words.extend(values.iter().flat_map(|value| [option.to_owned(), value.clone()]));
    }
    if args.docs {
        for (option, file) in [("--docs", "docs/failover.md"), ("--keep", "e2e/failover/results.json")] {
            words.extend([option.to_owned(), cargo::root().join(file).display().to_string()]);
        }
    }
    words.extend(args.resume.then(|| "--resume".to_owned()));
    words
}

fn hostile_words(args: &HostileArgs) -> Vec<String> {
    let mut words: Vec<String> =
        args.only.iter().flat_map(|name| ["--only".to_owned(), name.clone()]).collect();
    words.extend(args.flavor.iter().flat_map(|flavor| ["--flavor".to_owned(), flavor.clone()]));
    if args.docs {
        words.extend(["--docs".to_owned(), cargo::root().join("docs/limits.md").display().to_string()]);
    }
    words
}

fn change_words(args: &ChangeArgs) -> Vec<String> {
    let mut words: Vec<String> = args.quick.then(|| "--quick".to_owned()).into_iter().collect();
    words.extend(args.only.iter().flat_map(|name| ["--only".to_owned(), name.clone()]));
    words.extend(args.flavor.iter().flat_map(|flavor| ["--flavor".to_owned(), flavor.clone()]));
    if args.docs {
        words.extend(["--docs".to_owned(), cargo::root().join("docs/admin.md").display().to_string()]);
    }
    words
}

fn ha_words(args: &HaArgs) -> Vec<String> {
    let rounds = if args.quick { 3 } else { args.rounds };
    let mut words = vec!["--rounds".to_owned(), rounds.to_string()];
    for (option, values) in [("--part", &args.part), ("--servers", &args.servers)] {
        words.extend(values.iter().flat_map(|value| [option.to_owned(), value.clone()]));
    }
    if args.docs {
        words.extend(["--docs".to_owned(), cargo::root().join("docs/switchover.md").display().to_string()]);
    }
    words
}

fn tables_words(args: &TablesArgs) -> Vec<String> {
    let mut words = vec!["--clients".to_owned(), args.clients.to_string()];
    if args.docs {
        let file = cargo::root().join("docs/operators-tables.md");
        words.extend(["--docs".to_owned(), file.display().to_string()]);
    }
    words
}

fn common_words(flavor: Option<&str>, docs: bool) -> Vec<String> {
    let mut words = Vec::new();
    words.extend(flavor.iter().flat_map(|flavor| ["--flavor".to_owned(), (*flavor).to_owned()]));
    if docs {
        words.extend(["--docs".to_owned(), cargo::root().join("docs/drivers.md").display().to_string()]);
    }
    words
}

fn run_session_state(args: &SessionStateArgs, proxy: &Path) -> Result<Tally> {
    let name = args
        .flavor
        .as_ref()
        .map_or_else(String::new, |flavor| format!("state_follows_the_client_on_{flavor}"));
    let mut tests = cargo(&["test", "--workspace", "--test", "session_state", "--"]);
    // One kind of servers after the other: each keeps a processor busy by itself.
    tests.args(["--nocapture", "--test-threads=1", &name]);
    tests.env("DELPHINUS_BIN", proxy).env("DELPHINUS_DIFF_STEPS", args.steps.to_string());
    tests.env("DELPHINUS_DIFF_SEED", args.seed.map_or_else(|| "time".to_owned(), |seed| seed.to_string()));
    libtest::run(tests)
}

/// What to say to cargo, and what to the test programs.
fn selection<'a>(name: Option<&'a str>, folder: &Path) -> (Vec<&'a str>, Vec<&'a str>) {
    let package = vec!["--package", "delphinus-e2e"];
    match name {
        None => (package, vec![]),
        Some(name) if is_file_of(folder, name) => (vec!["--workspace", "--test", name], vec![]),
        Some(name) => (package, vec![name]),
    }
}

fn is_file_of(folder: &Path, name: &str) -> bool {
    folder.join(name).with_extension("rs").is_file() || folder.join(name).join("main.rs").is_file()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_a_file_or_a_part_of_a_tests_name() {
        let folder = cargo::root().join("e2e/tests");
        let package = ["--package", "delphinus-e2e"];
        assert_eq!(selection(None, &folder), (package.to_vec(), vec![]));
        let file = vec!["--workspace", "--test", "splitting"];
        assert_eq!(selection(Some("splitting"), &folder), (file, vec![]));
        assert_eq!(selection(Some("a_locking_read"), &folder), (package.to_vec(), vec!["a_locking_read"]));
    }
}
