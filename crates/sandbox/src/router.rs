//! MySQL Router, bootstrapped against a cluster as its users do.

mod metadata;

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail, ensure};

use crate::cache::cache_dir;
use crate::cluster::{Cluster, Machine};
use crate::mysql_prefix::MySqlPrefix;
use crate::process::is_root;
use crate::progress::Silent;

/// The account that the bootstrap makes for Router.
const ACCOUNT: (&str, &str) = ("router", "routerpw");

/// Which of Router's ports. A process has one only, so that what each needs can be told apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RouterPort {
    /// For reads only.
    ReadOnly,
    /// For all statements; each goes to the primary.
    ReadWrite,
    /// Splits reads from writes.
    Split,
}

impl RouterPort {
    /// Its section in the configuration that the bootstrap writes.
    fn section(self) -> &'static str {
        match self {
            Self::ReadOnly => "routing:bootstrap_ro",
            Self::ReadWrite => "routing:bootstrap_rw",
            Self::Split => "routing:bootstrap_rw_split",
        }
    }
}

/// Where it listens, and how many clients it takes.
#[derive(Debug, Clone)]
pub struct RouterPlace {
    /// The port, on 127.0.0.1 or on all addresses of the machine.
    pub port: u16,
    /// Where it runs, if not here. [`Router::arguments`] are for a program that runs there.
    pub machine: Option<Machine>,
    /// A Unix socket beside it.
    pub socket: Option<PathBuf>,
    /// The most clients.
    pub max_connections: u32,
}

/// A Router that is configured and can be started.
#[derive(Debug, Clone)]
pub struct Router {
    /// The program.
    pub program: PathBuf,
    /// Its configuration file.
    pub config: PathBuf,
}

impl Router {
    /// Brings the program, makes what it wants to know in the cluster, and bootstraps it into this folder, which is there
    /// already. TLS to the servers is off.
    pub fn bootstrap(
        cluster: &Cluster,
        folder: &Path,
        which: RouterPort,
        place: &RouterPlace,
    ) -> Result<Self> {
        if !cluster.flavor.is_mysql() {
            bail!("MySQL Router works with MySQL only: run with --flavor mysql");
        }
        let prefix = MySqlPrefix::ensure_in(&cache_dir()?.join("mysql-9.7"), &Silent)?;
        let program = prefix.program("mysqlrouter");
        let plugins = prefix.root().join("usr/lib/mysqlrouter/plugin");
        metadata::install(cluster)?;
        bootstrap(cluster, (&program, &plugins), folder, place).context("mysqlrouter --bootstrap fails")?;
        let config = folder.join("mysqlrouter.conf");
        let text = only_section(&fs::read_to_string(&config)?, which.section(), place);
        ensure!(text.contains(which.section()), "the bootstrap wrote no section {}", which.section());
        fs::write(&config, text)?;
        Ok(Self { program, config })
    }

    /// The words behind the program.
    pub fn arguments(&self) -> Vec<String> {
        vec![format!("--config={}", self.config.display())]
    }
}

fn bootstrap(
    cluster: &Cluster,
    (program, plugins): (&Path, &Path),
    folder: &Path,
    place: &RouterPlace,
) -> Result<()> {
    let primary = cluster.servers.first().context("a cluster has at least one server")?;
    let name = folder.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let max_connections = place.max_connections;
    let (mut command, address) = match &place.machine {
        Some(machine) => (machine.command(program), "0.0.0.0"),
        None => (Command::new(program), "127.0.0.1"),
    };
    command
        .arg("--bootstrap")
        .arg(format!("{}@{}:{}", cluster.admin_user, primary.host, primary.port))
        .arg(format!("--directory={}", folder.display()))
        .args(["--force", "--account", ACCOUNT.0, "--account-create", "if-not-exists"])
        .args(["--report-host", "127.0.0.1", "--conf-bind-address", address, "--disable-rest"])
        .args(["--name", &name])
        .arg(format!("--conf-set-option=DEFAULT.plugin_folder={}", plugins.display()))
        .arg(format!("--conf-set-option=DEFAULT.max_total_connections={max_connections}"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    if is_root() {
        command.arg("--user=root");
    }
    let mut child = command.spawn().context("cannot start mysqlrouter")?;
    let mut stdin = child.stdin.take().context("invariant: standard input is a pipe")?;
    // It asks for the password of the one who bootstraps, then for that of its own account.
    writeln!(stdin, "{}\n{}", cluster.admin_password, ACCOUNT.1)?;
    drop(stdin);
    let done = child.wait_with_output()?;
    let said = [done.stdout, done.stderr].concat();
    ensure!(done.status.success(), "{}", String::from_utf8_lossy(&said).trim());
    Ok(())
}

/// Leaves out all routes but one, gives that one its port, and switches TLS to the servers off, as for all systems.
fn only_section(text: &str, section: &str, place: &RouterPlace) -> String {
    let mut is_kept = true;
    let mut is_wanted = false;
    let mut kept = String::new();
    for line in text.lines() {
        if let Some(name) = line.strip_prefix('[').and_then(|line| line.strip_suffix(']')) {
            is_wanted = name == section;
            is_kept = is_wanted || !name.starts_with("routing:");
        }
        if !is_kept {
            continue;
        }
        let socket = place.socket.as_ref().map(|socket| format!("\nsocket={}", socket.display()));
        let line = match line.split_once('=') {
            Some(("bind_port", _)) if is_wanted => {
                format!("bind_port={}{}", place.port, socket.unwrap_or_default())
            }
            Some(("server_ssl_mode", _)) if is_wanted => "server_ssl_mode=DISABLED".to_owned(),
            _ => line.to_owned(),
        };
        kept.push_str(&line);
        kept.push('\n');
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_route_is_left_with_its_port() {
        let text = "[DEFAULT]\na=1\n\n[routing:one]\nbind_port=6446\nserver_ssl_mode=PREFERRED\n[routing:two]\nbind_port=6447\n[io]\nbind_port=3\n";
        let wanted = "[DEFAULT]\na=1\n\n[routing:one]\nbind_port=77\nsocket=/tmp/sock\nserver_ssl_mode=DISABLED\n[io]\n\
                      bind_port=3\n";
        let place =
            RouterPlace { port: 77, machine: None, socket: Some("/tmp/sock".into()), max_connections: 5 };
        assert_eq!(only_section(text, "routing:one", &place), wanted);
        let place = RouterPlace { socket: None, ..place };
        assert_eq!(only_section(text, "routing:one", &place), wanted.replace("socket=/tmp/sock\n", ""));
    }
}
