//! MySQL Router, bootstrapped against the cluster as its users do; each of its two ports in a process of its own, so
//! that what each needs can be told apart.

mod metadata;

use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail, ensure};
use delphinus_sandbox::{MySqlPrefix, PortLease, Silent, cache_dir};

use super::{MAX_CONNECTIONS, Peer, Program, Site, System, version_of};

/// The account that the bootstrap makes for Router.
const ACCOUNT: (&str, &str) = ("router", "routerpw");

/// Which of Router's ports.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Port {
    ReadOnly,
    Split,
}

impl Port {
    fn system(self) -> System {
        match self {
            Self::ReadOnly => System::RouterRo,
            Self::Split => System::RouterSplit,
        }
    }

    /// Its section in the configuration that the bootstrap writes.
    fn section(self) -> &'static str {
        match self {
            Self::ReadOnly => "routing:bootstrap_ro",
            Self::Split => "routing:bootstrap_rw_split",
        }
    }
}

pub(super) fn prepare(site: &Site<'_>, port: Port) -> Result<Peer> {
    if !site.cluster.flavor.is_mysql() {
        bail!("MySQL Router works with MySQL only: run with --flavor mysql");
    }
    let prefix = MySqlPrefix::ensure_in(&cache_dir()?.join("mysql-9.7"), &Silent)?;
    let path = prefix.program("mysqlrouter");
    let plugins = prefix.root().join("usr/lib/mysqlrouter/plugin");
    metadata::install(site)?;
    let folder = site.folder(port.system().name())?;
    bootstrap(site, &path, &plugins, &folder).context("mysqlrouter --bootstrap fails")?;
    let lease = PortLease::take()?;
    let file = folder.join("mysqlrouter.conf");
    let text = only_section(&fs::read_to_string(&file)?, port.section(), lease.port());
    ensure!(text.contains(port.section()), "the bootstrap wrote no section {}", port.section());
    fs::write(&file, text)?;
    Ok(Peer {
        system: port.system(),
        version: version_of(&path, "--version")?,
        program: Some(Program { path, arguments: vec![format!("--config={}", file.display())] }),
        without_hold: None,
        folder,
        read_port: lease.port(),
        write_port: (port == Port::Split).then(|| lease.port()),
        _leases: vec![lease],
    })
}

fn bootstrap(site: &Site<'_>, program: &Path, plugins: &Path, folder: &Path) -> Result<()> {
    let cluster = site.cluster;
    let name = folder.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let mut command = Command::new(program);
    command
        .arg("--bootstrap")
        .arg(format!("{}@127.0.0.1:{}", cluster.admin_user, site.primary().port))
        .arg(format!("--directory={}", folder.display()))
        .args(["--force", "--account", ACCOUNT.0, "--account-create", "if-not-exists"])
        .args(["--report-host", "127.0.0.1", "--conf-bind-address", "127.0.0.1", "--disable-rest"])
        .args(["--name", &name])
        .arg(format!("--conf-set-option=DEFAULT.plugin_folder={}", plugins.display()))
        .arg(format!("--conf-set-option=DEFAULT.max_total_connections={MAX_CONNECTIONS}"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    if rustix::process::geteuid().is_root() {
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
fn only_section(text: &str, section: &str, port: u16) -> String {
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
        let line = match line.split_once('=') {
            Some(("bind_port", _)) if is_wanted => format!("bind_port={port}"),
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
        let wanted =
            "[DEFAULT]\na=1\n\n[routing:one]\nbind_port=77\nserver_ssl_mode=DISABLED\n[io]\nbind_port=3\n";
        assert_eq!(only_section(text, "routing:one", 77), wanted);
    }
}
