//! What the tests need from this machine, brought before they start, so that the user sees what is installed.
//!
//! The tests would install it themselves; they do so silently and in the middle of something.

use std::path::Path;
use std::process::Command;

use anyhow::Result;
use delphinus_sandbox::{MySqlPrefix, Terminal, cache_dir, ensure_packages};

/// Programs, and the Debian packages that have them. A program that is there in any other way is good too.
const PROGRAMS: [(&str, &[&str]); 18] = [
    // libFuzzer is C++.
    ("g++", &["g++"]),
    ("mariadbd", &["mariadb-server-core"]),
    ("mariadb", &["mariadb-client-core"]),
    // Its plugins: ed25519's is in no other package. A private server uses them, too; the package's own is not started.
    ("mariadbd-safe", &["mariadb-server"]),
    // MariaDB's own test suite and what runs it.
    ("mariadb-test", &["mariadb-test", "mariadb-test-data"]),
    ("sysbench", &["sysbench"]),
    // Leases, and their tool.
    ("etcd", &["etcd-server"]),
    ("etcdctl", &["etcd-client"]),
    // Cuts machines off.
    ("nft", &["nftables"]),
    ("go", &["golang-go"]),
    ("npm", &["nodejs", "npm"]),
    ("javac", &["default-jdk-headless"]),
    ("mvn", &["maven"]),
    ("python3", &["python3", "python3-venv"]),
    ("pt-query-digest", &["percona-toolkit"]),
    // What checks metrics, and the configuration that reads them; no server of it is started.
    ("promtool", &["prometheus"]),
    ("curl", &["curl"]),
    // What kept answers are held against, by the benchmark; its own server is not started.
    ("redis-server", &["redis-server", "redis-tools"]),
];

/// Installs what is missing.
pub(crate) fn ensure() -> Result<()> {
    let mut packages = missing(is_program);
    let has_venv = Command::new("python3").args(["-c", "import ensurepip, venv"]).output();
    if !packages.contains(&"python3") && !has_venv.is_ok_and(|done| done.status.success()) {
        packages.push("python3-venv");
    }
    if packages.is_empty() {
        eprintln!("all Debian packages are there");
    } else {
        eprintln!("installing Debian packages (no service is started): {}", packages.join(" "));
        ensure_packages(&packages)?;
    }
    let mysql = MySqlPrefix::ensure_in(&cache_dir()?.join("mysql-9.7"), &Terminal)?;
    eprintln!("MySQL {} is there", mysql.version());
    Ok(())
}

/// Installs the Debian package that has a program, if it is missing.
pub(crate) fn ensure_program(program: &str, package: &str) -> Result<()> {
    if is_program(program) {
        return Ok(());
    }
    eprintln!("installing a Debian package: {package}");
    ensure_packages(&[package])
}

fn missing(is_there: impl Fn(&str) -> bool) -> Vec<&'static str> {
    let absent = PROGRAMS.iter().filter(|(program, _)| !is_there(program));
    absent.flat_map(|(_, packages)| packages.iter().copied()).collect()
}

fn is_program(name: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    // Servers live in sbin, which is not in everybody's PATH.
    std::env::split_paths(&path)
        .chain([Path::new("/usr/sbin").to_path_buf()])
        .any(|folder| folder.join(name).is_file())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_packages_of_absent_programs_are_missing() {
        assert_eq!(missing(|name| name != "npm"), ["nodejs", "npm"]);
        assert_eq!(missing(|_| true), Vec::<&str>::new());
    }

    #[test]
    fn programs_are_looked_for_in_the_path() {
        assert!(is_program("sh"));
        assert!(!is_program("delphinus-no-such-program"));
    }
}
