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
  delphinus run --config delphinus.toml        the proxy
  delphinus ctl 'SHOW BACKENDS'                a look into the running proxy
  delphinus ctl --watch 2 'SHOW SESSIONS'      the same every two seconds

Exit codes: 0 done, 1 a mistake in the configuration or a failure, 2 wrong usage.";

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run the proxy in the foreground until SIGTERM or SIGINT.
    ///
    /// On either signal it takes no new clients, lets running commands finish (see `[proxy]
    /// shutdown_timeout_ms`) and exits with 0. SIGHUP reads the file again and applies the options that
    /// are `hot` in the reference.
    Run(RunArgs),
    /// Check a configuration file and name every mistake in it.
    ///
    /// Each mistake is one line, FILE:LINE:COLUMN: WHAT; WHAT TO WRITE INSTEAD, on standard error, and the
    /// exit code is 1. Password files and variables are read, certificates are looked at, and nothing
    /// is connected to, unless `--fingerprints` is there. A file without mistakes gives "ok".
    Check(CheckArgs),
    /// Explain the configuration file.
    #[command(subcommand)]
    Config(ConfigCommand),
    /// Start a real cluster on this machine with the proxy in front of it.
    ///
    /// Installs what is missing (Debian packages, as root or with sudo), starts a primary and two
    /// replicas on 127.0.0.1 in private folders, creates a user and a sample schema, and prints how
    /// to connect and what to try. Ctrl-C stops everything and leaves nothing behind. Several demos can
    /// run at the same time.
    Demo(DemoArgs),
    /// Run a command of the admin listener, such as 'SHOW BACKENDS', in a running proxy.
    ///
    /// Finds the address, the user and the password in the section "admin" of the configuration file, or where the options say.
    /// Mistakes elsewhere in the file do not matter. HELP shows all commands. A command that changes something prints nothing
    /// when it is done, unless it has something to tell.
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
    /// Connect to the backends and print the fingerprints of what they show, to be pasted into the file.
    ///
    /// No password of the file is sent. The network between may be somebody else's: compare them on the servers
    /// before you trust them.
    #[arg(long)]
    pub(crate) fingerprints: bool,
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
    /// Of what; the others are only to read.
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
    /// Run COMMAND with `sh -c` when everything is ready, clean up, and exit with its status.
    ///
    /// It sees DELPHINUS_HOST, DELPHINUS_PORT, DELPHINUS_SOCKET, DELPHINUS_USER, DELPHINUS_PASSWORD,
    /// DELPHINUS_DATABASE, DELPHINUS_PID, DELPHINUS_ADMIN_PORT (with _USER and _PASSWORD), and DELPHINUS_BACKENDS
    /// (a JSON list of the servers).
    #[arg(long, value_name = "COMMAND")]
    pub(crate) exec: Option<String>,
    /// A partial configuration file that is laid over the demo's own.
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
    /// Log in as this [[admin.user]]; without it as the first of those who may do most.
    #[arg(short, long, value_name = "NAME")]
    pub(crate) user: Option<String>,
    /// File that holds the password. Without it: $DELPHINUS_ADMIN_PASSWORD, or the configuration's own.
    #[arg(long, value_name = "FILE")]
    pub(crate) password_file: Option<PathBuf>,
    /// Certificates of authorities, PEM: the admin listener has to show a certificate signed by them. Without it, TLS
    /// is used on this machine only, and the certificate is not checked.
    #[arg(long, value_name = "FILE")]
    pub(crate) tls_ca: Option<PathBuf>,
    /// Print a list of objects instead of a table. With --watch, each answer is one line.
    #[arg(long, conflicts_with = "vertical")]
    pub(crate) json: bool,
    /// Print each row as a list of its columns. A command that ends with \G is shown like this, too.
    #[arg(short = 'E', long)]
    pub(crate) vertical: bool,
    /// Run the command again and again, on one connection, with a pause of so many seconds, until Ctrl-C.
    ///
    /// On a terminal each answer takes the place of the one before. While the proxy is restarted, it goes on trying.
    #[arg(short, long, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..=86400))]
    pub(crate) watch: Option<u64>,
    /// Give up when an answer has not come in so many seconds. Without it, the answer may take as long as it takes.
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
