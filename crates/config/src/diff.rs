//! What differs between the configuration that runs and one that was read, when that takes effect, and the configuration that runs
//! after it. Decides, and acts on nothing.
//!
//! Rows of a list are told apart by their names, not by their numbers: one that is removed from the middle is one change.

mod rows;
mod secrets;

use std::collections::{HashMap, HashSet};

use crate::config::{Cluster, Config};
use crate::option_doc::Reload;
use crate::reference::options;
use crate::schema::Section;
use rows::{by_path, generic, named};
use secrets::{Kept, secrets};

/// When a change takes effect.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Effect {
    /// At once; no session notices.
    Hot,
    /// At once for what is new. Connections to a backend come to the end of what they do, and are closed.
    Drain,
    /// With the next start of the proxy.
    Restart,
}

impl Effect {
    /// The word in a plan.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Hot => "hot",
            Self::Drain => "drain",
            Self::Restart => "restart",
        }
    }
}

/// An option with another value than before.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    /// Its path, for example `cluster.backend["db2"].weight`.
    pub option: String,
    /// The value that it had; `None`: its section was not there.
    pub before: Option<String>,
    /// The value that it has; `None`: its section is not there any more.
    pub after: Option<String>,
    /// When that takes effect.
    pub effect: Effect,
}

/// What a configuration that was read means for the one that runs.
#[derive(Debug, Clone)]
pub struct Plan {
    /// All that differs, in the order of the file. Of secrets is only told that they do.
    pub changes: Vec<Change>,
    /// What runs once the changes that need no restart have taken effect.
    pub next: Config,
}

/// Options of a backend without which its connections would be other ones.
const WAYS: [&str; 9] = [
    "address",
    "tls",
    "tls_ca",
    "tls_fingerprints",
    "server_public_key_fingerprints",
    "get_server_public_key",
    "trust_server_certificate",
    "send_proxy_protocol",
    "compression",
];
/// What a secret looks like in a plan.
const HIDDEN: &str = "(hidden)";

impl Config {
    /// What `read` means for this one, which runs.
    pub fn plan(&self, read: &Self) -> Plan {
        let scope = Scope::of(self, read);
        let mut changes = changes(self, read, &scope);
        let next = next(self, read, &scope, &changes);
        changes.extend(other_secrets(self, read, &scope, &changes));
        Plan { changes, next }
    }
}

/// How much of what was read can be taken over.
struct Scope {
    /// The clusters are the same: else a number means another one.
    has_same_clusters: bool,
    /// Of each cluster: its backends mean the same.
    has_same_kind: Vec<bool>,
}

impl Scope {
    fn of(running: &Config, read: &Config) -> Self {
        let names = |config: &Config| config.clusters.iter().map(|one| one.name.clone()).collect::<Vec<_>>();
        let pairs = running.clusters.iter().zip(&read.clusters);
        let is_same_kind = |(one, other): (&Cluster, &Cluster)| {
            (one.topology, one.flavor) == (other.topology, other.flavor) && one.spares() == other.spares()
        };
        Self {
            has_same_clusters: names(running) == names(read),
            has_same_kind: pairs.map(is_same_kind).collect(),
        }
    }

    /// True if an option with this generic path may change, as far as the rest of the file goes.
    fn allows(&self, path: &str, generic: &str) -> bool {
        let of_all = [
            "proxy.",
            "authentication.",
            "cache.",
            "digests.",
            "slow_log.",
            "sql_log.",
            "lease.",
            "vip.",
            "log.",
            "admin.",
            "http.",
            "activity.",
        ];
        if of_all.iter().any(|head| generic.starts_with(head)) {
            return true;
        }
        let is_backend = generic.starts_with("cluster.backend.");
        self.has_same_clusters
            && (!is_backend || self.has_same_kind.get(rows::cluster_of(path)) == Some(&true))
    }
}

/// When another value of each option takes effect, by its generic path.
type Known = HashMap<String, Reload>;

fn known() -> Known {
    options().into_iter().map(|option| (option.path, option.reload)).collect()
}

