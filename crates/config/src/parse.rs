//! Text to [`Config`]: reads the document as far as it can be read, then its sections, then checks
//! what they say together, and gives all mistakes at once.

use toml::de::DeTable;

use crate::config::{Config, Effective};
use crate::document::Table;
use crate::environment::Environment;
use crate::mistake::{Mistake, Mistakes};
use crate::schema::{
    Activity, AdminSection, AdminUserSection, Authentication, Cache, Digests, FilterSection, HttpSection,
    HttpTokenSection, LeaseSection, LimitSection, ListenerSection, Log, MirrorSection, Proxy, RuleSection,
    Section, SlowLog, SqlLog, UserSection, VipSection, Written, read,
};
use crate::validate;

mod cluster;
mod relay;

pub(crate) use cluster::{WrittenCluster, WrittenClusters};
pub(crate) use relay::WrittenRelay;

/// The keys at the top of the file.
const SECTIONS: &[&str] = &[
    "proxy",
    "listener",
    "user",
    "authentication",
    "cluster",
    "routing",
    "rule",
    "filter",
    "limit",
    "mirror",
    "monitor",
    "pool",
    "cache",
    "digests",
    "slow_log",
    "activity",
    "sql_log",
    "lease",
    "vip",
    "relay",
    "log",
    "admin",
    "http",
];

/// A file as read: each section that could be.
pub(crate) struct WrittenFile {
    pub(crate) proxy: Option<Written<Proxy>>,
    pub(crate) listeners: Rows<ListenerSection>,
    pub(crate) users: Rows<UserSection>,
    pub(crate) authentication: Option<Written<Authentication>>,
    pub(crate) clusters: WrittenClusters,
    pub(crate) rules: Rows<RuleSection>,
    pub(crate) filters: Rows<FilterSection>,
    pub(crate) limits: Rows<LimitSection>,
    pub(crate) mirrors: Rows<MirrorSection>,
    pub(crate) cache: Option<Written<Cache>>,
    pub(crate) digests: Option<Written<Digests>>,
    pub(crate) slow_log: Option<Written<SlowLog>>,
    pub(crate) lease: Option<Written<LeaseSection>>,
    pub(crate) vips: Rows<VipSection>,
    pub(crate) relays: Vec<WrittenRelay>,
    pub(crate) sql_log: Option<Written<SqlLog>>,
    pub(crate) activity: Option<Written<Activity>>,
    pub(crate) log: Option<Written<Log>>,
    pub(crate) admin: Option<Written<AdminSection>>,
    pub(crate) admin_users: Rows<AdminUserSection>,
    pub(crate) http: Option<Written<HttpSection>>,
    pub(crate) http_tokens: Rows<HttpTokenSection>,
}

/// The tables of one kind that could be read.
pub(crate) struct Rows<S> {
    pub(crate) rows: Vec<Written<S>>,
    /// Whether these are all that are written; if not, nothing can be said about what is missing.
    pub(crate) complete: bool,
}

/// Reads and checks a configuration.
///
/// `file_name` is used in mistakes, and its directory is where relative paths start.
///
/// # Errors
/// Every mistake in the file, in the order of the file; at least one.
pub fn parse(text: &str, file_name: &str, environment: &dyn Environment) -> Result<Config, Vec<Mistake>> {
    let mut mistakes = Mistakes::new(file_name, text);
    let (document, syntax_errors) = DeTable::parse_recoverable(text);
    for error in &syntax_errors {
        // Only the message: the error's own display quotes the line, which may hold a password.
        mistakes.push_syntax(&error.span().unwrap_or(0..0), error.message());
    }
    let root = Table::new("", 0..0, document.get_ref());
    let file = read_file(&root, syntax_errors.is_empty(), &mut mistakes);
    let config = validate::validate(file, file_name, environment, &mut mistakes);
    match config {
        Some(config) if mistakes.is_empty() => Ok(config),
        _ => Err(mistakes.into_sorted()),
    }
}

impl WrittenFile {
    /// Every option with the value that it has.
    pub(crate) fn effective(&self) -> Effective {
        let mut list = one("proxy", self.proxy.as_ref());
        list.extend(each("listener", &self.listeners));
        list.extend(each("user", &self.users));
        list.extend(one("authentication", self.authentication.as_ref()));
        list.extend(self.clusters.effective());
        list.extend(each("rule", &self.rules));
        list.extend(each("filter", &self.filters));
        list.extend(each("limit", &self.limits));
        list.extend(each("mirror", &self.mirrors));
        list.extend(one("cache", self.cache.as_ref()));
        list.extend(one("digests", self.digests.as_ref()));
        list.extend(one("slow_log", self.slow_log.as_ref()));
        list.extend(one("lease", self.lease.as_ref()));
        list.extend(each("vip", &self.vips));
        list.extend(relay::effective(&self.relays));
        list.extend(one("sql_log", self.sql_log.as_ref()));
        list.extend(one("activity", self.activity.as_ref()));
        list.extend(one("log", self.log.as_ref()));
        list.extend(one("admin", self.admin.as_ref()));
        list.extend(each("admin.user", &self.admin_users));
        list.extend(one("http", self.http.as_ref()));
        list.extend(each("http.token", &self.http_tokens));
        Effective(list)
    }
}

