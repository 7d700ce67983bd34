//! What the sections say together: from readable sections to a valid [`Config`]. Here are the
//! checks that need more than one field, a file or a variable.

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};

use crate::config::{AdminUser, Config};
use crate::environment::Environment;
use crate::mistake::{Mistakes, Span};
use crate::parse::{Rows, WrittenCluster, WrittenFile};
use crate::schema::{AdminUserSection, Log, Proxy, SlowLog, SqlLog, Written};
use crate::secret::Secret;
use crate::word::AuthSource;

mod admin;
mod authentication;
mod cache;
mod choice;
mod cluster;
mod failover;
mod files;
mod filter;
mod http;
mod identity;
mod lease;
mod limit;
mod limits;
mod listener;
mod monitor;
mod password;
mod relay;
mod rule;
mod trust;
mod user;

/// What the checks need beside a section: the world outside the file, and the list of mistakes.
pub(crate) struct Check<'c, 'm> {
    directory: &'c Path,
    environment: &'c dyn Environment,
    mistakes: &'c mut Mistakes<'m>,
}

/// Checks a file that has been read. `None` only if there is a mistake.
pub(crate) fn validate(
    file: WrittenFile,
    file_name: &str,
    environment: &dyn Environment,
    mistakes: &mut Mistakes<'_>,
) -> Option<Config> {
    let mut check = Check { directory: directory(file_name), environment, mistakes };
    let effective = file.effective();
    check.reserved(&file);
    check.log_files(&file);
    check.relay_folders(&file);
    check.cache(&file);
    let proxy = file.proxy.as_ref().map(|proxy| check.proxy(proxy));
    let authentication = file.authentication.as_ref().map(|written| check.authentication(written));
    let asks_backend = authentication.as_ref().is_some_and(|one| one.auth == AuthSource::Backend);
    check.refuse_sockets_where_asked(&file.users, &file.clusters, asks_backend);
    let names = check.choices(&file);
    let is_relay = !file.relays.is_empty();
    // Neither needs clients.
    let is_agent = is_relay || file.lease.as_ref().is_some_and(|lease| lease.value.local_backend.is_some());
    let listeners = check.listeners(file.listeners, &names, is_agent);
    let users = check.users(&file.users, &names, asks_backend || is_agent);
    check.backends(&file.clusters);
    let count = file.clusters.list.len();
    let relays_at = |one: &WrittenCluster| one.failover.as_ref().map(|row| row.at("relays").clone());
    let relays_at: Vec<_> = file.clusters.list.iter().map(relays_at).collect();
    let auto_at = |one: &WrittenCluster| one.failover.as_ref().map(|row| row.at("auto_failover").clone());
    let auto_at: Vec<_> = file.clusters.list.iter().map(auto_at).collect();
    let clusters: Vec<_> = file.clusters.list.into_iter().filter_map(|one| check.cluster(one)).collect();
    // Of clusters that could not be read it cannot be said which groups they have.
    let are_all = clusters.len() == count && (count > 0 || is_relay);
    let mirrors = check.mirrors(file.mirrors);
    let rules = if are_all { check.rules(file.rules, &listeners, (&clusters, &mirrors)) } else { Vec::new() };
    let filters = check.filters(file.filters, &clusters);
    let slow_log = file.slow_log.map(|log| check.slow_log(log));
    let sql_log = file.sql_log.map(|log| check.sql_log(log));
    let limits = check.limits(file.limits, &clusters);
    let lease = if are_all { file.lease.map(|written| check.lease(&written, &clusters)) } else { None };
    let vips = check.vips(&file.vips, lease.as_ref());
    if let Some(lease) = &lease {
        check.failover_by_itself(&auto_at, &clusters, lease);
    }
    let relays = check.relays(&file.relays, &names, &clusters);
    if are_all && relays.len() == file.relays.len() {
        check.cache_stream(file.cache.as_ref(), &clusters, &relays);
        check.failover_relays(&relays_at, &clusters, &relays);
    }
    let log = file.log.map(|log| check.log(log));
    let admin = file.admin.as_ref().map(|written| check.admin(written, &file.admin_users));
    let http = file.http.as_ref().map(|written| check.http(written, &file.http_tokens));
    if !are_all {
        return None;
    }
    Some(Config {
        proxy: proxy?,
        listeners,
        users,
        authentication: authentication?,
        clusters,
        rules,
        filters,
        limits,
        mirrors,
        cache: file.cache?.value,
        digests: file.digests?.value,
        slow_log: slow_log?,
        lease: lease?,
        vips,
        relays,
        sql_log: sql_log?,
        activity: file.activity?.value,
        log: log?,
        admin,
        http,
        effective,
    })
}

/// The operators that can be read.
pub(crate) fn operators(
    users: &Rows<AdminUserSection>,
    file_name: &str,
    environment: &dyn Environment,
    mistakes: &mut Mistakes<'_>,
) -> Vec<AdminUser> {
    let mut check = Check { directory: directory(file_name), environment, mistakes };
    users.rows.iter().filter_map(|row| check.admin_user(row)).collect()
}