fn changes(running: &Config, read: &Config, scope: &Scope) -> Vec<Change> {
    let (old, new) = (named(&running.effective), named(&read.effective));
    let (old_values, new_values) = (by_path(&old), by_path(&new));
    let known = known();
    let effect = |path: &str, is_gone: bool| {
        let (effect, generic) = (effect(&known, scope, path), generic(path));
        let way = generic.strip_prefix("cluster.backend.").or_else(|| generic.strip_prefix("mirror."));
        let drains = way.is_some_and(|name| is_gone || WAYS.contains(&name));
        if drains { effect.max(Effect::Drain) } else { effect }
    };
    let mut found = Vec::new();
    for (option, after) in &new {
        let before = old_values.get(option.as_str()).copied();
        if before != Some(after.as_str()) {
            let effect = effect(option, false);
            // What is said of a backend that was not there drains nothing.
            let drains_nothing = before.is_none() && effect == Effect::Drain;
            let effect = if drains_nothing { Effect::Hot } else { effect };
            let (before, after) = (before.map(str::to_owned), Some(after.clone()));
            found.push(Change { option: option.clone(), before, after, effect });
        }
    }
    for (option, before) in &old {
        if !new_values.contains_key(option.as_str()) {
            let effect = effect(option, true);
            found.push(Change { option: option.clone(), before: Some(before.clone()), after: None, effect });
        }
    }
    let mut found = rows::as_rows(found, &old, &new);
    found.extend(order_of_rules(running, read, scope));
    found
}

/// When another value of an option takes effect, connections to backends apart.
fn effect(known: &Known, scope: &Scope, path: &str) -> Effect {
    let generic = generic(path);
    let is_hot = known.get(&generic) == Some(&Reload::Hot);
    if is_hot && scope.allows(path, &generic) { Effect::Hot } else { Effect::Restart }
}

/// The first rule that matches decides, so that their order is something to change, too.
fn order_of_rules(running: &Config, read: &Config, scope: &Scope) -> Option<Change> {
    let order = |config: &Config, other: &Config| {
        let others: HashSet<&str> = other.rules.iter().map(|rule| rule.name.as_str()).collect();
        let is_in_both = |name: &String| others.contains(name.as_str());
        config.rules.iter().map(|rule| rule.name.clone()).filter(is_in_both).collect::<Vec<_>>()
    };
    let (before, after) = (order(running, read), order(read, running));
    let effect = if scope.has_same_clusters { Effect::Hot } else { Effect::Restart };
    let text = |names: Vec<String>| Some(names.join(", "));
    (before != after).then(|| Change {
        option: "rule (order)".to_owned(),
        before: text(before),
        after: text(after),
        effect,
    })
}

/// Secrets that are other ones, and of which nothing else tells that.
fn other_secrets(running: &Config, read: &Config, scope: &Scope, told: &[Change]) -> Vec<Change> {
    let before: HashMap<String, Kept<'_>> = secrets(running).into_iter().collect();
    let told: HashSet<&str> = told.iter().map(|change| change.option.as_str()).collect();
    let known = known();
    let is_other = |(path, secret): &(String, Kept<'_>)| {
        before.get(path).is_some_and(|before| before != secret) && !told.contains(path.as_str())
    };
    let hidden = || Some(HIDDEN.to_owned());
    let change = |(option, _): (String, Kept<'_>)| {
        let effect = effect(&known, scope, &option);
        Change { option, before: hidden(), after: hidden(), effect }
    };
    secrets(read).into_iter().filter(is_other).map(change).collect()
}

/// What runs after it.
fn next(running: &Config, read: &Config, scope: &Scope, changes: &[Change]) -> Config {
    let mut next = running.clone();
    next.proxy.take_hot(&read.proxy);
    next.authentication.take_hot(&read.authentication);
    next.cache.take_hot(&read.cache);
    next.digests.take_hot(&read.digests);
    next.slow_log.take_hot(&read.slow_log);
    next.lease.clone_from(&read.lease);
    next.vips.clone_from(&read.vips);
    next.sql_log.take_hot(&read.sql_log);
    next.activity.take_hot(&read.activity);
    next.log.take_hot(&read.log);
    next.admin.clone_from(&read.admin);
    next.http.clone_from(&read.http);
    if scope.has_same_clusters {
        next.listeners.clone_from(&read.listeners);
        next.users.clone_from(&read.users);
        next.rules.clone_from(&read.rules);
        next.filters.clone_from(&read.filters);
        next.limits.clone_from(&read.limits);
        next.mirrors.clone_from(&read.mirrors);
        let pairs = next.clusters.iter_mut().zip(&read.clusters).zip(&scope.has_same_kind);
        for ((cluster, read), has_same_kind) in pairs {
            cluster.schemas.clone_from(&read.schemas);
            cluster.failover.clone_from(&read.failover);
            cluster.routing.take_hot(&read.routing);
            cluster.monitor.take_hot(&read.monitor);
            cluster.pool.take_hot(&read.pool);
            if *has_same_kind {
                cluster.backends.clone_from(&read.backends);
            }
        }
    }
    next.effective = rows::merged(&running.effective, &read.effective, changes);
    next
}

#[cfg(test)]
mod tests;
