//! `cargo xtask demo`: builds the binary and shows it with `delphinus_sandbox`'s demo.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::Args;
use delphinus_sandbox::{DemoOptions, Flavor, run_demo};

use crate::cargo;

/// Options of the demo; the same as those of `delphinus demo`.
#[derive(Debug, Args)]
pub(crate) struct DemoArgs {
    /// Which servers to start: mariadb, mysql (a primary and two GTID replicas), or group (MySQL, three nodes of
    /// single-primary Group Replication).
    #[arg(long, value_name = "FLAVOR", default_value = "mariadb")]
    flavor: Flavor,
    /// Show high availability: two proxies that share a virtual IP, three servers and etcd, each on a machine of its own (a network
    /// namespace), and what to kill. It needs root.
    ///
    /// DELPHINUS_HA is a program then that reaches the machines; without arguments it says what it does.
    #[arg(long)]
    ha: bool,
    /// With a replication relay behind the primary, which the replicas follow. For MariaDB and MySQL. DELPHINUS_RELAY_PORT is its port.
    #[arg(long)]
    relay: bool,
    /// Run COMMAND with `sh -c` when everything is ready, clean up, and exit with its status.
    ///
    /// It sees DELPHINUS_HOST, DELPHINUS_PORT, DELPHINUS_SOCKET, DELPHINUS_USER, DELPHINUS_PASSWORD,
    /// DELPHINUS_DATABASE, DELPHINUS_PID, DELPHINUS_ADMIN_PORT (with _USER and _PASSWORD), DELPHINUS_HTTP (the address of the
    /// HTTP door, such as http://127.0.0.1:6480) with DELPHINUS_HTTP_TOKEN, and DELPHINUS_BACKENDS (a JSON list of the servers).
    #[arg(long, value_name = "COMMAND")]
    exec: Option<String>,
    /// A partial configuration file that is laid over the demo's own.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
}

/// Runs the demo to its end.
pub(crate) fn run(args: DemoArgs) -> Result<ExitCode> {
    let began = std::time::Instant::now();
    eprintln!("building delphinus (the first time takes some minutes)");
    let build = cargo::cargo(&["build", "--profile", "demo", "--package", "delphinus-cli"]);
    let binary = cargo::build_program(build, "delphinus").context("delphinus cannot be built")?;
    eprintln!("  ok building delphinus ({:.1} s)", began.elapsed().as_secs_f64());
    let mut options = DemoOptions::new(args.flavor, binary);
    options.is_ha = args.ha;
    options.exec = args.exec;
    options.config_overlay = args.config;
    options.relay = args.relay;
    let status = run_demo(options)?;
    // The system passes on 8 bits; what does not fit can only have been a failure.
    Ok(u8::try_from(status).map_or(ExitCode::FAILURE, ExitCode::from))
}