/// Where relative paths start.
fn directory(file_name: &str) -> &Path {
    Path::new(file_name).parent().unwrap_or(Path::new(""))
}

impl Check<'_, '_> {
    fn proxy(&mut self, written: &Written<Proxy>) -> Proxy {
        if let Some(version) = &written.value.server_version
            && !is_version(version)
        {
            self.mistakes.push(
                written.at("server_version"),
                format!("server_version = {version:?} is not a version"),
                "write three numbers first, for example \"8.4.5\" or \"10.11.14-MariaDB\"",
            );
        }
        let mut proxy = written.value.clone();
        proxy.data_dir = proxy.data_dir.map(|path| self.resolve(&path));
        proxy
    }

    fn log(&mut self, written: Written<Log>) -> Log {
        let mut log = written.value;
        log.file = log.file.map(|path| self.resolve(&path));
        log
    }

    fn slow_log(&mut self, written: Written<SlowLog>) -> SlowLog {
        for digest in &written.value.digest {
            self.digest(&written, digest);
        }
        let mut log = written.value;
        log.file = log.file.map(|path| self.resolve(&path));
        log
    }

    fn sql_log(&mut self, written: Written<SqlLog>) -> SqlLog {
        for digest in &written.value.digest {
            self.digest(&written, digest);
        }
        let mut log = written.value;
        log.file = log.file.map(|path| self.resolve(&path));
        log
    }

    /// The path as seen from the directory of the configuration file.
    fn resolve(&self, path: &Path) -> PathBuf {
        self.directory.join(path)
    }

    /// The path of a PEM file that can be read. It may be a private key.
    fn pem_file(&mut self, name: &str, path: &Path, at: &Span) -> PathBuf {
        let path = self.resolve(path);
        let (problem, instead) = match self.environment.read_file(&path).map(Secret::new) {
            Ok(text) if text.expose().contains("-----BEGIN ") => return path,
            Ok(_) => {
                ("holds no PEM block".to_owned(), "write the path of a file with \"-----BEGIN ...\" in it")
            }
            Err(error) => {
                (format!("cannot be read: {error}"), "write the path of a file that the proxy may read")
            }
        };
        self.mistakes.push(at, format!("{name} {} {problem}", path.display()), instead);
        path
    }

    /// Complains about each row whose field says the same as one before it.
    fn refuse_twins<'s, S: 's>(
        &mut self,
        rows: impl IntoIterator<Item = &'s Written<S>>,
        field: &str,
        are_twins: impl Fn(&S, &S) -> bool,
        show: impl Fn(&S) -> String,
    ) {
        let rows: Vec<&Written<S>> = rows.into_iter().collect();
        for (index, row) in rows.iter().enumerate() {
            if rows[..index].iter().any(|earlier| are_twins(&earlier.value, &row.value)) {
                let what = format!("{field} {:?} is there twice", show(&row.value));
                self.mistakes.push(
                    row.at(field),
                    what,
                    format!("write another {field}, or remove one of the two"),
                );
            }
        }
    }

    /// The same of names. A file may have tens of thousands of rows, so that each is looked at once.
    fn refuse_same_names<'s, S: 's>(
        &mut self,
        rows: &'s [Written<S>],
        name: impl Fn(&'s S) -> Option<&'s String>,
    ) {
        let mut seen = HashSet::new();
        for row in rows {
            if let Some(own) = name(&row.value).filter(|own| !seen.insert(*own)) {
                let what = format!("name {own:?} is there twice");
                self.mistakes.push(row.at("name"), what, "write another name, or remove one of the two");
            }
        }
    }

    /// A row without a name is called by its number: `rule 2`. Two of one name would be one in commands and metrics.
    fn refuse_numbered<S>(&mut self, rows: &[Written<S>], kind: &str, name: impl Fn(&S) -> Option<&String>) {
        let named = rows.iter().filter_map(|row| Some((name(&row.value)?.as_str(), row)));
        let named: HashMap<&str, &Written<S>> = named.collect();
        let unnamed = rows.iter().enumerate().filter(|(_, row)| name(&row.value).is_none());
        for own in unnamed.map(|(index, _)| format!("{kind} {}", index + 1)) {
            if let Some(other) = named.get(own.as_str()) {
                let what = format!("name {own:?} is that of the {kind} there, which has none of its own");
                self.mistakes.push(other.at("name"), what, "write another name");
            }
        }
    }
}

/// Drivers take the numbers at the front of the version apart.
fn is_version(text: &str) -> bool {
    let numbers: Vec<&str> = text.splitn(3, '.').collect();
    let [major, minor, patch] = numbers.as_slice() else { return false };
    let is_number =
        |part: &str| !part.is_empty() && part.len() <= 3 && part.bytes().all(|b| b.is_ascii_digit());
    let printable = text.len() <= 60 && text.bytes().all(|b| b.is_ascii_graphic());
    printable && is_number(major) && is_number(minor) && patch.starts_with(|c: char| c.is_ascii_digit())
}
