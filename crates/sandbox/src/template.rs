//! A data directory with the accounts and the sample data in it, made once for each version of the
//! server and copied for each server: a copy takes a fraction of a second, initialising takes seconds.

use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, SystemTime};

use anyhow::{Context, Result};

use crate::flavor::Flavor;
use crate::programs::Programs;
use crate::progress::{Progress, step};
use crate::watched_dir::WatchedDir;
use crate::{accounts, cache, cnf, process, schema};

/// A template that no start has used for so long is removed when a newer one is made.
const STALE_AFTER: Duration = Duration::from_hours(72);

/// The template's data directory, made when it is not there.
pub(crate) fn ensure(flavor: Flavor, programs: &Programs, progress: &dyn Progress) -> Result<PathBuf> {
    let cache = cache::cache_dir()?;
    let kind = if flavor.is_mysql() { "mysql" } else { "mariadb" };
    let statements = statements(flavor, programs);
    let mut hasher = DefaultHasher::new();
    (&statements, cnf::storage(flavor), &programs.version).hash(&mut hasher);
    let data = cache.join(format!("template-{kind}-{:016x}", hasher.finish()));
    if data.is_dir() {
        // Shows that it is in use, to whoever looks for stale ones.
        let _ = fs::File::open(&data).and_then(|dir| dir.set_modified(SystemTime::now()));
        return Ok(data);
    }
    let _lock = cache::lock(&cache, &format!("template-{kind}.lock"))?;
    if !data.is_dir() {
        remove_stale(&cache, kind);
        step(progress, &format!("initialising a {kind} data directory (once)"), || {
            let work = WatchedDir::create(&cache)?;
            let sql = work.path().join("init.sql");
            fs::write(&sql, statements.join(";\n") + ";\n")?;
            match flavor {
                Flavor::MariaDb => initialise_mariadb(work.path(), &sql, progress)?,
                Flavor::MySql | Flavor::Group => initialise_mysql(work.path(), &sql, (programs, progress))?,
            }
            // A rename, so that a template is never seen half made.
            fs::rename(work.path().join("data"), &data).context("cannot keep the template")
        })?;
    }
    Ok(data)
}

/// Copies the template to `to`, which must not exist. Most of it are zeros, of the logs above all: they become holes, and are not written.
pub(crate) fn copy(template: &Path, to: &Path) -> Result<()> {
    let cp = ["-a", "--reflink=auto", "--sparse=always"];
    process::output(Command::new("cp").args(cp).arg(template).arg(to))?;
    Ok(())
}

fn statements(flavor: Flavor, programs: &Programs) -> Vec<String> {
    let mut sql = if flavor.is_mysql() {
        accounts::mysql_statements()
    } else {
        accounts::mariadb_statements(programs.has_ed25519)
    };
    sql.extend(schema::statements(flavor.is_mysql()));
    sql
}

fn option_file(dir: &Path, flavor: Flavor, lines: &[&str]) -> Result<PathBuf> {
    let section = if flavor.is_mysql() { "[mysqld]" } else { "[mariadbd]" };
    let mut text = format!("{section}\ndatadir={}/data\n", dir.display());
    for line in cnf::storage(flavor).iter().map(String::as_str).chain(lines.iter().copied()) {
        text.push_str(line);
        text.push('\n');
    }
    let path = dir.join("my.cnf");
    fs::write(&path, text)?;
    Ok(path)
}

fn initialise_mariadb(dir: &Path, sql: &Path, progress: &dyn Progress) -> Result<()> {
    let file = option_file(dir, Flavor::MariaDb, &["skip_name_resolve=ON"])?;
    let mut command = Command::new("mariadb-install-db");
    command
        .arg(format!("--defaults-file={}", file.display()))
        .args(["--skip-test-db", "--auth-root-authentication-method=normal"])
        .arg(format!("--extra-file={}", sql.display()))
        .stdin(Stdio::null());
    if process::is_root() {
        command.arg("--user=root");
    }
    let said = process::run(command, progress)?;
    // The bootstrap server goes on after a statement that fails.
    anyhow::ensure!(!said.contains("ERROR"), "mariadb-install-db:\n{}", process::tail(&said));
    Ok(())
}

fn initialise_mysql(dir: &Path, sql: &Path, with: (&Programs, &dyn Progress)) -> Result<()> {
    let (programs, progress) = with;
    // Without the binary log the accounts have no GTIDs, and all servers begin alike.
    let lines = ["skip_log_bin", "mysqlx=OFF", "secure_file_priv=NULL", "performance_schema=OFF"];
    let file = option_file(dir, Flavor::MySql, &lines)?;
    let mut command = Command::new(&programs.server);
    command.arg(format!("--defaults-file={}", file.display()));
    if process::is_root() {
        command.arg("--user=root");
    }
    command.arg("--initialize-insecure").arg(format!("--init-file={}", sql.display())).stdin(Stdio::null());
    let said = process::run(command, progress)?;
    anyhow::ensure!(!said.contains("[ERROR]"), "mysqld --initialize:\n{}", process::tail(&said));
    // Every server makes its own identity from nothing.
    fs::remove_file(dir.join("data/auto.cnf")).context("the new data directory has no auto.cnf")
}

fn remove_stale(cache: &Path, kind: &str) {
    let prefix = format!("template-{kind}-");
    for entry in fs::read_dir(cache).into_iter().flatten().flatten() {
        let is_template = entry.file_name().to_string_lossy().starts_with(&prefix);
        let age =
            entry.metadata().and_then(|data| data.modified()).map(|time| time.elapsed().unwrap_or_default());
        if is_template && age.is_ok_and(|age| age > STALE_AFTER) {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}