fn one<S: Section>(path: &str, section: Option<&Written<S>>) -> Vec<(String, String)> {
    let values = section.map(|section| section.value.values()).unwrap_or_default();
    values.into_iter().map(|(name, value)| (format!("{path}.{name}"), value)).collect()
}

fn each<S: Section>(path: &str, rows: &Rows<S>) -> Vec<(String, String)> {
    let numbered = rows.rows.iter().enumerate();
    numbered.flat_map(|(index, row)| one(&format!("{path}[{}]", index + 1), Some(row))).collect()
}

fn read_file(root: &Table<'_>, is_toml: bool, mistakes: &mut Mistakes<'_>) -> WrittenFile {
    let mistyped = root.refuse_unknown(SECTIONS, mistakes);
    let is_whole = |name: &str| is_toml && !mistyped.contains(&name);
    let mut listeners = rows(root, "listener", mistakes);
    let mut users = rows(root, "user", mistakes);
    listeners.complete &= is_whole("listener");
    users.complete &= is_whole("user");
    let (http, http_tokens) = read_http(root, mistakes);
    let (admin, mut admin_users) = read_admin(root, mistakes);
    admin_users.complete &= is_whole("admin");
    WrittenFile {
        admin,
        admin_users,
        http,
        http_tokens,
        proxy: optional(root, "proxy", mistakes),
        listeners,
        users,
        authentication: optional(root, "authentication", mistakes),
        clusters: cluster::read_clusters(root, &is_whole, mistakes),
        rules: rows(root, "rule", mistakes),
        filters: rows(root, "filter", mistakes),
        limits: rows(root, "limit", mistakes),
        mirrors: rows(root, "mirror", mistakes),
        cache: optional(root, "cache", mistakes),
        digests: optional(root, "digests", mistakes),
        slow_log: optional(root, "slow_log", mistakes),
        lease: optional(root, "lease", mistakes),
        vips: rows(root, "vip", mistakes),
        relays: relay::read_relays(root, mistakes),
        sql_log: optional(root, "sql_log", mistakes),
        activity: optional(root, "activity", mistakes),
        log: optional(root, "log", mistakes),
    }
}

/// `[admin]` and the operators below it.
pub(crate) fn read_admin(
    root: &Table<'_>,
    mistakes: &mut Mistakes<'_>,
) -> (Option<Written<AdminSection>>, Rows<AdminUserSection>) {
    let Some(table) = root.child("admin", AdminSection::HEAD, mistakes) else {
        return (None, Rows { rows: Vec::new(), complete: false });
    };
    let users = rows(&table, "user", mistakes);
    (read(&table, mistakes), users)
}

/// `[http]` and the tokens below it.
fn read_http(
    root: &Table<'_>,
    mistakes: &mut Mistakes<'_>,
) -> (Option<Written<HttpSection>>, Rows<HttpTokenSection>) {
    let Some(table) = root.child("http", HttpSection::HEAD, mistakes) else {
        return (None, Rows { rows: Vec::new(), complete: false });
    };
    let tokens = rows(&table, "token", mistakes);
    (read(&table, mistakes), tokens)
}

/// Complains about a section that has to be there, unless it is there and is something else.
fn missing(root: &Table<'_>, name: &str, instead: &str, is_whole: bool, mistakes: &mut Mistakes<'_>) {
    if is_whole && root.entry(name).is_none() {
        mistakes.push(&(0..0), format!("[{name}] is missing"), format!("write {instead}"));
    }
}

/// A section whose options all have defaults.
fn optional<S: Section>(root: &Table<'_>, name: &str, mistakes: &mut Mistakes<'_>) -> Option<Written<S>> {
    let table = root.child(name, S::HEAD, mistakes).unwrap_or_else(|| Table::absent(S::HEAD));
    read(&table, mistakes)
}

/// All tables of one kind.
fn rows<S: Section>(parent: &Table<'_>, name: &str, mistakes: &mut Mistakes<'_>) -> Rows<S> {
    let (tables, complete) = parent.children(name, S::HEAD, mistakes);
    let rows: Vec<_> = tables.iter().filter_map(|table| read(table, mistakes)).collect();
    let complete = complete && rows.len() == tables.len();
    Rows { rows, complete }
}

#[cfg(test)]
mod tests;
