//! The command line: its commands, options and help texts.

use std::path::PathBuf;
use std::sync::LazyLock;

use clap::{Parser, Subcommand, ValueEnum};

/// The version, and how this was built, if not by cargo alone.
static VERSION: LazyLock<String> = LazyLock::new(|| {
    let version = env!("CARGO_PKG_VERSION");
    option_env!("DELPHINUS_BUILD").map_or_else(|| version.to_owned(), |build| format!("{version} ({build})"))
});

/// A MySQL proxy: splits reads from writes, balances reads over replicas and shares backend
/// connections between sessions.
#[derive(Debug, Parser)]
#[command(name = "delphinus", version = VERSION.as_str(), arg_required_else_help = true, after_help = FIRST_STEPS)]
pub(crate) struct Args {
    #[command(subcommand)]
    pub(crate) command: Command,
}

const FIRST_STEPS: &str = "First steps:
  delphinus demo                               a real cluster with the proxy in front of it
  delphinus config example > delphinus.toml    a configuration to start from
  delphinus check delphinus.toml               every mistake in it
  delphinus doctor --config delphinus.toml     what is wrong with its servers
  delphinus run --config delphinus.toml        the proxy
  delphinus ctl 'SHOW BACKENDS'                a look into the running proxy
  delphinus ctl --watch 2 'SHOW SESSIONS'      the same every two seconds

Exit codes: 0 done, 1 a mistake in the configuration or a failure, 2 wrong usage.";

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run the proxy in the foreground until SIGTERM or SIGINT.
    ///
    /// On either signal the proxy takes no new clients, lets running commands and open transactions end (for at most `[proxy]
    /// shutdown_timeout_ms`), and exits with 0. On SIGHUP it reads the file again and applies the options that are `hot` in the
    /// reference.
    Run(RunArgs),
    /// Check a configuration file and name every mistake in it.
    ///
    /// It prints each mistake as one line on standard error, FILE:LINE:COLUMN: WHAT; WHAT TO WRITE INSTEAD, and exits with 1. It
    /// reads password files and variables, and looks at certificates. It connects to no server, unless `--fingerprints` is given.
    /// For a file without mistakes it prints "ok" and exits with 0.
    Check(CheckArgs),
    /// Look for what is wrong with a configuration and its servers, and say what fixes it.
    ///
    /// It connects to every backend as the monitor's user, and as each user whose password the file has. It changes nothing. The
    /// proxy need not run; in one that runs, 'DOCTOR' on the admin listener does the same.
    ///
    /// Exit codes: 0 nothing serious, 1 a mistake in the configuration or a failure, 2 wrong usage, 3 something serious.
    Doctor(DoctorArgs),
    /// Keep virtual IPs on the host of a server, without a proxy: clients reach the server directly.
    ///
    /// The configuration has a section "lease" with local_backend, the virtual IPs and the cluster; it has no listener. It needs CAP_NET_ADMIN
    /// and CAP_NET_RAW. See docs/ha.md.
    Agent(RunArgs),
    /// Relay the replication stream of a server to replicas, without a proxy.
    ///
    /// The configuration has a `[[relay]]` and no listener. It may have `[admin]` and `[http]`, for operators; and a `[cluster]`, if the relay
    /// follows the primary of it. See docs/relay.md.
    Relay(RunArgs),
    /// Virtual IPs.
    #[command(subcommand)]
    Vip(VipCommand),
    /// Explain the configuration file.
    #[command(subcommand)]
    Config(ConfigCommand),
    /// Start a real cluster on this machine with the proxy in front of it.
    ///
    /// It installs what is missing (Debian packages, as root or with sudo). It starts a primary and two replicas on 127.0.0.1 in
    /// private folders, and creates a user and a sample schema. It prints how to connect and what to try. Ctrl-C stops everything
    /// and removes what was created. Several demos can run at the same time.
    Demo(DemoArgs),
    /// Run a command of the admin listener, such as 'SHOW BACKENDS', in a running proxy.
    ///
    /// It takes the address, the user and the password from the section "admin" of the configuration file, or from the options.
    /// Mistakes elsewhere in the file do not matter. The command HELP shows all commands. A command that changes something and
    /// has no answer prints nothing when it is done.
    ///
    /// Exit codes: 0 done, 1 refused or no answer, 2 wrong usage.
    Ctl(CtlArgs),
    /// Print a completion script for a shell.
    ///
    /// For example: delphinus completion bash > /etc/bash_completion.d/delphinus
    Completion(CompletionArgs),
}

