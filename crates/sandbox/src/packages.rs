//! Installs Debian packages that the sandbox or a test needs, as root or through sudo.

use std::collections::HashSet;
use std::io::IsTerminal;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

use crate::process;
use crate::progress::{Progress, Silent, step};

/// Runs as root, with the packages as arguments.
///
/// `--no-remove`: a database server that the user has must not go because ours conflicts with it.
/// `policy-rc.d` keeps the packages from starting services; ours is there only while apt runs, under
/// a lock, and one that the machine has anyway is left as it is.
const SCRIPT: &str = r#"
export DEBIAN_FRONTEND=noninteractive LC_ALL=C.UTF-8
exec 9>/run/lock/delphinus-packages && flock 9 || exit 1
policy=/usr/sbin/policy-rc.d
if [ ! -e $policy ]; then
    trap 'rm -f $policy' EXIT
    trap 'exit 130' INT
    trap 'exit 143' TERM HUP
    printf '#!/bin/sh\nexit 101\n' >$policy && chmod 755 $policy || exit 1
fi
install() {
    apt-get -q -y --no-install-recommends --no-remove -o DPkg::Lock::Timeout=600 -o Dpkg::Use-Pty=0 install "$@" 9>&-
}
install "$@" || { apt-get -q -o DPkg::Lock::Timeout=600 update 9>&- && install "$@"; }
"#;

/// Makes sure that Debian packages are installed; quick when they are. No service is started.
///
/// Fails with the command to type when packages are missing and this user is neither root nor may
/// use sudo, and when an installation would remove something.
pub fn ensure_packages(packages: &[&str]) -> Result<()> {
    ensure(packages, &Silent)
}

/// [`ensure_packages`], saying first what will be installed.
pub(crate) fn ensure(packages: &[&str], progress: &dyn Progress) -> Result<()> {
    let missing = missing(packages)?;
    if missing.is_empty() {
        return Ok(());
    }
    let list = missing.join(" ");
    let by_hand = || {
        format!(
            "these Debian packages are missing: {list}\ninstall them as root with: apt-get install {list}"
        )
    };
    let mut command = root_shell().with_context(by_hand)?;
    command.args(["sh", "-c", SCRIPT, "delphinus-packages"]).args(&missing).stdin(Stdio::null());
    progress.note(&format!("Debian packages to install: {list} (apt-get; no service is started)"));
    step(progress, &format!("installing {list}"), || process::run(command, progress))
        .with_context(by_hand)?;
    Ok(())
}

/// Which of the packages are not fully installed, in their order.
fn missing<'a>(packages: &[&'a str]) -> Result<Vec<&'a str>> {
    let done = Command::new("dpkg-query")
        .args(["--show", "--showformat=${Package} ${db:Status-Status}\n"])
        .args(packages)
        .output()
        .context("the sandbox installs Debian packages, and this machine has no dpkg-query")?;
    // It fails when one of them is unknown, and lists the others all the same.
    let listed = String::from_utf8_lossy(&done.stdout).into_owned();
    let installed: HashSet<&str> =
        listed.lines().filter_map(|line| line.strip_suffix(" installed")).collect();
    Ok(packages.iter().copied().filter(|name| !installed.contains(name)).collect())
}

/// A command that runs its arguments as root: `env` for root itself, else sudo. Sudo may ask for a
/// password only where somebody can type it.
fn root_shell() -> Result<Command> {
    if process::is_root() {
        return Ok(Command::new("env"));
    }
    if process::find_program("sudo").is_none() {
        bail!("this user is not root, and there is no sudo");
    }
    let mut sudo = Command::new("sudo");
    if !std::io::stdin().is_terminal() {
        let allowed = Command::new("sudo").args(["-n", "true"]).output()?;
        if !allowed.status.success() {
            bail!("this user is not root, and sudo wants a password but there is no terminal to ask on");
        }
        sudo.arg("-n");
    }
    Ok(sudo)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_not_installed_is_missing() {
        let found = missing(&["dpkg", "delphinus-no-such-package", "bash"]).unwrap();
        assert_eq!(found, ["delphinus-no-such-package"]);
    }

    #[test]
    fn an_unknown_package_fails_with_the_command_to_type() {
        let error = format!("{:#}", ensure_packages(&["delphinus-no-such-package"]).unwrap_err());
        assert!(error.contains("apt-get install delphinus-no-such-package"), "{error}");
    }
}