#[derive(Debug, clap::Args)]
pub(crate) struct RunArgs {
    /// The configuration file.
    #[arg(short, long, value_name = "FILE", default_value = "delphinus.toml")]
    pub(crate) config: PathBuf,
}

#[derive(Debug, clap::Args)]
pub(crate) struct CheckArgs {
    /// The configuration file.
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,
    /// Connect to the backends and print the fingerprints of their certificates and keys, to be pasted into the file.
    ///
    /// It sends no password of the file. An attacker in the network may show others: compare them with those on the servers before
    /// you trust them.
    #[arg(long)]
    pub(crate) fingerprints: bool,
}

#[derive(Debug, clap::Args)]
pub(crate) struct DoctorArgs {
    /// The configuration file.
    #[arg(short, long, value_name = "FILE", default_value = "delphinus.toml")]
    pub(crate) config: PathBuf,
    /// Print a list of objects, for programs.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Subcommand)]
pub(crate) enum VipCommand {
    /// Check whether the virtual IPs of a configuration can work on this host: rights, interface, whether the address is
    /// free, the lease store. Nothing changes.
    ///
    /// Exit codes: 0 all is well, 1 a mistake in the configuration, 2 wrong usage, 3 something is to be done first.
    Check(VipCheckArgs),
}

#[derive(Debug, clap::Args)]
pub(crate) struct VipCheckArgs {
    /// The configuration file.
    #[arg(short, long, value_name = "FILE", default_value = "delphinus.toml")]
    pub(crate) config: PathBuf,
    /// The virtual IPs are in use already: do not check whether another host answers for them.
    #[arg(long)]
    pub(crate) held: bool,
    /// Print a list of objects, for programs.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Subcommand)]
pub(crate) enum ConfigCommand {
    /// Print every option with its values, unit, default, and whether a change needs a restart.
    Reference(ReferenceArgs),
    /// Print a small commented configuration to start from.
    Example,
}

#[derive(Debug, clap::Args)]
pub(crate) struct ReferenceArgs {
    /// How to print it.
    #[arg(long, value_enum, default_value_t = ReferenceFormat::Markdown)]
    pub(crate) format: ReferenceFormat,
    /// What the reference is about. Only the options can be printed as JSON.
    #[arg(long, value_enum, default_value_t = ReferenceOf::Options)]
    pub(crate) of: ReferenceOf,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ReferenceOf {
    /// The options of the configuration file.
    Options,
    /// The commands of the admin listener.
    Commands,
    /// The tables of the admin listener.
    Tables,
    /// What SHOW STATUS counts.
    Status,
    /// What /metrics of the HTTP door has.
    Metrics,
    /// Why sessions are pinned.
    Pins,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
pub(crate) enum ReferenceFormat {
    /// A page to read.
    Markdown,
    /// A list of objects, for programs.
    Json,
}

#[derive(Debug, clap::Args)]
pub(crate) struct DemoArgs {
    /// Which servers to start.
    #[arg(long, value_enum, default_value_t = DemoFlavor::Mariadb)]
    pub(crate) flavor: DemoFlavor,
    /// Show high availability: two proxies that share a virtual IP, three servers and etcd, each on a machine of its own (a network
    /// namespace), and what to kill. It needs root.
    ///
    /// DELPHINUS_HA is a program then that reaches the machines; without arguments it says what it does.
    #[arg(long)]
    pub(crate) ha: bool,
    /// Run COMMAND with `sh -c` when everything is ready, clean up, and exit with its status.
    ///
    /// Its environment has DELPHINUS_HOST, DELPHINUS_PORT, DELPHINUS_SOCKET, DELPHINUS_USER, DELPHINUS_PASSWORD,
    /// DELPHINUS_DATABASE, DELPHINUS_PID, DELPHINUS_ADMIN_PORT (with _USER and _PASSWORD), DELPHINUS_HTTP (the address of the
    /// HTTP door, such as http://127.0.0.1:6480) with DELPHINUS_HTTP_TOKEN, and DELPHINUS_BACKENDS (a JSON list of the servers).
    #[arg(long, value_name = "COMMAND")]
    pub(crate) exec: Option<String>,
    /// With a replication relay behind the primary, which the replicas follow. For MariaDB and MySQL. DELPHINUS_RELAY_PORT is its port.
    #[arg(long)]
    pub(crate) relay: bool,
    /// A configuration file whose options take the place of the demo's own; it need not be complete.
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum DemoFlavor {
    /// MariaDB: a primary and two GTID replicas.
    Mariadb,
    /// MySQL: a primary and two GTID replicas.
    Mysql,
    /// MySQL: three nodes of Group Replication with a single primary.
    Group,
}

#[derive(Debug, clap::Args)]
pub(crate) struct CtlArgs {
    /// The command, in quotes or as several words.
    #[arg(value_name = "COMMAND", required = true, num_args = 1..)]
    pub(crate) command: Vec<String>,
    /// The configuration file of the running proxy.
    #[arg(short, long, value_name = "FILE", default_value = "delphinus.toml")]
    pub(crate) config: PathBuf,
    /// Where the admin listener is, as the configuration writes it: "127.0.0.1:6447" or "unix:/path".
    #[arg(short, long, value_name = "ADDRESS")]
    pub(crate) address: Option<String>,
    /// Log in as this [[admin.user]]. Without it: the first one with the highest role.
    #[arg(short, long, value_name = "NAME")]
    pub(crate) user: Option<String>,
    /// File that holds the password. Without it: $DELPHINUS_ADMIN_PASSWORD, or the configuration's own.
    #[arg(long, value_name = "FILE")]
    pub(crate) password_file: Option<PathBuf>,
    /// Ask over HTTP instead: http://HOST:PORT, https://HOST:PORT or unix:/PATH, where the section "http" listens. Needs no configuration file.
    #[arg(long, value_name = "URL", conflicts_with_all = ["address", "user", "password_file"])]
    pub(crate) url: Option<String>,
    /// The token for --url.
    ///
    /// Other users of this machine can see it in the list of processes: the variable, or --token-file, hides it.
    #[arg(long, value_name = "TOKEN", env = "DELPHINUS_HTTP_TOKEN", hide_env_values = true)]
    pub(crate) token: Option<String>,
    /// File that holds the token for --url. It is stronger than --token and the variable.
    #[arg(long, value_name = "FILE", requires = "url")]
    pub(crate) token_file: Option<PathBuf>,
    /// Certificates of authorities, PEM. The admin listener must show a certificate that they have signed. Without it, TLS is used
    /// on this machine only, and the certificate is not checked.
    #[arg(long, value_name = "FILE")]
    pub(crate) tls_ca: Option<PathBuf>,
    /// Print a list of objects instead of a table. With --watch, each answer is one line.
    #[arg(long, conflicts_with = "vertical")]
    pub(crate) json: bool,
    /// Print each row as a list of its columns. A command that ends with \G is shown like this, too.
    #[arg(short = 'E', long)]
    pub(crate) vertical: bool,
    /// Run the command again and again on one connection until Ctrl-C, with a pause of so many seconds after each answer.
    ///
    /// On a terminal each answer takes the place of the last one. While the proxy restarts, it tries to connect again.
    #[arg(short, long, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..=86400))]
    pub(crate) watch: Option<u64>,
    /// Give up if an answer takes longer than so many seconds. Without it there is no limit.
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..=86400))]
    pub(crate) timeout: Option<u64>,
}

#[derive(Debug, clap::Args)]
pub(crate) struct CompletionArgs {
    /// The shell.
    #[arg(value_enum)]
    pub(crate) shell: clap_complete::Shell,
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    #[test]
    fn definitions_are_consistent() {
        super::Args::command().debug_assert();
    }
}
